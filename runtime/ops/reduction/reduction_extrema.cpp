// Maxima and minima over all or some dimensions, and where they are.
#include "runtime/engine/layers/lane_layer.h"
#include "runtime/engine/layers/reduction_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/extrema.h"
#include "runtime/reference/reduction_call.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// There is no largest of no elements.
void requireElements(const InferCall& call) {
  TensorInfo t = call.tensor(0);
  std::string_view name = call.op().kind().name();
  if (!t.hasRank || knownNumel(t.sizes) != 0) return;
  size_t dim = argumentIndex(call.op(), "dim");
  Dims reduced;
  if (dim < call.size() && !call.isNone(dim)) reduced = call.dims(dim, t.rank(), false);
  if (reduced.empty() && name == "aminmax")
    call.fail("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.");
  call.require(!reduced.empty(), "{}(): expected reduction dim to be specified for input.numel() == 0.{}", name,
               name.starts_with("arg") ? "" : " Specify the reduction dim with the 'dim' argument.");
  for (int64_t d : reduced) {
    bool empty = t.rank() > 0 && t.sizes[static_cast<size_t>(d)] == 0;
    call.require(!empty, "{}(): expected reduction dim {} to have non-zero size", name, d);
  }
}

// ---- values: max, min, amax, amin, aminmax ----

void inferExtreme(InferCall& call) {
  requireElements(call);
  inferReduction(call, call.tensor(0).dtype);
}
void inferExtremes(InferCall& call) {
  requireElements(call);
  TensorInfo t = call.tensor(0);
  size_t dim = argumentIndex(call.op(), "dim"), keep = argumentIndex(call.op(), "keepdim");
  // With `dim`, a tensor without dimensions counts as one with one.
  bool one = t.hasRank && t.rank() == 0 && dim < call.size() && !call.isNone(dim) && call.flag(keep);
  if (!one) return inferReductions(call, {t.dtype, t.dtype});
  call.dim(dim, 0);
  for (int i = 0; i < 2; ++i) call.result(t.dtype, Dims{1});
}

template <bool kLargest>
void extremeInto(const Tensor& in, const Dims& dims, const Tensor& out) {
  withRealCompute(in.dtype(), [&](auto sample) { reduceInto(in, dims, out, Extreme<decltype(sample), kLargest>()); });
}

template <bool kLargest>
void extremeKernel(KernelCall& call) {
  ReductionCall r(call);
  extremeInto<kLargest>(r.in, r.dims, r.out);
}
void aminmaxKernel(KernelCall& call) {
  ReductionCall r(call);
  extremeInto<false>(r.in, r.dims, r.out);
  extremeInto<true>(r.in, r.dims, call.out(1));
}

// ---- positions: max.dim, min.dim, argmax, argmin ----

void inferExtremeWithIndex(InferCall& call) {
  requireElements(call);
  inferReductions(call, {call.tensor(0).dtype, DType::Int64});
}
void inferIndexOfExtreme(InferCall& call) {
  requireElements(call);
  inferReduction(call, DType::Int64);
}

template <bool kLargest>
void extremeWithIndexKernel(KernelCall& call) {
  Tensor in = call.tensor(0);
  argExtreme(in, call.dim(1, in.rank()), kLargest, call.out(0), call.out(1));
}

template <bool kLargest>
void indexOfExtremeKernel(KernelCall& call) {
  Tensor in = call.tensor(0), out = call.out();
  if (call.isNone(1))
    argExtreme(reshaped(in, Dims{in.numel()}), 0, kLargest, Tensor(), out);
  else
    argExtreme(in, call.dim(1, in.rank()), kLargest, Tensor(), out);
}

void convertAminmax(ConvertCall& call) {
  const Tensor x = call.tensor(0);
  if (x.numel() == 0 || x.rank() == 0) return convertToKernel(call, "a tensor has no elements, or no dimensions");
  const size_t dim = argumentIndex(call.op(), "dim");
  const bool isAlong = dim < call.size() && !call.isNone(dim);
  const IValue dims = intList(isAlong ? Dims{call.dim(dim, x.rank())} : Dims());
  const std::string_view names[] = {"aten::amin", "aten::amax"};
  for (size_t i = 0; i < 2; ++i) {
    const IValue made = call.compute(names[i], {x, dims, false});
    call.setResult(i, call.compute("aten::reshape", {made, intList(call.spec(i).sizes)}));
  }
}

}  // namespace

void registerReductionExtremaOps(OpRegistry& ops) {
  for (auto schema : {"aten::max", "aten::amax"})
    ops.add({.schema = schema,
             .infer = inferExtreme,
             .kernel = extremeKernel<true>,
             .convert = convertReduction<WideReduction::Max>,
             .traits = {Trait::RoundsOnce},
             .cost = Cost::Reduction});
  for (auto schema : {"aten::min", "aten::amin"})
    ops.add({.schema = schema,
             .infer = inferExtreme,
             .kernel = extremeKernel<false>,
             .convert = convertReduction<WideReduction::Min>,
             .traits = {Trait::RoundsOnce},
             .cost = Cost::Reduction});
  for (auto schema : {"aten::aminmax", "aten::_aminmax", "aten::_aminmax.dim"})
    ops.add({.schema = schema,
             .infer = inferExtremes,
             .kernel = aminmaxKernel,
             .convert = convertAminmax,
             .cost = Cost::Reduction});
  ops.add({.schema = "aten::max.dim",
           .infer = inferExtremeWithIndex,
           .kernel = extremeWithIndexKernel<true>,
           .convert = convertExtremes<true>,
           .traits = {Trait::RoundsOnce},
           .cost = Cost::Reduction});
  ops.add({.schema = "aten::min.dim",
           .infer = inferExtremeWithIndex,
           .kernel = extremeWithIndexKernel<false>,
           .convert = convertExtremes<false>,
           .traits = {Trait::RoundsOnce},
           .cost = Cost::Reduction});
  ops.add({.schema = "aten::argmax",
           .infer = inferIndexOfExtreme,
           .kernel = indexOfExtremeKernel<true>,
           .convert = convertExtremes<true>,
           .dtypes = kRealTypes,
           .traits = {Trait::RoundsOnce},
           .cost = Cost::Reduction});
  ops.add({.schema = "aten::argmin",
           .infer = inferIndexOfExtreme,
           .kernel = indexOfExtremeKernel<false>,
           .convert = convertExtremes<false>,
           .dtypes = kRealTypes,
           .traits = {Trait::RoundsOnce},
           .cost = Cost::Reduction});
}

}  // namespace tscompile
