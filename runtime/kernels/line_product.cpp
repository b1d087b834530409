#include "runtime/kernels/line_product.h"

#include "ir/support/check.h"
#include "runtime/kernels/simd.h"

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <iterator>
#include <limits>

#if defined(__x86_64__)

#include "runtime/kernels/epilogue.h"

#include <immintrin.h>
#include <utility>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifdef __clang__
#pragma clang attribute push(                                                                                       \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-int8,amx-bf16"))), \
    apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-int8,amx-bf16,fma")
#endif

#include "runtime/kernels/plain_end-inl.h"

namespace tscompile {
namespace {

constexpr int kMatrixRows = 16;  // of a matrix tile
constexpr int kVectorRows = 14;  // 28 sums, 2 of B, 1 of A: 31 of 32 registers
constexpr int kPanels = 2;       // at a time
constexpr int64_t kBlockBytes = static_cast<int64_t>(sizeof(CacheLine)) * kBlock;  // of B, a step of a panel
constexpr int kSums = kMatrixRows * kBlock;

// The sums of a tile and panel, rows one after the other: floats, or integers of bytes.
struct alignas(64) Sums {
  float values[kSums];
};

// ---- lines ----

__m512i brainLine(__m512 low, __m512 high) {
  __m512bh both = _mm512_cvtne2ps_pbh(high, low);
  __m512i line;
  __builtin_memcpy(&line, &both, sizeof(line));
  return line;
}
// How floats become bytes.
struct ByteScale {
  __m512 factor, raise;
  explicit ByteScale(const LineType& type) : factor(_mm512_set1_ps(type.factor)), raise(_mm512_set1_ps(-type.least)) {}
  __m128i operator()(__m512 v) const {
    return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_fmadd_ps(v, factor, raise)));
  }
};

// `count` elements whose sixteens begin `apart` floats apart.
template <bool kBytes>
void makeLine(const float* from, int64_t apart, int64_t count, const ByteScale& bytes, CacheLine* to) {
  auto part = [&](int64_t i) { return _mm512_maskz_loadu_ps(lanesOf(count - i * kBlock), from + i * apart); };
  if (!kBytes) {
    _mm512_storeu_si512(to, brainLine(part(0), count > kBlock ? part(1) : _mm512_setzero_ps()));
    return;
  }
  auto* parts = reinterpret_cast<__m128i*>(to);
  for (int64_t i = 0; i < 4; ++i)
    _mm_storeu_si128(parts + i, i * kBlock < count ? bytes(part(i)) : _mm_setzero_si128());
}

template <bool kBytes>
void makeLines(const float* from, int64_t count, const LineType& type, CacheLine* to, int64_t distance) {
  constexpr int64_t kDepth = kBytes ? 64 : 32;
  const ByteScale bytes(type);
  do {
    makeLine<kBytes>(from, kBlock, std::min(count, kDepth), bytes, to);
    count -= kDepth, from += kDepth, to += distance;
  } while (count > 0);
}

template <bool kBytes>
void makePixels(const float* from, int64_t pixels, int64_t pixelStride, int64_t channels, int64_t blockStride,
                const LineType& type, CacheLine* to) {
  const ByteScale bytes(type);
  if (!kBytes && channels == 2 * kBlock) {
    for (int64_t x = 0; x < pixels; ++x, from += pixelStride, ++to)
      _mm512_storeu_si512(to, brainLine(_mm512_loadu_ps(from), _mm512_loadu_ps(from + blockStride)));
    return;
  }
  for (int64_t x = 0; x < pixels; ++x, from += pixelStride, ++to)
    makeLine<kBytes>(from, blockStride, channels, bytes, to);
}

