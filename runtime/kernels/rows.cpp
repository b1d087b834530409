#include "runtime/kernels/rows.h"

#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/pool2d.h"
#include "runtime/kernels/simd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#ifndef TSCOMPILE_SHORT_ROWS
#define TSCOMPILE_SHORT_ROWS
namespace tscompile {
namespace {
// Layer normalisation of rows that registers hold: the next rows go on while one waits for its sums.
struct ShortRows {
  int64_t count;
  const float *weight, *bias;  // or null
  float epsilon;
};
using ShortNorm = void(const ShortRows&, int64_t rows, const float* in, float* out);
}  // namespace
}  // namespace tscompile
#endif

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/rows.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// Means and sums of squared deviations of the lanes of some pixels.
void momentsOfLanes(const float* pixels, int64_t count, float* means, float* squares) {
  const hn::CappedTag<float, kBlock> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int lane = 0; lane < kBlock; lane += lanes) {
    const float* from = pixels + lane;
    auto sum = hn::Zero(d), other = sum;
    for (int64_t i = 0; i < count; ++i) sum = hn::Add(sum, hn::LoadU(d, from + i * kBlock));
    const auto mean = hn::Mul(sum, hn::Set(d, 1.0f / static_cast<float>(count)));
    for (int64_t i = 0; i < count; ++i) {
      const auto apart = hn::Sub(hn::LoadU(d, from + i * kBlock), mean);
      other = hn::MulAdd(apart, apart, other);
    }
    hn::StoreU(mean, d, means + lane);
    hn::StoreU(other, d, squares + lane);
  }
}

void scaleLanes(const float* in, float* out, int64_t pixels, const float* scales, const float* shifts) {
  const hn::CappedTag<float, kBlock> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int lane = 0; lane < kBlock; lane += lanes) {
    const auto scale = hn::LoadU(d, scales + lane), shift = hn::LoadU(d, shifts + lane);
    for (int64_t i = lane; i < pixels * kBlock; i += kBlock)
      hn::StoreU(hn::MulAdd(hn::LoadU(d, in + i), scale, shift), d, out + i);
  }
}

void softmaxKernel(const float* in, float* out, int64_t count) { softmaxRow(in, out, count); }

void logSoftmaxKernel(const float* in, float* out, int64_t count) {
  const hn::ScalableTag<float> d0;
  const float largest = maxOver(in, count);
  const auto shift = hn::Set(d0, largest);
  float sum = sumOver(in, count, [&](auto d, auto x) HWY_ATTR { return expOfNegative(d, hn::Sub(x, shift)); });
  const auto logSum = hn::Set(d0, std::log(sum));
  mapRow(in, out, count, [&](auto, auto x, auto&&) HWY_ATTR { return hn::Sub(hn::Sub(x, shift), logSum); });
}

// Columns [0, width) of `count` rows, which are `stride` apart.
template <bool kLogarithm>
void softmaxColumns(const float* in, float* out, int64_t count, int64_t stride, int64_t width) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes) {
    const auto some = hn::FirstN(d, static_cast<size_t>(std::min(lanes, width - i)));
    auto load = [&](const float* from, int64_t r) HWY_ATTR { return hn::MaskedLoad(some, d, from + r * stride + i); };
    auto store = [&](auto x, int64_t r) HWY_ATTR { hn::BlendedStore(x, some, d, out + r * stride + i); };
    auto shift = load(in, 0);
    // What NaN does to the largest does not matter: the sum is NaN then.
    for (int64_t r = 1; r < count; ++r) shift = hn::Max(shift, load(in, r));
    auto sum = hn::Zero(d);
    for (int64_t r = 0; r < count; ++r) {
      const auto e = expOfNegative(d, hn::Sub(load(in, r), shift));
      if (!kLogarithm) store(e, r);
      sum = hn::Add(sum, e);
    }
    if (kLogarithm) {
      const auto logSum = log(d, sum);
      for (int64_t r = 0; r < count; ++r) store(hn::Sub(hn::Sub(load(in, r), shift), logSum), r);
    } else {
      const auto inverse = hn::Div(hn::Set(d, 1.0f), sum);
      for (int64_t r = 0; r < count; ++r) store(hn::Mul(load(out, r), inverse), r);
    }
  }
}

