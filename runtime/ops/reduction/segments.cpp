// Reductions of consecutive pieces of a dimension: segment_reduce.
#include "ir/values/size_expression.h"
#include "runtime/call/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/loops/copy.h"

#include <cmath>
#include <limits>
#include <optional>

namespace tscompile {
namespace {

// How the elements of a segment are joined, and what a segment starts from.
enum class Join { Sum, Mean, Max, Min, Prod };

Join joinArgument(const KernelCall& call) {
  const std::string& name = call.text(1);
  if (name == "sum") return Join::Sum;
  if (name == "mean") return Join::Mean;
  if (name == "max") return Join::Max;
  if (name == "min") return Join::Min;
  call.require(name == "prod", "expected a reduction of sum, mean, max, min or prod, but got {}", name);
  return Join::Prod;
}

template <class T>
T startOf(Join join) {
  switch (join) {
    case Join::Max:
      return -std::numeric_limits<T>::infinity();
    case Join::Min:
      return std::numeric_limits<T>::infinity();
    case Join::Prod:
      return 1;
    default:
      return 0;
  }
}

template <class T>
T joined(Join join, T a, T b) {
  switch (join) {
    case Join::Max:
      return b > a || b != b ? b : a;
    case Join::Min:
      return b < a || b != b ? b : a;
    case Join::Prod:
      return a * b;
    default:
      return a + b;
  }
}

// Where segments begin and end along the axis; [from, to) pairs for each index of the dimensions in front of it.
struct Segments {
  int64_t rows = 1, count = 0;
  std::vector<std::pair<int64_t, int64_t>> bounds;
};

// A tensor of lengths or offsets has the dimensions of the data up to the axis.
Tensor boundsTensor(const KernelCall& call, const Tensor& data, const Tensor& t, int64_t axis, Segments& segments) {
  call.require(t.dtype() == DType::Int32 || t.dtype() == DType::Int64,
               "lengths and offsets must be int32 or int64, not {}", pythonName(t.dtype()));
  call.require(t.rank() == axis + 1,
               "expected the axis to be the last dimension of lengths or offsets, but got axis {} and {} dimensions",
               axis, t.rank());
  for (int64_t d = 0; d < axis; ++d) {
    call.require(t.sizes()[d] == data.sizes()[d], "lengths or offsets of size {} do not fit data of size {}",
                 dimsText(t.sizes()), dimsText(data.sizes()));
    segments.rows *= t.sizes()[d];
  }
  segments.count = t.sizes()[axis];
  return convertTensor(t, DType::Int64);
}

Segments segmentsByLengths(const KernelCall& call, const Tensor& data, const Tensor& t, int64_t axis) {
  Segments segments;
  Tensor lengths = boundsTensor(call, data, t, axis, segments);
  int64_t size = data.sizes()[axis];
  for (int64_t row = 0; row < segments.rows; ++row) {
    int64_t at = 0;
    for (int64_t i = 0; i < segments.count; ++i) {
      int64_t length = lengths.data<int64_t>()[row * segments.count + i];
      call.require(length >= 0, "lengths contains the negative value {}", length);
      call.require(length <= size - at, "lengths add up to more than the size {} of the axis", size);
      segments.bounds.emplace_back(at, at + length);
      at += length;
    }
    call.require(at == size || call.flag(6), "expected lengths to add up to the size {} of the axis, but got {}", size,
                 at);
  }
  return segments;
}

Segments segmentsByOffsets(const KernelCall& call, const Tensor& data, const Tensor& t, int64_t axis) {
  Segments segments;
  Tensor offsets = boundsTensor(call, data, t, axis, segments);
  int64_t size = data.sizes()[axis], given = segments.count;
  call.require(given > 0, "expected at least one offset");
  segments.count = given - 1;
  const int64_t* p = offsets.data<int64_t>();
  for (int64_t i = 0; i < offsets.numel(); ++i) {
    call.require(p[i] >= 0 && p[i] <= size, "offset {} is out of range for an axis of size {}", p[i], size);
    if (i % given) segments.bounds.emplace_back(p[i - 1], std::max(p[i - 1], p[i]));
  }
  return segments;
}

// Reduces columns of data whose elements lie `inner` apart.
template <class T>
void reduceSegments(const KernelCall& call, const Tensor& data, const Tensor& out, const Segments& segments,
                    SplitSizes split, Join join, std::optional<double> initial) {
  const T* from = data.data<T>();
  T* to = out.data<T>();
  for (size_t k = 0; k < segments.bounds.size(); ++k) {
    auto [begin, end] = segments.bounds[k];
    const T* row = from + static_cast<int64_t>(k) / segments.count * split.size * split.inner;
    T* results = to + static_cast<int64_t>(k) * split.inner;
    std::fill_n(results, split.inner, initial ? static_cast<T>(*initial) : startOf<T>(join));
    for (int64_t i = begin; i < end; ++i)
      for (int64_t c = 0; c < split.inner; ++c) results[c] = joined(join, results[c], row[i * split.inner + c]);
    bool divide = join == Join::Mean && (begin < end || !initial);
    for (int64_t c = 0; divide && c < split.inner; ++c) results[c] /= static_cast<T>(end - begin);
    call.context().checkInterrupt((end - begin + 1) * split.inner);
  }
}

void inferSegmentReduce(InferCall& call) {
  TensorInfo data = call.rankedTensor(0);
  call.require(data.rank() > 0, "expected data with elements and dimensions");
  call.require(call.isNone(3), "segment_reduce by indices is not supported");
  const bool byOffsets = !call.isNone(4);
  call.require(byOffsets || !call.isNone(2), "either lengths or offsets must be defined");
  int64_t axis = call.dim(5, data.rank());
  TensorInfo bounds = call.rankedTensor(byOffsets ? 4 : 2);
  call.require(static_cast<int64_t>(bounds.rank()) == axis + 1,
               "expected the axis to be the last dimension of lengths or offsets, but got axis {} and {} dimensions",
               axis, bounds.rank());
  Dims sizes(data.sizes);
  sizes[axis] = bounds.sizes[axis];
  if (byOffsets) {
    call.require(sizes[axis] != 0, "expected at least one offset");
    sizes[axis] = (SizeExpression::ofSize(sizes[axis]) - 1).size();
  }
  call.result(data.dtype, sizes);
}
void segmentReduceKernel(KernelCall& call) {
  Tensor data = call.tensor(0), lengths = call.tensor(2), offsets = call.tensor(4);
  Join join = joinArgument(call);
  call.require(data.rank() > 0 && data.numel() > 0, "expected data with elements and dimensions");
  call.require(call.isNone(3), "segment_reduce by indices is not supported");
  call.require(lengths.defined() || offsets.defined(), "either lengths or offsets must be defined");
  int64_t axis = call.dim(5, data.rank());
  Segments segments =
      offsets.defined() ? segmentsByOffsets(call, data, offsets, axis) : segmentsByLengths(call, data, lengths, axis);
  std::optional<double> initial;
  if (!call.isNone(7)) initial = call.number(7);

  Dims sizes(data.sizes());
  sizes[axis] = segments.count;
  Tensor dense = denseTensor(data), out = Tensor::empty(dense.dtype(), sizes);
  withFloating(dense.dtype(), [&](auto sample) {
    reduceSegments<decltype(sample)>(call, dense, out, segments, SplitSizes(data.sizes(), axis), join, initial);
  });
  call.setResult(convertTensor(out, data.dtype()));
}

}  // namespace

void registerSegmentsOps(OpRegistry& ops) {
  ops.add({.schema = "aten::segment_reduce",
           .infer = inferSegmentReduce,
           .kernel = segmentReduceKernel,
           .dtypes = kFloatingTypes});
}

}  // namespace tscompile
