#include "passes/algebra/weighted_layer.h"

#include "ir/values/aten.h"

#include <algorithm>
#include <cmath>

namespace tscompile {

bool isConstantTensor(const Value* v) {
  const IValue* c = GraphFacts::constant(v);
  return c && c->isTensor();
}

std::optional<WeightedLayer> layerBefore(Site& site, const Value* v) {
  return layerOf(site, site.soleProducer(v), false);
}

namespace {

// Sums, products and margins of constants, seen through so deep.
constexpr int kMostDeep = 16;

std::optional<Dims> sizesOf(Site& site, const Value* v, int depth) {
  if (const IValue* c = GraphFacts::constant(v))
    return c->isTensor() ? std::optional(Dims(c->toTensor().sizes())) : std::nullopt;
  Node* n = depth < kMostDeep ? site.producer(v) : nullptr;
  if (!n || n->inputCount() < 2) return std::nullopt;
  const bool isSum = n->kind() == aten::add || n->kind() == aten::sub;
  if (!isSum && n->kind() != aten::mul && n->kind() != aten::constant_pad_nd) return std::nullopt;
  std::optional<Dims> first = sizesOf(site, n->input(0), depth + 1);
  if (n->kind() == aten::constant_pad_nd) {
    const std::optional<Dims> amounts = site.facts.integers(n->input(1));
    if (!first || !amounts || amounts->size() > 2 * first->size()) return std::nullopt;
    for (size_t i = 0; i < amounts->size(); ++i) (*first)[first->size() - 1 - i / 2] += (*amounts)[i];
    return first;
  }
  const std::optional<Dims> second = sizesOf(site, n->input(1), depth + 1);
  if (!first || !second || first->size() != second->size()) return std::nullopt;
  for (size_t i = 0; i < first->size(); ++i)
    if ((*second)[i] != (*first)[i] && (*second)[i] != 1) return std::nullopt;
  return first;
}

bool areModerate(Site& site, const Value* v, int depth) {
  constexpr double kMost = 1e15;
  if (GraphFacts::isNone(v)) return true;
  if (GraphFacts::constant(v)) {
    const std::optional<Magnitudes> m = magnitudesOf(site, v);
    return m && m->isFinite && m->greatest < kMost;
  }
  Node* n = depth < kMostDeep ? site.producer(v) : nullptr;
  if (!n) return false;
  for (const Use& u : n->inputs())
    if (site.isTensor(u.value) && !areModerate(site, u.value, depth + 1)) return false;
  return true;
}

}  // namespace

std::optional<Dims> sizesOfFormula(Site& site, const Value* v) { return sizesOf(site, v, 0); }
bool areModerate(Site& site, const Value* v) { return areModerate(site, v, 0); }

std::optional<WeightedLayer> layerOf(Site& site, Node* n, bool takesFormulas) {
  if (!n || n->inputCount() < 3) return std::nullopt;
  const Symbol kind = n->kind();
  const bool isLinear = kind == aten::linear;
  if (!isLinear && kind != aten::conv1d && kind != aten::conv2d && kind != aten::conv3d && kind != aten::_convolution)
    return std::nullopt;
  if (kind == aten::_convolution && (n->inputCount() != 13 || site.facts.boolean(n->input(6)) != false))
    return std::nullopt;  // transposed
  WeightedLayer l{n, isLinear, 0, 0, {}, n->input(1), n->input(2)};
  if (!(takesFormulas || isConstantTensor(l.weight)) || !(GraphFacts::isNone(l.bias) || isConstantTensor(l.bias)))
    return std::nullopt;
  if (!areFloats({l.weight, l.bias}, site.context)) return std::nullopt;
  const std::optional<Dims> sizes = sizesOfFormula(site, l.weight);
  if (!sizes || sizes->size() < 2 || std::ranges::find(*sizes, 0) != sizes->end()) return std::nullopt;
  l.rank = sizes->size();
  l.sizes = *sizes;
  l.channels = l.sizes[0];
  return l;
}

Value* asNumber(Site& site, Value* v) {
  const IValue* c = GraphFacts::constant(v);
  if (!c) return nullptr;
  if (c->isInt() || c->isFloat()) return v;
  if (!c->isTensor() || !c->toTensor().sizes().empty() || !kIntegerTypes.contains(c->toTensor().dtype()))
    return nullptr;
  return site.constant(IValue(static_cast<int64_t>(c->toTensor().real(0))));
}

Value* withWeights(Site& site, const WeightedLayer& l, Value* weight, Value* bias) {
  std::vector<Value*> inputs = site.inputsOf(l.node);
  inputs[1] = weight;
  inputs[2] = bias;
  Value* out = site.remake(l.node, inputs);
  out->node()->copyPlace(l.node);  // it is the layer that reports speak of, not what was folded into it
  return out;
}

Value* asBias(Site& site, const WeightedLayer& l, Value* v) {
  Formula f(site.node, site.context);
  Value* none = f.none();
  Value* zeros =
      f.op(aten::zeros, {f.integers(Dims{l.channels}), f.dtype(site.facts.dtype(l.weight)), none, none, none});
  return f.add(zeros, v);
}

Value* scaleOfNorm(Site& site, const Node* norm) {
  Formula f(site.node, site.context);
  Value *gamma = norm->input(1), *variance = norm->input(4), *epsilon = norm->input(7);
  Value* scale = f.op(aten::rsqrt, {f.add(variance, epsilon)});
  return GraphFacts::isNone(gamma) ? scale : f.mul(scale, gamma);
}

void Magnitudes::add(double v) {
  hasZero |= v == 0;
  isFinite &= std::isfinite(v);
  if (v != 0) least = std::min(least, std::abs(v));
  greatest = std::max(greatest, std::abs(v));
}

std::optional<Magnitudes> magnitudesOf(const Site& site, const Value* v) {
  Magnitudes m;
  if (std::optional<double> number = site.facts.number(v)) {
    m.add(*number);
    return m;
  }
  const IValue* c = GraphFacts::constant(v);
  if (!c || !c->isTensor() || !kFloatingTypes.contains(c->toTensor().dtype())) return std::nullopt;
  const Tensor& t = c->toTensor();
  for (int64_t i = 0; i < t.numel(); ++i) m.add(t.real(i));
  return m;
}

}  // namespace tscompile
