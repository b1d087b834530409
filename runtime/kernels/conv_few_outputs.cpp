// Convolutions to a few channels, as at the end of networks that make images or masks: where direct convolution would
// leave most lanes of a vector of output channels empty, these are vectors of neighbouring outputs. A piece of the
// input is brought from blocks into planes with its padding; then each vector of it is loaded once for all outputs.
#include "runtime/kernels/conv_few_outputs.h"

#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/packed_weights.h"

#include <algorithm>

#ifndef TSCOMPILE_CONV_FEW_OUTPUTS
#define TSCOMPILE_CONV_FEW_OUTPUTS
namespace tscompile {
namespace {

constexpr int64_t kMostOutputs = 4;

// Some rows and columns of all outputs, and the planes of what they see.
struct PlanesPiece {
  Piece rows, columns;
  const float* planes;
  int64_t row, plane;    // floats between rows and planes
  const float* weights;  // [channel][kernel row][kernel column][16 outputs]
};

}  // namespace
}  // namespace tscompile
#endif

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/conv_few_outputs.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/product-inl.h"
#include "runtime/kernels/transpose-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
inline constexpr int kPlaneSums = 24;  // that fit the registers
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kPlaneSums = 12;
#else
inline constexpr int kPlaneSums = 8;
#endif

// Pixels of up to 16 channels -> rows of planes.
void pixelsToPlanes(const float* pixels, int64_t channels, int64_t count, float* to, int64_t plane) {
  transpose(pixels, kBlock, channels, count, to, plane);
}
void storedWeights(const void* packed, WeightStorage storage, const float* scales, int64_t depth, float* to) {
  convertWeights(packed, storage, scales, 0, depth, to);
}

// Vectors of outputs that lie anywhere in the planes, each from `offsets` on.
template <int kOutputs, int kVectorsAtOnce, class V>
HWY_INLINE void sumPlanes(const ConvShape& s, const PlanesPiece& p, const int64_t* offsets,
                          V (&sum)[kOutputs][kVectorsAtOnce]) {
  const hn::ScalableTag<float> d;
  const float* w = p.weights;
  for (int64_t c = 0; c < s.inChannels; ++c)
    for (int64_t ky = 0; ky < s.kernelHeight; ++ky) {
      const float* a = p.planes + c * p.plane + ky * s.dilationHeight * p.row;
#pragma GCC unroll 1
      for (int64_t kx = 0; kx < s.kernelWidth; ++kx, a += s.dilationWidth, w += kBlock) {
        V weight[kOutputs];
#pragma GCC unroll 16
        for (int o = 0; o < kOutputs; ++o) weight[o] = hn::Set(d, w[o]);
#pragma GCC unroll 16
        for (int v = 0; v < kVectorsAtOnce; ++v) {
          const V x = hn::LoadU(d, a + offsets[v]);
#pragma GCC unroll 16
          for (int o = 0; o < kOutputs; ++o) sum[o][v] = hn::MulAdd(x, weight[o], sum[o][v]);
        }
      }
    }
}

