// Convolutions in small groups on blocked activations; groups of one channel are depthwise ones. 16 channels of a run
// of outputs are kept in registers over all kernel positions: the runs lie along a row, or down a column where the
// kernel overhangs a side. A channel of each group at a time is brought to all lanes of its group.
#include "runtime/call/scratch.h"
#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/conv.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/packed_weights.h"
#include "runtime/kernels/pool2d.h"

#include <algorithm>
#include <utility>
#include <vector>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/conv/depthwise.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/product-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

inline constexpr int kRunOutputs = kVectors == 1 ? 8 : kVectors == 2 ? 6 : 2;  // sums that fit the registers
inline constexpr int kSharingOutputs = kVectors == 1   ? 8
                                       : kVectors == 2 ? 3
                                                       : 2;  // and the weights of a row of a kernel

void groupedWeights(const void* from, WeightStorage storage, const float* scales, int64_t rows, float* to) {
  convertWeights(from, storage, scales, 0, rows, true, to);
}

// Outputs `outStep` floats apart that see the same kernel positions, `inStep` floats apart in the input.
struct GroupedRun {
  const float *in, *weights;  // at the first of these positions
  int64_t rows, columns;      // of kernel positions
  int64_t inRow, inColumn, weightsRow, inStep, outStep;
  const float *bias, *residual;  // or null
  float* out;
  bool clamp;
  float low, high;
};

// Of outputs `outStep` floats apart: what sums begin with, and what becomes of them.
template <int kCount, int kSums, class D, class V = hn::Vec<D>>
HWY_INLINE void beginSums(D d, const float* bias, const float* residual, int64_t outStep, V (&sum)[kCount][kSums]) {
  constexpr int kStep = kBlock / kSums;
#pragma GCC unroll 16
  for (int v = 0; v < kSums; ++v) {
    const V start = bias ? hn::LoadU(d, bias + v * kStep) : hn::Zero(d);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) sum[i][v] = start;
  }
  if (!residual) return;
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < kSums; ++v) sum[i][v] = hn::Add(sum[i][v], hn::LoadU(d, residual + i * outStep + v * kStep));
}
template <int kCount, int kSums, class D, class Run, class V = hn::Vec<D>>
HWY_INLINE void endSums(D d, const Run& r, int64_t outStep, const V (&sum)[kCount][kSums]) {
  constexpr int kStep = kBlock / kSums;
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < kSums; ++v) {
      const V result = r.clamp ? atMost(d, r.high, atLeast(d, r.low, sum[i][v])) : sum[i][v];
      hn::StoreU(result, d, r.out + i * outStep + v * kStep);
    }
}

// Channel kChannel of each group of kGroup, in all lanes of the group; `lane` is the first of the vector.
template <int kGroup, int kChannel, class D>
HWY_INLINE hn::Vec<D> channelOfGroups(D d, const float* pixel, int lane) {
  if constexpr (kGroup == 1) {
    return hn::LoadU(d, pixel + lane);
  } else if constexpr (kGroup == 2) {
    return kChannel == 0 ? hn::DupEven(hn::LoadU(d, pixel + lane)) : hn::DupOdd(hn::LoadU(d, pixel + lane));
  } else {
    static_assert(kGroup == 4);
    return hn::Broadcast<kChannel>(hn::LoadU(d, pixel + lane));
  }
}

// Calls body(channel) for each channel of a group. A vector of one group has it from memory: there, channels are a
// loop, so that the addresses of all outputs stay in registers.
template <int kGroup, bool kLoop, class Body>
HWY_INLINE void forChannels(Body&& body) {
  if constexpr (kLoop) {
#pragma GCC unroll 1
    for (int channel = 0; channel < kGroup; ++channel) body(channel);
  } else {
    [&]<int... kChannel>(std::integer_sequence<int, kChannel...>) HWY_ATTR {
      (body(std::integral_constant<int, kChannel>()), ...);
    }
    (std::make_integer_sequence<int, kGroup>());
  }
}

