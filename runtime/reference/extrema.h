// Maxima and minima, their values and their positions. NaN is both larger and smaller than any number.
#pragma once

#include "runtime/reference/loops/reduce.h"

#include <cstring>
#include <limits>

namespace tscompile {

// Whether `a` takes the place of `b`, which was there before.
template <bool kLargest, class T>
bool beats(T a, T b) {
  bool more = kLargest ? a > b : a < b;
  if constexpr (std::is_floating_point_v<T>) more |= (a != a) & (b == b);
  return more;
}

// A reducer; see reduceInto.
template <class T, bool kLargest>
struct Extreme {
  using In = T;
  using Part = T;
  using Acc = T;
  using Out = T;
  T start() const {
    using Limits = std::numeric_limits<T>;
    if constexpr (Limits::has_infinity) return kLargest ? -Limits::infinity() : Limits::infinity();
    return kLargest ? Limits::lowest() : Limits::max();
  }
  T startPart() const { return start(); }
  T run(const T* p, int64_t n) const {
    constexpr int64_t kLanes = 32 / sizeof(T), kVectors = 4;
    using Mask = decltype(Vector() == Vector());
    Vector best[kVectors];
    Mask unordered = {};  // where a NaN was seen
    for (Vector& v : best) v = start() - Vector{};
    int64_t i = 0;
    for (; i + kVectors * kLanes <= n; i += kVectors * kLanes)
      for (int64_t k = 0; k < kVectors; ++k) join(best[k], unordered, p + i + k * kLanes);
    for (; i + kLanes <= n; i += kLanes) join(best[0], unordered, p + i);
    best[0] = better(better(best[0], best[1]), better(best[2], best[3]));
    T result = best[0][0];
    int64_t anyUnordered = unordered[0];
    for (int64_t k = 1; k < kLanes; ++k) {
      result = (kLargest ? best[0][k] > result : best[0][k] < result) ? best[0][k] : result;
      anyUnordered |= unordered[k];
    }
    if constexpr (std::is_floating_point_v<T>)
      if (anyUnordered) return std::numeric_limits<T>::quiet_NaN();
    for (; i < n; ++i) add(result, p[i]);
    return result;
  }
  void add(T& into, const T& part) const { into = beats<kLargest>(part, into) ? part : into; }
  void rows(T* into, const T* row, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) add(into[i], row[i]);
  }
  T finish(const T& acc, int64_t) const { return acc; }

 private:
  typedef T Vector __attribute__((vector_size(32)));
  static Vector better(Vector a, Vector b) { return kLargest ? (a > b ? a : b) : (a < b ? a : b); }
  template <class Mask>
  static void join(Vector& best, Mask& unordered, const T* p) {
    Vector x;
    std::memcpy(&x, p, sizeof x);
    best = better(x, best);
    unordered |= x != x;
  }
};

// Along `dim`, which is not empty: the extreme elements into `values` (unless that is undefined) and the position of
// the first of them into `indices` (int64). Both are contiguous and have the other dimensions in their order. For real
// tensors and bool.
void argExtreme(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices);

}  // namespace tscompile
