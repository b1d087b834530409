// Operators that work along one dimension: softmax, sort, cumsum ... Each lane is a run of a compute type.
#pragma once

#include "ir/values/tensor.h"
#include "runtime/call/run_context.h"
#include "runtime/reference/loops/reduce.h"
#include "runtime/reference/loops/tiles.h"

#include <algorithm>

namespace tscompile {

// Where the lanes of a tensor along a dimension lie, in row-major order of the other dimensions. Lanes that are
// neighbours along the innermost other dimension are taken a few at a time: where lanes are far from being runs of
// memory, their neighbours share cache lines.
class LaneOrder {
 public:
  LaneOrder(const Tensor& t, int64_t dim);
  int64_t length() const { return length_; }
  // Whether taking several neighbours at a time saves memory traffic.
  bool prefersBlocks() const { return length_ > 1 && neighbour_.stride < stride_; }
  // Neighbours that block walks take at a time.
  int64_t blockWidth() const;
  void setWidth(int64_t width) { width_ = width; }

  // The lanes at hand; 0 when the walk is over.
  int64_t count() const { return done_ ? 0 : std::min(width_, neighbour_.size - at_); }
  void next();

 protected:
  std::byte* start(int64_t k) const { return tensor_.raw() + offset_ + (at_ + k) * neighbour_.stride; }

  Tensor tensor_;
  int64_t length_, stride_;                // elements, bytes
  ReducePlan::Dimension neighbour_{1, 0};  // the innermost other dimension

 private:
  SmallVector<ReducePlan::Dimension, 6> outer_;
  SmallVector<int64_t, 6> index_;
  int64_t offset_ = 0, at_ = 0, width_ = 1;
  bool done_ = false;
};

// The lanes as runs of T, a compute type: where they lie if they are such runs already, else in a buffer.
template <class T>
class Lanes : public LaneOrder {
 public:
  Lanes(const Tensor& t, int64_t dim)
      : LaneOrder(t, dim),
        isRun_(isStoredAs(t.dtype(), kComputeOf<T>) && (stride_ == static_cast<int64_t>(sizeof(T)) || length_ <= 1)) {}
  bool wantsBlocks() const { return !isRun_ && prefersBlocks(); }

  // Lane k of those at hand.
  T* lane(int64_t k) { return isRun_ ? reinterpret_cast<T*>(start(k)) : buffer() + k * length_; }

  // Reads the lanes at hand.
  void load() {
    if (!reserve()) return;
    int64_t n = count();
    LoadTile load = tileLoader(tensor_.dtype(), kComputeOf<T>);
    if (n == 1) return load(start(0), stride_, buffer(), length_);
    T row[kMaxWidth];
    for (int64_t j = 0; j < length_; ++j) {
      load(start(0) + j * stride_, neighbour_.stride, row, n);
      for (int64_t k = 0; k < n; ++k) buffer()[k * length_ + j] = row[k];
    }
  }
  // Makes room for the lanes at hand, which are to be written.
  bool reserve() {
    if (isRun_) return false;
    if (!buffer_.defined()) buffer_ = Tensor::empty(kDTypeOf<T>, Dims{length_ * count()});
    return true;
  }
  // Brings what was written to lane() to the tensor.
  void store() {
    if (isRun_) return;
    int64_t n = count();
    StoreTile store = tileStorer(kComputeOf<T>, tensor_.dtype());
    if (n == 1) return store(buffer(), start(0), stride_, length_);
    T row[kMaxWidth];
    for (int64_t j = 0; j < length_; ++j) {
      for (int64_t k = 0; k < n; ++k) row[k] = buffer()[k * length_ + j];
      store(row, start(0) + j * stride_, neighbour_.stride, n);
    }
  }

  static constexpr int64_t kMaxWidth = 16;

 private:
  T* buffer() const { return buffer_.template data<T>(); }

  bool isRun_;
  Tensor buffer_;  // of the widest block, which is the first
};

// Calls f(lane, its length, lane of the first output, ...) for every lane of `in`; the outputs' lanes are those with
// the same index and may have other lengths.
template <class F, class T, class... U>
void forEachLane(F&& f, Lanes<T> in, Lanes<U>... out) {
  int64_t width = 1;
  if ((in.wantsBlocks() || ... || out.wantsBlocks())) width = std::min({in.blockWidth(), out.blockWidth()...});
  in.setWidth(width);
  (out.setWidth(width), ...);
  RunContext& context = RunContext::current();
  for (int64_t n; (n = in.count()) > 0; in.next(), (out.next(), ...)) {
    in.load();
    (out.reserve(), ...);
    for (int64_t k = 0; k < n; ++k) f(static_cast<const T*>(in.lane(k)), in.length(), out.lane(k)...);
    (out.store(), ...);
    context.checkInterrupt(in.length() * n);
  }
}

// The same with one output. T and U are compute types.
template <class T, class U, class F>
void mapLanes(const Tensor& in, const Tensor& out, int64_t dim, F&& f) {
  forEachLane(f, Lanes<T>(in, dim), Lanes<U>(out, dim));
}

}  // namespace tscompile