// Sixteen rows of sixteen words: rows of four words from one row become columns, then of eight, then of sixteen.
void transposeWords(__m512i (&rows)[kBlock]) {
  __m512i pairs[kBlock];
#pragma GCC unroll 8
  for (int i = 0; i < kBlock; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kBlock; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i low = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0x88),
                  high = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0xdd);
    const __m512i behind = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0x88),
                  above = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0xdd);
    pairs[i] = _mm512_shuffle_i32x4(low, behind, 0x88);
    pairs[i + 8] = _mm512_shuffle_i32x4(low, behind, 0xdd);
    pairs[i + 4] = _mm512_shuffle_i32x4(high, above, 0x88);
    pairs[i + 12] = _mm512_shuffle_i32x4(high, above, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kBlock; ++i) rows[i] = pairs[i];
}

// ---- dot products of vectors ----

// Some of a product's steps; the first ones begin the sums.
struct StepSpan {
  int64_t begin, end;
};

// Of a word of each row and what it meets of panels that are `distance` bytes apart.
template <bool kBytes, int kRows, int kCount>
[[gnu::always_inline]] inline void addWord(const char* a, int64_t stride, const char* row, int64_t distance,
                                           __m512i (&sum)[kRows][kCount]) {
  __m512i weights[kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) weights[i] = _mm512_loadu_si512(row + i * distance);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    int32_t word;
    __builtin_memcpy(&word, a + r * stride, sizeof(word));
    const __m512i all = _mm512_set1_epi32(word);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kBytes)
        sum[r][i] = _mm512_dpbusd_epi32(sum[r][i], all, weights[i]);
      else
        sum[r][i] = _mm512_castps_si512(_mm512_dpbf16_ps(
            _mm512_castsi512_ps(sum[r][i]), reinterpret_cast<__m512bh>(all), reinterpret_cast<__m512bh>(weights[i])));
    }
  }
}

// Some tiles of kRows rows, and panels that are `distance` bytes apart. The last steps go to the panels' ends, if there
// are any, and all others to `sums`, kPanels a tile.
template <bool kBytes, int kRows, int kCount>
void multiplyVectors(const Product& p, const RowTile* tiles, int64_t tileCount, const char* panels, int64_t distance,
                     StepSpan steps, Sums* sums, const PlainEnd<kBytes>* ends) {
  constexpr int64_t kTogether = kBytes ? 4 : 2;          // rows of B in a word
  constexpr int kUnroll = kRows == kVectorRows ? 4 : 1;  // words; the fewer jumps, the fewer are foreseen wrongly
  const int64_t words = (p.depth + kTogether - 1) / kTogether, tailWords = (p.tailDepth + kTogether - 1) / kTogether;
  const int64_t full = p.stepCount - p.tailSteps, stride = p.rowStride * static_cast<int64_t>(sizeof(CacheLine));
  const bool isLast = ends && steps.end == p.stepCount;
  for (const RowTile* tile = tiles; tile < tiles + tileCount; ++tile, sums += kPanels) {
    __m512i sum[kRows][kCount];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i)
        sum[r][i] = steps.begin != 0  ? _mm512_load_si512(sums[i].values + r * kBlock)
                    : ends && !kBytes ? _mm512_castps_si512(ends[i].start)
                                      : _mm512_setzero_si512();
    const char* b = panels + steps.begin * kBlockBytes;
    for (int64_t step = steps.begin; step < steps.end; ++step, b += kBlockBytes) {
      const auto* a = reinterpret_cast<const char*>(p.lines + tile->a + p.steps[step]);
      const char* row = b;
      int64_t left = step < full ? words : tailWords;
      for (; left >= kUnroll; left -= kUnroll, a += kUnroll * 4, row += kUnroll * sizeof(CacheLine))
#pragma GCC unroll 4
        for (int w = 0; w < kUnroll; ++w)
          addWord<kBytes>(a + w * 4, stride, row + w * sizeof(CacheLine), distance, sum);
      if constexpr (kUnroll > 1)
        for (; left > 0; --left, a += 4, row += sizeof(CacheLine)) addWord<kBytes>(a, stride, row, distance, sum);
    }
    if (isLast) {
      const int64_t row = tile->c / PlainEnd<kBytes>::kFloats;
      if (ends->residual)
        PlainEnd<kBytes>::template finishAll<true>(ends, row, sum);
      else
        PlainEnd<kBytes>::template finishAll<false>(ends, row, sum);
      continue;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i) _mm512_store_si512(sums[i].values + r * kBlock, sum[r][i]);
  }
}