// All columns of `count` rows of `width`, of which several fit into a vector: as many rows as do are one row, and what
// they have in the same column is brought together at last.
template <bool kLogarithm>
void softmaxShortRows(const float* in, float* out, int64_t count, int64_t width) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), used = lanes / width * width, total = count * width;
  auto some = [&](int64_t at) HWY_ATTR { return hn::FirstN(d, static_cast<size_t>(std::min(used, total - at))); };
  auto together = [&](V v, auto&& join) HWY_ATTR {
    alignas(64) float lane[hn::MaxLanes(d)];
    hn::Store(v, d, lane);
    for (int64_t i = width; i < used; ++i) lane[i % width] = join(lane[i % width], lane[i]);
    for (int64_t i = width; i < lanes; ++i) lane[i] = lane[i - width];
    return hn::Load(d, lane);
  };
  const V low = hn::Set(d, -std::numeric_limits<float>::infinity());
  V largest = low, sums = hn::Zero(d);
  for (int64_t at = 0; at < total; at += used) {
    const auto mask = some(at);
    largest = hn::Max(largest, hn::IfThenElse(mask, hn::MaskedLoad(mask, d, in + at), low));
  }
  const V shift = together(largest, [](float a, float b) { return std::max(a, b); });
  for (int64_t at = 0; at < total; at += used) {
    const auto mask = some(at);
    const V e = expOfNegative(d, hn::Sub(hn::MaskedLoad(mask, d, in + at), shift));
    if (!kLogarithm) hn::BlendedStore(e, mask, d, out + at);
    sums = hn::Add(sums, hn::IfThenElseZero(mask, e));
  }
  const V sum = together(sums, [](float a, float b) { return a + b; });
  const V change = kLogarithm ? log(d, sum) : hn::Div(hn::Set(d, 1.0f), sum);
  for (int64_t at = 0; at < total; at += used) {
    const auto mask = some(at);
    const V x = hn::MaskedLoad(mask, d, (kLogarithm ? in : out) + at);
    // Not x - (shift + change), whose digits large numbers take.
    hn::BlendedStore(kLogarithm ? hn::Sub(hn::Sub(x, shift), change) : hn::Mul(x, change), mask, d, out + at);
  }
}

template <bool kLogarithm>
void softmaxOfColumns(const float* in, float* out, int64_t count, int64_t stride, int64_t width) {
  const bool isShort = 2 * width <= static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  if (isShort && stride == width) return softmaxShortRows<kLogarithm>(in, out, count, width);
  softmaxColumns<kLogarithm>(in, out, count, stride, width);
}
void softmaxColumnsKernel(const float* in, float* out, int64_t count, int64_t stride, int64_t width) {
  softmaxOfColumns<false>(in, out, count, stride, width);
}
void logSoftmaxColumnsKernel(const float* in, float* out, int64_t count, int64_t stride, int64_t width) {
  softmaxOfColumns<true>(in, out, count, stride, width);
}

// The mean, and the variance as the mean of squared differences from it: as exact as f32 sums get.
std::pair<float, float> momentsKernel(const float* in, int64_t count) {
  const hn::ScalableTag<float> d0;
  float mean = sumOver(in, count, [](auto, auto x) HWY_ATTR { return x; }) / static_cast<float>(count);
  const auto center = hn::Set(d0, mean);
  float squares = sumOver(in, count, [&](auto, auto x) HWY_ATTR {
    auto difference = hn::Sub(x, center);
    return hn::Mul(difference, difference);
  });
  return {mean, squares / static_cast<float>(count)};
}

float meanSquareKernel(const float* in, int64_t count) {
  return sumOver(in, count, [](auto, auto x) HWY_ATTR { return hn::Mul(x, x); }) / static_cast<float>(count);
}

// (x - mean) * factor * weight + bias, where weight and bias are rows.
void affineKernel(const float* in, float* out, int64_t count, float mean, float factor, const float* weight,
                  const float* bias) {
  const hn::ScalableTag<float> d0;
  const auto center = hn::Set(d0, mean), scale = hn::Set(d0, factor);
  mapRow(in, out, count, [&](auto, auto x, auto&& load) HWY_ATTR {
    auto y = hn::Mul(hn::Sub(x, center), scale);
    if (weight && bias) return hn::MulAdd(y, load(weight), load(bias));
    if (weight) return hn::Mul(y, load(weight));
    return bias ? hn::Add(y, load(bias)) : y;
  });
}

