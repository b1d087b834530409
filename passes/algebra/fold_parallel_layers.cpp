// Layers on one input whose results are added become one: their weights are added, smaller kernels in the middle of
// larger ones. So does a batch norm beside a convolution, as a kernel that gives each channel itself. Ding et al. 2021,
// "RepVGG: Making VGG-style ConvNets great again", section 3.2.
//
//   conv(x, v, b) + conv(x, w, c)   ->  conv(x, v + w, b + c)
//   conv(x, w, b) + batch_norm(x)   ->  conv(x, w + diag(scale), b + shift)
#include "ir/values/aten.h"
#include "passes/algebra/weighted_layer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tscompile {
namespace {

// How a kernel moves: conv(input, weight, bias, stride, padding, dilation, groups), or _convolution's inputs.
struct Geometry {
  Dims kernel, stride, padding, dilation;
  int64_t groups = 1;
};

std::optional<Geometry> geometryOf(Site& site, const WeightedLayer& l) {
  if (l.isLinear) return Geometry();
  const size_t groupsAt = l.node->kind() == aten::_convolution ? 8 : 6, spatial = l.rank - 2;
  if (l.rank < 3 || l.node->inputCount() <= groupsAt) return std::nullopt;
  Geometry g;
  for (size_t i = 2; i < l.rank; ++i) g.kernel.push_back(l.sizes[i]);
  Dims* lists[] = {&g.stride, &g.padding, &g.dilation};
  for (size_t i = 0; i < 3; ++i) {
    std::optional<Dims> values = site.facts.integers(l.node->input(3 + i));
    if (!values || (values->size() != 1 && values->size() != spatial)) return std::nullopt;
    if (values->size() == 1) values->resize(spatial, (*values)[0]);
    *lists[i] = *values;
  }
  const std::optional<int64_t> groups = site.facts.integer(l.node->input(groupsAt));
  if (!groups) return std::nullopt;
  g.groups = *groups;
  return g;
}

// The kernel that has both in its middle, so that it sees for each output what both see; none if there is no such one.
std::optional<Geometry> joined(const Geometry& a, const Geometry& b) {
  if (a.kernel.size() != b.kernel.size() || a.groups != b.groups || a.stride != b.stride) return std::nullopt;
  Geometry all = a;
  for (size_t i = 0; i < a.kernel.size(); ++i) {
    const bool first = a.kernel[i] >= b.kernel[i];
    const Geometry &large = first ? a : b, &small = first ? b : a;
    all.kernel[i] = large.kernel[i];
    all.padding[i] = large.padding[i];
    all.dilation[i] = large.dilation[i];
    // One element has no distance to another.
    if (small.kernel[i] != 1 && small.dilation[i] != large.dilation[i]) return std::nullopt;
    const int64_t more = large.kernel[i] - small.kernel[i];
    if (small.padding[i] < 0) return std::nullopt;  // PyTorch's error is to stay
    if (more % 2 != 0 || (large.padding[i] - small.padding[i]) != more / 2 * large.dilation[i]) return std::nullopt;
  }
  return all;
}

// A weight with zeros around its kernel.
Value* inMiddleOf(Site& site, const Geometry& all, const Geometry& own, Value* weight) {
  Dims amounts;
  for (size_t i = all.kernel.size(); i-- > 0;) amounts.resize(amounts.size() + 2, (all.kernel[i] - own.kernel[i]) / 2);
  if (std::ranges::all_of(amounts, [](int64_t n) { return n == 0; })) return weight;
  Formula f(site.node, site.context);
  return f.op(aten::constant_pad_nd, {weight, f.integers(amounts), f.number(0)});
}

Value* signedSum(Site& site, Value* a, Value* b, bool isDifference) {
  Formula f(site.node, site.context);
  if (GraphFacts::isNone(b)) return a;
  if (GraphFacts::isNone(a)) return isDifference ? f.op(aten::neg, {b}) : b;
  return isDifference ? f.sub(a, b) : f.add(a, b);
}

// The kernel of layers that see the same of one input, and each's own.
struct Parallel {
  Geometry all, ofA, ofB;
};
std::optional<Parallel> parallel(Site& site, const WeightedLayer& a, const WeightedLayer& b) {
  if (a.node == b.node || a.node->kind() != b.node->kind() || a.node->input(0) != b.node->input(0)) return std::nullopt;
  if (a.rank != b.rank || a.sizes[0] != b.sizes[0] || a.sizes[1] != b.sizes[1] || !site.sameDType(a.weight, b.weight))
    return std::nullopt;
  std::optional<Geometry> ofA = geometryOf(site, a), ofB = geometryOf(site, b);
  std::optional<Geometry> all = ofA && ofB ? joined(*ofA, *ofB) : std::nullopt;
  return all ? std::optional(Parallel{*all, *ofA, *ofB}) : std::nullopt;
}

// Layers a and b, which may be of another kernel.
Replacement sumOf(Site& site, const WeightedLayer& a, const WeightedLayer& b, bool isDifference) {
  const std::optional<Parallel> kernels = parallel(site, a, b);
  if (!kernels) return {};
  for (const Value* v : {a.weight, a.bias, b.weight, b.bias})
    if (!areModerate(site, v)) return {};
  const auto& [all, ofA, ofB] = *kernels;
  Value* weight =
      signedSum(site, inMiddleOf(site, all, ofA, a.weight), inMiddleOf(site, all, ofB, b.weight), isDifference);
  Value* bias = signedSum(site, a.bias, b.bias, isDifference);
  if (a.isLinear) return withWeights(site, a, weight, bias);
  Value *padding = site.integers(all.padding), *dilation = site.integers(all.dilation);
  Value* out = withWeights(site, a, weight, bias);
  out->node()->replaceInput(4, padding);
  out->node()->replaceInput(5, dilation);
  return out;
}

// Tensors by channels that a batch norm outside of training has: factors and terms.
std::optional<std::pair<Value*, Value*>> scaleAndShift(Site& site, Node* norm, const WeightedLayer& l) {
  Value *gamma = norm->input(1), *beta = norm->input(2), *mean = norm->input(3), *variance = norm->input(4);
  for (Value* v : {gamma, beta, mean, variance})
    if (!(isConstantTensor(v) || ((v == gamma || v == beta) && GraphFacts::isNone(v))) || !areModerate(site, v))
      return std::nullopt;
  const std::optional<double> epsilon = site.facts.number(norm->input(7));
  const Tensor& spread = GraphFacts::constant(variance)->toTensor();
  if (!epsilon || spread.numel() != l.channels) return std::nullopt;
  for (int64_t i = 0; i < spread.numel(); ++i)
    if (!(spread.real(i) + *epsilon > 1e-30)) return std::nullopt;
  Formula f(site.node, site.context);
  Value* scale = scaleOfNorm(site, norm);
  Value* shift = f.op(aten::neg, {f.mul(mean, scale)});
  return std::pair(scale, GraphFacts::isNone(beta) ? shift : f.add(shift, beta));
}

// The weight of a convolution by single pixels that gives each channel itself.
Tensor identityWeight(const WeightedLayer& l, DType dtype) {
  Dims sizes(l.rank, 1);
  sizes[0] = l.channels;
  sizes[1] = l.sizes[1];
  Tensor weight = Tensor::zeros(dtype, sizes);
  for (int64_t channel = 0; channel < l.channels; ++channel) {
    const int64_t at = channel * sizes[1] + channel % sizes[1];
    if (dtype == DType::Float64)
      reinterpret_cast<double*>(weight.raw())[at] = 1;
    else
      reinterpret_cast<float*>(weight.raw())[at] = 1;
  }
  return weight;
}

// Whether a batch norm outside of training has the input of a convolution, and its result the sizes and dtype of the
// convolution's.
bool isBeside(Site& site, const Node* norm, const WeightedLayer& l) {
  if (!norm || norm->inputCount() != 9 || site.facts.boolean(norm->input(5)) != false || l.isLinear ||
      norm->input(0) != l.node->input(0))
    return false;
  const std::optional<size_t> rank = site.facts.rank(norm->input(0));
  if (rank ? *rank != l.rank : l.node->kind() != aten::_convolution) return false;
  const std::optional<Geometry> g = geometryOf(site, l);
  if (!g || g->groups < 1 || l.sizes[1] * g->groups != l.channels) return false;
  for (size_t i = 0; i < g->kernel.size(); ++i)
    if (g->stride[i] != 1 || g->kernel[i] % 2 == 0 || g->padding[i] != g->kernel[i] / 2 * g->dilation[i]) return false;
  return areFloats({l.weight, norm->input(1), norm->input(2), norm->input(3), norm->input(4)}, site.context);
}

// The convolution and a batch norm of its input.
Replacement besideNorm(Site& site, const WeightedLayer& l, Value* other, bool isDifference, bool isSubtrahend) {
  Node* norm = site.soleProducer(other, aten::batch_norm);
  if (!isBeside(site, norm, l) || !areModerate(site, l.weight) || !areModerate(site, l.bias)) return {};
  const std::optional<std::pair<Value*, Value*>> affine = scaleAndShift(site, norm, l);
  if (!affine) return {};
  Formula f(site.node, site.context);
  Dims sizes(l.rank, 1);
  sizes[0] = l.channels;
  Value* pixel = site.constant(IValue(identityWeight(l, site.facts.dtype(l.weight))));
  pixel = f.mul(pixel, f.op(aten::reshape, {affine->first, f.integers(sizes)}));
  const Geometry all = *geometryOf(site, l);
  Geometry single = all;
  std::ranges::fill(single.kernel, 1);
  Value* diagonal = inMiddleOf(site, all, single, pixel);
  auto combined = [&](Value* ofLayer, Value* ofNorm) {
    return isSubtrahend ? signedSum(site, ofNorm, ofLayer, true) : signedSum(site, ofLayer, ofNorm, isDifference);
  };
  return withWeights(site, l, combined(l.weight, diagonal), combined(l.bias, affine->second));
}

// a + b, a - b, with alpha 1
Replacement foldParallel(Site& site) {
  if (site.inputCount() != 3 || site.facts.number(site.input(2)) != 1.0) return {};
  const bool isDifference = site.node->kind() == aten::sub;
  std::optional<WeightedLayer> layers[] = {layerOf(site, site.soleProducer(site.input(0)), true),
                                           layerOf(site, site.soleProducer(site.input(1)), true)};
  if (layers[0] && layers[1]) return sumOf(site, *layers[0], *layers[1], isDifference);
  for (size_t at : {0, 1})
    if (layers[at]) return besideNorm(site, *layers[at], site.input(1 - at), isDifference, isDifference && at == 1);
  return {};
}

// Whether the value is a sum or difference of `first` and what has its sizes and dtype for sure: a parallel layer, a
// batch norm beside it, or a number.
bool isOfForm(Site& site, const Value* sum, const Value* first) {
  Node* n = site.producer(sum);
  if (!n || (n->kind() != aten::add && n->kind() != aten::sub) || n->inputCount() != 3 || n->input(0) != first ||
      !site.facts.number(n->input(2)))
    return false;
  const std::optional<WeightedLayer> l = layerOf(site, site.producer(first), true);
  if (asNumber(site, n->input(1))) return l.has_value();
  Node* other = site.producer(n->input(1));
  const std::optional<WeightedLayer> ofOther = layerOf(site, other, true);
  if (!l) return ofOther && isBeside(site, site.producer(first, aten::batch_norm), *ofOther);
  return ofOther ? parallel(site, *l, *ofOther).has_value()
                 : other && other->kind() == aten::batch_norm && isBeside(site, other, *l);
}

// check_in_place(a + b, a), and to(a + b, a), which ask whether a += b is as PyTorch has it
Replacement dropGuard(Site& site) {
  if (site.inputCount() < 2 || !site.isTensor(site.input(1)) || !isOfForm(site, site.input(0), site.input(1)))
    return {};
  for (size_t i = 2; i < site.inputCount(); ++i)
    if (!GraphFacts::isNone(site.input(i)) && site.facts.boolean(site.input(i)) != false) return {};
  return site.input(0);  // it is this tensor, not a new one
}

}  // namespace

NodeRewrite dropGuardsOfParallelLayers() {
  return siteRewrite("drop_guards_of_parallel_layers", Kinds{Symbol::of("tscompile::check_in_place"), aten::to},
                     dropGuard);
}
NodeRewrite foldParallelLayers() {
  return siteRewrite("fold_parallel_layers", Kinds{aten::add, aten::sub}, foldParallel);
}

}  // namespace tscompile
