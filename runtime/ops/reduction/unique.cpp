// Distinct elements, or slices along a dimension, of a tensor: all of them, or those that differ from their
// predecessor.
#include "runtime/call/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/reduce.h"
#include "runtime/reference/sorting.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <numeric>

namespace tscompile {
namespace {

// An item of each group of equal items among n, and, where they are wanted, which group each item belongs to and how
// many there are in a group.
struct Groups {
  Groups(int64_t n, bool isNumbered, bool isCounted) : isCounted_(isCounted) {
    items.reserve(static_cast<size_t>(n));
    if (!isNumbered) return;
    of = Tensor::empty(DType::Int64, Dims{n});
    numbers_ = of.data<int64_t>();
  }
  void add(int64_t item, bool isNew) {
    if (isNew) items.push_back(item);
    if (isNew && isCounted_) counts.push_back(0);
    if (isCounted_) ++counts.back();
    if (numbers_) numbers_[item] = static_cast<int64_t>(items.size()) - 1;
  }
  Tensor countTensor() const {
    Tensor t = Tensor::empty(DType::Int64, Dims{static_cast<int64_t>(counts.size())});
    std::copy(counts.begin(), counts.end(), t.data<int64_t>());
    return t;
  }
  Tensor of;
  std::vector<int64_t> items, counts;

 private:
  int64_t* numbers_ = nullptr;
  bool isCounted_;
};

Tensor noElements() { return Tensor::empty(DType::Int64, Dims{0}); }

// ---- elements ----

// The groups of a run of elements; in increasing order if `sorted`, else of neighbours. NaN differs from all.
template <class T>
Groups groupElements(const T* p, int64_t n, bool sorted, bool isNumbered, bool isCounted) {
  Groups groups(n, isNumbered, isCounted);
  Sorter sorter;
  std::span<const uint32_t> order;
  if (sorted && n > 0) order = sorter.order(p, n, false);
  auto item = [&](int64_t i) { return sorted ? static_cast<int64_t>(order[static_cast<size_t>(i)]) : i; };
  for (int64_t i = 0; i < n; ++i) groups.add(item(i), i == 0 || p[item(i)] != p[item(i - 1)]);
  return groups;
}

void uniqueElements(KernelCall& call, bool sorted, bool inverse, bool counts) {
  Tensor in = call.tensor(0), dense = denseTensor(in);
  call.context().checkInterrupt(in.numel() * 8);
  withRealCompute(dense.dtype(), [&](auto sample) {
    using T = decltype(sample);
    const T* p = dense.data<T>();
    Groups groups = groupElements(p, dense.numel(), sorted, inverse, counts);
    Tensor values = Tensor::empty(dense.dtype(), Dims{static_cast<int64_t>(groups.items.size())});
    for (size_t i = 0; i < groups.items.size(); ++i) values.data<T>()[i] = p[groups.items[i]];
    call.setResult(0, convertTensor(values, in.dtype()));
    call.setResult(1, inverse ? reshaped(groups.of, in.sizes()) : noElements());
    if (call.resultCount() > 2) call.setResult(2, counts ? groups.countTensor() : noElements());
  });
}

// PyTorch computes the indices whenever it counts. All results are sorted.
void unique2Kernel(KernelCall& call) { uniqueElements(call, true, call.flag(2) || call.flag(3), call.flag(3)); }
void uniqueKernel(KernelCall& call) { uniqueElements(call, true, call.flag(2), false); }

// ---- slices along a dimension ----

// -1, 0 or 1: the order of two rows by their first elements that differ; NaN is larger than any number.
template <class T>
int compareRows(const T* a, const T* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (a[i] < b[i]) return -1;
    if (a[i] > b[i]) return 1;
    bool an = a[i] != a[i], bn = b[i] != b[i];
    if (an != bn) return an ? 1 : -1;
  }
  return 0;
}
template <class T>
bool equalRows(const T* a, const T* b, int64_t n) {
  return std::equal(a, a + n, b);
}

template <class T>
Groups groupRows(const T* p, int64_t rows, int64_t length, bool sorted) {
  Groups groups(rows, true, true);
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  auto row = [&](int64_t i) { return p + i * length; };
  if (sorted)
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return compareRows(row(a), row(b), length) < 0; });
  for (size_t i = 0; i < order.size(); ++i)
    groups.add(order[i], i == 0 || !equalRows(row(order[i]), row(order[i - 1]), length));
  return groups;
}