template <bool kBytes>
using VectorFunction = void (*)(const Product&, const RowTile*, int64_t, const char*, int64_t, StepSpan, Sums*,
                                const PlainEnd<kBytes>*);

template <bool kBytes, int kCount, int... kRow>
VectorFunction<kBytes> vectorsOf(int rows, std::integer_sequence<int, kRow...>) {
  static constexpr VectorFunction<kBytes> kTable[] = {multiplyVectors<kBytes, kRow + 1, kCount>...};
  return kTable[rows - 1];
}

// ---- products of matrix tiles ----

struct TileConfiguration {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Matrix tiles belong to the thread that has configured them.
class MatrixTiles {
 public:
  MatrixTiles() {
    alignas(64) static constexpr TileConfiguration kAllWhole;
    _tile_loadconfig(&kAllWhole);
  }
  ~MatrixTiles() { _tile_release(); }
  MatrixTiles(const MatrixTiles&) = delete;
};

// What stands in place of tile numbers has to be digits.
#define TS_MULTIPLY(sums, rows, columns)   \
  do {                                     \
    if constexpr (kBytes)                  \
      _tile_dpbusd(sums, rows, columns);   \
    else                                   \
      _tile_dpbf16ps(sums, rows, columns); \
  } while (false)

// What of B is needed next, and fetched on the way: so many lines a step.
struct Ahead {
  const char* next;
  int64_t left, lines;  // in all, and of a step

  void fetch() {
    const int64_t count = std::min(left, lines);
    for (int64_t i = 0; i < count; ++i, next += sizeof(CacheLine)) _mm_prefetch(next, _MM_HINT_T1);
    left -= count;
  }
};

// Steps of a product that are done together, and whether sums go on.
struct Steps {
  const CacheLine* lines;
  int64_t stride;  // bytes between rows
  const int64_t* at;
  int64_t count;
  bool first;
};

// kTiles tiles of rows times kCount panels; sums lie tile by tile.
template <bool kBytes, int kTiles, int kCount>
void multiplyMatrices(const Steps& steps, const RowTile* tiles, const char* b, int64_t distance, Ahead& ahead,
                      Sums* sums) {
  constexpr auto kStride = static_cast<int64_t>(sizeof(CacheLine));
  const CacheLine *first = steps.lines + tiles[0].a, *second = kTiles > 1 ? steps.lines + tiles[1].a : nullptr;
  const int64_t stride = steps.stride;
  asm volatile("" ::: "memory");  // loads of tiles are not seen as such
  if (steps.first) {
    _tile_zero(0);
    if constexpr (kCount > 1) _tile_zero(1);
    if constexpr (kTiles > 1) _tile_zero(2);
    if constexpr (kTiles > 1 && kCount > 1) _tile_zero(3);
  } else {
    _tile_loadd(0, sums[0].values, kStride);
    if constexpr (kCount > 1) _tile_loadd(1, sums[1].values, kStride);
    if constexpr (kTiles > 1) _tile_loadd(2, sums[kCount].values, kStride);
    if constexpr (kTiles > 1 && kCount > 1) _tile_loadd(3, sums[3].values, kStride);
  }
  for (int64_t step = 0; step < steps.count; ++step, b += kBlockBytes) {
    const int64_t at = steps.at[step];
    ahead.fetch();
    _tile_loadd(4, first + at, stride);
    _tile_loadd(6, b, kStride);
    TS_MULTIPLY(0, 4, 6);
    if constexpr (kCount > 1) {
      _tile_loadd(7, b + distance, kStride);
      TS_MULTIPLY(1, 4, 7);
    }
    if constexpr (kTiles > 1) {
      _tile_loadd(5, second + at, stride);
      TS_MULTIPLY(2, 5, 6);
      if constexpr (kCount > 1) TS_MULTIPLY(3, 5, 7);
    }
  }
  _tile_stored(0, sums[0].values, kStride);
  if constexpr (kCount > 1) _tile_stored(1, sums[1].values, kStride);
  if constexpr (kTiles > 1) _tile_stored(2, sums[kCount].values, kStride);
  if constexpr (kTiles > 1 && kCount > 1) _tile_stored(3, sums[3].values, kStride);
}

// ---- what becomes of sums ----

// The floats that sums stand for.
struct FloatSums {
  explicit FloatSums(const Product&, const RowTile&, int64_t) {}
  __m512 operator()(const float* sums, int, __m512 bias) const { return _mm512_add_ps(_mm512_load_ps(sums), bias); }
};
// Of rows that are bytes, raised by the one that stands for 0; each row and column with a scale of its own.
struct ScaledSums {
  ScaledSums(const Product& p, const RowTile& tile, int64_t panel)
      : raised(_mm512_mullo_epi32(_mm512_loadu_si512(p.sums + panel * kBlock), _mm512_set1_epi32(p.inputZero))),
        scales(_mm512_loadu_ps(p.scales + panel * kBlock)),
        rows(p.rowScales ? p.rowScales + tile.c / p.cRow : nullptr),
        all(p.inputScale) {}
  __m512 operator()(const float* sums, int r, __m512 bias) const {
    const __m512 sum = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_load_si512(sums), raised));
    return _mm512_fmadd_ps(_mm512_mul_ps(sum, _mm512_set1_ps(rows ? rows[r] : all)), scales, bias);
  }
  __m512i raised;
  __m512 scales;
  const float* rows;
  float all;
};

