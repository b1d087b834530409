// Depthwise convolutions and pools of lines.
#include "runtime/call/scratch.h"
#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/packed_weights.h"
#include "runtime/kernels/pool2d.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)

#include <immintrin.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,fma"))), \
                             apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,fma")
#endif

#include "runtime/kernels/lines/byte_plane-inl.h"

namespace tscompile {
namespace {

template <DType kType>
constexpr int kVectorsOf = kType == DType::BFloat16 ? 2 : 4;

// The floats of a line: of bytes, what they stand for in units of the scale.
template <DType kType>
struct Line {
  static constexpr int kVectors = kVectorsOf<kType>;
  static constexpr int64_t kFloats = kVectors * kBlock;
  __m512 v[kVectors];

  static Line all(float value) {
    Line line;
    for (__m512& v : line.v) v = _mm512_set1_ps(value);
    return line;
  }
  // To where 64 bytes begin.
  void toFloats(float* to) const {
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) _mm512_store_ps(to + i * kBlock, v[i]);
  }
  // Of each word: one of two bf16, and what one of four bytes is.
  static __m512 half(__m512i words, int64_t which) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    return _mm512_castsi512_ps(which ? _mm512_and_si512(words, high) : _mm512_slli_epi32(words, 16));
  }
  static __m512 quarter(__m512i words, int64_t which) {
    const __m512i byte = _mm512_srlv_epi32(words, _mm512_set1_epi32(static_cast<int>(8 * which)));
    return _mm512_cvtepi32_ps(_mm512_and_si512(byte, _mm512_set1_epi32(255)));
  }
  static Line load(const float* from, __m512 zero) {
    Line line;
    const __m512i words = _mm512_loadu_si512(from);
    if constexpr (kType == DType::BFloat16) {
      for (int i = 0; i < kVectors; ++i) line.v[i] = half(words, i);
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) line.v[i] = _mm512_sub_ps(quarter(words, i), zero);
    }
    return line;
  }
  void store(float* to, __m512 zero) const {
    __m512i words = _mm512_setzero_si512();
    if constexpr (kType == DType::BFloat16) {
      alignas(64) static constexpr uint16_t kTurns[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                          8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
      const __m512bh both = _mm512_cvtne2ps_pbh(v[1], v[0]);
      __builtin_memcpy(&words, &both, sizeof(words));
      words = _mm512_permutexvar_epi16(_mm512_load_si512(kTurns), words);
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) {
        // The number comes first, so that a NaN is none.
        const __m512 inside =
            _mm512_min_ps(_mm512_max_ps(_mm512_add_ps(v[i], zero), _mm512_setzero_ps()), _mm512_set1_ps(255));
        words = _mm512_or_si512(words, _mm512_slli_epi32(_mm512_cvtps_epi32(inside), static_cast<unsigned>(8 * i)));
      }
    }
    _mm512_storeu_si512(to, words);
  }
};

// Kernel positions that lie inside [0, size).
Piece inside(int64_t at, int64_t kernel, int64_t dilation, int64_t size) {
  const int64_t begin = at >= 0 ? 0 : std::min(kernel, (-at + dilation - 1) / dilation);
  const int64_t end = at >= size ? 0 : std::min(kernel, (size - at + dilation - 1) / dilation);
  return {begin, std::max(begin, end)};
}

// Calls body(image, plane of channels, rows) in pieces of about 10 us.
template <class Body>
void overPlanes(int64_t images, int64_t planes, int64_t rows, double microseconds, int threads, Body&& body) {
  threads = threadsWorth(microseconds, threads);
  const int64_t wanted = piecesWorth(microseconds, 128), all = images * planes;
  const int64_t planePieces = std::min(all, wanted);
  if (planePieces == 0 || rows == 0) return;
  const int64_t rowPieces = std::min(rows, (wanted + planePieces - 1) / planePieces);
  parallelFor(planePieces * rowPieces, threads, [&](int64_t i) {
    // Rows of all planes together, as convolutions have made them.
    const Piece which = pieceOf(all, planePieces, i % planePieces), piece = pieceOf(rows, rowPieces, i / planePieces);
    for (int64_t at = which.begin; at < which.end; ++at) body(at / planes, at % planes, piece);
  });
}

// ---- depthwise convolutions ----

