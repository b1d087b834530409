// Normalisations as arithmetic: the layer and group forms, and the batch form with the statistics that were gathered.
#include "ir/values/aten.h"
#include "passes/rewrite/formula.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

Value* inverseDeviation(Value* variance, Value* eps, Formula& f) {
  return f.op(aten::reciprocal, {f.op(aten::sqrt, {f.add(variance, eps)})});
}

// (x - mean) / deviation over some dimensions.
Value* standardized(Value* x, Value* dims, Value* eps, Formula& f) {
  Value* difference = f.sub(x, f.mean(x, dims, f.flag(true)));
  Value* variance = f.mean(f.mul(difference, difference), dims, f.flag(true));
  return f.mul(difference, inverseDeviation(variance, eps, f));
}

// One number for each channel, to be combined with tensors of this rank.
Value* perChannel(Value* v, size_t rank, Formula& f) {
  if (rank == 2) return v;
  Dims sizes(rank, 1);
  sizes[1] = -1;
  return f.op(aten::reshape, {v, f.integers(sizes)});
}

// layer_norm(x, normalized_shape, weight, bias, eps, cudnn)
Replacement layerNorm(Node* n, RewriteContext& c) {
  if (n->inputCount() != 6 || !c.facts.isUndisturbed(n)) return {};
  Value *x = n->input(0), *weight = n->input(2), *bias = n->input(3);
  std::optional<Dims> shape = c.facts.integers(n->input(1));
  if (!shape || shape->empty() || !areFloats({x, weight, bias}, c)) return {};
  Formula f(n, c);
  Dims dims;
  for (size_t i = shape->size(); i > 0; --i) dims.push_back(-static_cast<int64_t>(i));
  Value* y = standardized(x, f.integers(dims), n->input(4), f);
  if (!GraphFacts::isNone(weight)) y = f.mul(y, weight);
  if (!GraphFacts::isNone(bias)) y = f.add(y, bias);
  return y;
}

// group_norm(x, groups, weight, bias, eps, cudnn)
Replacement groupNorm(Node* n, RewriteContext& c) {
  if (n->inputCount() != 6 || !c.facts.isUndisturbed(n)) return {};
  Value *x = n->input(0), *weight = n->input(2), *bias = n->input(3);
  std::optional<int64_t> groups = c.facts.integer(n->input(1));
  std::optional<Dims> sizes = c.facts.sizes(x);
  if (!groups || *groups < 1 || !sizes || sizes->size() < 2 || !areFloats({x, weight, bias}, c)) return {};
  std::optional<int64_t> count = checkedNumel(*sizes);
  int64_t rows = (*sizes)[0];
  if (!count || *count == 0 || (*sizes)[1] % *groups != 0) return {};
  Formula f(n, c);
  Value* split = f.op(aten::reshape, {x, f.integers(Dims{rows, *groups, *count / rows / *groups})});
  Value* y = standardized(split, f.integers(Dims{2}), n->input(4), f);
  y = f.op(aten::reshape, {y, f.integers(*sizes)});
  if (!GraphFacts::isNone(weight)) y = f.mul(y, perChannel(weight, sizes->size(), f));
  if (!GraphFacts::isNone(bias)) y = f.add(y, perChannel(bias, sizes->size(), f));
  return y;
}

// batch_norm(x, weight, bias, mean, variance, training, momentum, eps, cudnn): x * scale + offset
Replacement batchNorm(Node* n, RewriteContext& c) {
  if (n->inputCount() != 9 || !c.facts.isUndisturbed(n)) return {};
  Value *x = n->input(0), *weight = n->input(1), *bias = n->input(2), *mean = n->input(3), *variance = n->input(4);
  std::optional<size_t> rank = c.facts.rank(x);
  if (c.facts.boolean(n->input(5)) != false || !rank || *rank < 2) return {};
  if (GraphFacts::isNone(mean) || GraphFacts::isNone(variance) || !areFloats({x, weight, bias, mean, variance}, c))
    return {};
  Formula f(n, c);
  Value* scale = inverseDeviation(variance, n->input(7), f);
  if (!GraphFacts::isNone(weight)) scale = f.mul(scale, weight);
  Value* shift = f.mul(mean, scale);
  Value* offset = GraphFacts::isNone(bias) ? f.op(aten::neg, {shift}) : f.sub(bias, shift);
  return f.add(f.mul(x, perChannel(scale, *rank, f)), perChannel(offset, *rank, f));
}

}  // namespace

// Outside of training the statistics are read only.
NodeRewrite unpackBatchNorm() { return {"unpack_batch_norm", {aten::batch_norm}, batchNorm}; }
NodeRewrite unpackLayerNorm() { return {"unpack_layer_norm", {aten::layer_norm}, layerNorm}; }
NodeRewrite unpackGroupNorm() { return {"unpack_group_norm", {aten::group_norm}, groupNorm}; }

}  // namespace tscompile