template <int kGroup, int kCount>
void groupedRun(const GroupedRun& r) {
  const hn::CappedTag<float, kGroup == 8 ? 8 : kBlock> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kStep = static_cast<int>(hn::MaxLanes(decltype(d)())), kSums = kBlock / kStep;
  constexpr bool kLoop = kGroup > 1 && kGroup >= kStep;
  auto ofChannel = [&](auto channel, const float* pixel, int v) HWY_ATTR {
    if constexpr (kLoop)
      return hn::Set(d, pixel[v * kStep / kGroup * kGroup + channel]);
    else
      return channelOfGroups<kGroup, channel>(d, pixel, v * kStep);
  };
  V sum[kCount][kSums];
  beginSums(d, r.bias, r.residual, r.outStep, sum);
  for (int64_t j = 0; j < r.rows; ++j) {
    const float* HWY_RESTRICT a = r.in + j * r.inRow;
    const float* HWY_RESTRICT w = r.weights + j * r.weightsRow;
    for (int64_t k = 0; k < r.columns; ++k, a += r.inColumn, w += kGroup * kBlock)
      forChannels<kGroup, kLoop>([&](auto channel) HWY_ATTR {
#pragma GCC unroll 16
        for (int v = 0; v < kSums; ++v) {
          const V weight = hn::LoadU(d, w + channel * kBlock + v * kStep);
#pragma GCC unroll 16
          for (int i = 0; i < kCount; ++i)
            sum[i][v] = hn::MulAdd(weight, ofChannel(channel, a + i * r.inStep, v), sum[i][v]);
        }
      });
  }
  endSums(d, r, r.outStep, sum);
}

template <int kGroup, int... kCount>
HWY_INLINE void runOf(int64_t count, const GroupedRun& r, std::integer_sequence<int, kCount...>) {
  static constexpr void (*kTable[])(const GroupedRun&) = {groupedRun<kGroup, kCount + 1>...};
  kTable[count - 1](r);
}

// Outputs along a dimension for which all of the kernel lies inside.
HWY_INLINE Piece seeingAll(int64_t out, int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  const int64_t first = std::min(out, (pad + stride - 1) / stride), room = in - 1 - (kernel - 1) * dilation + pad;
  return {first, std::max(first, std::min(out, room < 0 ? 0 : room / stride + 1))};
}

// Floats between neighbouring pixels, and between blocks of channels.
HWY_INLINE int64_t pixelOf(bool byPixels, int64_t channels) { return byPixels ? channels : kBlock; }
HWY_INLINE int64_t blockOf(bool byPixels, int64_t area) { return byPixels ? kBlock : area * kBlock; }

struct BlockDistances {
  int64_t in, out, weights;
};
inline bool isActivatedLater(const Epilogue& e) { return e.activation != Activation::None && !isClamp(e.activation); }

// What comes after a run of outputs of the first block: its activation, and the same of the other blocks.
template <int kGroup>
HWY_NOINLINE void runBlocks(GroupedRun r, int64_t count, const BlockDistances& apart, int64_t blocks,
                            const Epilogue& e) {
  for (int64_t block = 1;; ++block) {
    if (isActivatedLater(e)) activateRows(r.out, r.outStep, count, kBlock, e.activation, e.alpha, e.beta);
    if (block == blocks) return;
    r.in += apart.in;
    r.out += apart.out;
    r.weights += apart.weights;
    if (r.bias) r.bias += kBlock;
    runOf<kGroup>(count, r, std::make_integer_sequence<int, kRunOutputs>());
  }
}

// Outputs of a row one after the other, and rows of a kernel that lie inside. Of the columns that these outputs see,
// one may lie outside only among the first and the last kWidth - 1.
struct SharingRun {
  const float *in, *weights;  // at the first column, inside or not
  int64_t rows, inRow;
  uint32_t inside;               // bits of the columns
  const float *bias, *residual;  // or null
  float* out;
  bool clamp;
  float low, high;
};

