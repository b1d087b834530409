// sort, argsort, msort, topk, searchsorted, bucketize.
#include "runtime/reference/sorting.h"

#include "ir/values/size_expression.h"
#include "runtime/engine/layers/lane_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/lanes.h"
#include "runtime/reference/loops/memory_format.h"
#include "runtime/reference/promotion.h"
#include "runtime/reference/reduction_call.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

// ---- sort, argsort, msort ----

void checkDim(const InferCall& call, const TensorInfo& t) {
  if (t.hasRank) call.dim(argumentIndex(call.op(), "dim"), t.rank());
}
void inferSort(InferCall& call) {
  TensorInfo t = call.tensor(0);
  checkDim(call, t);
  call.result(t);
  call.result(t, DType::Int64);
}
void inferArgsort(InferCall& call) {
  TensorInfo t = call.tensor(0);
  checkDim(call, t);
  call.result(t, DType::Int64);
}

bool isStable(const KernelCall& call) {
  size_t i = argumentIndex(call.op(), "stable");
  return i < call.size() && !call.isNone(i) && call.flag(i);
}
// Results lie as the tensor does.
Tensor outLike(KernelCall& call, size_t i, const Tensor& t) {
  if (!call.hasOut(i)) call.setResult(i, emptyLike(t, call.spec(i).dtype));
  return call.out(i);
}
void sortKernel(KernelCall& call) {
  Tensor in = call.tensor(0);
  int64_t dim = call.dim(argumentIndex(call.op(), "dim"), in.rank());
  sortInto(in, dim, call.flag(argumentIndex(call.op(), "descending")), isStable(call), outLike(call, 0, in),
           outLike(call, 1, in));
}
void argsortKernel(KernelCall& call) {
  Tensor in = call.tensor(0);
  int64_t dim = call.dim(argumentIndex(call.op(), "dim"), in.rank());
  sortInto(in, dim, call.flag(argumentIndex(call.op(), "descending")), isStable(call), Tensor(), outLike(call, 0, in));
}
void msortKernel(KernelCall& call) {
  Tensor in = call.tensor(0);
  sortInto(in, 0, false, false, outLike(call, 0, in), Tensor::empty(DType::Int64, in.sizes()));
}

// ---- topk ----

void inferTopk(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  int64_t dim = call.dim(2, t.rank()), k = call.size(1);
  int64_t length = t.rank() ? t.sizes[static_cast<size_t>(dim)] : 1;
  bool known = isKnownSize(k) || call.isRun();
  call.require(!known || (k >= 0 && (!isKnownSize(length) || k <= length)), "selected index k out of range");
  Dims sizes(t.sizes);
  if (t.rank()) sizes[static_cast<size_t>(dim)] = integerAsSize(k);
  call.result(t.dtype, sizes);
  call.result(DType::Int64, sizes);
}

// The same algorithms as PyTorch's, so that ties give the same indices.
template <class T, class Before>
void selectFirst(std::vector<std::pair<T, int64_t>>& queue, int64_t k, bool sorted, Before before) {
  auto first = queue.begin(), last = queue.end();
  if (k * 64 <= static_cast<int64_t>(queue.size())) return std::partial_sort(first, first + k, last, before);
  std::nth_element(first, first + k - 1, last, before);
  if (sorted) std::sort(first, first + k - 1, before);
}

template <class T>
class TopK {
 public:
  TopK(int64_t k, bool largest, bool sorted) : k_(k), largest_(largest), sorted_(sorted) {}
  void operator()(const T* lane, int64_t n, T* values, int64_t* indices) {
    if (k_ == 0) return;
    queue_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) queue_[static_cast<size_t>(i)] = {lane[i], i};
    using Item = std::pair<T, int64_t>;
    if (largest_)
      selectFirst(queue_, k_, sorted_, [](const Item& a, const Item& b) {
        return (a.first != a.first && b.first == b.first) || a.first > b.first;
      });
    else
      selectFirst(queue_, k_, sorted_, [](const Item& a, const Item& b) {
        return (a.first == a.first && b.first != b.first) || a.first < b.first;
      });
    for (int64_t i = 0; i < k_; ++i) {
      values[i] = queue_[static_cast<size_t>(i)].first;
      indices[i] = queue_[static_cast<size_t>(i)].second;
    }
  }

 private:
  int64_t k_;
  bool largest_, sorted_;
  std::vector<std::pair<T, int64_t>> queue_;
};

