// Elements picked one by one: gather, scatter and their kin, take, put.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/indexing_layer.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/scatter_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/indexing.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/views.h"

#include <limits>

namespace tscompile {
namespace {

bool exceeds(int64_t a, int64_t b) { return isKnownSize(a) && isKnownSize(b) && a > b; }

// A tensor without dimensions counts as one with one.
Dims atLeastOne(DimSpan sizes) { return sizes.empty() ? Dims{1} : Dims(sizes); }
Tensor atLeastOne(const Tensor& t) { return t.rank() ? t : unsqueezed(t, 0); }

bool mayBeOf(const InferCall& call, const TensorInfo& index, DType dtype) {
  return index.dtype == dtype || index.dtype == DType::Undefined || (!call.isRun() && index.mayBeEmpty());
}
void requireInt64(const InferCall& call, const TensorInfo& index) {
  call.require(mayBeOf(call, index, DType::Int64), "{}(): expected a long tensor for index, but got {}",
               call.op().kind().name(), graphName(index.dtype));
}
void requireIndex(const InferCall& call, const TensorInfo& index, std::string_view name) {
  call.require(mayBeOf(call, index, DType::Int64) || index.dtype == DType::Int32,
               "{}(): expected dtype int32/int64 for index", name);
}
Tensor asInt64(const Tensor& index) {
  return index.dtype() == DType::Int32 ? convertTensor(index, DType::Int64) : index;
}
void requireSameDType(const InferCall& call, const TensorInfo& self, const TensorInfo& source, std::string_view name) {
  call.require(self.dtype == source.dtype || self.dtype == DType::Undefined || source.dtype == DType::Undefined,
               "{}(): expected self.dtype to be equal to src.dtype", name);
}

// An index must not be larger than what it picks from, apart from the dimension that it picks along (dim < 0: none).
void checkIndexSizes(const InferCall& call, const TensorInfo& index, const TensorInfo& other, int64_t dim,
                     std::string_view name) {
  if (!index.hasRank || !other.hasRank) return;
  Dims i = atLeastOne(index.sizes), o = atLeastOne(other.sizes);
  const bool gathers = call.op().kind().name() == "gather";
  call.require(i.size() == o.size(), "index tensor must have the same number of dimensions as {} tensor",
               gathers ? "input" : name);
  for (size_t d = 0; d < i.size(); ++d) {
    if (static_cast<int64_t>(d) == dim || !exceeds(i[d], o[d])) continue;
    if (gathers)
      call.fail(
          "size does not match at dimension {} expected index {} to be no larger than self {} apart from dimension {}",
          d, dimsText(index.sizes), dimsText(other.sizes), dim);
    call.fail("expected index {} to be no larger than {} {}{}", dimsText(index.sizes), name, dimsText(other.sizes),
              dim < 0 ? std::string() : fmt::format(" apart from dimension {}", dim));
  }
}

// Whether an index has elements for sure. One that has none picks nothing, and goes with everything.
bool hasElements(const TensorInfo& index) { return index.hasRank && knownNumel(index.sizes).value_or(0) != 0; }

// ---- gather, take_along_dim ----

void inferGather(InferCall& call) {
  TensorInfo self = call.tensor(0), index = call.tensor(2);
  int64_t dim = self.hasRank ? call.dim(1, self.rank()) : 0;
  if (hasElements(index)) {
    requireIndex(call, index, "gather");
    if (self.hasRank) checkIndexSizes(call, index, self, dim, "self");
  }
  call.result(index, self.dtype);
}

void gatherKernel(KernelCall& call) {
  Tensor self = call.tensor(0), index = asInt64(call.tensor(2)), out = call.out();
  int64_t dim = call.dim(1, self.rank());
  if (index.numel()) gatherElements(atLeastOne(out), atLeastOne(self), dim, atLeastOne(index));
}

// The sizes of `a` broadcast to those of `b`, except along `dim`.
Dims alongDim(const InferCall& call, DimSpan a, DimSpan b, int64_t dim) {
  Dims sizes(a), other(b);
  other[static_cast<size_t>(dim)] = sizes[static_cast<size_t>(dim)];
  call.require(broadcastInto(sizes, other), "the sizes {} and {} cannot be broadcast apart from dimension {}",
               dimsText(a), dimsText(b), dim);
  return sizes;
}

void inferTakeAlongDim(InferCall& call) {
  TensorInfo self = call.rankedTensor(0), index = call.rankedTensor(1);
  requireInt64(call, index);
  if (call.isNone(2)) {
    return call.result(self.dtype, Dims{elementCount(index.sizes).size()});
  }
  call.require(self.rank() == index.rank(),
               "input and indices should have the same number of dimensions, but got {} and {}", self.rank(),
               index.rank());
  int64_t dim = call.dim(2, self.rank());
  call.require(self.rank() > 0, "dimension specified as {} but tensor has no dimensions", call.integer(2));
  call.require(self.sizes[static_cast<size_t>(dim)] != 0 || !hasElements(index),
               "ZeroDivisionError: there is nothing to take along dimension {}", dim);
  call.result(self.dtype, alongDim(call, index.sizes, self.sizes, dim));
}

// Along a dimension PyTorch 2 counts around: the index after the last is the first.
Tensor countedAround(KernelCall& call, const Tensor& index, int64_t size) {
  return invokeTensor(call, "aten::remainder.Scalar", {index, size});
}

void takeAlongDimKernel(KernelCall& call) {
  Tensor self = call.tensor(0), index = call.tensor(1), out = call.out();
  if (out.numel() == 0) return;
  if (call.isNone(2))
    return gatherElements(out, reshaped(self, Dims{self.numel()}), 0, reshaped(index, Dims{index.numel()}));
  int64_t dim = call.dim(2, self.rank());
  if (self.rank() > 0) {
    index = expandedTo(countedAround(call, index, self.size(static_cast<int>(dim))), out.sizes());
    Dims sizes(out.sizes());
    sizes[static_cast<size_t>(dim)] = self.size(static_cast<int>(dim));
    self = expandedTo(self, sizes);
  }
  gatherElements(atLeastOne(out), atLeastOne(self), dim, atLeastOne(index));
}

// ---- scatter, scatter_add, scatter_reduce ----

void inferScatter(InferCall& call) {
  TensorInfo self = call.tensor(0), index = call.tensor(2);
  int64_t dim = self.hasRank ? call.dim(1, self.rank()) : 0;
  bool checked = hasElements(index);
  if (checked) {
    requireIndex(call, index, "scatter");
    if (self.hasRank) checkIndexSizes(call, index, self, dim, "self");
  }
  if (call.isTensor(3)) {
    TensorInfo source = call.tensor(3);
    requireSameDType(call, self, source, "scatter");
    if (checked) checkIndexSizes(call, index, source, -1, "src");
  }
  call.result(self);
}

void scatterInto(KernelCall& call, const Tensor& self, const Tensor& source, Update how) {
  Tensor index = asInt64(sourceFor(call, self, call.tensor(2)));
  if (index.numel() == 0) return;
  auto update = [&](const Tensor& to, const Tensor& from) {
    updateElements(atLeastOne(to), call.dim(1, self.rank()), atLeastOne(index), atLeastOne(from), how);
  };
  how == Update::Assign ? update(self, source) : joinWide(self, source, update);
}

// The argument after the index: a tensor, or a number as an element.
Tensor scatterSource(const KernelCall& call, const Tensor& self) {
  if (!call.argument(3).isTensor() && call.tensor(2).numel() == 0) return Tensor::empty(self.dtype(), {0});
  if (!call.argument(3).isTensor())
    return expandedTo(elementOf(call.argument(3), self.dtype()), call.tensor(2).sizes());
  return sourceFor(call, self, call.tensor(3));
}

void scatterKernel(KernelCall& call) {
  Update how = Update::Assign;
  if (call.size() > 4) {
    const std::string& reduce = call.text(4);
    call.require(reduce == "add" || reduce == "multiply", "reduce must be either add or multiply, not '{}'", reduce);
    how = reduce == "add" ? Update::Add : Update::Multiply;
  }
  Tensor self = updatedRows(call);
  scatterInto(call, self, scatterSource(call, self), how);
}

void scatterAddKernel(KernelCall& call) {
  Tensor self = updatedRows(call);
  scatterInto(call, self, scatterSource(call, self), Update::Add);
}

void scatterReduceKernel(KernelCall& call) {
  JoinRule rule(call, call.text(4), true);
  Tensor self = updatedRows(call), source = scatterSource(call, self);
  const std::string& how = call.text(4);
  const bool isEmpty = call.tensor(2).numel() == 0, isMeanOfBools = how == "mean" && self.dtype() == DType::Bool;
  if (isMeanOfBools || (!isEmpty && isComplex(self.dtype()) && how.starts_with("am")))
    call.fail(R"("{}" not implemented for '{}')", isEmpty ? "div_floor_cpu" : "scatter_gather_tensor_cpu_reduce_" + how,
              graphName(self.dtype()));
  if (isEmpty) return;
  rule.run(self, source, call.flag(5),
           [&](const Tensor& to, const Tensor& from, Update how) { scatterInto(call, to, from, how); });
}

// ---- take, put ----

void inferTake(InferCall& call) {
  TensorInfo index = call.tensor(1);
  requireInt64(call, index);
  call.result(index, call.tensor(0).dtype);
}

// Where elements lie that are counted in row-major order, in bytes.
Tensor linearOffsets(const KernelCall& call, const Tensor& t, const Tensor& index) {
  Tensor from = contiguous(index), out = Tensor::empty(DType::Int64, Dims{index.numel()});
  int64_t n = t.numel(), item = static_cast<int64_t>(itemSize(t.dtype()));
  call.require(n > 0 || index.numel() == 0, "{}",
               call.op().kind().name().starts_with("put") ? "put_(): Tried to put elements into an empty tensor"
                                                          : "take(): tried to take from an empty tensor");
  for (int64_t i = 0; i < from.numel(); ++i) {
    int64_t at = from.data<int64_t>()[i];
    call.require(at >= -n && at < n, "out of range: tried to access index {} on a tensor of {} elements", at, n);
    if (at < 0) at += n;
    int64_t offset = t.isContiguous() ? at : 0;
    for (int d = t.rank() - 1; d >= 0 && !t.isContiguous(); --d) {
      offset += at % t.size(d) * t.stride(d);
      at /= t.size(d);
    }
    out.data<int64_t>()[i] = offset * item;
  }
  return out;
}

void takeKernel(KernelCall& call) {
  Tensor self = call.tensor(0), out = call.out(), offsets = linearOffsets(call, self, call.tensor(1));
  gatherBlocks(IndexedView(self, 0, self.rank()), asSpan(offsets), out);
}

void inferPut(InferCall& call) {
  TensorInfo self = call.tensor(0), index = call.tensor(1), source = call.tensor(2);
  requireInt64(call, index);
  call.require(self.dtype == source.dtype || self.dtype == DType::Undefined || source.dtype == DType::Undefined,
               "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
               graphName(self.dtype), graphName(source.dtype));
  if (index.hasRank && source.hasRank) {
    std::optional<int64_t> a = knownNumel(index.sizes), b = knownNumel(source.sizes);
    call.require(!a || !b || *a == *b,
                 "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, "
                 "index.numel() = {}",
                 b.value_or(0), a.value_or(0));
  }
  call.result(self);
}

void putKernel(KernelCall& call) {
  Tensor self = updatedSelf(call), index = sourceFor(call, self, call.tensor(1)),
         source = sourceFor(call, self, call.tensor(2));
  Tensor offsets = linearOffsets(call, self, index);
  updateBlocks(IndexedView(self, 0, self.rank()), asSpan(offsets), contiguous(source),
               call.flag(3) ? Update::Add : Update::Assign);
}

// ---- take, take_along_dim in engines ----

void convertTake(ConvertCall& call) {
  const IValue elements = call.compute("aten::reshape", {call.argument(0), intList(Dims{-1})});
  call.setResult(0, call.compute("aten::index.Tensor_hacked_twin", {elements, tensorList({call.tensor(1)})}));
}

void convertTakeAlongDim(ConvertCall& call) {
  Tensor self = call.tensor(0), index = call.tensor(1);
  if (self.numel() == 0 || index.numel() == 0) return convertToKernel(call, kEmpty);
  if (call.isNone(2)) {
    const IValue elements = call.compute("aten::reshape", {self, intList(Dims{-1})});
    return call.setResult(
        0, call.compute("aten::gather", {elements, 0, call.compute("aten::reshape", {index, intList(Dims{-1})})}));
  }
  const int64_t dim = call.dim(2, self.rank());
  Dims from(call.spec().sizes), places = from;
  from[static_cast<size_t>(dim)] = self.size(static_cast<int>(dim));
  const IValue around = call.compute("aten::remainder.Scalar", {index, self.size(static_cast<int>(dim))});
  call.setResult(0, call.compute("aten::gather", {call.compute("aten::expand", {self, intList(from)}), dim,
                                                  call.compute("aten::expand", {around, intList(places)})}));
}

// ---- scatter_reduce in engines ----

void convertScatterReduce(ConvertCall& call) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string& how = call.text(4);
  const bool isMean = how == "mean", keeps = call.flag(5);
  if (!isMean && keeps)
    return addScatter(call, how == "prod"   ? ScatterLayer::How::Multiply
                            : how == "amax" ? ScatterLayer::How::Max
                            : how == "amin" ? ScatterLayer::How::Min
                                            : ScatterLayer::How::Add);
  const Tensor x = call.tensor(0);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (x.numel() == 0 || call.tensor(2).numel() == 0) return convertToKernel(call, kEmpty);
  // What something comes to begins with what changes nothing, if it is not to count itself; the rest is left as it is.
  const IValue dim = call.argument(1), index = call.argument(2), one = 1.0, zero = 0.0;
  const IValue untouched =
      call.compute("aten::full", {intList(Dims(x.sizes())), keeps ? one : zero, static_cast<int64_t>(DType::Float32)});
  const IValue counts = call.compute("aten::scatter.value_reduce", {untouched, dim, index, one, "add"});
  const IValue start = how == "prod" ? one : how == "amax" ? -kInfinity : how == "amin" ? kInfinity : zero;
  IValue result = call.argument(0);
  if (!keeps)
    result = call.compute("aten::where.ScalarSelf", {call.compute("aten::gt.Scalar", {counts, zero}), start, result});
  result = call.compute("aten::scatter_reduce.two",
                        {result, dim, index, call.argument(3), isMean ? IValue("sum") : how, true});
  if (isMean) result = call.compute("aten::div.Tensor", {result, call.compute("aten::clamp_min", {counts, one})});
  call.setResult(0, result);
}

}  // namespace