// Depthwise, each column of the input is loaded once for all outputs that see it.
template <int kWidth, int kStride, int kCount>
void sharingRun(const SharingRun& r) {
  const hn::CappedTag<float, kBlock> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kStep = static_cast<int>(hn::MaxLanes(decltype(d)())), kSums = kBlock / kStep;
  constexpr int kColumns = (kCount - 1) * kStride + kWidth;
  V sum[kCount][kSums];
  beginSums(d, r.bias, r.residual, kBlock, sum);
  for (int64_t j = 0; j < r.rows; ++j) {
    const float* HWY_RESTRICT a = r.in + j * r.inRow;
    const float* HWY_RESTRICT w = r.weights + j * kWidth * kBlock;
#pragma GCC unroll 16
    for (int v = 0; v < kSums; ++v) {
      V weights[kWidth];
#pragma GCC unroll 8
      for (int k = 0; k < kWidth; ++k) weights[k] = hn::LoadU(d, w + k * kBlock + v * kStep);
#pragma GCC unroll 32
      for (int c = 0; c < kColumns; ++c) {
        const float* at = a + c * kBlock + v * kStep;
        const bool maybe = c < kWidth - 1 || c > kColumns - kWidth;
        const auto isInside = hn::FirstN(d, !maybe || r.inside >> c & 1 ? kStep : 0);
        const V column = maybe ? hn::MaskedLoad(isInside, d, at) : hn::LoadU(d, at);
#pragma GCC unroll 8
        for (int k = c % kStride; k < kWidth; k += kStride) {
          const int i = (c - k) / kStride;
          if (c < k || i >= kCount) continue;
          const V more = hn::MulAdd(weights[k], column, sum[i][v]);
          // What lies outside adds nothing, to infinite weights neither.
          sum[i][v] = maybe ? hn::IfThenElse(isInside, more, sum[i][v]) : more;
        }
      }
    }
  }
  endSums(d, r, kBlock, sum);
}

template <int kWidth, int kStride, int... kCount>
HWY_INLINE void sharingRunOf(int64_t count, const SharingRun& r, std::integer_sequence<int, kCount...>) {
  static constexpr void (*kTable[])(const SharingRun&) = {sharingRun<kWidth, kStride, kCount + 1>...};
  kTable[count - 1](r);
}

inline bool sharesColumns(const ConvShape& s) {
  return (s.kernelWidth == 3 || s.kernelWidth == 5) && s.dilationWidth == 1 && s.strideWidth <= 2 &&
         s.padLeft < s.kernelWidth && s.padRight < s.kernelWidth && !s.inByPixels && !s.outByPixels;
}

// The activation or the integers of a row of outputs.
HWY_INLINE void finishOutputs(const ConvShape& s, const Epilogue& e, float* row, int64_t outPixel, bool activates) {
  const int64_t width = s.outWidth();
  if (activates) activateRows(row, outPixel, width, kBlock, e.activation, e.alpha, e.beta);
  if (e.factors) requantizeTile(row, kBlock, width, kBlock, e.factors, {e.alpha, e.beta});
}

template <int kWidth, int kStride>
HWY_INLINE void sharingRows(const ConvShape& s, const float* in, const float* weights, const Epilogue& e, float* out,
                            Piece rows) {
  const int64_t width = s.outWidth(), pieces = (width + kSharingOutputs - 1) / kSharingOutputs,
                inRow = s.inWidth * kBlock;
  SharingRun r{};
  r.inRow = s.dilationHeight * inRow;
  r.bias = e.bias;
  r.clamp = isClamp(e.activation);
  r.low = clampLow(e);
  r.high = clampHigh(e);
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const int64_t top = y * s.strideHeight - s.padTop;
    const Piece ky = windowInside(top, s.kernelHeight, s.dilationHeight, s.inHeight);
    r.rows = ky.end - ky.begin;
    r.weights = weights + ky.begin * kWidth * kBlock;
    for (int64_t i = 0; i < pieces; ++i) {
      const Piece piece = pieceOf(width, pieces, i);
      const int64_t count = piece.end - piece.begin, left = piece.begin * kStride - s.padLeft;
      const int64_t before = std::max<int64_t>(0, -left),
                    seen = std::min((count - 1) * kStride + kWidth, s.inWidth - left);
      r.inside = seen <= before ? 0 : (1u << seen) - (1u << before);
      r.in = in + (top + ky.begin * s.dilationHeight) * inRow + left * kBlock;
      r.out = out + (y * width + piece.begin) * kBlock;
      r.residual = e.residual ? e.residual + (y * width + piece.begin) * kBlock : nullptr;
      sharingRunOf<kWidth, kStride>(count, r, std::make_integer_sequence<int, kSharingOutputs>());
    }
    finishOutputs(s, e, out + y * width * kBlock, kBlock, isActivatedLater(e));
  }
}