// out: of the first row and column of the piece.
template <int kOutputs>
void outputsOfPiece(const ConvShape& s, const PlanesPiece& p, const Epilogue& e, float* out) {
  constexpr int kAtOnce = std::min(8, kPlaneSums / kOutputs);
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), width = s.outWidth(), area = s.outArea();
  const int64_t columns = p.columns.end - p.columns.begin, rows = p.rows.end - p.rows.begin;
  const int64_t perRow = (columns + lanes - 1) / lanes, count = rows * perRow;
  const bool clamps = isClamp(e.activation);
  for (int64_t first = 0; first < count; first += kAtOnce) {
    int64_t offsets[kAtOnce], places[kAtOnce], left[kAtOnce];
    for (int v = 0; v < kAtOnce; ++v) {
      const int64_t at = std::min(first + v, count - 1), x = at % perRow * lanes;
      offsets[v] = at / perRow * p.row + x;
      places[v] = at / perRow * width + x;
      left[v] = std::min(lanes, columns - x);
    }
    V sum[kOutputs][kAtOnce];
#pragma GCC unroll 16
    for (int o = 0; o < kOutputs; ++o)
#pragma GCC unroll 16
      for (int v = 0; v < kAtOnce; ++v) sum[o][v] = hn::Set(d, e.bias ? e.bias[o] : 0.0f);
    sumPlanes<kOutputs, kAtOnce>(s, p, offsets, sum);
    const int64_t made = std::min<int64_t>(kAtOnce, count - first);
#pragma GCC unroll 16
    for (int v = 0; v < kAtOnce; ++v)
#pragma GCC unroll 16
      for (int o = 0; o < kOutputs; ++o) {
        if (v >= made) break;
        const int64_t at = o * area + places[v];
        const auto there = hn::FirstN(d, static_cast<size_t>(left[v]));
        V result = sum[o][v];
        if (e.residual) result = hn::Add(result, hn::MaskedLoad(there, d, e.residual + at));
        if (clamps) result = atMost(d, clampHigh(e), atLeast(d, clampLow(e), result));
        hn::BlendedStore(result, there, d, out + at);
      }
  }
  if (e.activation == Activation::None || clamps) return;
  for (int64_t o = 0; o < kOutputs; ++o)
    activateRows(out + o * area, width, rows, columns, e.activation, e.alpha, e.beta);
}

