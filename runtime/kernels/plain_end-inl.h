// The end of products of lines whose epilogue asks for little. Included where the compiler may use AVX512-BF16.
#pragma once

#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <immintrin.h>
#include <limits>

namespace tscompile {
namespace {

__mmask16 lanesOf(int64_t count) {
  return static_cast<__mmask16>(count >= kBlock ? 0xffff : (1u << std::max<int64_t>(count, 0)) - 1);
}

// The end of a panel's sums where a bias, scales, a residual of the result's own kind and a clamp are all, to results
// in lines: of bytes counted in steps of the result.
template <bool kBytes>
struct PlainEnd {
  struct Part {  // a panel's columns in a line
    std::byte bytes[kBytes ? kBlock : 2 * kBlock];
  };
  static constexpr auto kFloats = static_cast<int64_t>(sizeof(Part) / sizeof(float));
  static constexpr auto kParts = static_cast<int64_t>(sizeof(CacheLine) / sizeof(Part));

  __m512 factor, start, low, high, addend;
  __mmask16 mask;
  bool clamps, isBounded;  // below 255, else converting does it
  bool fills;              // the rest of the line, which nobody else writes
  Part* out;
  const Part* residual;
  int64_t stride;

  static bool takes(const Product& p) {
    const Epilogue& e = p.epilogue;
    constexpr DType kType = kBytes ? DType::UInt8 : DType::BFloat16;
    return p.storage != WeightStorage::Bytes && e.resultType.dtype == kType && !p.rowScales &&
           (!e.residual || e.residualType.dtype == kType) &&
           (e.activation == Activation::None || isClamp(e.activation));
  }

  static PlainEnd of(const Product& p, int64_t panel) {
    const Epilogue& e = p.epilogue;
    const int64_t column = panel * kBlock, at = panel / kParts * p.cPanel / kFloats + panel % kParts;
    const bool clamps = isClamp(e.activation);
    PlainEnd end{};
    end.mask = lanesOf(p.columns - column);
    end.out = reinterpret_cast<Part*>(p.c) + at;
    end.residual = e.residual ? reinterpret_cast<const Part*>(e.residual) + at : nullptr;
    end.stride = p.cRow / kFloats;
    end.clamps = clamps;
    const __m512 bias = e.bias ? _mm512_maskz_loadu_ps(end.mask, e.bias + column) : _mm512_setzero_ps();
    float low = clamps ? clampLow(e) : -std::numeric_limits<float>::infinity();
    float high = clamps ? clampHigh(e) : std::numeric_limits<float>::infinity();
    if constexpr (kBytes) {
      const float steps = 1 / e.resultType.scale, zero = e.resultType.zero, added = e.residualType.scale * steps;
      const __m512i raised = _mm512_mullo_epi32(_mm512_loadu_si512(p.sums + column), _mm512_set1_epi32(p.inputZero));
      end.factor = _mm512_mul_ps(_mm512_loadu_ps(p.scales + column), _mm512_set1_ps(p.inputScale * steps));
      end.start =
          _mm512_fnmadd_ps(_mm512_cvtepi32_ps(raised), end.factor,
                           _mm512_fmadd_ps(bias, _mm512_set1_ps(steps),
                                           _mm512_set1_ps(zero - (e.residual ? e.residualType.zero * added : 0))));
      end.addend = _mm512_set1_ps(added);
      low = clamps ? std::max(0.0f, low * steps + zero) : 0;
      high = clamps ? std::min(255.0f, high * steps + zero) : 255;
      end.isBounded = high < 255;
    } else {
      end.start = bias;
      end.fills = column + kBlock >= p.columns && panel % kParts == 0;
    }
    end.low = _mm512_set1_ps(low), end.high = _mm512_set1_ps(high);
    return end;
  }

  // Of sums in bf16: with what the residual adds, clamped.
  template <bool kAdds>
  __m512 ended(int64_t row, __m512 v) const {
    if constexpr (kAdds) {
      const __m256i brains = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(residual + row));
      v = _mm512_add_ps(v, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(brains), 16)));
    }
    // The number comes second, so that a NaN stays one.
    return clamps ? _mm512_min_ps(high, _mm512_max_ps(low, v)) : v;
  }

  // One row; `row` counts parts. Sums in bf16 are those that have begun with the bias.
  template <bool kAdds>
  void finish(int64_t row, __m512i sum) const {
    if constexpr (kBytes) {
      __m512 v = start;
      if constexpr (kAdds)
        v = _mm512_fmadd_ps(
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(residual + row)))),
            addend, v);
      // The number comes first, so that a NaN is none.
      v = _mm512_max_ps(_mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), factor, v), low);
      if (isBounded) v = _mm512_min_ps(v, high);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + row),
                       _mm512_maskz_cvtusepi32_epi8(mask, _mm512_cvtps_epi32(v)));
    } else {
      const __m256bh brains = _mm512_maskz_cvtneps_pbh(mask, ended<kAdds>(row, _mm512_castsi512_ps(sum)));
      __m256i words;
      __builtin_memcpy(&words, &brains, sizeof(words));
      if (fills)
        _mm512_storeu_si512(out + row, _mm512_zextsi256_si512(words));
      else
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + row), words);
    }
  }
  // Copies of the ends, as what is stored might be theirs.
  template <bool kAdds, int kRows, int kCount>
  static void finishAll(const PlainEnd* ends, int64_t row, const __m512i (&sum)[kRows][kCount]) {
    if constexpr (!kBytes && kCount == kParts) {
      // All of a line: one store takes as long as that of a part.
      const PlainEnd end = *ends;
      const auto mask = static_cast<__mmask32>(ends[1].mask << kBlock | 0xffff);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r, row += end.stride) {
        const __m512 first = end.template ended<kAdds>(row, _mm512_castsi512_ps(sum[r][0]));
        const __m512 second = end.template ended<kAdds>(row + 1, _mm512_castsi512_ps(sum[r][1]));
        const __m512bh brains = _mm512_maskz_cvtne2ps_pbh(mask, second, first);
        __builtin_memcpy(end.out + row, &brains, sizeof(brains));
      }
    } else {
#pragma GCC unroll 2
      for (int i = 0; i < kCount; ++i) {
        const PlainEnd end = ends[i];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) end.template finish<kAdds>(row + r * end.stride, sum[r][i]);
      }
    }
  }
};

}  // namespace
}  // namespace tscompile