// Rows of a frame of some blocks of channels. Where these lie side by side, a run goes through all of them before the
// next.
template <int kGroup>
HWY_INLINE void groupedRows(const ConvShape& s, const float* in, const float* weights, const Epilogue& e, float* out,
                            Piece rows, int64_t blocks) {
  const int64_t inPixel = pixelOf(s.inByPixels, s.inChannels), outPixel = pixelOf(s.outByPixels, s.outChannels);
  const int64_t width = s.outWidth(), inRow = s.inWidth * inPixel;
  const Piece wholeX = seeingAll(width, s.inWidth, s.kernelWidth, s.strideWidth, s.dilationWidth, s.padLeft);
  Piece wholeY = seeingAll(s.outHeight(), s.inHeight, s.kernelHeight, s.strideHeight, s.dilationHeight, s.padTop);
  wholeY = {std::clamp(wholeY.begin, rows.begin, rows.end), std::clamp(wholeY.end, rows.begin, rows.end)};
  GroupedRun r{};
  r.inRow = s.dilationHeight * inRow;
  r.inColumn = s.dilationWidth * inPixel;
  r.weightsRow = s.kernelWidth * kGroup * kBlock;
  r.bias = e.bias;
  const BlockDistances distances{blockOf(s.inByPixels, s.inArea()), blockOf(s.outByPixels, s.outArea()),
                                 s.kernelHeight * r.weightsRow};
  const bool down = s.inByPixels || s.outByPixels;
  r.clamp = isClamp(e.activation);
  r.low = clampLow(e);
  r.high = clampHigh(e);
  auto run = [&](int64_t y, int64_t x, int64_t count) {
    const int64_t top = y * s.strideHeight - s.padTop, left = x * s.strideWidth - s.padLeft;
    const Piece ky = windowInside(top, s.kernelHeight, s.dilationHeight, s.inHeight);
    const Piece kx = windowInside(left, s.kernelWidth, s.dilationWidth, s.inWidth);
    r.rows = ky.end - ky.begin;
    r.columns = kx.end - kx.begin;
    r.in = in + (top + ky.begin * s.dilationHeight) * inRow + (left + kx.begin * s.dilationWidth) * inPixel;
    r.weights = weights + ky.begin * r.weightsRow + kx.begin * kGroup * kBlock;
    r.out = out + (y * width + x) * outPixel;
    r.residual = e.residual ? e.residual + (y * width + x) * kBlock : nullptr;
    runOf<kGroup>(count, r, std::make_integer_sequence<int, kRunOutputs>());
    if (down) runBlocks<kGroup>(r, count, distances, blocks, e);
  };
  auto pieces = [](Piece all, auto&& body) {
    const int64_t count = all.end - all.begin, some = (count + kRunOutputs - 1) / kRunOutputs;
    for (int64_t i = 0; i < some; ++i) {
      const Piece piece = pieceOf(count, some, i);
      body(all.begin + piece.begin, piece.end - piece.begin);
    }
  };
  auto eachSide = [&](auto&& body) {
    for (int64_t x = 0; x < wholeX.begin; ++x) body(x);
    for (int64_t x = wholeX.end; x < width; ++x) body(x);
  };
  r.inStep = s.strideHeight * inRow;
  r.outStep = width * outPixel;
  eachSide([&](int64_t x) { pieces(wholeY, [&](int64_t y, int64_t count) { run(y, x, count); }); });
  r.inStep = s.strideWidth * inPixel;
  r.outStep = outPixel;
  // Pixels that lie apart share few sets of the nearest cache: there, one run after the other goes down all rows.
  if (down)
    pieces(wholeX, [&](int64_t x, int64_t count) {
      for (int64_t y = rows.begin; y < rows.end; ++y) run(y, x, count);
    });
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    if (!down) pieces(wholeX, [&](int64_t x, int64_t count) { run(y, x, count); });
    if (y < wholeY.begin || y >= wholeY.end) eachSide([&](int64_t x) { run(y, x, 1); });
    finishOutputs(s, e, out + y * width * outPixel, outPixel, isActivatedLater(e) && !down);
  }
}

