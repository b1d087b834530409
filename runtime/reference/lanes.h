// Operators that work along one dimension: softmax, sort, cumsum, argmax ... Each lane is a run of a compute type.
#pragma once

#include <vector>

#include "ir/tensor.h"
#include "runtime/reference/reduce.h"
#include "runtime/reference/tiles.h"
#include "runtime/run_context.h"

namespace tscompile {

// The lanes of a tensor along a dimension, in row-major order of the other dimensions.
class Lanes {
 public:
  Lanes(const Tensor& t, int64_t dim);
  int64_t length() const { return length_; }
  // The other dimensions, outermost first.
  const SmallVector<ReducePlan::Dimension, 6>& others() const { return others_; }

  // Reads the lane that starts at a byte offset into `buffer`, or returns where it lies if it is a run of T already.
  template <class T>
  const T* read(int64_t offset, std::vector<T>& buffer) const {
    if (isRunOf<T>()) return reinterpret_cast<const T*>(tensor_.raw() + offset);
    buffer.resize(static_cast<size_t>(length_));
    tileLoader(tensor_.dtype(), kComputeOf<T>)(tensor_.raw() + offset, stride_, buffer.data(), length_);
    return buffer.data();
  }
  // Where a lane is written to: itself, or `buffer`, which store() then brings there.
  template <class T>
  T* target(int64_t offset, std::vector<T>& buffer) const {
    if (isRunOf<T>()) return reinterpret_cast<T*>(tensor_.raw() + offset);
    buffer.resize(static_cast<size_t>(length_));
    return buffer.data();
  }
  template <class T>
  void store(int64_t offset, const T* from) const {
    if (!isRunOf<T>()) tileStorer(kComputeOf<T>, tensor_.dtype())(from, tensor_.raw() + offset, stride_, length_);
  }

 private:
  template <class T>
  bool isRunOf() const {
    return isStoredAs(tensor_.dtype(), kComputeOf<T>) && (stride_ == static_cast<int64_t>(sizeof(T)) || length_ <= 1);
  }
  Tensor tensor_;
  int64_t length_, stride_;  // elements, bytes
  SmallVector<ReducePlan::Dimension, 6> others_;
};

// Walks dimensions of equal sizes in two tensors and calls visit(offset in the first, offset in the second).
template <class Visit>
void walkPairs(std::span<const ReducePlan::Dimension> a, std::span<const ReducePlan::Dimension> b, Visit&& visit) {
  for (const auto& d : a)
    if (d.size == 0) return;
  int rank = static_cast<int>(a.size());
  int64_t index[kMaxRank] = {};
  int64_t x = 0, y = 0;
  while (true) {
    visit(x, y);
    int d = rank - 1;
    for (; d >= 0; --d) {
      x += a[d].stride;
      y += b[d].stride;
      if (++index[d] < a[d].size) break;
      x -= a[d].stride * a[d].size;
      y -= b[d].stride * b[d].size;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// Calls f(lane, length, result) for every lane of `in` along `dim`; `result` is the lane of `out` with the same index,
// which may have another length. T and U are compute types.
template <class T, class U, class F>
void mapLanes(const Tensor& in, const Tensor& out, int64_t dim, F&& f) {
  Lanes from(in, dim), to(out, dim);
  std::vector<T> buffer;
  std::vector<U> result;
  RunContext& context = RunContext::current();
  walkPairs(from.others(), to.others(), [&](int64_t read, int64_t write) {
    U* target = to.template target<U>(write, result);
    f(from.template read<T>(read, buffer), from.length(), target);
    to.store(write, target);
    context.checkInterrupt(from.length());
  });
}

}  // namespace tscompile