// The sixteen columns of a panel in blocked rows: all of a block, or a part of a line.
class Columns {
 public:
  Columns(const Product& p, const RowTile& tile, int64_t panel, const float* first, const ElementType& type)
      : part_(panel % (type.channels() / kBlock)),
        row_(p.cRow),
        at_(first + tile.c + panel / (type.channels() / kBlock) * p.cPanel),
        scale_(_mm512_set1_ps(type.dtype == DType::UInt8 ? type.scale : 1)),
        inverse_(_mm512_set1_ps(type.dtype == DType::UInt8 ? 1 / type.scale : 1)),
        zero_(_mm512_set1_ps(type.zero)) {}

  template <DType kType>
  __m512 load(int r, __mmask16 mask) const {
    const float* row = at_ + r * row_;
    if constexpr (kType == DType::Float32) {
      return _mm512_maskz_loadu_ps(mask, row);
    } else if constexpr (kType == DType::BFloat16) {
      const __m256i brains = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row) + part_);
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(brains), 16));
    } else {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row) + part_);
      return _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), zero_), scale_);
    }
  }

  // Of lines, lanes that are not in the mask become zeros.
  template <DType kType>
  void store(int r, __mmask16 mask, __m512 v) const {
    auto* row = const_cast<float*>(at_) + r * row_;
    if constexpr (kType == DType::Float32) {
      _mm512_mask_storeu_ps(row, mask, v);
    } else if constexpr (kType == DType::BFloat16) {
      const __m256bh brains = _mm512_maskz_cvtneps_pbh(mask, v);
      __builtin_memcpy(reinterpret_cast<__m256i*>(row) + part_, &brains, sizeof(brains));
    } else {
      // The number comes first, so that a NaN is none.
      const __m512 byte = _mm512_max_ps(_mm512_fmadd_ps(v, inverse_, zero_), _mm512_setzero_ps());
      _mm_storeu_si128(
          reinterpret_cast<__m128i*>(row) + part_,
          _mm512_maskz_cvtusepi32_epi8(mask, _mm512_cvtps_epi32(_mm512_min_ps(byte, _mm512_set1_ps(255)))));
    }
  }

  // The rest of a line whose last panel this is, which nobody else writes.
  void fillLines(int rows) const {
    const __mmask16 behind = static_cast<__mmask16>(0xffff << (part_ + 1) * kPartsOfBrains);
    for (int r = 0; r < rows; ++r)
      _mm512_mask_storeu_epi32(const_cast<float*>(at_) + r * row_, behind, _mm512_setzero_si512());
  }

 private:
  static constexpr int kPartsOfBrains = 8;  // words of a panel
  int64_t part_, row_;
  const float* at_;
  __m512 scale_, inverse_, zero_;
};