void rowsOfFrame(const ConvShape& s, const float* in, const float* weights, const Epilogue& e, float* out, Piece rows,
                 int64_t blocks) {
  switch (s.inGroup()) {
    case 2:
      return groupedRows<2>(s, in, weights, e, out, rows, blocks);
    case 4:
      return groupedRows<4>(s, in, weights, e, out, rows, blocks);
    case 8:
      return groupedRows<8>(s, in, weights, e, out, rows, blocks);
    case 16:
      return groupedRows<16>(s, in, weights, e, out, rows, blocks);
    default:
      if (!sharesColumns(s)) return groupedRows<1>(s, in, weights, e, out, rows, blocks);
      if (s.kernelWidth == 3)
        return (s.strideWidth == 1 ? sharingRows<3, 1> : sharingRows<3, 2>)(s, in, weights, e, out, rows);
      return (s.strideWidth == 1 ? sharingRows<5, 1> : sharingRows<5, 2>)(s, in, weights, e, out, rows);
  }
}

// Rows of all frames. Each frame of the kernel adds to what those before it made.
void rowsOfGroups(const ConvShape& s, const float* in, const float* weights, const Epilogue& e, float* out, Piece rows,
                  int64_t blocks) {
  const ConvFrames& f = s.frames;
  const int64_t height = s.outHeight(), inFrame = s.inHeight * s.inWidth * pixelOf(s.inByPixels, s.inChannels),
                outFrame = height * s.outWidth() * pixelOf(s.outByPixels, s.outChannels),
                weightsFrame = s.kernelHeight * s.kernelWidth * s.inGroup() * kBlock;
  ConvShape nothing = s;
  nothing.kernelHeight = 0;
  for (int64_t z = rows.begin / height; z * height < rows.end; ++z) {
    const int64_t front = z * f.stride - f.padFront;
    const Piece seen = windowInside(front, f.kernel, f.dilation, f.in);
    const Piece ofFrame{std::max<int64_t>(0, rows.begin - z * height), std::min(height, rows.end - z * height)};
    float* to = out + z * outFrame;
    Epilogue part = e;
    if (e.residual) part.residual += z * outFrame;
    if (seen.begin >= seen.end) rowsOfFrame(nothing, in, weights, part, to, ofFrame, blocks);
    for (int64_t k = seen.begin; k < seen.end; ++k) {
      const bool isLast = k + 1 == seen.end;
      part.activation = isLast ? e.activation : Activation::None;
      part.factors = isLast ? e.factors : nullptr;
      rowsOfFrame(s, in + (front + k * f.dilation) * inFrame, weights + k * weightsFrame, part, to, ofFrame, blocks);
      part.bias = nullptr;
      part.residual = to;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

bool isSmallGroup(const ConvShape& s, int64_t channels) {
  return s.groups > 1 && s.inGroup() == channels && s.outGroup() == channels;
}
bool depthwiseAccepts(const ConvShape& s) { return s.groups > 1 && s.inGroup() == 1; }
bool groupedAccepts(const ConvShape& s) {
  return isSmallGroup(s, 2) || isSmallGroup(s, 4) || isSmallGroup(s, 8) || isSmallGroup(s, 16);
}

double cost(const ConvShape& s) {
  // Products at the speed that was measured: depthwise ones take half a load each, those of larger groups less; groups
  // of a block gain on direct products where these copy the input. Of all lanes of its blocks, and the memory that goes
  // in and out.
  const double speed = s.inGroup() == 1                        ? 40e3
                       : s.inGroup() == 2                      ? 60e3
                       : s.inGroup() < kBlock || s.taps() == 1 ? 75e3
                                                               : 110e3;
  const auto used = static_cast<double>(s.outChannels) / static_cast<double>(channelBlocks(s.outChannels) * kBlock);
  double moved = 4.0 * static_cast<double>(s.batch * s.outChannels * (s.inArea() + s.outArea()));
  return s.flops() / used / speed + moved / 20e3;
}

PackedWeights weightsOf(const ConvShape& s, WeightStorage storage) {
  return {channelBlocks(s.outChannels), s.taps() * s.inGroup(), storage};
}
int64_t packedBytesOf(const ConvShape& s, WeightStorage storage) { return weightsOf(s, storage).bytes(); }
void pack(const ConvShape& s, const float* weights, WeightStorage storage, void* packed) {
  const int64_t area = s.taps(), depth = area * s.inGroup();
  weightsOf(s, storage).pack(packed, [&](int64_t panel, int64_t row, float* to) {
    const int64_t position = row / s.inGroup(), in = row % s.inGroup();
    gatherLanes(weights + panel * kBlock * depth + in * area + position, depth, s.outChannels - panel * kBlock, to);
  });
}

// Several outputs of one channel see a copy of it each.
bool copies(const ConvShape& s) { return s.inGroup() == 1 && s.outGroup() > 1; }
int64_t workspace(const ConvShape& s, WeightStorage) {
  return copies(s) ? blockedSize(s.batch, s.outChannels, s.inArea()) * static_cast<int64_t>(sizeof(float)) : 0;
}
void copyChannels(const ConvShape& s, const float* input, float* to, int threads) {
  const int64_t area = s.inArea(), blocks = channelBlocks(s.outChannels), planes = s.batch * blocks;
  parallelFor(planes, planes * area < 4096 ? 1 : threads, [&](int64_t plane) {
    const float* image = input + blockedSize(plane / blocks, s.inChannels, area);
    int64_t from[kBlock];
    for (int64_t lane = 0; lane < kBlock; ++lane) {
      const int64_t channel = std::min(plane % blocks * kBlock + lane, s.outChannels - 1) / s.outGroup();
      from[lane] = channel / kBlock * area * kBlock + channel % kBlock;
    }
    float* out = to + plane * area * kBlock;
    for (int64_t i = 0; i < area; ++i)
      for (int64_t lane = 0; lane < kBlock; ++lane) out[i * kBlock + lane] = image[from[lane] + i * kBlock];
  });
}

bool onLines(const ConvShape& s, WeightStorage storage, DType dtype) {
  return s.roundsInputs && !copies(s) && !s.isVolume() && !s.inByPixels && !s.outByPixels && hasLineProducts(storage) &&
         storage == (dtype == DType::BFloat16 ? WeightStorage::BF16 : WeightStorage::I8);
}

bool takesPixels(const ConvShape& s) {
  return s.groups == s.outChannels && s.outChannels % kBlock == 0 && !s.isVolume();
}

// Blocks that are computed together: of pixels, as many as their rows under the kernel leave room for in the nearest
// cache. Lines that are read there one after the other come faster.
int64_t blocksTogether(const ConvShape& s) {
  if (!s.inByPixels && !s.outByPixels) return 1;
  constexpr int64_t kRoom = 24 * 1024, kPixels = 8, kMost = 8, kBlockBytes = kBlock * sizeof(float);
  return std::clamp<int64_t>(kRoom / ((kPixels + s.kernelWidth - 1) * (s.kernelHeight + 1) * kBlockBytes), 1, kMost);
}

// The weights of some blocks as floats.
const float* floatsOf(const PackedWeights& weights, const void* packed, Piece blocks) {
  if (weights.storage == WeightStorage::F32) return static_cast<const float*>(weights.values(packed, blocks.begin));
  float* to = threadScratch((blocks.end - blocks.begin) * weights.depth * kBlock);
  auto convert = TS_SIMD(groupedWeights);
  for (int64_t block = blocks.begin; block < blocks.end; ++block)
    convert(weights.values(packed, block), weights.storage, weights.scales(packed, block), weights.depth,
            to + (block - blocks.begin) * weights.depth * kBlock);
  return to;
}

void run(const ConvShape& s, const float* input, const void* packed, WeightStorage storage, float* output,
         const Epilogue& epilogue, void* workspace, int threads) {
  const int64_t blocks = channelBlocks(s.outChannels), height = s.frames.out() * s.outHeight();
  const int64_t inPlane = s.inArea() * kBlock, outPlane = s.outArea() * kBlock;
  if (s.input.isLines()) return depthwiseOfLines(s, input, weightsOf(s, storage), packed, output, epilogue, threads);
  const double total = cost(s);
  threads = threadsWorth(total, threads);
  if (copies(s)) {
    copyChannels(s, input, static_cast<float*>(workspace), threads);
    input = static_cast<const float*>(workspace);
  }
  const PackedWeights weights = weightsOf(s, storage);
  // Pieces of about 10 us: of a plane where it is large, else several planes.
  const int64_t wanted = piecesWorth(total, 128);
  const int64_t parts = (blocks + blocksTogether(s) - 1) / blocksTogether(s);  // of an image
  const int64_t planes = s.batch * parts, planePieces = std::min(planes, wanted);
  const int64_t rowPieces = std::min(height, (wanted + planePieces - 1) / planePieces);
  auto rows = TS_SIMD(rowsOfGroups);
  parallelFor(planePieces * rowPieces, threads, [&](int64_t i) {
    // Rows of all planes together, as other convolutions have made them.
    Piece range = pieceOf(planes, planePieces, i % planePieces), piece = pieceOf(height, rowPieces, i / planePieces);
    for (int64_t plane = range.begin; plane < range.end; ++plane) {
      const Piece some = pieceOf(blocks, parts, plane % parts);
      const int64_t before = plane / parts * blocks;  // blocks of other images
      Epilogue e = epilogue;
      if (e.bias) e.bias += some.begin * kBlock;
      if (e.factors) e.factors += some.begin * kBlock;
      if (e.residual) e.residual += (before + some.begin) * outPlane;
      auto startOf = [&](bool byPixels, int64_t size) {
        return before * size + some.begin * (byPixels ? kBlock : size);
      };
      rows(s, input + startOf(s.inByPixels, inPlane), floatsOf(weights, packed, some), e,
           output + startOf(s.outByPixels, outPlane), piece, some.end - some.begin);
    }
  });
}

}  // namespace

const ConvTactic kDepthwiseConv = {.name = "depthwise",
                                   .input = ActivationLayout::Blocked,
                                   .output = ActivationLayout::Blocked,
                                   .takesLines = onLines,
                                   .makesLines = onLines,
                                   .accepts = depthwiseAccepts,
                                   .cost = cost,
                                   .packedBytes = packedBytesOf,
                                   .pack = pack,
                                   .workspace = workspace,
                                   .run = run,
                                   .keepsKind = true,
                                   .takesPixels = takesPixels};
const ConvTactic kGroupedConv = {.name = "grouped",
                                 .input = ActivationLayout::Blocked,
                                 .output = ActivationLayout::Blocked,
                                 .accepts = groupedAccepts,
                                 .cost = cost,
                                 .packedBytes = packedBytesOf,
                                 .pack = pack,
                                 .workspace = workspace,
                                 .run = run};

}  // namespace tscompile
#endif