// Some rows of a plane of bf16. Of its lines' words, one vector has the low four of each lane of 128 bits, one the high
// four: so zeros laid between them make floats.
class BrainPlane {
 public:
  static constexpr int kVectors = 2, kOutputs = 6, kMostSharing = 7, kFloats = kVectors * kBlock;

  // bias: of the plane's channels, of which only `channels` are there.
  BrainPlane(const ConvShape& s, const PlaneWeights& weights, const float* bias, int64_t channels, const Epilogue& e)
      : s_(s),
        e_(e),
        sharesColumns_((s.kernelWidth == 3 || s.kernelWidth == 5) && s.strideWidth <= 2 && s.dilationWidth == 1 &&
                       s.padLeft < s.kernelWidth && s.padRight < s.kernelWidth),
        activates_(e.activation != Activation::None && !isClamp(e.activation)),
        bias_(threadScratch((s.kernelHeight * s.kernelWidth + 1) * kFloats)),
        weights_(bias_ + kFloats) {
    spread(weights);

    auto biasOf = [&](int64_t from) {
      const int64_t count = std::clamp<int64_t>(channels - from, 0, kBlock);
      return bias ? _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), bias + from) : _mm512_setzero_ps();
    };
    storeInOrder(biasOf(0), biasOf(kBlock), bias_);
  }

  void run(const float* in, const float* residual, float* out, Piece rows) const {
    const int64_t width = s_.outWidth();
    SeenRows seen{};
    auto see = [&](int64_t y) {
      const int64_t top = y * s_.strideHeight - s_.padTop;
      seen = {top, inside(top, s_.kernelHeight, s_.dilationHeight, s_.inHeight)};
    };
    auto at = [&](int64_t y, int64_t x) {
      const int64_t place = (y * width + x) * kBlock;
      return Place{in, residual ? residual + place : nullptr, out + place, seen, x};
    };
    auto some = [&](Piece all, int64_t most, auto&& body) {
      const int64_t count = all.end - all.begin, pieces = (count + most - 1) / most;
      for (int64_t i = 0; i < pieces; ++i) {
        const Piece piece = pieceOf(count, pieces, i);
        body(all.begin + piece.begin, piece.end - piece.begin);
      }
    };
    if (sharesColumns_) {
      for (int64_t y = rows.begin; y < rows.end; ++y) {
        see(y);
        some({0, width}, kMostSharing, [&](int64_t x, int64_t count) { sharing(at(y, x), count); });
      }
      return;
    }
    // Outputs of a row for which all of the kernel lies inside.
    const int64_t room = s_.inWidth - 1 - (s_.kernelWidth - 1) * s_.dilationWidth + s_.padLeft;
    const int64_t first = std::min(width, (s_.padLeft + s_.strideWidth - 1) / s_.strideWidth);
    const int64_t end = std::max(first, std::min(width, room < 0 ? 0 : room / s_.strideWidth + 1));
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      see(y);
      for (int64_t x = 0; x < first; ++x) outputs<1>(at(y, x));
      some({first, end}, kOutputs,
           [&](int64_t x, int64_t count) { seeingAll(at(y, x), count, std::make_integer_sequence<int, kOutputs>()); });
      for (int64_t x = end; x < width; ++x) outputs<1>(at(y, x));
    }
  }

 private:
  // Rows of the input that a row of outputs sees: the first one, of kernel rows that lie inside.
  struct SeenRows {
    int64_t top;
    Piece kernel;
  };
  // Outputs x, x + 1... of a row.
  struct Place {
    const float *in, *residual;
    float* out;
    SeenRows rows;
    int64_t x;
  };
  using Function = void (BrainPlane::*)(const Place&) const;

  template <int... kCount>
  void seeingAll(const Place& p, int64_t count, std::integer_sequence<int, kCount...>) const {
    static constexpr Function kAny[] = {&BrainPlane::outputs<kCount + 1>...};
    (this->*kAny[count - 1])(p);
  }
  template <bool kAtSides, int... kCount>
  Function sharingFunction(int64_t count, std::integer_sequence<int, kCount...>) const {
    static constexpr Function kTable[][kMostSharing] = {{&BrainPlane::neighbours<kCount + 1, 3, 1, kAtSides>...},
                                                        {&BrainPlane::neighbours<kCount + 1, 3, 2, kAtSides>...},
                                                        {&BrainPlane::neighbours<kCount + 1, 5, 1, kAtSides>...},
                                                        {&BrainPlane::neighbours<kCount + 1, 5, 2, kAtSides>...}};
    return kTable[s_.kernelWidth / 5 * 2 + s_.strideWidth - 1][count - 1];
  }
  void sharing(const Place& p, int64_t count) const {
    constexpr auto kCounts = std::make_integer_sequence<int, kMostSharing>();
    const int64_t left = p.x * s_.strideWidth - s_.padLeft, seen = (count - 1) * s_.strideWidth + s_.kernelWidth;
    const bool isInside = left >= 0 && left + seen <= s_.inWidth;
    const Function run = isInside ? sharingFunction<false>(count, kCounts) : sharingFunction<true>(count, kCounts);
    (this->*run)(p);
  }

  // So many outputs that see all of the kernel along a row.
  template <int kCount>
  void outputs(const Place& p) const {
    const int64_t left = p.x * s_.strideWidth - s_.padLeft;
    const auto [top, ky] = p.rows;
    const Piece kx = inside(left, s_.kernelWidth, s_.dilationWidth, s_.inWidth);
    __m512 sum[kCount][kVectors];
    begin(sum);
    for (int64_t j = ky.begin; j < ky.end; ++j)
      for (int64_t k = kx.begin; k < kx.end; ++k) {
        const float* at = p.in + ((top + j * s_.dilationHeight) * s_.inWidth + left + k * s_.dilationWidth) * kBlock;
        const float* w = weights_ + (j * s_.kernelWidth + k) * kFloats;
#pragma GCC unroll 16
        for (int i = 0; i < kCount; ++i) {
          const __m512i words = _mm512_loadu_si512(at + i * s_.strideWidth * kBlock);
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v)
            sum[i][v] = _mm512_fmadd_ps(_mm512_load_ps(w + v * kBlock), floats(words, v), sum[i][v]);
        }
      }
    finish<kCount>(p, sum);
  }

  // Outputs side by side, each of which shares columns with the next. Only with kAtSides may columns lie outside.
  template <int kCount, int kWidth, int kStride, bool kAtSides>
  void neighbours(const Place& p) const {
    __m512 sum[kCount][kVectors];
    shared<0, kCount, kWidth, kStride, kAtSides>(p, sum);
    shared<1, kCount, kWidth, kStride, kAtSides>(p, sum);
    finish<kCount>(p, sum);
  }
  // One vector of each, so that all columns of a row stay in registers.
  template <int kVector, int kCount, int kWidth, int kStride, bool kAtSides>
  [[gnu::always_inline]] void shared(const Place& p, __m512 (&result)[kCount][kVectors]) const {
    constexpr int kColumns = (kCount - 1) * kStride + kWidth;
    const auto [top, ky] = p.rows;
    const int64_t left = p.x * kStride - s_.padLeft, row = s_.dilationHeight * s_.inWidth * kBlock;
    __m512 sum[kCount];
#pragma GCC unroll 8
    for (__m512& one : sum) one = _mm512_load_ps(bias_ + kVector * kBlock);
    const float* at = p.in + (top * s_.inWidth + left) * kBlock + ky.begin * row;
    const float* weights = weights_ + ky.begin * kWidth * kFloats + kVector * kBlock;
    for (int64_t j = ky.begin; j < ky.end; ++j, at += row, weights += kWidth * kFloats) {
      __m512 columns[kColumns];
#pragma GCC unroll 32
      for (int c = 0; c < kColumns; ++c) {
        const bool maybe = kAtSides && (c < kWidth - 1 || c > kColumns - kWidth);
        const bool isThere = !maybe || (left + c >= 0 && left + c < s_.inWidth);
        const __m512i words =
            maybe ? _mm512_maskz_loadu_epi32(static_cast<__mmask16>(isThere ? 0xffff : 0), at + c * kBlock)
                  : _mm512_loadu_si512(at + c * kBlock);
        columns[c] = floats(words, kVector);
      }
#pragma GCC unroll 8
      for (int k = 0; k < kWidth; ++k)
#pragma GCC unroll 8
        for (int i = 0; i < kCount; ++i)
          sum[i] = _mm512_fmadd_ps(_mm512_load_ps(weights + k * kFloats), columns[i * kStride + k], sum[i]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) result[i][kVector] = sum[i];
  }

  static __m512 floats(__m512i words, int which) {
    const __m512i zero = _mm512_setzero_si512();
    return _mm512_castsi512_ps(which ? _mm512_unpackhi_epi16(zero, words) : _mm512_unpacklo_epi16(zero, words));
  }

  template <int kCount>
  void begin(__m512 (&sum)[kCount][kVectors]) const {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const __m512 bias = _mm512_load_ps(bias_ + v * kBlock);
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) sum[i][v] = bias;
    }
  }

  template <int kCount>
  void finish(const Place& p, __m512 (&sum)[kCount][kVectors]) const {
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    const __m512 low = _mm512_set1_ps(clampLow(e_)), high = _mm512_set1_ps(clampHigh(e_));
    const bool clamps = isClamp(e_.activation);
    const float* residual = p.residual;
    float* out = p.out;
    if (residual)
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v)
          sum[i][v] = _mm512_add_ps(sum[i][v], floats(_mm512_loadu_si512(residual + i * kBlock), v));
    if (activates_) {
      __m512 all[kCount][kVectors];  // so that only these lie in memory
      std::copy_n(sum[0], kCount * kVectors, all[0]);
      activateVectors(e_, all[0], kCount * kVectors);
      std::copy_n(all[0], kCount * kVectors, sum[0]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      if (clamps)
        for (__m512& v : sum[i]) v = _mm512_min_ps(high, _mm512_max_ps(low, v));
      const __m512bh both = _mm512_cvtne2ps_pbh(sum[i][1], sum[i][0]);
      __m512i words;
      __builtin_memcpy(&words, &both, sizeof(words));
      _mm512_storeu_si512(out + i * kBlock, _mm512_permutexvar_epi64(order, words));
    }
  }

  // 32 channels as the two vectors of a line.
  static void storeInOrder(__m512 first, __m512 second, float* to) {
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    _mm512_store_ps(to, _mm512_permutex2var_ps(first, low, second));
    _mm512_store_ps(to + kBlock, _mm512_permutex2var_ps(first, _mm512_add_epi32(low, _mm512_set1_epi32(4)), second));
  }
  // Two rows of 16 channels lie together in a panel.
  void spread(const PlaneWeights& from) {
    const int64_t taps = s_.kernelHeight * s_.kernelWidth;
    for (int64_t pair = 0; pair * 2 < taps; ++pair) {
      const Rows a = rowsOf(from, 0, pair), b = rowsOf(from, 1, pair);
      for (int64_t row = pair * 2; row < std::min(taps, pair * 2 + 2); ++row) {
        storeInOrder(a.row[row % 2], b.row[row % 2], weights_ + row * kFloats);
      }
    }
  }
  struct Rows {
    __m512 row[2];
  };
  static Rows rowsOf(const PlaneWeights& from, int64_t part, int64_t pair) {
    const __m512i words =
        from.has(part) ? _mm512_loadu_si512(from.values(part) + pair * sizeof(CacheLine)) : _mm512_setzero_si512();
    const __m512i high = _mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
    return {{_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)), _mm512_castsi512_ps(high)}};
  }

  const ConvShape& s_;
  const Epilogue& e_;
  bool sharesColumns_, activates_;
  float *bias_, *weights_;
};

