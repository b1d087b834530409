// Depthwise convolution on blocked activations: 16 channels of a run of neighbouring outputs are kept in registers
// over all kernel positions. Outputs that the kernel overhangs are done one at a time.
#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/conv.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/packed_weights.h"

#include <algorithm>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/conv_depthwise.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/product-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

void depthwiseWeights(const void* from, WeightStorage storage, const float* scales, int64_t rows, float* to) {
  convertWeights(from, storage, scales, 0, rows, to);
}

// Outputs x .. x + kCount - 1 of row y, kernel positions [ky0, ky1) x [kx0, kx1).
template <int kCount>
HWY_INLINE void depthwiseRun(const ConvShape& s, const float* in, const float* weights, const float* bias,
                             const float* residual, float* out, int64_t y, int64_t x, Piece ky, Piece kx) {
  const hn::CappedTag<float, kBlock> d;
  using V = hn::Vec<decltype(d)>;
  V sum[kCount][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    V start = bias ? hn::LoadU(d, bias + v * kLanes) : hn::Zero(d);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) sum[i][v] = start;
  }
  if (residual) {
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v)
        sum[i][v] = hn::Add(sum[i][v], hn::LoadU(d, residual + i * kBlock + v * kLanes));
  }
  const int64_t column = s.strideWidth * kBlock;
  for (int64_t j = ky.begin; j < ky.end; ++j) {
    int64_t inY = y * s.strideHeight + j * s.dilationHeight - s.padTop;
    const float* HWY_RESTRICT row = in + (inY * s.inWidth + x * s.strideWidth - s.padLeft) * kBlock;
    for (int64_t k = kx.begin; k < kx.end; ++k) {
      const float* HWY_RESTRICT a = row + k * s.dilationWidth * kBlock;
      const float* HWY_RESTRICT w = weights + (j * s.kernelWidth + k) * kBlock;
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        V wv = hn::LoadU(d, w + v * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < kCount; ++i)
          sum[i][v] = hn::MulAdd(wv, hn::LoadU(d, a + i * column + v * kLanes), sum[i][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[i][v], d, out + i * kBlock + v * kLanes);
}

// Kernel positions that lie inside [0, size) for an output at `at`.
HWY_INLINE Piece inside(int64_t at, int64_t kernel, int64_t dilation, int64_t size) {
  int64_t begin = at >= 0 ? 0 : (-at + dilation - 1) / dilation;
  int64_t end = at >= size ? 0 : (size - at + dilation - 1) / dilation;
  return {std::min(begin, kernel), std::max(std::min(begin, kernel), std::min(end, kernel))};
}

// Rows of one block of channels.
void depthwiseRows(const ConvShape& s, const float* in, const float* weights, const Epilogue& e, float* out,
                   Piece rows) {
  const int64_t width = s.outWidth(), span = (s.kernelWidth - 1) * s.dilationWidth;
  // Outputs [first, end) see the whole width of the kernel.
  int64_t first = std::min(width, (s.padLeft + s.strideWidth - 1) / s.strideWidth);
  int64_t room = s.inWidth - 1 - span + s.padLeft;
  int64_t end = std::max(first, std::min(width, room < 0 ? 0 : room / s.strideWidth + 1));
  const Piece all{0, s.kernelWidth};
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    Piece ky = inside(y * s.strideHeight - s.padTop, s.kernelHeight, s.dilationHeight, s.inHeight);
    float* outRow = out + y * width * kBlock;
    const float* residual = e.residual ? e.residual + y * width * kBlock : nullptr;
    auto at = [&](const float* p, int64_t x) { return p ? p + x * kBlock : nullptr; };
    for (int64_t x = 0; x < width;) {
      if (x >= first && x < end) {
        if (x + 8 <= end && kVectors == 1) {
          depthwiseRun<8>(s, in, weights, e.bias, at(residual, x), outRow + x * kBlock, y, x, ky, all);
          x += 8;
          continue;
        }
        if (x + 4 <= end && kVectors <= 2) {
          depthwiseRun<4>(s, in, weights, e.bias, at(residual, x), outRow + x * kBlock, y, x, ky, all);
          x += 4;
          continue;
        }
      }
      Piece kx = inside(x * s.strideWidth - s.padLeft, s.kernelWidth, s.dilationWidth, s.inWidth);
      depthwiseRun<1>(s, in, weights, e.bias, at(residual, x), outRow + x * kBlock, y, x, ky, kx);
      ++x;
    }
    if (e.activation != Activation::None) activateRows(outRow, 0, 1, width * kBlock, e.activation, e.alpha, e.beta);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

bool accepts(const ConvShape& s) { return s.inGroup() == 1 && s.outGroup() == 1 && s.groups > 1; }

double cost(const ConvShape& s) {
  // Half a load a product, and the memory that goes in and out.
  double moved =
      4.0 * static_cast<double>(s.batch * s.outChannels * (s.inHeight * s.inWidth + s.outHeight() * s.outWidth()));
  return s.flops() / 40e3 + moved / 20e3;
}

PackedWeights weightsOf(const ConvShape& s, WeightStorage storage) {
  return {channelBlocks(s.outChannels), s.kernelHeight * s.kernelWidth, storage};
}
int64_t packedBytesOf(const ConvShape& s, WeightStorage storage) { return weightsOf(s, storage).bytes(); }
void pack(const ConvShape& s, const float* weights, WeightStorage storage, void* packed) {
  const int64_t area = s.kernelHeight * s.kernelWidth;
  weightsOf(s, storage).pack(packed, [&](int64_t panel, int64_t row, float* to) {
    gatherLanes(weights + panel * kBlock * area + row, area, s.outChannels - panel * kBlock, to);
  });
}

int64_t workspace(const ConvShape&) { return 0; }

void run(const ConvShape& s, const float* input, const void* packed, WeightStorage storage, float* output,
         const Epilogue& epilogue, void*, int threads) {
  const int64_t blocks = channelBlocks(s.outChannels), height = s.outHeight();
  const int64_t inPlane = s.inHeight * s.inWidth * kBlock, outPlane = height * s.outWidth() * kBlock;
  const double total = cost(s);
  if (total < 20) threads = 1;
  const PackedWeights weights = weightsOf(s, storage);
  // Pieces of about 10 us: of a plane where it is large, else several planes.
  const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(total / 10), 1, 128);
  const int64_t planes = s.batch * blocks, planePieces = std::min(planes, wanted);
  const int64_t rowPieces = std::min(height, (wanted + planePieces - 1) / planePieces);
  auto rows = TS_SIMD(depthwiseRows);
  auto convert = TS_SIMD(depthwiseWeights);
  parallelFor(planePieces * rowPieces, threads, [&](int64_t i) {
    Piece range = pieceOf(planes, planePieces, i / rowPieces), piece = pieceOf(height, rowPieces, i % rowPieces);
    for (int64_t plane = range.begin; plane < range.end; ++plane) {
      const int64_t block = plane % blocks;
      const void* values = weights.values(packed, block);
      const auto* w = static_cast<const float*>(values);
      if (storage != WeightStorage::F32) {
        float* converted = threadScratch(weights.depth * kBlock);
        convert(values, storage, weights.scales(packed, block), weights.depth, converted);
        w = converted;
      }
      Epilogue e = epilogue;
      if (e.bias) e.bias += block * kBlock;
      if (e.residual) e.residual += plane * outPlane;
      rows(s, input + plane * inPlane, w, e, output + plane * outPlane, piece);
    }
  });
}

}  // namespace

const ConvTactic kDepthwiseConv = {
    "depthwise", ActivationLayout::Blocked, ActivationLayout::Blocked, accepts, cost, packedBytesOf, pack, workspace,
    run};

}  // namespace tscompile
#endif