void uniqueSlices(KernelCall& call, int64_t dimArgument, bool sorted) {
  Tensor in = call.tensor(0);
  call.require(in.rank() > 0, "a dimension was given, but the tensor has none");
  int64_t dim = dimArgument, emptyOthers = 0;
  call.require(wrapDim(dim, in.rank()), "dimension {} is out of range for a tensor of {} dimensions", dimArgument,
               in.rank());
  for (int64_t d = 0; d < in.rank(); ++d) emptyOthers += d != dim && in.sizes()[d] == 0;
  call.require(emptyOthers == 0, "unique cannot be applied: a dimension of size {} that is not selected has size 0",
               dimsText(in.sizes()));
  int64_t rows = in.sizes()[dim];
  if (rows == 0) {
    call.setResult(0, Tensor::empty(in.dtype(), in.sizes()));
    call.setResult(1, noElements());
    return call.setResult(2, noElements());
  }

  // Each slice is a run, ordered by its elements as they lie without the dimension.
  const auto at = static_cast<size_t>(dim);
  Dims order, back;
  order.push_back(dim);
  for (int64_t d = 0; d < in.rank(); ++d)
    if (d != dim) order.push_back(d), back.push_back(static_cast<int64_t>(back.size()) + 1);
  back.insert(at, 0);
  Tensor slices = denseTensor(in.permuted(order));
  int64_t length = slices.numel() / rows;
  call.context().checkInterrupt(in.numel() * 8);
  withRealCompute(slices.dtype(), [&](auto sample) {
    using T = decltype(sample);
    const T* p = slices.data<T>();
    Groups groups = groupRows(p, rows, length, sorted);
    Dims sizes(slices.sizes());
    sizes[0] = static_cast<int64_t>(groups.items.size());
    Tensor values = Tensor::empty(slices.dtype(), sizes);
    for (size_t i = 0; i < groups.items.size(); ++i)
      std::copy_n(p + groups.items[i] * length, length, values.data<T>() + static_cast<int64_t>(i) * length);
    call.setResult(0, convertTensor(values, in.dtype()).permuted(back));
    call.setResult(1, groups.of);
    call.setResult(2, groups.countTensor());
  });
}

void uniqueDimKernel(KernelCall& call) { uniqueSlices(call, call.integer(1), true); }
void uniqueDimConsecutiveKernel(KernelCall& call) { uniqueSlices(call, call.integer(1), false); }
void uniqueConsecutiveKernel(KernelCall& call) {
  if (call.isNone(3)) return uniqueElements(call, false, call.flag(1), call.flag(2));
  uniqueSlices(call, call.integer(3), false);
}

}  // namespace

void registerUniqueOps(OpRegistry& ops) {
  constexpr TraitSet kAsks{Trait::DependsOnElements}, kMoves{Trait::DependsOnElements, Trait::OwnStrides};
  ops.add({.schema = "aten::_unique", .kernel = uniqueKernel, .traits = kAsks});
  ops.add({.schema = "aten::_unique2", .kernel = unique2Kernel, .traits = kAsks});
  ops.add({.schema = "aten::unique_dim", .kernel = uniqueDimKernel, .traits = kMoves});
  ops.add({.schema = "aten::unique_dim_consecutive", .kernel = uniqueDimConsecutiveKernel, .traits = kMoves});
  ops.add({.schema = "aten::unique_consecutive", .kernel = uniqueConsecutiveKernel, .traits = kMoves});
}

}  // namespace tscompile