// The same with one weight and bias for the whole row.
void scaleKernel(const float* in, float* out, int64_t count, float factor, float offset) {
  const hn::ScalableTag<float> d0;
  const auto scale = hn::Set(d0, factor), shift = hn::Set(d0, offset);
  mapRow(in, out, count, [&](auto, auto x, auto&&) HWY_ATTR { return hn::MulAdd(x, scale, shift); });
}

inline constexpr int kShortVectors = HWY_TARGET == HWY_AVX3 ? 16 : 8;

// v[i] += v[i + kApart], for i below kApart.
template <int kApart, class V, int kCount, int... kAt>
HWY_INLINE void addApart(V (&v)[kCount], std::integer_sequence<int, kAt...>) {
  ((v[kAt] = hn::Add(v[kAt], v[kAt + kApart])), ...);
}
// The sum of all lanes of all vectors, in each lane.
template <int kApart = 8, class D, class V, int kCount>
HWY_INLINE V sumOfVectors(D d, V (&v)[kCount]) {
  if constexpr (kApart == 0) {
    return hn::SumOfLanes(d, v[0]);
  } else {
    addApart<kApart>(v, std::make_integer_sequence<int, std::max(0, std::min(kApart, kCount - kApart))>());
    return sumOfVectors<kApart / 2>(d, v);
  }
}

template <int kVectors>
void normaliseShort(const ShortRows& s, int64_t rows, const float* in, float* out) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kLast = kVectors - 1;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto there = hn::FirstN(d, static_cast<size_t>(s.count - kLast * lanes));
  const V share = hn::Set(d, 1.0f / static_cast<float>(s.count)), epsilon = hn::Set(d, s.epsilon);
  auto load = [&](const float* from, int v) HWY_ATTR {
    return v == kLast ? hn::MaskedLoad(there, d, from + v * lanes) : hn::LoadU(d, from + v * lanes);
  };
  for (int64_t r = 0; r < rows; ++r, in += s.count, out += s.count) {
    V x[kVectors], sums[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[v] = x[v] = load(in, v);
    const V mean = hn::Mul(sumOfVectors(d, sums), share);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      x[v] = hn::Sub(x[v], mean);
      if (v == kLast) x[v] = hn::IfThenElseZero(there, x[v]);
      sums[v] = hn::Mul(x[v], x[v]);
    }
    const V factor = hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::MulAdd(sumOfVectors(d, sums), share, epsilon)));
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      V y = hn::Mul(x[v], factor);
      if (s.weight && s.bias)
        y = hn::MulAdd(y, load(s.weight, v), load(s.bias, v));
      else if (s.weight || s.bias)
        y = s.weight ? hn::Mul(y, load(s.weight, v)) : hn::Add(y, load(s.bias, v));
      v == kLast ? hn::BlendedStore(y, there, d, out + v * lanes) : hn::StoreU(y, d, out + v * lanes);
    }
  }
}

template <int... kVector>
ShortNorm* shortNormOf(int64_t vectors, std::integer_sequence<int, kVector...>) {
  static constexpr ShortNorm* kTable[] = {normaliseShort<kVector + 1>...};
  return kTable[vectors - 1];
}
// Null if rows are too long, or the epsilon is none in f32.
ShortNorm* shortNorm(const ShortRows& s) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())),
                vectors = (s.count + lanes - 1) / lanes;
  if (vectors < 1 || vectors > kShortVectors || s.epsilon < std::numeric_limits<float>::min()) return nullptr;
  return shortNormOf(vectors, std::make_integer_sequence<int, kShortVectors>());
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

// body(rows) over all rows in pieces of about 10 us.
template <class Body>
void overPieces(int64_t rows, int64_t count, double nanoseconds, int threads, Body&& body) {
  const double cost = static_cast<double>(rows) * static_cast<double>(count) * nanoseconds * 1e-3;
  threads = threadsWorth(cost, threads);
  const int64_t pieces = std::min(rows, piecesWorth(cost, 128));
  parallelFor(pieces, threads, [&](int64_t i) { body(pieceOf(rows, pieces, i)); });
}
// body(row) over all rows.
template <class Body>
void overRows(int64_t rows, int64_t count, double nanoseconds, int threads, Body&& body) {
  overPieces(rows, count, nanoseconds, threads, [&](Piece piece) {
    for (int64_t r = piece.begin; r < piece.end; ++r) body(r);
  });
}