template <DType kType>
void depthwise(const ConvShape& s, const float* input, const PackedWeights& weights, const void* packed, float* output,
               const Epilogue& e, int threads) {
  constexpr int64_t kChannels = kVectorsOf<kType> * kBlock;
  const int64_t planes = channelBlocks(s.outChannels, kChannels), taps = s.kernelHeight * s.kernelWidth;
  const int64_t inPlane = s.inHeight * s.inWidth * kBlock, outPlane = s.outHeight() * s.outWidth() * kBlock;
  const double cost =
      static_cast<double>(s.batch * planes * s.outHeight() * s.outWidth()) * static_cast<double>(taps + 4) * 1e-3;
  overPlanes(s.batch, planes, s.outHeight(), cost, threads, [&](int64_t image, int64_t plane, Piece rows) {
    const int64_t at = image * planes + plane, first = plane * kChannels;
    std::conditional_t<kType == DType::BFloat16, BrainPlane, BytePlane> rowsOf(
        s, {weights, packed, plane * kVectorsOf<kType>}, e.bias ? e.bias + first : nullptr,
        std::min(kChannels, s.outChannels - first), e);
    rowsOf.run(input + at * inPlane, e.residual ? e.residual + at * outPlane : nullptr, output + at * outPlane, rows);
  });
}