void topkKernel(KernelCall& call) {
  Tensor in = call.tensor(0), values = call.out(0), indices = call.out(1);
  int64_t dim = call.dim(2, in.rank()), k = call.integer(1);
  withRealCompute(in.dtype(), [&](auto sample) {
    using T = decltype(sample);
    TopK<T> topk(in.rank() ? k : 1, call.flag(3), call.flag(4));
    forEachLane(topk, Lanes<T>(in, dim), Lanes<T>(values, dim), Lanes<int64_t>(indices, dim));
  });
}

// ---- searchsorted, bucketize ----

// Both give the boundaries and the values, tensors or a number, in their own order.
struct SearchArguments {
  size_t boundaries, values;
};
SearchArguments searchArguments(const Operator& op) {
  return op.kind().text() == "aten::bucketize" ? SearchArguments{1, 0} : SearchArguments{0, 1};
}

void checkSearch(const InferCall& call, DimSpan boundaries, DimSpan values) {
  call.require(!boundaries.empty(), "the boundaries must have at least one dimension");
  if (call.op().kind().text() == "aten::bucketize")
    call.require(boundaries.size() == 1, "boundaries tensor must be 1 dimension, but got dim({})", boundaries.size());
  if (boundaries.size() == 1) return;
  bool match = boundaries.size() == values.size();
  for (size_t d = 0; match && d + 1 < values.size(); ++d)
    match = boundaries[d] == values[d] || !isKnownSize(boundaries[d]) || !isKnownSize(values[d]);
  call.require(match,
               "boundaries of size {} must have 1 dimension, or the dimensions of values of size {} but the last",
               dimsText(boundaries), dimsText(values));
}

void inferSearch(InferCall& call) {
  SearchArguments at = searchArguments(call.op());
  DType dtype = call.flag(argumentIndex(call.op(), "out_int32")) ? DType::Int32 : DType::Int64;
  Dims values;
  TensorInfo boundaries = call.rankedTensor(at.boundaries);
  if (call.isTensor(at.values)) values = Dims(call.rankedTensor(at.values).sizes);
  checkSearch(call, boundaries.sizes, values);
  size_t sorter = argumentIndex(call.op(), "sorter");
  if (sorter < call.size() && !call.isNone(sorter)) {
    TensorInfo s = call.rankedTensor(sorter);
    call.require(s.dtype == DType::Int64, "the sorter must be int64, not {}", pythonName(s.dtype));
    call.require(Dims(s.sizes) == Dims(boundaries.sizes) || !call.isRun(),
                 "the sorter must have the size {} of the boundaries, not {}", dimsText(boundaries.sizes),
                 dimsText(s.sizes));
  }
  call.result(dtype, values);
}

// Whether to find the first boundary that is larger than a value, instead of the first that is not smaller.
bool searchesRight(const KernelCall& call) {
  bool right = call.flag(argumentIndex(call.op(), "right"));
  size_t i = argumentIndex(call.op(), "side");
  if (i >= call.size() || call.isNone(i)) return right;
  const std::string& side = call.text(i);
  call.require(side == "left" || side == "right", "side can only be 'left' or 'right', but is '{}'", side);
  call.require(!right || side == "right", "side and right contradict each other: side is 'left' while right is true");
  return side == "right";
}

// The first position whose boundary is not below the value. Values that are NaN are above all boundaries.
template <class T, class Below>
int64_t searchRun(const T* boundaries, const int64_t* sorter, int64_t n, Below isBelow) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t mid = low + (high - low) / 2;
    if (isBelow(boundaries[sorter ? sorter[mid] : mid]))
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