void fewOutputsOfPiece(const ConvShape& s, const PlanesPiece& p, const Epilogue& e, float* out) {
  static constexpr void (*kTable[])(const ConvShape&, const PlanesPiece&, const Epilogue&, float*) = {
      outputsOfPiece<1>, outputsOfPiece<2>, outputsOfPiece<3>, outputsOfPiece<4>};
  kTable[s.outChannels - 1](s, p, e, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

double cost(const ConvShape& s) {
  const auto inputs = static_cast<double>(s.batch * s.inChannels * s.inArea());
  const double rate = s.outChannels == 1 ? 45e3 : 80e3;  // loads are the bound of one output
  return s.flops() / rate + inputs * 4 / 4e3 + static_cast<double>(s.batch * s.outChannels * s.outArea()) * 4 / 20e3;
}

PackedWeights weightsOf(const ConvShape& s, WeightStorage storage) { return {1, s.inChannels * s.taps(), storage}; }
int64_t packedBytesOf(const ConvShape& s, WeightStorage storage) { return weightsOf(s, storage).bytes(); }
void pack(const ConvShape& s, const float* weights, WeightStorage storage, void* packed) {
  const int64_t depth = s.inChannels * s.taps();
  weightsOf(s, storage).pack(packed, [&](int64_t, int64_t row, float* to) {
    gatherLanes(weights + row, depth, s.outChannels, to);
  });
}
int64_t workspace(const ConvShape& s, WeightStorage storage) {
  if (storage == WeightStorage::F32) return 0;
  return s.inChannels * s.taps() * kBlock * static_cast<int64_t>(sizeof(float));
}

// Outputs that are made at a time: enough rows that few are brought into planes twice, and where that is possible no
// more than the second level of cache holds.
struct PieceSizes {
  int64_t rows, columns, row, planeRows;
  int64_t plane() const { return row * planeRows; }
};
PieceSizes piecesOf(const ConvShape& s) {
  constexpr int64_t kMostFloats = 256 << 10, kMostColumns = 256, kFewestColumns = 64, kFewestRows = 8;
  const int64_t above = (s.kernelHeight - 1) * s.dilationHeight, beside = (s.kernelWidth - 1) * s.dilationWidth;
  PieceSizes p{std::min(s.outHeight(), std::max(kFewestRows, 4 * above)), std::min(s.outWidth(), kMostColumns), 0, 0};
  auto resize = [&] {
    p.row = (p.columns + kBlock - 1) / kBlock * kBlock + beside;
    p.planeRows = p.rows + above;
  };
  for (resize(); p.plane() * s.inChannels > kMostFloats && p.columns > kFewestColumns; resize()) p.columns /= 2;
  for (; p.plane() * s.inChannels > kMostFloats && p.rows > kFewestRows; resize()) p.rows /= 2;
  return p;
}

bool accepts(const ConvShape& s) {
  // So that bringing inputs into planes is worth it; fewer channels come in planes.
  constexpr int64_t kFewestTaps = 5, kFewestInputs = 9, kMostFloats = 2 << 20;
  return s.groups == 1 && s.outChannels <= kMostOutputs && s.inChannels >= kFewestInputs && !s.isVolume() &&
         s.strideHeight == 1 && s.strideWidth == 1 && s.taps() >= kFewestTaps && !s.input.isLines() &&
         piecesOf(s).plane() * s.inChannels <= kMostFloats;
}

// Rows of the planes from row `top` and column `left` of the input on, which may lie outside of it.
void fillPlanes(const ConvShape& s, const PieceSizes& sizes, const float* image, int64_t top, int64_t left,
                float* planes) {
  const int64_t begin = std::clamp<int64_t>(-left, 0, sizes.row);
  const int64_t end = std::clamp<int64_t>(s.inWidth - left, begin, sizes.row);
  for (int64_t first = 0; first < s.inChannels; first += kBlock) {
    const int64_t channels = std::min<int64_t>(kBlock, s.inChannels - first);
    const float* block = image + first * s.inArea();
    for (int64_t r = 0; r < sizes.planeRows; ++r) {
      float* to = planes + first * sizes.plane() + r * sizes.row;
      const int64_t y = top + r;
      const bool there = y >= 0 && y < s.inHeight;
      for (int64_t c = 0; c < channels; ++c) {
        std::fill_n(to + c * sizes.plane(), there ? begin : sizes.row, 0.0f);
        if (there) std::fill_n(to + c * sizes.plane() + end, sizes.row - end, 0.0f);
      }
      if (there) TS_SIMD(pixelsToPlanes)
      (block + (y * s.inWidth + left + begin) * kBlock, channels, end - begin, to + begin, sizes.plane());
    }
  }
}

void run(const ConvShape& s, const float* input, const void* packed, WeightStorage storage, float* output,
         const Epilogue& epilogue, void* workspace, int threads) {
  const PackedWeights stored = weightsOf(s, storage);
  const auto* weights = static_cast<const float*>(packed);
  if (storage != WeightStorage::F32) {
    TS_SIMD(storedWeights)(packed, storage, stored.scales(packed, 0), stored.depth, static_cast<float*>(workspace));
    weights = static_cast<const float*>(workspace);
  }
  const PieceSizes sizes = piecesOf(s);
  const int64_t down = (s.outHeight() + sizes.rows - 1) / sizes.rows;
  const int64_t across = (s.outWidth() + sizes.columns - 1) / sizes.columns;
  const int64_t image = blockedSize(1, s.inChannels, s.inArea());
  parallelFor(s.batch * down * across, cost(s) < 20 ? 1 : threads, [&](int64_t i) {
    const int64_t n = i / across / down;
    const Piece rows = pieceOf(s.outHeight(), down, i / across % down),
                columns = pieceOf(s.outWidth(), across, i % across);
    float* planes = threadScratch(sizes.plane() * s.inChannels);
    fillPlanes(s, sizes, input + n * image, rows.begin - s.padTop, columns.begin - s.padLeft, planes);
    Epilogue e = epilogue;
    const int64_t at = n * s.outChannels * s.outArea() + rows.begin * s.outWidth() + columns.begin;
    if (e.residual) e.residual += at;
    TS_SIMD(fewOutputsOfPiece)(s, {rows, columns, planes, sizes.row, sizes.plane(), weights}, e, output + at);
  });
}

}  // namespace

const ConvTactic kFewOutputsConv = {"few_outputs",
                                    ActivationLayout::Blocked,
                                    ActivationLayout::Plain,
                                    false,
                                    nullptr,
                                    nullptr,
                                    nullptr,
                                    accepts,
                                    cost,
                                    packedBytesOf,
                                    pack,
                                    workspace,
                                    run};

}  // namespace tscompile
#endif
