#include "runtime/kernels/fixed_rows.h"

#include "runtime/kernels/simd.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cfloat>
#include <immintrin.h>

// The compiler's own header leaves lanes that a mask replaces without a value.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma"))), \
                             apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")
#endif

namespace tscompile {
namespace {

constexpr int64_t kDigits = 3;
constexpr int64_t kRows = 2;      // at a time: 24 sums
constexpr int64_t kAhead = 4096;  // bytes that weights are fetched before they are used
// The largest whose digits are all within [-128, 127] is 127 * (65536 + 256 + 1); less what rounding may add.
constexpr float kLargest = 8355700;
constexpr float kTiny = 1e-30f;
constexpr int64_t kFour = int64_t{4} * kBlock;  // bytes of four rows of a panel

// One row; false if fixed point cannot stand for it.
bool makeRow(const float* a, int64_t k, int64_t depth, int8_t* digits, int32_t* sums, float* step) {
  auto load = [&](int64_t i) {
    const int64_t left = k - i;
    return left >= kBlock
               ? _mm512_loadu_ps(a + i)
               : _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << std::max<int64_t>(left, 0)) - 1), a + i);
  };
  __m512 largest = _mm512_setzero_ps();
  unsigned odd = 0;
  for (int64_t i = 0; i < k; i += kBlock) {
    __m512 v = _mm512_abs_ps(load(i));
    odd |= _mm512_cmp_ps_mask(v, _mm512_set1_ps(FLT_MAX), _CMP_NLE_UQ);
    largest = _mm512_max_ps(largest, v);
  }
  const float top = _mm512_reduce_max_ps(largest);
  if (odd || (top < kTiny && top > 0)) return false;
  *step = top / kLargest;
  const __m512 scale = _mm512_set1_ps(top > 0 ? kLargest / top : 0.0f);
  __m512i sum[kDigits] = {};
  const __m512i half = _mm512_set1_epi32(128);
  for (int64_t i = 0; i < depth; i += kBlock) {
    __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(load(i), scale));
    for (int64_t d = kDigits - 1; d >= 0; --d) {
      const __m512i higher = _mm512_srai_epi32(_mm512_add_epi32(v, half), 8);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(digits + d * depth + i), _mm512_cvtepi32_epi8(v));
      sum[d] = _mm512_add_epi32(sum[d], _mm512_sub_epi32(v, _mm512_slli_epi32(higher, 8)));
      v = higher;
    }
  }
  for (int64_t d = 0; d < kDigits; ++d) sums[d] = _mm512_reduce_add_epi32(sum[d]);
  return true;
}

// kCount rows times one panel: the panels are read from end to end, as memory likes best. Sums of kSplit fours of the
// depth are apart, so that they do not wait for each other.
template <int64_t kCount, int64_t kSplit>
void kernel(const FixedRows& rows, int64_t row, const Product& p, int64_t panel) {
  __m512i sum[kCount][kDigits][kSplit] = {};
  const auto* b = static_cast<const char*>(p.b) + panel * rows.depth * kBlock;
  const int8_t* digits = rows.digits + row * kDigits * rows.depth;
  // The instruction wants one side unsigned: the weights are raised by 128, which the sums of digits take back.
  const __m512i raised = _mm512_set1_epi8(-128);
  for (int64_t i = 0; i < rows.depth; i += 4 * kSplit) {
#pragma GCC unroll 16
    for (int64_t s = 0; s < kSplit; ++s, b += kFour) {
      _mm_prefetch(b + kAhead, _MM_HINT_T0);
      const __m512i weights = _mm512_xor_si512(_mm512_loadu_si512(b), raised);
#pragma GCC unroll 16
      for (int64_t r = 0; r < kCount; ++r)
#pragma GCC unroll 16
        for (int64_t d = 0; d < kDigits; ++d) {
          int32_t four;
          __builtin_memcpy(&four, digits + (r * kDigits + d) * rows.depth + i + 4 * s, sizeof(four));
          sum[r][d][s] = _mm512_dpbusd_epi32(sum[r][d][s], weights, _mm512_set1_epi32(four));
        }
    }
  }
  const Epilogue& e = p.epilogue;
  const int64_t column = panel * kBlock, left = p.columns - column;
  const auto lanes = static_cast<__mmask16>(left >= kBlock ? 0xffff : (1u << left) - 1);
  const __m512 scales = _mm512_loadu_ps(p.scales + column);
  const __m512 bias = e.bias ? _mm512_maskz_loadu_ps(lanes, e.bias + column) : _mm512_setzero_ps();
#pragma GCC unroll 16
  for (int64_t r = 0; r < kCount; ++r) {
    __m512 value = _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int64_t d = 0; d < kDigits; ++d) {
      __m512i exact = _mm512_set1_epi32(-128 * rows.sums[(row + r) * kDigits + d]);
#pragma GCC unroll 16
      for (int64_t s = 0; s < kSplit; ++s) exact = _mm512_add_epi32(exact, sum[r][d][s]);
      value = _mm512_fmadd_ps(value, _mm512_set1_ps(256), _mm512_cvtepi32_ps(exact));
    }
    // Both factors first: the value alone, times either, may be out of range where the result is not.
    value = _mm512_fmadd_ps(value, _mm512_mul_ps(scales, _mm512_set1_ps(rows.steps[row + r])), bias);
    const int64_t at = (row + r) * p.cRow + column;
    if (e.residual) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(lanes, e.residual + at));
    _mm512_mask_storeu_ps(p.c + at, lanes, value);
  }
}

}  // namespace
}  // namespace tscompile

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#pragma GCC diagnostic pop

namespace tscompile {

bool hasFixedProducts() {
  static const bool has = __builtin_cpu_supports("avx512vnni");
  return has && simdLevel() >= SimdLevel::Avx512;
}

int64_t fixedRowsBytes(int64_t count, int64_t depth) {
  return count * kDigits * (depth + static_cast<int64_t>(sizeof(int32_t))) +
         count * static_cast<int64_t>(sizeof(float));
}

bool makeFixedRows(const float* a, int64_t lda, int64_t count, int64_t k, int64_t depth, void* memory,
                   FixedRows& rows) {
  auto* steps = static_cast<float*>(memory);
  auto* sums = reinterpret_cast<int32_t*>(steps + count);
  auto* digits = reinterpret_cast<int8_t*>(sums + count * kDigits);
  rows = {count, depth, digits, sums, steps};
  for (int64_t r = 0; r < count; ++r)
    if (!makeRow(a + r * lda, k, depth, digits + r * kDigits * depth, sums + r * kDigits, steps + r)) return false;
  return true;
}

void runFixedRows(const FixedRows& rows, const Product& p, int64_t firstPanel, int64_t endPanel) {
  for (int64_t panel = firstPanel; panel < endPanel; ++panel) {
    int64_t row = 0;
    for (; row + kRows <= rows.count; row += kRows) kernel<kRows, 4>(rows, row, p, panel);
    if (row < rows.count) kernel<1, 4>(rows, row, p, panel);
  }
  if (p.epilogue.activation == Activation::None) return;
  activateColumns(p, rows.count, firstPanel * kBlock, std::min(endPanel * kBlock, p.columns));
}

}  // namespace tscompile

#else

namespace tscompile {

bool hasFixedProducts() { return false; }
int64_t fixedRowsBytes(int64_t, int64_t) { return 0; }
bool makeFixedRows(const float*, int64_t, int64_t, int64_t, int64_t, void*, FixedRows&) { return false; }
void runFixedRows(const FixedRows&, const Product&, int64_t, int64_t) {}

}  // namespace tscompile

#endif