template <class T>
void search(const Tensor& boundaries, const Tensor& sorter, const Tensor& values, const Tensor& out, bool right) {
  int64_t n = boundaries.size(boundaries.rank() - 1), perRun = values.numel();
  if (boundaries.rank() > 1) perRun = values.size(values.rank() - 1);
  const T* b = boundaries.data<T>();
  const T* v = values.data<T>();
  const int64_t* s = sorter.defined() ? sorter.data<int64_t>() : nullptr;
  int64_t* to = out.data<int64_t>();
  RunContext& context = RunContext::current();
  for (int64_t i = 0, run = 0; i < values.numel(); ++run) {
    int64_t offset = boundaries.rank() > 1 ? run * n : 0;
    for (int64_t end = i + perRun; i < end; ++i) {
      T x = v[i];
      const int64_t* order = s ? s + offset : nullptr;
      to[i] = right ? searchRun(b + offset, order, n, [x](T bound) { return !(bound > x); })
                    : searchRun(b + offset, order, n, [x](T bound) { return !(bound >= x); });
      if (i % 1024 == 0) context.checkInterrupt(1024 * 16);
    }
  }
}

void searchKernel(KernelCall& call) {
  SearchArguments at = searchArguments(call.op());
  Tensor boundaries = call.tensor(at.boundaries), values = operandTensor(call, at.values), out = call.out();
  InferCall infer(call.op(), call.arguments(), call.size());
  ResultType type;
  type.add(infer, at.boundaries);
  type.add(infer, at.values);
  call.require(!isComplex(type.get()), "complex values have no order");
  if (out.numel() == 0) return;
  if (type.get() == DType::Bool) refuseDType(DType::Bool);

  size_t s = argumentIndex(call.op(), "sorter");
  Tensor sorter = s < call.size() ? call.tensor(s) : Tensor();
  if (sorter.defined()) {
    sorter = contiguous(sorter);
    int64_t n = boundaries.size(boundaries.rank() - 1);
    for (int64_t i = 0; i < sorter.numel(); ++i)
      call.require(sorter.data<int64_t>()[i] >= 0 && sorter.data<int64_t>()[i] < n,
                   "sorter index {} is out of range for {} boundaries", sorter.data<int64_t>()[i], n);
  }
  Tensor found = out.dtype() == DType::Int64 ? out : Tensor::empty(DType::Int64, out.sizes());
  bool right = searchesRight(call);
  boundaries = convertTensor(boundaries, type.get());
  values = convertTensor(values, type.get());
  withRealCompute(type.get(), [&](auto sample) {
    using T = decltype(sample);
    search<T>(convertTensor(boundaries, kDTypeOf<T>), sorter, convertTensor(values, kDTypeOf<T>), found, right);
  });
  if (found.impl() != out.impl()) copyTensor(out, found);
}

void convertSearch(ConvertCall& call) {
  const SearchArguments at = searchArguments(call.op());
  const size_t sorter = argumentIndex(call.op(), "sorter");
  if (sorter < call.size() && !call.isNone(sorter)) return convertToKernel(call, "there is a sorter");
  const Tensor boundaries = call.tensor(at.boundaries);
  if (!call.argument(at.values).isTensor()) return convertToKernel(call, "the value is a number");
  const size_t side = argumentIndex(call.op(), "side");
  if (side < call.size() && !call.isNone(side) && call.text(side) != "right" &&
      (call.text(side) != "left" || call.flag(argumentIndex(call.op(), "right"))))
    return convertToKernel(call, "side is neither left nor right");
  addSearch(call, boundaries, call.tensor(at.values), searchesRight(call));
}

}  // namespace

void registerSortingOps(OpRegistry& ops) {
  constexpr TraitSet kRounds{Trait::RoundsOnce};
  for (auto schema : {"aten::sort", "aten::sort.stable"})
    ops.add({.schema = schema, .infer = inferSort, .kernel = sortKernel, .convert = convertSort, .traits = kRounds});
  for (auto schema : {"aten::argsort", "aten::argsort.stable"})
    ops.add(
        {.schema = schema, .infer = inferArgsort, .kernel = argsortKernel, .convert = convertSort, .traits = kRounds});
  ops.add({.schema = "aten::msort", .infer = inferSameAsSelf, .kernel = msortKernel});
  ops.add({.schema = "aten::topk",
           .infer = inferTopk,
           .kernel = topkKernel,
           .convert = convertTopk,
           .dtypes = kRealTypes,
           .traits = kRounds});
  for (auto schema :
       {"aten::searchsorted.Tensor", "aten::searchsorted.Scalar", "aten::bucketize.Tensor", "aten::bucketize.Scalar"})
    ops.add({.schema = schema, .infer = inferSearch, .kernel = searchKernel, .convert = convertSearch});
}

}  // namespace tscompile