// ---- pools ----

template <DType kType, class Combine, class Finish>
void poolRows(const PoolShape& s, const float* in, float* out, Piece rows, float start, const ElementType& type,
              Combine combine, Finish finish) {
  using L = Line<kType>;
  const __m512 zero = _mm512_set1_ps(type.zero);
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const int64_t top = y * s.strideHeight - s.padTop;
    const Piece ky = inside(top, s.kernelHeight, s.dilationHeight, s.inHeight);
    for (int64_t x = 0; x < s.outWidth; ++x) {
      const int64_t left = x * s.strideWidth - s.padLeft;
      const Piece kx = inside(left, s.kernelWidth, s.dilationWidth, s.inWidth);
      L result = L::all(start);
      for (int64_t j = ky.begin; j < ky.end; ++j)
        for (int64_t i = kx.begin; i < kx.end; ++i) {
          const L line =
              L::load(in + ((top + j * s.dilationHeight) * s.inWidth + left + i * s.dilationWidth) * kBlock, zero);
#pragma GCC unroll 4
          for (int v = 0; v < L::kVectors; ++v) result.v[v] = combine(result.v[v], line.v[v]);
        }
      finish(result, top, left, ky, kx);
      result.store(out + (y * s.outWidth + x) * kBlock, zero);
    }
  }
}

