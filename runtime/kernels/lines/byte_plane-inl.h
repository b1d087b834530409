// Depthwise convolutions of bytes. Included where the compiler may use AVX512-VNNI.
#pragma once

#include "runtime/kernels/conv.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/packed_weights.h"
#include "runtime/kernels/product.h"

#include <algorithm>
#include <cstddef>
#include <immintrin.h>
#include <type_traits>
#include <vector>

namespace tscompile {
namespace {

// The activation of an epilogue, of up to sixteen vectors.
void activateVectors(const Epilogue& e, __m512* vectors, int count) {
  alignas(64) float values[16 * kBlock];
  for (int i = 0; i < count; ++i) _mm512_store_ps(values + i * kBlock, vectors[i]);
  Product p{};
  p.cRow = p.cPanel = kBlock;
  p.epilogue = e;
  finishRows(p, values, count, 0, kBlock);
  for (int i = 0; i < count; ++i) vectors[i] = _mm512_load_ps(values + i * kBlock);
}

// One channel a group, as a tactic of convolutions has packed them.
struct PlaneWeights {
  PackedWeights panels;
  const void* packed;
  int64_t first;  // panel of the plane

  bool has(int64_t part) const { return first + part < panels.panels; }
  const char* values(int64_t part) const { return static_cast<const char*>(panels.values(packed, first + part)); }
};

// Vectors of bytes: of all channels of a line, or of its first half where there are no more.
struct WholeLine {
  using I = __m512i;
  using F = __m512;
  static I all(int byte) { return _mm512_set1_epi8(static_cast<char>(byte)); }
  static I load(const void* from) { return _mm512_loadu_si512(from); }
  static F floats(const float* from) { return _mm512_load_ps(from); }
  static void store(void* to, I v) { _mm512_storeu_si512(to, v); }
  static void storeLine(void* to, I v) { store(to, v); }
  static I low8(I a, I b) { return _mm512_unpacklo_epi8(a, b); }
  static I high8(I a, I b) { return _mm512_unpackhi_epi8(a, b); }
  static I low16(I a, I b) { return _mm512_unpacklo_epi16(a, b); }
  static I high16(I a, I b) { return _mm512_unpackhi_epi16(a, b); }
  static I addDots(I sum, I a, I b) { return _mm512_dpbusd_epi32(sum, a, b); }
  static F scaled(I sum, F scale, F bias) { return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, bias); }
  static F atLeast(F v, float low) { return _mm512_max_ps(v, _mm512_set1_ps(low)); }
  static I rounded(F v, float high) { return _mm512_cvtps_epi32(_mm512_min_ps(v, _mm512_set1_ps(high))); }
  static I packed(I a, I b, I c, I d) {
    return _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
  }
};
struct HalfLine {
  using I = __m256i;
  using F = __m256;
  static I all(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }
  static I load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static F floats(const float* from) { return _mm256_load_ps(from); }
  static void store(void* to, I v) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }
  static void storeLine(void* to, I v) { _mm512_storeu_si512(to, _mm512_zextsi256_si512(v)); }
  static I low8(I a, I b) { return _mm256_unpacklo_epi8(a, b); }
  static I high8(I a, I b) { return _mm256_unpackhi_epi8(a, b); }
  static I low16(I a, I b) { return _mm256_unpacklo_epi16(a, b); }
  static I high16(I a, I b) { return _mm256_unpackhi_epi16(a, b); }
  static I addDots(I sum, I a, I b) { return _mm256_dpbusd_epi32(sum, a, b); }
  static F scaled(I sum, F scale, F bias) { return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, bias); }
  static F atLeast(F v, float low) { return _mm256_max_ps(v, _mm256_set1_ps(low)); }
  static I rounded(F v, float high) { return _mm256_cvtps_epi32(_mm256_min_ps(v, _mm256_set1_ps(high))); }
  static I packed(I a, I b, I c, I d) {
    return _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  }
};

// Some rows of a plane of bytes, by dot products: up to four rows of a column of inputs lie together for each channel,
// [lane of 128 bits][vector][4 channels]. So they are put for all columns that an output row sees, which any number of
// outputs then multiply; those of the row below too, where a kernel of three rows is one of the four short.
class BytePlane {
 public:
  static constexpr int64_t kVectors = 4, kChannels = 64, kTogether = 4;