// `tile`'s sums, all that the epilogue does but for activations that are no clamp, to results of a kind.
template <class Value, DType kType>
void finishFloats(const Product& p, const RowTile& tile, int64_t panel, float* sums) {
  const Epilogue& e = p.epilogue;
  const Value value(p, tile, panel);
  const int64_t column = panel * kBlock;
  const bool whole = p.paddedColumns && kType == DType::Float32;
  const int64_t lanes = whole ? kBlock : std::min<int64_t>(kBlock, p.columns - column);
  const __mmask16 mask = lanesOf(lanes);
  const Columns results(p, tile, panel, p.c, e.resultType), residual(p, tile, panel, e.residual, e.residualType);
  const __m512 bias = e.bias ? _mm512_maskz_loadu_ps(mask, e.bias + column) : _mm512_setzero_ps();
  const bool clamps = isClamp(e.activation), activates = e.activation != Activation::None && !clamps;
  const __m512 low = _mm512_set1_ps(clampLow(e)), high = _mm512_set1_ps(clampHigh(e));
  for (int r = 0; r < tile.rows; ++r) {
    __m512 v = value(sums + r * kBlock, r, bias);
    if (e.residual) {
      const DType added = e.residualType.dtype;
      v = _mm512_add_ps(v, added == DType::Float32    ? residual.load<DType::Float32>(r, mask)
                           : added == DType::BFloat16 ? residual.load<DType::BFloat16>(r, mask)
                                                      : residual.load<DType::UInt8>(r, mask));
    }
    // The number comes second, so that a NaN stays one.
    if (clamps) v = _mm512_min_ps(high, _mm512_max_ps(low, v));
    if (kType != DType::Float32 && activates)
      _mm512_store_ps(sums + r * kBlock, v);
    else
      results.store<kType>(r, mask, v);
  }
  if constexpr (kType == DType::Float32) {
    if (e.factors || activates) finishRows(p, p.c + tile.c + panel * p.cPanel, tile.rows, panel, lanes);
  } else {
    if (activates) {
      Product inPlace = p;
      inPlace.cRow = kBlock;
      finishRows(inPlace, sums, tile.rows, panel, lanes);
      for (int r = 0; r < tile.rows; ++r) results.store<kType>(r, mask, _mm512_load_ps(sums + r * kBlock));
    }
    if (kType == DType::BFloat16 && column + kBlock >= p.columns) results.fillLines(tile.rows);
  }
}

template <class Value>
void finishRounded(const Product& p, const RowTile& tile, int64_t panel, float* sums) {
  switch (p.epilogue.resultType.dtype) {
    case DType::Float32:
      return finishFloats<Value, DType::Float32>(p, tile, panel, sums);
    case DType::BFloat16:
      return finishFloats<Value, DType::BFloat16>(p, tile, panel, sums);
    case DType::UInt8:
      return finishFloats<Value, DType::UInt8>(p, tile, panel, sums);
    default:
      TS_UNREACHABLE();
  }
}

void finishIntegers(const Product& p, const RowTile& tile, int64_t panel, const float* sums) {
  const Epilogue& e = p.epilogue;
  const int64_t column = panel * kBlock;
  const __mmask16 mask = p.paddedColumns ? 0xffff : lanesOf(p.columns - column);
  const __m512i start = e.integerBias ? _mm512_loadu_si512(e.integerBias + column) : _mm512_setzero_si512();
  const __m512 factors = e.factors ? _mm512_loadu_ps(e.factors + column) : _mm512_setzero_ps();
  const __m512 least = _mm512_set1_ps(e.alpha), most = _mm512_set1_ps(e.beta);
  float* c = p.c + tile.c + panel * p.cPanel;
  for (int r = 0; r < tile.rows; ++r) {
    __m512 v = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_load_si512(sums + r * kBlock), start));
    if (e.factors) {
      const __m512 x = _mm512_mul_ps(v, factors);
      v = _mm512_min_ps(_mm512_max_ps(_mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), least),
                        most);
      v = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(0x1p63f), _CMP_LT_OQ), least, v);
    }
    _mm512_mask_storeu_ps(c + r * p.cRow, mask, v);
  }
}