template <class Body>
void overPool(const PoolShape& s, const ElementType& type, const float* input, float* output, int threads,
              Body&& body) {
  const int64_t planes = channelBlocks(s.channels, type.channels());
  const double taps = static_cast<double>(s.kernelHeight * s.kernelWidth);
  const double cost = static_cast<double>(s.batch * planes * s.outHeight * s.outWidth) * taps * 1e-3;
  overPlanes(s.batch, planes, s.outHeight, cost, threads, [&](int64_t image, int64_t plane, Piece rows) {
    const int64_t at = image * planes + plane;
    body(input + at * s.inHeight * s.inWidth * kBlock, output + at * s.outHeight * s.outWidth * kBlock, rows);
  });
}

template <DType kType>
void maxRows(const PoolShape& s, const ElementType& type, const float* in, float* out, Piece rows) {
  poolRows<kType>(
      s, in, out, rows, -std::numeric_limits<float>::infinity(), type,
      [&](__m512 best, __m512 value) {
        const __mmask16 takes = _mm512_cmp_ps_mask(value, best, _CMP_NLE_UQ);
        return _mm512_mask_blend_ps(takes & ~_mm512_cmp_ps_mask(best, best, _CMP_UNORD_Q), best, value);
      },
      [](auto&, int64_t, int64_t, Piece, Piece) {});
}

// The larger byte stands for the larger number.
void maxRowsOfBytes(const PoolShape& s, const float* in, float* out, Piece rows) {
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const int64_t top = y * s.strideHeight - s.padTop;
    const Piece ky = inside(top, s.kernelHeight, s.dilationHeight, s.inHeight);
    for (int64_t x = 0; x < s.outWidth; ++x) {
      const int64_t left = x * s.strideWidth - s.padLeft;
      const Piece kx = inside(left, s.kernelWidth, s.dilationWidth, s.inWidth);
      __m512i best = _mm512_setzero_si512();
      for (int64_t j = ky.begin; j < ky.end; ++j) {
        const float* row = in + ((top + j * s.dilationHeight) * s.inWidth + left) * kBlock;
        for (int64_t i = kx.begin; i < kx.end; ++i)
          best = _mm512_max_epu8(best, _mm512_loadu_si512(row + i * s.dilationWidth * kBlock));
      }
      _mm512_storeu_si512(out + (y * s.outWidth + x) * kBlock, best);
    }
  }
}

template <DType kType>
void averageRows(const PoolShape& s, const ElementType& type, bool countPadding, int64_t divisor, const float* in,
                 float* out, Piece rows) {
  poolRows<kType>(
      s, in, out, rows, 0, type, [&](__m512 sum, __m512 value) { return _mm512_add_ps(sum, value); },
      [&](auto& result, int64_t top, int64_t left, Piece ky, Piece kx) {
        const int64_t tall = std::min(top + s.kernelHeight, s.inHeight + s.padBottom) - top;
        const int64_t wide = std::min(left + s.kernelWidth, s.inWidth + s.padRight) - left;
        const int64_t seen = (ky.end - ky.begin) * (kx.end - kx.begin);
        const int64_t count = divisor ? divisor : countPadding ? tall * wide : seen;
        const __m512 divided = _mm512_set1_ps(static_cast<float>(seen ? count : 1));
        for (__m512& v : result.v) v = _mm512_div_ps(v, divided);
      });
}

