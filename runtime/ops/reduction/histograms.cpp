// Elements counted by value: bincount, histc, histogram, histogramdd.
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/tensor_math.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/reduction_call.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

// ---- bincount ----

template <class T>
void addUp(const Tensor& bins, const int64_t* values, const Tensor& weights, int64_t n) {
  T* to = bins.data<T>();
  const T* w = weights.defined() ? weights.data<T>() : nullptr;
  for (int64_t i = 0; i < n; ++i) to[values[i]] += w ? w[i] : T(1);
}

void bincountKernel(KernelCall& call) {
  Tensor in = call.tensor(0), weights = call.tensor(1);
  int64_t least = call.integer(2), n = in.numel();
  call.require(least >= 0, "minlength should be >= 0");
  call.require(in.rank() == 1, "bincount only supports 1-d non-negative integral inputs.");
  call.require(!weights.defined() || (weights.rank() == 1 && weights.size(0) == n),
               "weights should be 1-d and have the same length as input");
  Tensor values = convertTensor(in, DType::Int64);
  const int64_t* v = values.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    call.require(v[i] >= 0, "bincount only supports 1-d non-negative integral inputs.");
    call.require(v[i] < std::numeric_limits<int64_t>::max(), "bincount found {}, which is too large", v[i]);
    least = std::max(least, v[i] + 1);
  }
  // Weights of no elements do not count.
  DType dtype = !weights.defined() || n == 0        ? DType::Int64
                : weights.dtype() == DType::Float32 ? DType::Float32
                                                    : DType::Float64;
  Tensor bins = Tensor::zeros(dtype, Dims{least});
  if (weights.defined()) weights = convertTensor(weights, dtype);
  call.context().checkInterrupt(n);
  if (dtype == DType::Int64)
    addUp<int64_t>(bins, v, Tensor(), n);
  else if (dtype == DType::Float32)
    addUp<float>(bins, v, weights, n);
  else
    addUp<double>(bins, v, weights, n);
  call.setResult(bins);
}

// ---- where bins begin and end ----

struct Interval {
  double low, high;
};

// The least and the largest element of each column of a matrix; NaN if there is one.
std::vector<Interval> extremesOf(const KernelCall& call, const Tensor& points) {
  std::vector<IValue> pair = invokeAll(call, "aten::aminmax", {points, 0, false});
  Tensor low = convertTensor(pair[0].toTensor(), DType::Float64),
         high = convertTensor(pair[1].toTensor(), DType::Float64);
  std::vector<Interval> out;
  for (int64_t d = 0; d < low.numel(); ++d) out.push_back({low.data<double>()[d], high.data<double>()[d]});
  return out;
}

// The intervals that a histogram covers in each dimension: `range`, or what the points, the rows of a matrix, lie in.
std::vector<Interval> intervalsOf(const KernelCall& call, const Tensor& points, const IValue& range) {
  auto dims = static_cast<size_t>(points.sizes()[1]);
  std::vector<Interval> intervals(dims, {0, 1});
  if (!range.isNone()) {
    call.require(range.isList() && range.toList().items.size() == 2 * dims,
                 "for a {}-dimensional histogram range should have {} elements, but got {}", dims, 2 * dims,
                 range.isList() ? range.toList().items.size() : 0);
    for (size_t d = 0; d < dims; ++d)
      intervals[d] = {range.toList().items[2 * d].toDouble(), range.toList().items[2 * d + 1].toDouble()};
  } else if (points.numel() > 0) {
    intervals = extremesOf(call, points);
  }
  for (size_t d = 0; d < dims; ++d) {
    Interval& i = intervals[d];
    call.require(std::isfinite(i.low) && std::isfinite(i.high), "dimension {}'s range [{}, {}] is not finite", d, i.low,
                 i.high);
    call.require(i.low <= i.high, "min should not exceed max, but got min {} max {} for dimension {}", i.low, i.high,
                 d);
    if (i.low == i.high) i = {i.low - 0.5, i.high + 0.5};
  }
  return intervals;
}