float inverseRoot(float variance, double epsilon) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(variance) + epsilon));
}

}  // namespace

void softmaxRows(int64_t rows, int64_t count, const float* input, float* output, int threads) {
  auto kernel = TS_SIMD(softmaxKernel);
  overRows(rows, count, 0.3, threads, [&](int64_t r) { kernel(input + r * count, output + r * count, count); });
}

void logSoftmaxRows(int64_t rows, int64_t count, const float* input, float* output, int threads) {
  auto kernel = TS_SIMD(logSoftmaxKernel);
  overRows(rows, count, 0.3, threads, [&](int64_t r) { kernel(input + r * count, output + r * count, count); });
}

void softmaxMiddle(int64_t outer, int64_t count, int64_t inner, bool logarithm, const float* input, float* output,
                   int threads) {
  constexpr int64_t kColumns = 256;  // of a piece: whole lines of the cache
  auto kernel = logarithm ? TS_SIMD(logSoftmaxColumnsKernel) : TS_SIMD(softmaxColumnsKernel);
  const int64_t pieces = (inner + kColumns - 1) / kColumns;
  overRows(outer * pieces, count * std::min(inner, kColumns), 0.3, threads, [&](int64_t i) {
    const int64_t first = i % pieces * kColumns, at = i / pieces * count * inner + first;
    kernel(input + at, output + at, count, inner, std::min(kColumns, inner - first));
  });
}

void layerNormRows(int64_t rows, int64_t count, const float* input, const float* weight, const float* bias,
                   double epsilon, float* output, int threads) {
  const ShortRows all{count, weight, bias, static_cast<float>(epsilon)};
  if (auto* kernel = TS_SIMD(shortNorm)(all))
    return overPieces(rows, count, 0.1, threads, [&](Piece piece) {
      kernel(all, piece.end - piece.begin, input + piece.begin * count, output + piece.begin * count);
    });
  auto moments = TS_SIMD(momentsKernel);
  auto affine = TS_SIMD(affineKernel);
  overRows(rows, count, 0.15, threads, [&](int64_t r) {
    auto [mean, variance] = moments(input + r * count, count);
    affine(input + r * count, output + r * count, count, mean, inverseRoot(variance, epsilon), weight, bias);
  });
}

void rmsNormRows(int64_t rows, int64_t count, const float* input, const float* weight, double epsilon, float* output,
                 int threads) {
  auto meanSquare = TS_SIMD(meanSquareKernel);
  auto affine = TS_SIMD(affineKernel);
  overRows(rows, count, 0.1, threads, [&](int64_t r) {
    float factor = inverseRoot(meanSquare(input + r * count, count), epsilon);
    affine(input + r * count, output + r * count, count, 0.0f, factor, weight, nullptr);
  });
}

void groupNorm(int64_t batch, int64_t channels, int64_t area, int64_t groups, const float* input, const float* weight,
               const float* bias, double epsilon, float* output, int threads) {
  auto moments = TS_SIMD(momentsKernel);
  auto scale = TS_SIMD(scaleKernel);
  const int64_t perGroup = channels / groups;
  overRows(batch * groups, perGroup * area, 0.2, threads, [&](int64_t r) {
    auto [mean, variance] = moments(input + r * perGroup * area, perGroup * area);
    const float factor = inverseRoot(variance, epsilon);
    for (int64_t c = 0; c < perGroup; ++c) {
      const int64_t channel = r % groups * perGroup + c, at = (r * perGroup + c) * area;
      const float w = weight ? factor * weight[channel] : factor;
      scale(input + at, output + at, area, w, (bias ? bias[channel] : 0.0f) - mean * w);
    }
  });
}

namespace {

// Mean and sum of squared deviations of some numbers; of two sets together, as Chan et al. (1979) do.
struct GroupMoments {
  double count = 0, mean = 0, squares = 0;