  // bias: of the plane's channels, of which only `channels` are there.
  BytePlane(const ConvShape& s, const PlaneWeights& weights, const float* bias, int64_t channels, const Epilogue& e)
      : s_(s),
        e_(e),
        groups_((s.kernelHeight + kTogether - 1) / kTogether),
        columns_(s.inWidth + s.padLeft + s.padRight),
        isHalf_(channels <= kChannels / 2),
        weights_(static_cast<size_t>(s.kernelWidth * groups_ * kVectors)),
        put_(static_cast<size_t>(columns_ * groups_ * kVectors)) {
    for (int64_t part = 0; part < kVectors && weights.has(part); ++part) spread(weights, part);
    for (int64_t c = 0; bias && c < channels; ++c) biases_[placeOf(c)] = bias[c];
    if (s.kernelHeight < kTogether && s.strideHeight == 1 && s.dilationHeight == 1) {
      below_ = weights_;
      for (CacheLine& line : below_) _mm512_storeu_si512(&line, _mm512_slli_epi32(_mm512_loadu_si512(&line), 8));
    }
    countInSteps();
  }

  void run(const float* in, const float* residual, float* out, Piece rows) {
    isHalf_&& counts_ ? runRows<HalfLine>(in, residual, out, rows) : runRows<WholeLine>(in, residual, out, rows);
  }

 private:
  template <class V>
  void runRows(const float* in, const float* residual, float* out, Piece rows) {
    for (int64_t y = rows.begin; y < rows.end; y += below_.empty() ? 1 : 2) {
      putRow<V>(in, y * s_.strideHeight - s_.padTop);
      outputRow<V>(y, weights_, residual, out);
      if (!below_.empty() && y + 1 < rows.end) outputRow<V>(y + 1, below_, residual, out);
    }
  }

  // Sums become bytes by one product and sum, unless something else happens to them.
  void countInSteps() {
    const float inverse = 1 / e_.resultType.scale, zero = e_.resultType.zero;
    const bool clamps = isClamp(e_.activation);
    counts_ = !e_.residual && (clamps || e_.activation == Activation::None);
    low_ = clamps ? std::max(0.0f, clampLow(e_) * inverse + zero) : 0;
    high_ = clamps ? std::min(255.0f, clampHigh(e_) * inverse + zero) : 255;
    for (int64_t i = 0; i < kChannels && counts_; ++i) {
      biases_[i] = (biases_[i] + static_cast<float>(starts_[i]) * scales_[i]) * inverse + zero;
      scales_[i] *= inverse;
      starts_[i] = 0;
    }
  }

  // Where a channel lies among the words of the vectors.
  static int64_t placeOf(int64_t channel) { return channel % 16 / 4 * kBlock + channel / 16 * 4 + channel % 4; }

  // A panel's 16 channels are one lane of 128 bits of each vector.
  void spread(const PlaneWeights& from, int64_t part) {
    for (int64_t x = 0; x < s_.kernelWidth; ++x)
      for (int64_t group = 0; group < groups_; ++group) {
        CacheLine words;
        _mm512_store_si512(&words, together(from.values(part), x, group * kTogether));
        for (int64_t v = 0; v < kVectors; ++v)
          std::copy_n(words.bytes + v * 16, 16, weights_[(x * groups_ + group) * kVectors + v].bytes + part * 16);
      }
    const float* scales = from.panels.scales(from.packed, from.first + part);
    const int32_t* sums = from.panels.sums(from.packed, from.first + part);
    for (int64_t lane = 0; lane < kBlock; ++lane) {
      const int64_t at = placeOf(part * kBlock + lane);
      scales_[at] = scales[lane] * s_.input.scale;
      starts_[at] = -static_cast<int32_t>(s_.input.zero) * sums[lane];
    }
  }

  // Up to four weights of a column of the kernel from row `top` on, for each channel of a panel.
  __m512i together(const char* panel, int64_t column, int64_t top) const {
    __m512i words = _mm512_setzero_si512();
    for (int64_t i = 0; i < kTogether && top + i < s_.kernelHeight; ++i) {
      const int64_t row = (top + i) * s_.kernelWidth + column;
      const __m512i four = _mm512_loadu_si512(panel + row / 4 * static_cast<int64_t>(sizeof(CacheLine)));
      const __m512i byte =
          _mm512_and_si512(_mm512_srli_epi32(four, static_cast<unsigned>(row % 4 * 8)), _mm512_set1_epi32(255));
      words = _mm512_or_si512(words, _mm512_slli_epi32(byte, static_cast<unsigned>(i * 8)));
    }
    return words;
  }