// Edges of `bins` bins of equal width.
Tensor evenEdges(const KernelCall& call, Interval interval, int64_t bins, DType dtype) {
  call.require(bins > 0 && bins < std::numeric_limits<int64_t>::max(), "bins must be positive, but got {}", bins);
  return invokeTensor(
      call, "aten::linspace",
      {interval.low, interval.high, bins + 1, static_cast<int64_t>(dtype), IValue(), IValue(), IValue()});
}

std::vector<Tensor> evenEdges(const KernelCall& call, const Tensor& points, const Dims& bins, const IValue& range) {
  auto dims = static_cast<size_t>(points.sizes()[1]);
  call.require(bins.size() == dims, "a {}-dimensional histogram needs {} numbers of bins, but got {}", dims, dims,
               bins.size());
  std::vector<Interval> intervals = intervalsOf(call, points, range);
  std::vector<Tensor> edges;
  for (size_t d = 0; d < dims; ++d) edges.push_back(evenEdges(call, intervals[d], bins[d], points.dtype()));
  return edges;
}

std::vector<Tensor> givenEdges(const KernelCall& call, const Tensor& points, const std::vector<Tensor>& tensors) {
  auto dims = static_cast<size_t>(points.sizes()[1]);
  call.require(tensors.size() == dims, "a {}-dimensional histogram needs {} tensors of bin edges, but got {}", dims,
               dims, tensors.size());
  std::vector<Tensor> edges;
  for (size_t d = 0; d < dims; ++d) {
    const Tensor& t = tensors[d];
    call.require(t.defined() && t.rank() == 1, "a bins tensor should have one dimension");
    call.require(t.dtype() == points.dtype(),
                 "input tensor and bins tensors should have the same dtype, but got {} and {}",
                 pythonName(points.dtype()), pythonName(t.dtype()));
    call.require(t.size(0) > 1, "a bins tensor should have at least 2 elements, but dimension {}'s has {}", d,
                 t.size(0));
    edges.push_back(cloneTensor(t));
  }
  return edges;
}

// ---- counting ----

// How the bin of an element is found.
enum class Search {
  Width,   // from the width of the bins, which are equal
  Nearby,  // likewise, then among the edges next to it
  Edges,   // among all edges
};

// Edges in increasing order. The last bin holds its upper edge too.
template <class T>
class Bins {
 public:
  // Of elements in 16 bits, each step of the search is rounded to them.
  Bins(const Tensor& edges, Search search, DType dtype)
      : edges_(edges.data<T>()), count_(edges.numel()), search_(search), dtype_(dtype) {}
  // The bin of an element; -1 if it is in none, as NaN is.
  int64_t of(T v) const {
    T low = edges_[0], high = edges_[count_ - 1];
    if (!(v >= low && v <= high)) return -1;
    int64_t from = 0, to = count_, bin = 0;
    if (search_ != Search::Edges) {
      auto position = rounded(rounded(rounded(v - low) * rounded(static_cast<T>(count_ - 1))) / rounded(high - low));
      bin = position >= 0 ? std::min(static_cast<int64_t>(position), count_ - 1) : 0;
      from = std::max<int64_t>(bin - 1, 0), to = std::min(bin + 2, count_);
    }
    if (search_ != Search::Width) bin = std::upper_bound(edges_ + from, edges_ + to, v) - edges_ - 1;
    return std::clamp<int64_t>(bin, 0, count_ - 2);
  }

 private:
  T rounded(T v) const {
    if (dtype_ == DType::Float16) return static_cast<T>(static_cast<float>(Half(static_cast<float>(v))));
    return dtype_ == DType::BFloat16 ? static_cast<T>(static_cast<float>(BFloat16(static_cast<float>(v)))) : v;
  }