template <bool kBytes, bool kAdds>
void finishPlainly(const Product& p, const RowTile& tile, int64_t panel, const float* sums) {
  const PlainEnd<kBytes> end = PlainEnd<kBytes>::of(p, panel);
  int64_t row = tile.c / PlainEnd<kBytes>::kFloats;
  for (int r = 0; r < tile.rows; ++r, row += end.stride)
    if constexpr (kBytes)
      end.template finish<kAdds>(row, _mm512_load_si512(sums + r * kBlock));
    else
      end.template finish<kAdds>(row, _mm512_castps_si512(_mm512_add_ps(_mm512_load_ps(sums + r * kBlock), end.start)));
}

template <bool kBytes>
void finish(const Product& p, const RowTile& tile, int64_t panel, float* sums) {
  if (PlainEnd<kBytes>::takes(p))
    (p.epilogue.residual ? finishPlainly<kBytes, true> : finishPlainly<kBytes, false>)(p, tile, panel, sums);
  else if constexpr (!kBytes)
    finishRounded<FloatSums>(p, tile, panel, sums);
  else if (p.storage == WeightStorage::Bytes)
    finishIntegers(p, tile, panel, sums);
  else
    finishRounded<ScaledSums>(p, tile, panel, sums);
}

// A chunk of the steps of two panels stays in the first level of cache while some tiles are multiplied by it.
template <bool kBytes>
void byMatrices(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel, int64_t endPanel,
                const Following& following) {
  constexpr int64_t kChunk = 8, kGroup = 8;  // steps, tiles
  const int64_t distance = p.stepCount * kBlockBytes;
  const MatrixTiles configured;
  Sums sums[kGroup * kPanels];
  for (int64_t panel = firstPanel; panel < endPanel; panel += kPanels) {
    const char* b = static_cast<const char*>(p.b) + panel * distance;
    const int panels = static_cast<int>(std::min<int64_t>(kPanels, endPanel - panel));
    const Following next = panel + kPanels < endPanel ? Following{panel + kPanels} : following;
    Ahead ahead{};
    if (next.panel != kNoPanel) {
      const Piece share = pieceOf(kPanels * p.stepCount * kBlock, next.pieces, next.piece);
      ahead.next =
          static_cast<const char*>(p.b) + next.panel * distance + share.begin * static_cast<int64_t>(sizeof(CacheLine));
      ahead.left = share.end - share.begin;
      ahead.lines = ahead.left / ((tileCount + 1) / 2 * p.stepCount) + 1;  // tiles go in twos
    }
    for (int64_t group = 0; group < tileCount; group += kGroup) {
      const RowTile* some = tiles + group;
      const int64_t count = std::min(kGroup, tileCount - group);
      for (int64_t step = 0; step < p.stepCount; step += kChunk) {
        const Steps steps{p.lines, p.rowStride * static_cast<int64_t>(sizeof(CacheLine)), p.steps + step,
                          std::min(kChunk, p.stepCount - step), step == 0};
        for (int64_t i = 0; i < count; i += 2) {
          const bool two = i + 1 < count;
          const auto multiply = panels == 2 ? (two ? multiplyMatrices<kBytes, 2, 2> : multiplyMatrices<kBytes, 1, 2>)
                                            : (two ? multiplyMatrices<kBytes, 2, 1> : multiplyMatrices<kBytes, 1, 1>);
          multiply(steps, some + i, b + step * kBlockBytes, distance, ahead, sums + i * panels);
        }
      }
      for (int64_t i = 0; i < count; ++i)
        for (int j = 0; j < panels; ++j)
          forEachRun(some[i], p.cRow, [&](const RowTile& part, int row) {
            finish<kBytes>(p, part, panel + j, sums[i * panels + j].values + row * kBlock);
          });
    }
  }
}