  // Four lines of bytes -> four bytes of each channel.
  template <class V, class I = typename V::I>
  static void putTogether(I a, I b, I c, I d, std::byte* to) {
    const I low = V::low8(a, b), high = V::high8(a, b), lower = V::low8(c, d), upper = V::high8(c, d);
    V::store(to, V::low16(low, lower));
    V::store(to + sizeof(I), V::high16(low, lower));
    V::store(to + 2 * sizeof(I), V::low16(high, upper));
    V::store(to + 3 * sizeof(I), V::high16(high, upper));
  }

  // Where the vectors of a group of rows of a column are put.
  template <class V>
  std::byte* putAt(int64_t which) {
    return put_.data()->bytes + which * kVectors * static_cast<int64_t>(sizeof(typename V::I));
  }
  template <class V>
  const std::byte* putAt(int64_t which) const {
    return put_.data()->bytes + which * kVectors * static_cast<int64_t>(sizeof(typename V::I));
  }

  // The columns of kernel rows from input row `top` on.
  template <class V>
  void putRow(const float* in, int64_t top) {
    const auto zero = V::all(static_cast<int>(s_.input.zero));
    for (int64_t group = 0; group < groups_; ++group) {
      const float* rows[kTogether];
      for (int64_t i = 0; i < kTogether; ++i) {
        const int64_t kernelRow = group * kTogether + i, y = top + kernelRow * s_.dilationHeight;
        const bool isSeen = kernelRow < s_.kernelHeight || !below_.empty();
        const bool isThere = isSeen && y >= 0 && y < s_.inHeight;
        rows[i] = isThere ? in + y * s_.inWidth * kBlock : nullptr;
      }
      for (int64_t column = 0; column < columns_; ++column) {
        const int64_t x = column - s_.padLeft;
        auto line = [&](int64_t i) {
          return rows[i] && x >= 0 && x < s_.inWidth ? V::load(rows[i] + x * kBlock) : zero;
        };
        putTogether<V>(line(0), line(1), line(2), line(3), putAt<V>(column * groups_ + group));
      }
    }
  }

  template <class V>
  void outputRow(int64_t y, const std::vector<CacheLine>& weights, const float* residual, float* out) const {
    constexpr int kAtOnce = 4;  // so that a weight is loaded for several
    const int64_t width = s_.outWidth();
    const bool shares = counts_ && groups_ == 1 && s_.kernelWidth == 3 && s_.strideWidth <= 2 && s_.dilationWidth == 1;
    int64_t x = 0;
    for (; shares && x + kAtOnce <= width; x += kAtOnce) {
      const std::byte* in = putAt<V>(x * s_.strideWidth);
      float* to = out + (y * width + x) * kBlock;
      s_.strideWidth == 1 ? neighbours<V, kAtOnce, 1>(in, weights, to) : neighbours<V, kAtOnce, 2>(in, weights, to);
    }
    auto some = [&]<int kCount>(std::integral_constant<int, kCount>) {
      for (; x + kCount <= width; x += kCount) {
        const int64_t at = (y * width + x) * kBlock;
        outputs<V, kCount>(x * s_.strideWidth, weights, residual ? residual + at : nullptr, out + at);
      }
    };
    some(std::integral_constant<int, kAtOnce>());
    some(std::integral_constant<int, 1>());
  }

  // Outputs side by side of a kernel of three columns, which they share, and up to four rows; counted in steps of the
  // result.
  template <class V, int kCount, int kStride>
  void neighbours(const std::byte* in, const std::vector<CacheLine>& weights, float* out) const {
    using I = typename V::I;
    I words[kCount][kVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      I sums[kCount] = {};
#pragma GCC unroll 16
      for (int c = 0; c < (kCount - 1) * kStride + 3; ++c) {
        const I column = V::load(in + static_cast<size_t>(c * kVectors + i) * sizeof(I));
#pragma GCC unroll 4
        for (int k = c % kStride; k < 3; k += kStride)
          if (c >= k && (c - k) / kStride < kCount)
            sums[(c - k) / kStride] =
                V::addDots(sums[(c - k) / kStride], column, V::load(weights.data() + k * kVectors + i));
      }
      const auto scale = V::floats(scales_ + i * kBlock), bias = V::floats(biases_ + i * kBlock);
#pragma GCC unroll 4
      for (int n = 0; n < kCount; ++n) words[n][i] = inSteps<V>(V::scaled(sums[n], scale, bias));
    }
#pragma GCC unroll 4
    for (int n = 0; n < kCount; ++n)
      V::storeLine(out + n * kBlock, V::packed(words[n][0], words[n][1], words[n][2], words[n][3]));
  }