  const T* edges_;
  int64_t count_;
  Search search_;
  DType dtype_;
};

// Counts the points, the rows of a matrix, or sums up their weights.
Tensor counted(const KernelCall& call, const Tensor& points, const Tensor& weights, const std::vector<Tensor>& edges,
               Search search) {
  Dims sizes;
  for (const Tensor& e : edges) sizes.push_back(e.numel() - 1);
  Tensor rows = denseTensor(points), counts = Tensor::zeros(rows.dtype(), sizes);
  int64_t n = rows.sizes()[0], dims = rows.sizes()[1];
  if (dims == 0) return counts;
  withFloating(rows.dtype(), [&](auto sample) {
    using T = decltype(sample);
    std::vector<Bins<T>> bins;
    std::vector<Tensor> dense;
    for (const Tensor& e : edges) dense.push_back(denseTensor(e));
    for (const Tensor& e : dense) bins.emplace_back(e, search, points.dtype());
    const T* p = rows.data<T>();
    const T* w = weights.defined() ? weights.data<T>() : nullptr;
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = 0, bin = 0;
      for (int64_t d = 0; d < dims && bin >= 0; ++d) {
        bin = bins[static_cast<size_t>(d)].of(p[i * dims + d]);
        at = at * sizes[d] + bin;
      }
      if (bin >= 0) counts.data<T>()[at] += w ? w[i] : T(1);
      if (i % 1024 == 0) call.context().checkInterrupt(1024 * dims);
    }
  });
  return counts;
}

// Divided by their sum and by the sizes of the bins, so that the integral is 1.
Tensor densityOf(const KernelCall& call, Tensor counts, const std::vector<Tensor>& edges) {
  TensorMath math(call);
  counts = math.div(counts, math.sum(counts));
  for (size_t d = 0; d < edges.size(); ++d) {
    int64_t n = edges[d].size(0) - 1;
    Tensor widths = math.sub(narrowed(edges[d], 0, 1, n), narrowed(edges[d], 0, 0, n));
    Dims sizes(edges.size(), 1);
    sizes[d] = n;
    counts = math.div(counts, reshaped(widths, sizes));
  }
  return counts;
}

// The input of a histogram as a matrix with a row for each point: of histogram(), all elements are points.
Tensor pointsOf(const KernelCall& call, bool elements) {
  Tensor t = call.tensor(0);
  if (elements) return reshaped(t, Dims{t.numel(), 1});
  call.require(t.rank() >= 2, "input tensor should have at least 2 dimensions, but has {}", t.rank());
  int64_t dims = t.size(t.rank() - 1), rows = 1;
  for (int d = 0; d + 1 < t.rank(); ++d) rows *= t.sizes()[d];
  return reshaped(t, Dims{rows, dims});
}

Tensor histogramOf(const KernelCall& call, const Tensor& points, const std::vector<Tensor>& edges, Search search) {
  Tensor weights = call.tensor(argumentIndex(call.op(), "weight"));
  if (weights.defined()) {
    call.require(weights.dtype() == points.dtype(),
                 "input tensor and weight tensor should have the same dtype, but got {} and {}",
                 pythonName(points.dtype()), pythonName(weights.dtype()));
    call.require(weights.numel() == points.sizes()[0],
                 "the weight tensor should have one element for each of {} points, but has {}", points.sizes()[0],
                 weights.numel());
    weights = contiguous(weights);
  }
  Tensor counts = counted(call, points, weights, edges, search);
  return call.flag(argumentIndex(call.op(), "density")) ? densityOf(call, counts, edges) : counts;
}

// ---- histc ----