// Tiles from the first on that have as many rows.
int64_t alikeTiles(const RowTile* tiles, int64_t count) {
  int64_t alike = 1;
  while (alike < count && tiles[alike].rows == tiles[0].rows) ++alike;
  return alike;
}

template <bool kBytes>
void byVectors(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel, int64_t endPanel,
               const Following&) {
  constexpr auto kRows = std::make_integer_sequence<int, kVectorRows>();
  constexpr int64_t kChunk = 12, kGroup = 8;  // steps, tiles
  const int64_t distance = p.stepCount * kBlockBytes;
  const bool isPlain = PlainEnd<kBytes>::takes(p);
  // Few steps stay in the first level of cache all of them; of more, a chunk.
  const bool chunks = p.stepCount > 2 * kChunk && tileCount > 1;
  const int64_t chunk = chunks ? kChunk : p.stepCount, group = chunks ? kGroup : isPlain ? tileCount : 1;
  Sums sums[kGroup * kPanels];
  for (int64_t panel = firstPanel, panels; panel < endPanel; panel += panels) {
    const char* b = static_cast<const char*>(p.b) + panel * distance;
    panels = std::min<int64_t>(kPanels - panel % kPanels, endPanel - panel);  // of one line
    PlainEnd<kBytes> ends[kPanels];
    for (int j = 0; isPlain && j < panels; ++j) ends[j] = PlainEnd<kBytes>::of(p, panel + j);
    for (int64_t first = 0; first < tileCount; first += group) {
      const RowTile* some = tiles + first;
      const int64_t count = std::min(group, tileCount - first);
      for (int64_t step = 0; step < p.stepCount; step += chunk)
        for (int64_t i = 0, alike; i < count; i += alike) {
          alike = alikeTiles(some + i, count - i);
          const auto multiply =
              panels == 2 ? vectorsOf<kBytes, 2>(some[i].rows, kRows) : vectorsOf<kBytes, 1>(some[i].rows, kRows);
          // Tiles that have ends at once leave no sums.
          multiply(p, some + i, alike, b, distance, {step, std::min(step + chunk, p.stepCount)},
                   sums + (chunks ? i * kPanels : 0), isPlain ? ends : nullptr);
        }
      for (int64_t i = 0; !isPlain && i < count; ++i)
        for (int j = 0; j < panels; ++j) finish<kBytes>(p, some[i], panel + j, sums[i * kPanels + j].values);
    }
  }
}

#undef TS_MULTIPLY

}  // namespace

float largestOf(const float* from, int64_t rows, int64_t count, int64_t distance) {
  __m512 largest = _mm512_setzero_ps();
  unsigned odd = 0;
  for (int64_t r = 0; r < rows; ++r, from += distance)
    for (int64_t i = 0; i < count; i += kBlock) {
      const __m512 v = _mm512_abs_ps(_mm512_maskz_loadu_ps(lanesOf(count - i), from + i));
      odd |= _mm512_cmp_ps_mask(v, _mm512_set1_ps(FLT_MAX), _CMP_NLE_UQ);
      largest = _mm512_max_ps(largest, v);
    }
  return odd ? NAN : _mm512_reduce_max_ps(largest);
}

void toLines(const float* from, int64_t count, const LineType& type, CacheLine* to, int64_t distance) {
  const auto make = type.storage == WeightStorage::BF16 ? makeLines<false> : makeLines<true>;
  make(from, count, type, to, distance);
}

void pixelsToLines(const float* from, int64_t pixels, int64_t pixelStride, int64_t channels, int64_t blockStride,
                   const LineType& type, CacheLine* to) {
  const auto make = type.storage == WeightStorage::BF16 ? makePixels<false> : makePixels<true>;
  make(from, pixels, pixelStride, channels, blockStride, type, to);
}

void columnsToStep(const CacheLine* columns, int64_t distance, int64_t count, CacheLine* to) {
  __m512i rows[kBlock];
  for (int64_t i = 0; i < kBlock; ++i)
    rows[i] = i < count ? _mm512_loadu_si512(columns + i * distance) : _mm512_setzero_si512();
  transposeWords(rows);
  for (int64_t i = 0; i < kBlock; ++i) _mm512_storeu_si512(to + i, rows[i]);
}