void registerGatheringOps(OpRegistry& ops) {
  ops.add({.schema = "aten::gather",
           .infer = inferGather,
           .kernel = gatherKernel,
           .convert = convertGather,
           .dtypes = kAllTypes});
  ops.add({.schema = "aten::take_along_dim",
           .infer = inferTakeAlongDim,
           .kernel = takeAlongDimKernel,
           .convert = convertTakeAlongDim,
           .dtypes = kAllTypes});
  for (auto schema : {"aten::scatter.src", "aten::scatter.value", "aten::scatter.reduce", "aten::scatter.value_reduce"})
    ops.add({.schema = schema,
             .infer = inferScatter,
             .kernel = scatterKernel,
             .convert = convertScatter,
             .dtypes = kAllTypes,
             .inplace = InPlace::Direct,
             .traits = {Trait::SetsStrides, Trait::RoundsOnce}});
  ops.add({.schema = "aten::scatter_add",
           .infer = inferScatter,
           .kernel = scatterAddKernel,
           .convert = convertScatterAdd,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::SetsStrides, Trait::RoundsOnce}});
  ops.add({.schema = "aten::scatter_reduce.two",
           .infer = inferScatter,
           .kernel = scatterReduceKernel,
           .convert = convertScatterReduce,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::SetsStrides}});
  ops.add(
      {.schema = "aten::take", .infer = inferTake, .kernel = takeKernel, .convert = convertTake, .dtypes = kAllTypes});
  ops.add(
      {.schema = "aten::put", .infer = inferPut, .kernel = putKernel, .dtypes = kAllTypes, .inplace = InPlace::Direct});
}

}  // namespace tscompile
