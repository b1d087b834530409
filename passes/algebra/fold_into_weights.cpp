// What scales and shifts the channels of a convolution or a linear layer goes into its constant weight and bias: batch
// norms outside of training, products, quotients, sums and differences with constants. And zeros around the input of a
// convolution become its padding. Jacob et al. 2018, section 3.2, for the batch norm.
//
//   conv(x, w, b) * s + t  ->  conv(x, w * s, b * s + t)
//
// New weights are formulas of constants, which fold_constants computes.
#include "ir/values/aten.h"
#include "passes/algebra/weighted_layer.h"

#include <limits>

namespace tscompile {
namespace {

// One number for all channels (a number, or a tensor of one element), or one for each: as a vector. Null for what is no
// constant, and where it would change sizes or dtype of the layer's result.
Value* perChannel(Site& site, const WeightedLayer& l, Value* v) {
  const IValue* c = GraphFacts::constant(v);
  if (!c) return nullptr;
  if (Value* number = asNumber(site, v)) return number;
  if (!c->isTensor() || site.facts.dtype(v) != site.facts.dtype(l.weight)) return nullptr;
  const Tensor& t = c->toTensor();
  const size_t rank = t.sizes().size(), spatial = l.isLinear ? 0 : l.rank - 2;
  // Without the batch, the result of a convolution has a dimension less than its weight.
  if (rank > spatial + 1 || (rank < spatial + 1 && t.numel() != 1)) return nullptr;
  if (t.numel() != 1 && (t.numel() != l.channels || t.sizes()[0] != l.channels)) return nullptr;
  return Formula(site.node, site.context).op(aten::reshape, {v, site.integers(Dims{-1})});
}

// Whether weights can take in a factor: none that makes all of a channel infinite, or 0 of whatever sign, and no
// product beyond the range of the dtype.
bool canTakeIn(const Site& site, const Value* weight, const Value* factor, bool isDivisor) {
  const std::optional<Magnitudes> f = magnitudesOf(site, factor);
  if (!f || f->hasZero || !f->isFinite) return false;
  const std::optional<Magnitudes> w = magnitudesOf(site, weight);  // of which there are many more
  if (!w) return false;
  const double least = site.facts.dtype(weight) == DType::Float64 ? std::numeric_limits<double>::min()
                                                                  : std::numeric_limits<float>::min();
  const double most = isDivisor ? 1 / f->least : f->greatest, smallest = isDivisor ? 1 / f->greatest : f->least;
  return w->isFinite && w->greatest * most < 1 / least && (w->greatest == 0 || w->least * smallest > least);
}

// A factor for each channel, to be multiplied with the weight.
Value* alongChannels(Site& site, const WeightedLayer& l, Value* factor) {
  if (!site.isTensor(factor)) return factor;
  Dims sizes(l.rank, 1);
  sizes[0] = -1;
  return Formula(site.node, site.context).op(aten::reshape, {factor, site.integers(sizes)});
}

// batch_norm(x, weight, bias, mean, variance, training, momentum, eps, cudnn)
Replacement foldBatchNorm(Site& site) {
  if (site.inputCount() != 9 || site.facts.boolean(site.input(5)) != false) return {};
  std::optional<WeightedLayer> l = layerBefore(site, site.input(0));
  if (!l) return {};
  // Channels are dimension 1 of a batch norm. Of the layer they are that if its input has a batch, without which
  // _convolution takes none.
  std::optional<size_t> rank = site.facts.rank(site.input(0));
  const size_t batched = l->isLinear ? 2 : l->rank;
  if (rank ? *rank != batched : l->node->kind() != aten::_convolution) return {};
  Value *gamma = site.input(1), *beta = site.input(2), *mean = site.input(3), *variance = site.input(4);
  for (Value* v : {gamma, beta, mean, variance})
    if (!isConstantTensor(v) && !((v == gamma || v == beta) && GraphFacts::isNone(v))) return {};
  if (!areFloats({l->weight, gamma, beta, mean, variance}, site.context)) return {};
  if (GraphFacts::constant(mean)->toTensor().numel() != l->channels) return {};
  Formula f(site.node, site.context);
  Value* scale = scaleOfNorm(site, site.node);
  Value* shifted = GraphFacts::isNone(l->bias) ? f.op(aten::neg, {mean}) : f.sub(l->bias, mean);
  Value* bias = f.mul(shifted, scale);
  if (!GraphFacts::isNone(beta)) bias = f.add(bias, beta);
  return withWeights(site, *l, f.mul(l->weight, alongChannels(site, *l, scale)), bias);
}

// layer * s, s * layer, layer / s
Replacement foldFactor(Site& site) {
  if (site.inputCount() != 2) return {};
  const bool isQuotient = site.node->kind() == aten::div;
  for (size_t at : {0, 1}) {
    if (at == 1 && isQuotient) break;
    std::optional<WeightedLayer> l = layerBefore(site, site.input(at));
    if (!l || !canTakeIn(site, l->weight, site.input(1 - at), isQuotient)) continue;
    Value* factor = perChannel(site, *l, site.input(1 - at));
    if (!factor) continue;
    Formula f(site.node, site.context);
    auto scaled = [&](Value* v, Value* by) { return isQuotient ? f.div(v, by) : f.mul(v, by); };
    Value* bias = GraphFacts::isNone(l->bias) ? l->bias : scaled(l->bias, factor);
    return withWeights(site, *l, scaled(l->weight, alongChannels(site, *l, factor)), bias);
  }
  return {};
}

// layer + t, t + layer, layer - t, with alpha 1
Replacement foldTerm(Site& site) {
  if (site.inputCount() != 3 || site.facts.number(site.input(2)) != 1.0) return {};
  const bool isDifference = site.node->kind() == aten::sub;
  for (size_t at : {0, 1}) {
    if (at == 1 && isDifference) break;
    std::optional<WeightedLayer> l = layerBefore(site, site.input(at));
    Value* term = l ? perChannel(site, *l, site.input(1 - at)) : nullptr;
    if (!term) continue;
    Formula f(site.node, site.context);
    Value* old = GraphFacts::isNone(l->bias) ? asBias(site, *l, f.number(0)) : l->bias;
    return withWeights(site, *l, l->weight, isDifference ? f.sub(old, term) : f.add(old, term));
  }
  return {};
}

// conv(constant_pad_nd(x, pad, 0), ...): the same on both sides of the dimensions over which the kernel moves
Replacement paddingOf(Site& site) {
  const Symbol kind = site.node->kind();
  const size_t at = 4;  // the convolution's own padding
  if (kind == aten::_convolution ? site.inputCount() != 13 || site.facts.boolean(site.input(6)) != false
                                 : site.inputCount() != 7)
    return {};
  Node* pad = site.soleProducer(site.input(0), aten::constant_pad_nd);
  std::optional<size_t> rank = site.facts.rank(site.input(1));
  std::optional<Dims> own = site.facts.integers(site.input(at));
  if (!pad || pad->inputCount() != 3 || site.facts.number(pad->input(2)) != 0.0 || !rank || *rank < 3 || !own)
    return {};
  const size_t spatial = *rank - 2;
  std::optional<Dims> amounts = site.facts.integers(pad->input(1));
  if (!amounts || amounts->size() % 2 != 0 || amounts->size() > 2 * spatial) return {};
  if (own->size() == 1) own->resize(spatial, (*own)[0]);
  if (own->size() != spatial) return {};
  constexpr int64_t kMost = int64_t{1} << 31;
  for (size_t i = 0; 2 * i < amounts->size(); ++i) {
    const int64_t before = (*amounts)[2 * i], after = (*amounts)[2 * i + 1];
    int64_t& padding = (*own)[spatial - 1 - i];
    if (before != after || before < 0 || before > kMost || padding < 0 || padding > kMost) return {};
    padding += before;
  }
  std::vector<Value*> inputs = site.inputsOf(site.node);
  inputs[0] = pad->input(0);
  inputs[at] = site.integers(*own);
  return site.remake(site.node, inputs);
}

}  // namespace

NodeRewrite foldBatchNorms() { return siteRewrite("fold_batch_norms", Kinds{aten::batch_norm}, foldBatchNorm); }
NodeRewrite foldFactors() { return siteRewrite("fold_factors", Kinds{aten::mul, aten::div}, foldFactor); }
NodeRewrite foldTerms() { return siteRewrite("fold_terms", Kinds{aten::add, aten::sub}, foldTerm); }
NodeRewrite foldPadding() {
  return siteRewrite("fold_padding", Kinds{aten::conv1d, aten::conv2d, aten::conv3d, aten::_convolution}, paddingOf);
}

}  // namespace tscompile