void inferHistc(InferCall& call) {
  TensorInfo t = call.tensor(0);
  int64_t bins = call.integer(1);
  call.require(bins > 0, "bins must be positive, but got {}", bins);
  call.result(t.dtype, Dims{bins});
}
void histcKernel(KernelCall& call) {
  Tensor points = pointsOf(call, true);
  Interval interval{call.number(2), call.number(3)};
  if (interval.low == interval.high && points.numel() > 0) interval = extremesOf(call, points)[0];
  if (interval.low == interval.high) interval = {interval.low - 1, interval.high + 1};
  call.require(std::isfinite(interval.low) && std::isfinite(interval.high), "range of [{}, {}] is not finite",
               interval.low, interval.high);
  call.require(interval.low < interval.high, "max must be larger than min, but got min {} max {}", interval.low,
               interval.high);
  call.setResult(convertTensor(
      counted(call, points, Tensor(), {evenEdges(call, interval, call.integer(1), points.dtype())}, Search::Width),
      points.dtype()));
}

// ---- histogram, histogramdd ----

void setHistogram(KernelCall& call, const Tensor& points, std::vector<Tensor> edges, Search search, bool isList) {
  call.setResult(0, histogramOf(call, points, edges, search));
  if (call.resultCount() > 1) call.setResult(1, isList ? tensorList(std::move(edges)) : IValue(edges[0]));
}

// The argument `range`, where a schema has one.
IValue rangeArgument(const KernelCall& call) {
  size_t i = argumentIndex(call.op(), "range");
  return i < call.size() ? call.argument(i) : IValue();
}

void histogramCountKernel(KernelCall& call) {
  Tensor points = pointsOf(call, true);
  setHistogram(call, points, evenEdges(call, points, Dims{call.integer(1)}, rangeArgument(call)), Search::Nearby,
               false);
}
void histogramEdgesKernel(KernelCall& call) {
  Tensor points = pointsOf(call, true);
  setHistogram(call, points, givenEdges(call, points, {call.tensor(1)}), Search::Edges, false);
}
void histogramddCountKernel(KernelCall& call) {
  Tensor points = pointsOf(call, false);
  Dims bins = call.integers(1);
  if (call.argument(1).isInt()) bins = Dims(static_cast<size_t>(points.sizes()[1]), call.integer(1));
  setHistogram(call, points, evenEdges(call, points, bins, rangeArgument(call)), Search::Nearby, true);
}
void histogramddEdgesKernel(KernelCall& call) {
  Tensor points = pointsOf(call, false);
  setHistogram(call, points, givenEdges(call, points, call.tensors(1)), Search::Edges, true);
}
void binEdgesKernel(KernelCall& call) {
  Tensor points = pointsOf(call, false);
  call.setResult(tensorList(evenEdges(call, points, call.integers(1), rangeArgument(call))));
}

}  // namespace

void registerHistogramsOps(OpRegistry& ops) {
  constexpr DTypeSet kTypes{DType::Float32, DType::Float64};
  constexpr TraitSet kAsks{Trait::DependsOnElements};
  ops.add({.schema = "aten::bincount", .kernel = bincountKernel, .dtypes = kIntegerTypes, .traits = kAsks});
  ops.add({.schema = "aten::histc", .infer = inferHistc, .kernel = histcKernel, .dtypes = kFloatingTypes});
  auto add = [&](std::string_view schema, KernelFunction kernel, TraitSet traits = {}) {
    ops.add({.schema = schema, .kernel = kernel, .dtypes = kTypes, .traits = traits});
  };
  add("aten::histogram.bin_ct", histogramCountKernel);
  add("aten::histogram.bins_tensor", histogramEdgesKernel);
  add("aten::histogramdd", histogramddCountKernel, kAsks);
  add("aten::histogramdd.int_bins", histogramddCountKernel, kAsks);
  add("aten::histogramdd.TensorList_bins", histogramddEdgesKernel, kAsks);
  add("aten::_histogramdd_bin_edges", binEdgesKernel);
  add("aten::_histogramdd_from_bin_cts", histogramddCountKernel);
  add("aten::_histogramdd_from_bin_tensors", histogramddEdgesKernel);
}

}  // namespace tscompile
