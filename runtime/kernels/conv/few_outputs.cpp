// Convolutions to up to eight channels, as at the end of networks that make images or masks, at the beginning of small
// ones, or of each colour with filters of its own: where direct convolution would leave many lanes of a vector of
// output channels empty, these are vectors of neighbouring outputs. A piece of the input is brought into planes with
// its padding; then each vector of it is loaded once for all outputs.
#include "runtime/kernels/conv/few_outputs.h"

#include "runtime/call/scratch.h"
#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/packed_weights.h"

#include <algorithm>

#ifndef TSCOMPILE_CONV_FEW_OUTPUTS
#define TSCOMPILE_CONV_FEW_OUTPUTS
namespace tscompile {
namespace {

constexpr int64_t kMostOutputs = 8;

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
#define HWY_TARGET_INCLUDE "runtime/kernels/conv/few_outputs.cpp"
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
  convertWeights(packed, storage, scales, 0, depth, true, to);
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
      outputsOfPiece<1>, outputsOfPiece<2>, outputsOfPiece<3>, outputsOfPiece<4>,
      outputsOfPiece<5>, outputsOfPiece<6>, outputsOfPiece<7>, outputsOfPiece<8>};
  kTable[s.outChannels - 1](s, p, e, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

// `inputRate`: bytes of inputs that are brought into planes in a microsecond.
double costAt(const ConvShape& s, double inputRate) {
  const auto inputs = static_cast<double>(s.batch * s.inChannels * s.inArea());
  const double rate = s.outChannels == 1 ? 45e3 : 80e3;  // loads are the bound of one output
  return s.flops() / rate + inputs * 4 / inputRate +
         static_cast<double>(s.batch * s.outChannels * s.outArea()) * 4 / 20e3;
}
double cost(const ConvShape& s) { return costAt(s, 4e3); }

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
  constexpr int64_t kCached = 256 << 10, kMostColumns = 256, kFewestColumns = 64, kFewestRows = 8;
  const int64_t above = (s.kernelHeight - 1) * s.dilationHeight, beside = (s.kernelWidth - 1) * s.dilationWidth;
  PieceSizes p{std::min(s.outHeight(), std::max(kFewestRows, 4 * above)), std::min(s.outWidth(), kMostColumns), 0, 0};
  auto resize = [&] {
    p.row = (p.columns + kBlock - 1) / kBlock * kBlock + beside;
    p.planeRows = p.rows + above;
  };
  for (resize(); p.plane() * s.inChannels > kCached && p.columns > kFewestColumns; resize()) p.columns /= 2;
  for (; p.plane() * s.inChannels > kCached && p.rows > kFewestRows; resize()) p.rows /= 2;
  return p;
}

constexpr int64_t kMostFloats = 2 << 20;  // of the planes of a piece

bool accepts(const ConvShape& s) {
  // So that bringing inputs into planes is worth it; fewer channels come in planes.
  constexpr int64_t kFewestTaps = 5, kFewestInputs = 9;
  return s.groups == 1 && s.outChannels <= kMostOutputs && s.inChannels >= kFewestInputs && !s.isVolume() &&
         s.strideHeight == 1 && s.strideWidth == 1 && s.taps() >= kFewestTaps && !s.input.isLines() &&
         piecesOf(s).plane() * s.inChannels <= kMostFloats;
}

// Rows of the planes from row `top` and column `left` of the input on, which may lie outside of it. copy(c, count, y,
// x, to) brings pixels x, x + 1, ... of row y into the rows `to` of planes c, c + 1, ....
template <class Copy>
void fillPlanes(const ConvShape& s, const PieceSizes& sizes, int64_t together, int64_t top, int64_t left, float* planes,
                Copy&& copy) {
  const int64_t begin = std::clamp<int64_t>(-left, 0, sizes.row);
  const int64_t end = std::clamp<int64_t>(s.inWidth - left, begin, sizes.row);
  for (int64_t first = 0; first < s.inChannels; first += together) {
    const int64_t channels = std::min(together, s.inChannels - first);
    for (int64_t r = 0; r < sizes.planeRows; ++r) {
      float* to = planes + first * sizes.plane() + r * sizes.row;
      const int64_t y = top + r;
      const bool there = y >= 0 && y < s.inHeight;
      for (int64_t c = 0; c < channels; ++c) {
        std::fill_n(to + c * sizes.plane(), there ? begin : sizes.row, 0.0f);
        if (there) std::fill_n(to + c * sizes.plane() + end, sizes.row - end, 0.0f);
      }
      if (there) copy(first, channels, y, left + begin, end - begin, to + begin);
    }
  }
}

// The weights in f32, in `work` if they are stored otherwise.
const float* floatsOf(const PackedWeights& stored, const void* packed, void* work) {
  if (stored.storage == WeightStorage::F32) return static_cast<const float*>(packed);
  auto* weights = static_cast<float*>(work);
  for (int64_t panel = 0; panel < stored.panels; ++panel) TS_SIMD(storedWeights)
  (stored.values(packed, panel), stored.storage, stored.scales(packed, panel), stored.depth,
   weights + panel * stored.depth * kBlock);
  return weights;
}

// The pieces of `s`, which is of one image and group: fill(unit, sizes, top, left, planes) brings what they see.
template <class Fill>
void runPieces(const ConvShape& s, int64_t images, int64_t groups, const float* weights, float* output,
               const Epilogue& epilogue, int threads, Fill&& fill) {
  const PieceSizes sizes = piecesOf(s);
  const int64_t down = (s.outHeight() + sizes.rows - 1) / sizes.rows;
  const int64_t across = (s.outWidth() + sizes.columns - 1) / sizes.columns;
  parallelFor(images * groups * down * across, threads, [&](int64_t i) {
    const int64_t unit = i / across / down, group = unit % groups;
    const Piece rows = pieceOf(s.outHeight(), down, i / across % down),
                columns = pieceOf(s.outWidth(), across, i % across);
    float* planes = threadScratch(sizes.plane() * s.inChannels);
    fill(unit, sizes, rows.begin - s.padTop, columns.begin - s.padLeft, planes);
    Epilogue e = epilogue;
    const int64_t at = unit * s.outChannels * s.outArea() + rows.begin * s.outWidth() + columns.begin;
    if (e.bias) e.bias += group * s.outChannels;
    if (e.residual) e.residual += at;
    const float* own = weights + group * s.inChannels * s.taps() * kBlock;
    TS_SIMD(fewOutputsOfPiece)(s, {rows, columns, planes, sizes.row, sizes.plane(), own}, e, output + at);
  });
}

void run(const ConvShape& s, const float* input, const void* packed, WeightStorage storage, float* output,
         const Epilogue& epilogue, void* workspace, int threads) {
  const float* weights = floatsOf(weightsOf(s, storage), packed, workspace);
  const int64_t image = blockedSize(1, s.inChannels, s.inArea());
  auto fill = [&](int64_t n, const PieceSizes& sizes, int64_t top, int64_t left, float* planes) {
    const float* blocks = input + n * image;
    fillPlanes(s, sizes, kBlock, top, left, planes,
               [&](int64_t c, int64_t channels, int64_t y, int64_t x, int64_t count, float* to) {
                 const float* from = blocks + c * s.inArea() + (y * s.inWidth + x) * kBlock;
                 TS_SIMD(pixelsToPlanes)(from, channels, count, to, sizes.plane());
               });
  };
  runPieces(s, s.batch, 1, weights, output, epilogue, threadsWorth(cost(s), threads), fill);
}

// ---- planes that lie as such, in groups ----

// What one group of one image is.
ConvShape groupOf(const ConvShape& s) {
  ConvShape group = s;
  group.batch = group.groups = 1;
  group.inChannels = s.inGroup();
  group.outChannels = s.outGroup();
  return group;
}

bool acceptsPlanes(const ConvShape& s) {
  constexpr int64_t kMostChannels = 8;  // others fill the lanes of blocks
  return s.inChannels <= kMostChannels && s.outChannels <= kMostChannels && s.outGroup() <= kMostOutputs &&
         !s.isVolume() && s.strideHeight == 1 && s.strideWidth == 1 && !s.input.isLines() &&
         piecesOf(groupOf(s)).plane() * s.inGroup() <= kMostFloats;
}
double planesCost(const ConvShape& s) {
  const int64_t lanes = (s.outWidth() + kBlock - 1) / kBlock * kBlock;
  return static_cast<double>(s.batch * s.groups) * costAt(groupOf(s), 20e3) * static_cast<double>(lanes) /
         static_cast<double>(s.outWidth());
}

PackedWeights planesWeights(const ConvShape& s, WeightStorage storage) {
  return {s.groups, s.inGroup() * s.taps(), storage};
}
int64_t planesBytes(const ConvShape& s, WeightStorage storage) { return planesWeights(s, storage).bytes(); }
void packPlanes(const ConvShape& s, const float* weights, WeightStorage storage, void* packed) {
  const int64_t depth = s.inGroup() * s.taps();
  planesWeights(s, storage).pack(packed, [&](int64_t group, int64_t row, float* to) {
    gatherLanes(weights + group * s.outGroup() * depth + row, depth, s.outGroup(), to);
  });
}
int64_t planesWorkspace(const ConvShape& s, WeightStorage storage) { return s.groups * workspace(groupOf(s), storage); }

void runPlanes(const ConvShape& s, const float* input, const void* packed, WeightStorage storage, float* output,
               const Epilogue& epilogue, void* workspace, int threads) {
  const float* weights = floatsOf(planesWeights(s, storage), packed, workspace);
  const ConvShape group = groupOf(s);
  auto fill = [&](int64_t unit, const PieceSizes& sizes, int64_t top, int64_t left, float* planes) {
    const float* from = input + unit * group.inChannels * s.inArea();
    fillPlanes(group, sizes, 1, top, left, planes,
               [&](int64_t c, int64_t, int64_t y, int64_t x, int64_t count, float* to) {
                 std::copy_n(from + c * s.inArea() + y * s.inWidth + x, count, to);
               });
  };
  runPieces(group, s.batch, s.groups, weights, output, epilogue, threadsWorth(planesCost(s), threads), fill);
}

}  // namespace

const ConvTactic kFewOutputsConv = {.name = "few_outputs",
                                    .input = ActivationLayout::Blocked,
                                    .output = ActivationLayout::Plain,
                                    .accepts = accepts,
                                    .cost = cost,
                                    .packedBytes = packedBytesOf,
                                    .pack = pack,
                                    .workspace = workspace,
                                    .run = run};

const ConvTactic kPlanesConv = {.name = "planes",
                                .input = ActivationLayout::Plain,
                                .output = ActivationLayout::Plain,
                                .accepts = acceptsPlanes,
                                .cost = planesCost,
                                .packedBytes = planesBytes,
                                .pack = packPlanes,
                                .workspace = planesWorkspace,
                                .run = runPlanes};

}  // namespace tscompile
#endif