void rowsToStep(const float* rows, int64_t distance, int64_t count, int64_t columns, CacheLine* to) {
  alignas(64) static constexpr uint16_t kTurns[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __mmask16 mask = lanesOf(columns);
  auto row = [&](int64_t i) {
    return i < count ? _mm512_maskz_loadu_ps(mask, rows + i * distance) : _mm512_setzero_ps();
  };
  for (int64_t i = 0; i < kBlock; ++i)
    _mm512_storeu_si512(to + i,
                        _mm512_permutexvar_epi16(_mm512_load_si512(kTurns), brainLine(row(2 * i), row(2 * i + 1))));
}

void runLineTiles(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel, int64_t endPanel,
                  const Following& following) {
  const bool bytes = p.storage != WeightStorage::BF16;
  const auto run =
      takesWholeTiles() ? (bytes ? byMatrices<true> : byMatrices<false>) : (bytes ? byVectors<true> : byVectors<false>);
  run(p, tiles, tileCount, firstPanel, endPanel, following);
}

}  // namespace tscompile

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#pragma GCC diagnostic pop

namespace tscompile {

namespace {
std::atomic<bool> takesSlowProducts{false};
}
void takeSlowLineProducts() { takesSlowProducts = true; }

bool hasLineProducts(WeightStorage storage) {
  static const bool brains = __builtin_cpu_supports("avx512bf16"), bytes = __builtin_cpu_supports("avx512vnni");
  // Intel's begin a vector of bf16 every two cycles, and two of f32 in each.
  static const bool isSlow = __builtin_cpu_is("intel");
  const SimdLevel level = simdLevel();
  if (level < SimdLevel::Avx512) return false;
  if (storage != WeightStorage::BF16) return bytes;
  return brains && (level == SimdLevel::Amx || !isSlow || takesSlowProducts);
}
double lineSpeed(WeightStorage storage) {
  return storage == WeightStorage::BF16 && simdLevel() != SimdLevel::Amx ? 1.5 : 4;
}
int maxLineRows() { return takesWholeTiles() ? 16 : 14; }
bool takesWholeTiles() { return simdLevel() == SimdLevel::Amx; }

}  // namespace tscompile

#else

namespace tscompile {

void takeSlowLineProducts() {}
bool hasLineProducts(WeightStorage) { return false; }
double lineSpeed(WeightStorage) { return 1; }
int maxLineRows() { return 1; }
bool takesWholeTiles() { return false; }
float largestOf(const float*, int64_t, int64_t, int64_t) { return 0; }
void toLines(const float*, int64_t, const LineType&, CacheLine*, int64_t) {}
void columnsToStep(const CacheLine*, int64_t, int64_t, CacheLine*) {}
void rowsToStep(const float*, int64_t, int64_t, int64_t, CacheLine*) {}
void pixelsToLines(const float*, int64_t, int64_t, int64_t, int64_t, const LineType&, CacheLine*) {}
void runLineTiles(const Product&, const RowTile*, int64_t, int64_t, int64_t, int64_t) {}

}  // namespace tscompile

#endif

namespace tscompile {

LineType LineType::ofLargest(float largest) {
  constexpr float kMost = 127, kTiny = 1e-30f;
  return {WeightStorage::I8, -128, largest > kTiny ? kMost / largest : std::isnan(largest) ? NAN : 0};
}
LineType LineType::of(const ElementType& type) {
  if (type.dtype == DType::BFloat16) return {WeightStorage::BF16};
  return {WeightStorage::I8, -type.zero, 1 / type.scale};
}
float LineType::scale() const { return factor == 0 ? 0 : 1 / factor; }

CacheLine LineType::zeros() const {
  CacheLine line{};
  if (storage != WeightStorage::BF16)
    std::fill(std::begin(line.bytes), std::end(line.bytes), static_cast<std::byte>(-least));
  return line;
}

}  // namespace tscompile
