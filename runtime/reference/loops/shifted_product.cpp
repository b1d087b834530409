#include "runtime/reference/loops/shifted_product.h"

#include <algorithm>
#include <type_traits>

namespace tscompile {
namespace {

// The accumulators of a tile stay in registers while the products of all channels and taps are added to them.
template <class T, int kLanes, int kRows, int kVectors, int kPitch>
[[gnu::always_inline]] inline void registerTile(const ShiftedProduct<T>& a, const T* start, T* out) {
  typedef T Vector __attribute__((vector_size(kLanes * sizeof(T)), aligned(alignof(T)), may_alias));
  Vector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sum[m][j] = Vector{} + (start ? start[m] : T(0));
  const T* x = a.x;
  const T* w = a.weights;
  for (int64_t c = 0; c < a.channels; ++c, x += a.channel, w += a.weightChannel)
    for (const KernelTap& tap : a.taps) {
      const auto* v = reinterpret_cast<const Vector*>(x + tap.offset);
      const T* weight = w + tap.index;
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) sum[m][j] += weight[m * a.weightRow] * v[j];
    }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) reinterpret_cast<Vector*>(out + m * kPitch)[j] = sum[m][j];
}

template <class T, int kRows, int kVectors, int kMaxVectors>
void tile256(const ShiftedProduct<T>& a, const T* start, T* out) {
  constexpr int kLanes = 32 / sizeof(T);
  registerTile<T, kLanes, kRows, kVectors, kMaxVectors * kLanes>(a, start, out);
}
template <class T, int kRows, int kVectors, int kMaxVectors>
__attribute__((target("avx512f,avx512vl,avx512dq"))) void tile512(const ShiftedProduct<T>& a, const T* start, T* out) {
  constexpr int kLanes = 64 / sizeof(T);
  registerTile<T, kLanes, kRows, kVectors, kMaxVectors * kLanes>(a, start, out);
}

// Types without vectors.
template <class T, int kPositions>
void plainTile(const ShiftedProduct<T>& a, const T* start, T* out) {
  std::fill_n(out, kPositions, start ? *start : T(0));
  for (int64_t c = 0; c < a.channels; ++c)
    for (const KernelTap& tap : a.taps) {
      const T weight = a.weights[c * a.weightChannel + tap.index];
      const T* x = a.x + c * a.channel + tap.offset;
      for (int p = 0; p < kPositions; ++p) out[p] += weight * x[p];
    }
}

bool hasAvx512() {
  static const bool has =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return has;
}

}  // namespace

template <class T>
ShiftedProductLoops<T>::ShiftedProductLoops(int64_t rows) {
  if constexpr (!std::is_arithmetic_v<T>) {
    static constexpr Loop kPlain[] = {plainTile<T, 16>};
    rows_ = vectors_ = 1;
    lanes_ = 16;
    loops_ = kPlain;
  } else {
    // One row leaves room for more positions. 16 and 32 registers.
#define TS_SINGLE(tile)                                                                                         \
  {                                                                                                             \
    tile<T, 1, 1, 8>, tile<T, 1, 2, 8>, tile<T, 1, 3, 8>, tile<T, 1, 4, 8>, tile<T, 1, 5, 8>, tile<T, 1, 6, 8>, \
        tile<T, 1, 7, 8>, tile<T, 1, 8, 8>                                                                      \
  }
#define TS_ROW256(m) tile256<T, m, 1, 2>, tile256<T, m, 2, 2>
#define TS_ROW512(m) tile512<T, m, 1, 4>, tile512<T, m, 2, 4>, tile512<T, m, 3, 4>, tile512<T, m, 4, 4>
    static constexpr Loop kSingle256[] = TS_SINGLE(tile256), kSingle512[] = TS_SINGLE(tile512);
    static constexpr Loop k256[] = {TS_ROW256(1), TS_ROW256(2), TS_ROW256(3), TS_ROW256(4), TS_ROW256(5), TS_ROW256(6)};
    static constexpr Loop k512[] = {TS_ROW512(1), TS_ROW512(2), TS_ROW512(3), TS_ROW512(4), TS_ROW512(5), TS_ROW512(6)};
#undef TS_SINGLE
#undef TS_ROW256
#undef TS_ROW512
    bool wide = hasAvx512(), single = rows == 1;
    lanes_ = (wide ? 64 : 32) / static_cast<int64_t>(sizeof(T));
    rows_ = single ? 1 : 6;
    vectors_ = single ? 8 : wide ? 4 : 2;
    loops_ = single ? (wide ? kSingle512 : kSingle256) : (wide ? k512 : k256);
  }
}

template class ShiftedProductLoops<float>;
template class ShiftedProductLoops<double>;
template class ShiftedProductLoops<uint64_t>;
template class ShiftedProductLoops<std::complex<float>>;
template class ShiftedProductLoops<std::complex<double>>;

}  // namespace tscompile