// Calls body(lines of a plane, its first channel among those of all images, how many it has).
template <DType kType, class Body>
void overChannels(int64_t batch, int64_t channels, int64_t area, double costOfLine, const float* lines, int threads,
                  Body&& body) {
  constexpr int64_t kFloats = Line<kType>::kFloats;
  const int64_t planes = channelBlocks(channels, kFloats);
  const double cost = static_cast<double>(batch * planes * area) * costOfLine;
  overPlanes(batch, planes, 1, cost, threads, [&](int64_t image, int64_t plane, Piece) {
    body(lines + (image * planes + plane) * area * kBlock, image * channels + plane * kFloats,
         std::min(kFloats, channels - plane * kFloats));
  });
}

template <DType kType>
void means(int64_t batch, int64_t channels, int64_t area, const ElementType& type, const float* input, float* output,
           int threads) {
  using L = Line<kType>;
  const float factor = (kType == DType::UInt8 ? type.scale : 1) / static_cast<float>(area);
  overChannels<kType>(batch, channels, area, 2e-3, input, threads, [&](const float* in, int64_t first, int64_t count) {
    const __m512 zero = _mm512_set1_ps(type.zero);
    L sum = L::all(0);
    for (int64_t i = 0; i < area; ++i) {
      const L line = L::load(in + i * kBlock, zero);
      for (int v = 0; v < L::kVectors; ++v) sum.v[v] = _mm512_add_ps(sum.v[v], line.v[v]);
    }
    alignas(64) float values[L::kFloats];
    sum.toFloats(values);
    for (int64_t c = 0; c < count; ++c) output[first + c] = values[placeInVectors(c, type)] * factor;
  });
}

// Sixteen pixels at a time, whose words become rows of pixels.
template <DType kType>
void openLines(int64_t batch, int64_t channels, int64_t area, const ElementType& type, const float* lines, float* plain,
               int threads) {
  constexpr int64_t kChannels = Line<kType>::kFloats, kTogether = kChannels / kBlock;
  const int64_t planes = channelBlocks(channels, kChannels), runs = (area + kBlock - 1) / kBlock;
  const __m512 zero = _mm512_set1_ps(type.zero), scale = _mm512_set1_ps(type.scale);
  auto floats = [&](__m512i words, int64_t which) {
    if constexpr (kType == DType::BFloat16) return Line<kType>::half(words, which);
    return _mm512_mul_ps(_mm512_sub_ps(Line<kType>::quarter(words, which), zero), scale);
  };
  const double cost = static_cast<double>(batch * planes * area) * 4e-3;
  overPlanes(batch, planes, runs, cost, threads, [&](int64_t image, int64_t plane, Piece range) {
    const float* in = lines + (image * planes + plane) * area * kBlock;
    float* out = plain + (image * channels + plane * kChannels) * area;
    const int64_t count = std::min(kChannels, channels - plane * kChannels);
    for (int64_t at = range.begin * kBlock; at < std::min(area, range.end * kBlock); at += kBlock) {
      const int64_t pixels = std::min<int64_t>(kBlock, area - at);
      const auto there = static_cast<__mmask16>((1u << pixels) - 1);
      CacheLine words[kBlock];
      columnsToStep(reinterpret_cast<const CacheLine*>(in + at * kBlock), 1, pixels, words);
      for (int64_t c = 0; c < count; ++c)
        _mm512_mask_storeu_ps(out + c * area + at, there,
                              floats(_mm512_load_si512(words + c / kTogether), c % kTogether));
    }
  });
}

}  // namespace

void openPart(const float* lines, int64_t part, int64_t pixels, const ElementType& type, float* to) {
  if (type.dtype == DType::BFloat16) {
    const auto* from = reinterpret_cast<const __m256i*>(lines) + part;
    for (int64_t i = 0; i < pixels; ++i)
      _mm512_storeu_ps(to + i * kBlock, _mm512_castsi512_ps(_mm512_slli_epi32(
                                            _mm512_cvtepu16_epi32(_mm256_loadu_si256(from + 2 * i)), 16)));
    return;
  }
  const auto* from = reinterpret_cast<const __m128i*>(lines) + part;
  const __m512 scale = _mm512_set1_ps(type.scale), zero = _mm512_set1_ps(type.zero);
  for (int64_t i = 0; i < pixels; ++i) {
    const __m512 byte = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from + 4 * i)));
    _mm512_storeu_ps(to + i * kBlock, _mm512_mul_ps(_mm512_sub_ps(byte, zero), scale));
  }
}