  template <class V, int kCount>
  void outputs(int64_t column, const std::vector<CacheLine>& weights, const float* residual, float* out) const {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(typename V::I));
    typename V::I sums[kCount][kVectors];
#pragma GCC unroll 4
    for (int n = 0; n < kCount; ++n)
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) sums[n][i] = V::load(starts_ + i * kBlock);
    const int64_t next = s_.strideWidth * groups_ * kVectors;
    for (int64_t k = 0; k < s_.kernelWidth; ++k) {
      const std::byte* in = putAt<V>((column + k * s_.dilationWidth) * groups_);
      const CacheLine* row = weights.data() + k * groups_ * kVectors;
      for (int64_t group = 0; group < groups_; ++group, in += kVectors * kBytes, row += kVectors)
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) {
          const auto weight = V::load(row + i);
#pragma GCC unroll 4
          for (int n = 0; n < kCount; ++n)
            sums[n][i] = V::addDots(sums[n][i], V::load(in + (n * next + i) * kBytes), weight);
        }
    }
#pragma GCC unroll 4
    for (int n = 0; n < kCount; ++n) {
      typename V::F v[kVectors];
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i)
        v[i] = V::scaled(sums[n][i], V::floats(scales_ + i * kBlock), V::floats(biases_ + i * kBlock));
      if constexpr (std::is_same_v<V, WholeLine>)
        if (!counts_) {
          __m512 all[kVectors];  // so that only these lie in memory
          std::copy_n(v, kVectors, all);
          if (residual) addResidual(residual + n * kBlock, all);
          finish(all, out + n * kBlock);
          continue;
        }
      store<V>(v, out + n * kBlock);
    }
  }

  // Numbers counted in steps of the result. Packing makes 0 of what is below, but not the greatest of what is far
  // above.
  template <class V>
  typename V::I inSteps(typename V::F v) const {
    return V::rounded(low_ > 0 ? V::atLeast(v, low_) : v, high_);
  }
  template <class V>
  void store(typename V::F (&v)[kVectors], float* out) const {
    V::storeLine(out, V::packed(inSteps<V>(v[0]), inSteps<V>(v[1]), inSteps<V>(v[2]), inSteps<V>(v[3])));
  }

  void addResidual(const float* residual, __m512 (&v)[kVectors]) const {
    const __m512i bytes = _mm512_loadu_si512(residual), none = _mm512_setzero_si512();
    const __m512i low = _mm512_unpacklo_epi8(bytes, none), high = _mm512_unpackhi_epi8(bytes, none);
    const __m512i words[] = {_mm512_unpacklo_epi16(low, none), _mm512_unpackhi_epi16(low, none),
                             _mm512_unpacklo_epi16(high, none), _mm512_unpackhi_epi16(high, none)};
    const __m512 zero = _mm512_set1_ps(e_.residualType.zero), scale = _mm512_set1_ps(e_.residualType.scale);
    for (int i = 0; i < kVectors; ++i)
      v[i] = _mm512_fmadd_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(words[i]), zero), scale, v[i]);
  }

  void finish(__m512 (&v)[kVectors], float* out) const {
    const __m512 low = _mm512_set1_ps(clampLow(e_)), high = _mm512_set1_ps(clampHigh(e_));
    if (isClamp(e_.activation))
      for (__m512& x : v) x = _mm512_min_ps(high, _mm512_max_ps(low, x));
    else if (e_.activation != Activation::None)
      activateVectors(e_, v, kVectors);
    const __m512 inverse = _mm512_set1_ps(1 / e_.resultType.scale), zero = _mm512_set1_ps(e_.resultType.zero);
#pragma GCC unroll 4
    for (__m512& x : v) x = _mm512_fmadd_ps(x, inverse, zero);
    store<WholeLine>(v, out);
  }

  const ConvShape& s_;
  const Epilogue& e_;
  const int64_t groups_, columns_;
  const bool isHalf_;
  std::vector<CacheLine> weights_, below_, put_;  // below_: weights of the output row below; empty: none
  bool counts_ = false;
  float low_ = 0, high_ = 255;
  alignas(64) int32_t starts_[kChannels] = {};
  alignas(64) float scales_[kChannels] = {}, biases_[kChannels] = {};
};

}  // namespace
}  // namespace tscompile