  void add(const GroupMoments& other) {
    const double all = count + other.count, apart = other.mean - mean;
    mean += apart * other.count / all;
    squares += other.squares + apart * apart * count * other.count / all;
    count = all;
  }
};

constexpr int64_t kPixelPiece = 256;  // whose block of channels stays in the nearest cache

}  // namespace

void groupNormOfBlocks(int64_t batch, int64_t channels, int64_t area, int64_t groups, const float* input,
                       const ElementType& inputType, const float* weight, const float* bias, double epsilon,
                       float* output, const ElementType& outputType, int threads) {
  // Of lines, a block is a part of one; all parts of bf16, so that those behind the last channel are finite.
  const int64_t unit = inputType.channels(), parts = unit / kBlock, lines = channelBlocks(channels, unit);
  const int64_t blocks = inputType.dtype == DType::UInt8 ? channelBlocks(channels) : lines * parts;
  const int64_t pieces = (area + kPixelPiece - 1) / kPixelPiece;
  const int64_t perGroup = channels / groups, planes = batch * blocks, row = planes * kBlock;
  // Body(number of the piece, pixels, where they are), for each block.
  auto overPieces = [&](auto&& body) {
    overRows(planes * pieces, kPixelPiece * kBlock, 0.1, threads, [&](int64_t i) {
      const Piece pixels = pieceOf(area, pieces, i / planes);
      const int64_t plane = i % planes, line = plane / blocks * lines + plane % blocks / parts;
      body(i, pixels.end - pixels.begin, (line * area + pixels.begin) * kBlock);
    });
  };
  // The floats of a piece, `memory` where they have to be made.
  auto floatsAt = [&](int64_t plane, int64_t pixels, int64_t at, float* memory) {
    if (!inputType.isLines()) return input + at;
    openPart(input + at, plane % blocks % parts, pixels, inputType, memory);
    return static_cast<const float*>(memory);
  };
  // [pieces][images][channels in whole blocks]
  std::vector<float> means(static_cast<size_t>(pieces * row)), squares(means.size());
  auto moments = TS_SIMD(momentsOfLanes);
  overPieces([&](int64_t i, int64_t pixels, int64_t at) {
    alignas(64) float memory[kPixelPiece * kBlock];
    const auto lanes = static_cast<size_t>(i * kBlock);
    moments(floatsAt(i % planes, pixels, at, memory), pixels, &means[lanes], &squares[lanes]);
  });
  std::vector<float> scales(static_cast<size_t>(row)), shifts(scales.size());
  for (int64_t g = 0; g < batch * groups; ++g) {
    GroupMoments all;
    const int64_t first = g / groups * blocks * kBlock + g % groups * perGroup;
    for (int64_t p = 0; p < pieces; ++p) {
      const Piece pixels = pieceOf(area, pieces, p);
      for (int64_t c = 0; c < perGroup; ++c) {
        const auto at = static_cast<size_t>(p * row + first + c);
        all.add({static_cast<double>(pixels.end - pixels.begin), means[at], squares[at]});
      }
    }
    const double factor = 1.0 / std::sqrt(all.squares / all.count + epsilon);
    for (int64_t c = 0; c < perGroup; ++c) {
      const int64_t channel = g % groups * perGroup + c;
      const double w = weight ? factor * static_cast<double>(weight[channel]) : factor;
      scales[static_cast<size_t>(first + c)] = static_cast<float>(w);
      shifts[static_cast<size_t>(first + c)] =
          static_cast<float>((bias ? static_cast<double>(bias[channel]) : 0.0) - all.mean * w);
    }
  }
  auto scale = TS_SIMD(scaleLanes);
  overPieces([&](int64_t i, int64_t pixels, int64_t at) {
    alignas(64) float memory[kPixelPiece * kBlock];
    const int64_t plane = i % planes;
    const auto lanes = static_cast<size_t>(plane * kBlock);
    float* made = outputType.isLines() ? memory : output + at;
    scale(floatsAt(plane, pixels, at, memory), made, pixels, &scales[lanes], &shifts[lanes]);
    if (outputType.isLines()) closePart(made, pixels, outputType, output + at, plane % blocks % parts);
  });
}

}  // namespace tscompile
#endif