void closePart(const float* from, int64_t pixels, const ElementType& type, float* lines, int64_t part) {
  if (type.dtype == DType::BFloat16) {
    auto* to = reinterpret_cast<__m256i*>(lines) + part;
    for (int64_t i = 0; i < pixels; ++i) {
      const __m256bh brains = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + i * kBlock));
      __builtin_memcpy(to + 2 * i, &brains, sizeof(brains));
    }
    return;
  }
  auto* to = reinterpret_cast<__m128i*>(lines) + part;
  const __m512 inverse = _mm512_set1_ps(1 / type.scale), zero = _mm512_set1_ps(type.zero);
  for (int64_t i = 0; i < pixels; ++i) {
    // The number comes first, so that a NaN is none.
    const __m512 byte =
        _mm512_max_ps(_mm512_fmadd_ps(_mm512_loadu_ps(from + i * kBlock), inverse, zero), _mm512_setzero_ps());
    _mm_storeu_si128(to + 4 * i, _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(_mm512_min_ps(byte, _mm512_set1_ps(255)))));
  }
}

void depthwiseOfLines(const ConvShape& s, const float* input, const PackedWeights& weights, const void* packed,
                      float* output, const Epilogue& epilogue, int threads) {
  (s.input.dtype == DType::BFloat16 ? depthwise<DType::BFloat16> : depthwise<DType::UInt8>)(s, input, weights, packed,
                                                                                            output, epilogue, threads);
}

void maxPoolOfLines(const PoolShape& s, const ElementType& type, const float* input, float* output, int threads) {
  overPool(s, type, input, output, threads, [&](const float* in, float* out, Piece rows) {
    type.dtype == DType::BFloat16 ? maxRows<DType::BFloat16>(s, type, in, out, rows) : maxRowsOfBytes(s, in, out, rows);
  });
}

void averagePoolOfLines(const PoolShape& s, const ElementType& type, bool countPadding, int64_t divisor,
                        const float* input, float* output, int threads) {
  const auto rowsOf = type.dtype == DType::BFloat16 ? averageRows<DType::BFloat16> : averageRows<DType::UInt8>;
  overPool(s, type, input, output, threads,
           [&](const float* in, float* out, Piece rows) { rowsOf(s, type, countPadding, divisor, in, out, rows); });
}

void globalAveragePoolOfLines(int64_t batch, int64_t channels, int64_t area, const ElementType& type,
                              const float* input, float* output, int threads) {
  (type.dtype == DType::BFloat16 ? means<DType::BFloat16> : means<DType::UInt8>)(batch, channels, area, type, input,
                                                                                 output, threads);
}

void fromLines(int64_t batch, int64_t channels, int64_t area, const ElementType& type, const float* lines, float* plain,
               int threads) {
  (type.dtype == DType::BFloat16 ? openLines<DType::BFloat16> : openLines<DType::UInt8>)(batch, channels, area, type,
                                                                                         lines, plain, threads);
}

}  // namespace tscompile

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#pragma GCC diagnostic pop

#else

namespace tscompile {

void depthwiseOfLines(const ConvShape&, const float*, const PackedWeights&, const void*, float*, const Epilogue&, int) {
}
void maxPoolOfLines(const PoolShape&, const ElementType&, const float*, float*, int) {}
void averagePoolOfLines(const PoolShape&, const ElementType&, bool, int64_t, const float*, float*, int) {}
void globalAveragePoolOfLines(int64_t, int64_t, int64_t, const ElementType&, const float*, float*, int) {}
void openPart(const float*, int64_t, int64_t, const ElementType&, float*) {}
void closePart(const float*, int64_t, const ElementType&, float*, int64_t) {}
void fromLines(int64_t, int64_t, int64_t, const ElementType&, const float*, float*, int) {}

}  // namespace tscompile

#endif

namespace tscompile {

int64_t placeInVectors(int64_t channel, const ElementType& type) {
  const int64_t vectors = type.channels() / kBlock;
  return channel % vectors * kBlock + channel / vectors;
}

}  // namespace tscompile
