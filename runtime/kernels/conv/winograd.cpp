// Winograd's F(4x4, 3x3) (Lavin, Gray 2016) for 3 x 3 kernels of stride 1: 6 x 6 patches of the input are transformed,
// multiplied with transformed weights as 36 matrix products, and transformed back to 4 x 4 outputs: a quarter of the
// products. With dilation d each d-th row and column are convolved so, apart from the others. An infinity or NaN in a
// patch reaches all 16 outputs. The points 0, +-a, +-b and infinity with a = 5/8 and b = 3/2 have half the error of the
// usual 0, +-1, +-2: 2.2 times that of direct summation. Their powers are exact in f32.
#include "runtime/call/scratch.h"
#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/conv.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/packed_weights.h"

#include <algorithm>
#include <vector>

#ifndef TSCOMPILE_WINOGRAD_POINTS
#define TSCOMPILE_WINOGRAD_POINTS
namespace tscompile {
namespace {
[[maybe_unused]] constexpr float kA = 0.625f, kB = 1.5f;
}
}  // namespace tscompile
#endif

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/conv/winograd.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/product-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// B^T d, in place: the coefficients of the product of (x - p) over all points p but one.
template <class D, class V>
HWY_INLINE void transformInput(D d, V& d0, V& d1, V& d2, V& d3, V& d4, V& d5) {
  const V a = hn::Set(d, kA), b = hn::Set(d, kB), aa = hn::Set(d, kA * kA), bb = hn::Set(d, kB * kB);
  const V product = hn::Set(d, kA * kA * kB * kB), sum = hn::Set(d, kA * kA + kB * kB);
  V evenA = hn::NegMulAdd(bb, d2, d4), oddA = hn::NegMulAdd(bb, d1, d3);
  V evenB = hn::NegMulAdd(aa, d2, d4), oddB = hn::NegMulAdd(aa, d1, d3);
  d0 = hn::NegMulAdd(sum, d2, hn::MulAdd(product, d0, d4));
  d5 = hn::NegMulAdd(sum, d3, hn::MulAdd(product, d1, d5));
  d1 = hn::MulAdd(a, oddA, evenA);
  d2 = hn::NegMulAdd(a, oddA, evenA);
  d3 = hn::MulAdd(b, oddB, evenB);
  d4 = hn::NegMulAdd(b, oddB, evenB);
}

// The patch whose corner is (y, x), of every so many rows and columns of one block of channels -> 36 blocks, `apart`
// floats from each other.
void patchToBlocks(const float* plane, int64_t height, int64_t width, int64_t y, int64_t x, int64_t everyRow,
                   int64_t everyColumn, float* out, int64_t apart) {
  const hn::CappedTag<float, kBlock> d;
  using V = hn::Vec<decltype(d)>;
  alignas(64) float half[36 * kBlock];
  const bool inside = y >= 0 && x >= 0 && y + 5 * everyRow < height && x + 5 * everyColumn < width;
  for (int64_t lane = 0; lane < kBlock; lane += kLanes) {
    for (int64_t j = 0; j < 6; ++j) {
      V v[6];
#pragma GCC unroll 6
      for (int64_t i = 0; i < 6; ++i) {
        const int64_t row = y + i * everyRow, column = x + j * everyColumn;
        const bool there = inside || (row >= 0 && row < height && column >= 0 && column < width);
        v[i] = there ? hn::LoadU(d, plane + (row * width + column) * kBlock + lane) : hn::Zero(d);
      }
      transformInput(d, v[0], v[1], v[2], v[3], v[4], v[5]);
#pragma GCC unroll 6
      for (int64_t i = 0; i < 6; ++i) hn::Store(v[i], d, half + (i * 6 + j) * kBlock + lane);
    }
    for (int64_t i = 0; i < 6; ++i) {
      V v[6];
#pragma GCC unroll 6
      for (int64_t j = 0; j < 6; ++j) v[j] = hn::Load(d, half + (i * 6 + j) * kBlock + lane);
      transformInput(d, v[0], v[1], v[2], v[3], v[4], v[5]);
#pragma GCC unroll 6
      for (int64_t j = 0; j < 6; ++j) hn::StoreU(v[j], d, out + (i * 6 + j) * apart + lane);
    }
  }
}

// A^T m, six values to four: powers of the points.
template <class D, class V>
HWY_INLINE void transformOutput(D d, const V* m, V* y) {
  const V a = hn::Set(d, kA), b = hn::Set(d, kB);
  V evenA = hn::Add(m[1], m[2]), evenB = hn::Add(m[3], m[4]);
  V oddA = hn::Mul(a, hn::Sub(m[1], m[2])), oddB = hn::Mul(b, hn::Sub(m[3], m[4]));
  const V aa = hn::Set(d, kA * kA), bb = hn::Set(d, kB * kB);
  y[0] = hn::Add(hn::Add(m[0], evenA), evenB);
  y[1] = hn::Add(oddA, oddB);
  y[2] = hn::MulAdd(bb, evenB, hn::Mul(aa, evenA));
  y[3] = hn::MulAdd(bb, oddB, hn::MulAdd(aa, oddA, m[5]));
}

// 36 blocks -> rows x columns outputs from `out` on, so many floats apart; bias and residual as in an epilogue.
void blocksToOutputs(const float* blocks, int64_t apart, const Epilogue& e, float* out, int64_t outRow,
                     int64_t outColumn, int64_t rows, int64_t columns) {
  const hn::CappedTag<float, kBlock> d;
  using V = hn::Vec<decltype(d)>;
  alignas(64) float half[24 * kBlock];
  const bool clamp = isClamp(e.activation);
  const float low = clampLow(e), high = clampHigh(e);
  for (int64_t lane = 0; lane < kBlock; lane += kLanes) {
    for (int64_t j = 0; j < 6; ++j) {
      V m[6], y[4];
#pragma GCC unroll 6
      for (int64_t i = 0; i < 6; ++i) m[i] = hn::LoadU(d, blocks + (i * 6 + j) * apart + lane);
      transformOutput(d, m, y);
#pragma GCC unroll 6
      for (int64_t i = 0; i < 4; ++i) hn::Store(y[i], d, half + (i * 6 + j) * kBlock + lane);
    }
    const V bias = e.bias ? hn::LoadU(d, e.bias + lane) : hn::Zero(d);
    for (int64_t i = 0; i < rows; ++i) {
      V m[6], y[4];
#pragma GCC unroll 6
      for (int64_t j = 0; j < 6; ++j) m[j] = hn::Load(d, half + (i * 6 + j) * kBlock + lane);
      transformOutput(d, m, y);
#pragma GCC unroll 4
      for (int64_t j = 0; j < 4; ++j) {
        if (j >= columns) break;
        const int64_t at = i * outRow + j * outColumn + lane;
        V v = hn::Add(y[j], bias);
        if (e.residual) v = hn::Add(v, hn::LoadU(d, e.residual + at));
        if (clamp) v = atMost(d, high, atLeast(d, low, v));
        hn::StoreU(v, d, out + at);
      }
    }
  }
  if (e.activation == Activation::None || clamp) return;
  if (outColumn == kBlock) return activateRows(out, outRow, rows, columns * kBlock, e.activation, e.alpha, e.beta);
  for (int64_t i = 0; i < rows; ++i)
    activateRows(out + i * outRow, outColumn, columns, kBlock, e.activation, e.alpha, e.beta);
}

// G g G^T of 16 kernels of 3 x 3 at a time; G's rows are powers of a point over its distances from the others.
void transformKernels(const double (*g)[kBlock], float* out, int64_t apart) {
  constexpr double a = kA, b = kB, na = 2 * a * a * (a * a - b * b), nb = 2 * b * b * (b * b - a * a);
  static constexpr double kG[6][3] = {{1 / (a * a * b * b), 0, 0},   {1 / na, a / na, a * a / na},
                                      {1 / na, -a / na, a * a / na}, {1 / nb, b / nb, b * b / nb},
                                      {1 / nb, -b / nb, b * b / nb}, {0, 0, 1}};
  double half[6][3][kBlock];
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 3; ++j)
      for (int lane = 0; lane < kBlock; ++lane)
        half[i][j][lane] = kG[i][0] * g[j][lane] + kG[i][1] * g[3 + j][lane] + kG[i][2] * g[6 + j][lane];
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j)
      for (int lane = 0; lane < kBlock; ++lane)
        out[(i * 6 + j) * apart + lane] =
            static_cast<float>(half[i][0][lane] * kG[j][0] + half[i][1][lane] * kG[j][1] + half[i][2][lane] * kG[j][2]);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

constexpr int64_t kProducts = 36;
constexpr int64_t kPatchPiece = 56;           // patches whose products a thread holds at a time
constexpr int64_t kWorkspaceBytes = 6 << 20;  // of transformed patches: they stay in the shared cache

// What an output is a sum over: blocks of channels, of each frame of the kernel.
int64_t blocksOf(const ConvShape& s) { return s.frames.kernel * channelBlocks(s.inChannels); }

// Along a dimension of `out` outputs: patches of every `dilation`-th output from the first on, then from the second...
int64_t patchesAlong(int64_t out, int64_t dilation) {
  const int64_t most = (out + dilation - 1) / dilation;
  return std::min(dilation, out) * ((most + 3) / 4);
}
// The first output of such a patch, and how many it has.
Piece outputsAlong(int64_t patch, int64_t out, int64_t dilation) {
  if (dilation == 1) return {patch * 4, std::min(patch * 4 + 4, out)};
  const int64_t firsts = std::min(dilation, out), begin = patch % firsts + patch / firsts * 4 * dilation;
  return {begin, begin + std::clamp<int64_t>((out - begin + dilation - 1) / dilation, 0, 4)};
}

struct Tiling {
  int64_t high, wide, frames;  // patches of an image
  int64_t atOnce;              // patches in the workspace
  explicit Tiling(const ConvShape& s)
      : high(patchesAlong(s.outHeight(), s.dilationHeight)),
        wide(patchesAlong(s.outWidth(), s.dilationWidth)),
        frames(s.frames.out()) {
    int64_t bytes = kProducts * blocksOf(s) * kBlock * static_cast<int64_t>(sizeof(float));
    atOnce = std::clamp<int64_t>(kWorkspaceBytes / bytes / kPatchPiece * kPatchPiece, kPatchPiece,
                                 std::max(kPatchPiece, s.batch * patches()));
  }
  int64_t patches() const { return frames * high * wide; }
};

bool accepts(const ConvShape& s) {
  return s.groups == 1 && s.kernelHeight == 3 && s.kernelWidth == 3 && s.strideHeight == 1 && s.strideWidth == 1 &&
         s.inChannels >= kBlock && s.outChannels >= kBlock && (s.frames.kernel == 1 || s.inChannels % kBlock == 0);
}

double cost(const ConvShape& s) {
  const Tiling tiling(s);
  const auto patches = static_cast<double>(s.batch * tiling.patches());
  const auto in = static_cast<double>(blocksOf(s)), out = static_cast<double>(channelBlocks(s.outChannels));
  const double products = 36.0 * 2 * 256 * patches * in * out;
  const double weights = 36.0 * 4 * 256 * in * out;
  // Memory is shared by the threads: the large weights count more than products do.
  return products / 90e3 + weights / 12e3 + patches * (in + out) * 0.06;
}

PackedWeights weightsOf(const ConvShape& s) {
  return {kProducts * channelBlocks(s.outChannels), s.frames.kernel * s.inChannels, WeightStorage::F32};
}
// Transformed weights are f32 whatever they are rounded to first.
int64_t packedBytesOf(const ConvShape& s, WeightStorage) { return weightsOf(s).bytes(); }

// What the stored precision keeps of one output channel.
void roundChannel(const float* weights, int64_t count, WeightStorage storage, float* out) {
  if (storage == WeightStorage::F32) return std::copy_n(weights, count, out), void();
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(weights[i]));
  const float scale = int8Scale(largest);
  for (int64_t i = 0; i < count; ++i) {
    float v = weights[i];
    switch (storage) {
      case WeightStorage::F32:
        break;
      case WeightStorage::F16:
        v = static_cast<float>(Half(v));
        break;
      case WeightStorage::BF16:
        v = static_cast<float>(BFloat16(v));
        break;
      case WeightStorage::I8:
        v = static_cast<float>(toInt8(v * (1.0f / scale))) * scale;
        break;
      case WeightStorage::Integers:
      case WeightStorage::Bytes:
        break;  // not for this tactic
    }
    out[i] = v;
  }
}

void pack(const ConvShape& s, const float* weights, WeightStorage storage, void* packed) {
  const int64_t panels = channelBlocks(s.outChannels), frames = s.frames.kernel, depth = frames * s.inChannels;
  auto* out = static_cast<float*>(packed);
  auto transform = TS_SIMD(transformKernels);
  std::vector<float> channels(static_cast<size_t>(kBlock * depth * 9));
  for (int64_t panel = 0; panel < panels; ++panel) {
    const int64_t count = std::min<int64_t>(kBlock, s.outChannels - panel * kBlock);
    for (int64_t lane = 0; lane < count; ++lane)
      roundChannel(weights + (panel * kBlock + lane) * depth * 9, depth * 9, storage,
                   channels.data() + lane * depth * 9);
    for (int64_t row = 0; row < depth; ++row) {
      const int64_t c = row % s.inChannels * frames + row / s.inChannels;
      double kernels[9][kBlock];
      for (int64_t i = 0; i < 9; ++i)
        for (int64_t lane = 0; lane < kBlock; ++lane)
          kernels[i][lane] = lane < count ? channels[static_cast<size_t>((lane * depth + c) * 9 + i)] : 0.0;
      transform(kernels, out + (panel * depth + row) * kBlock, panels * depth * kBlock);
    }
  }
}

int64_t workspace(const ConvShape& s, WeightStorage) {
  return Tiling(s).atOnce * kProducts * blocksOf(s) * kBlock * static_cast<int64_t>(sizeof(float));
}

// One run over patches [first, first + count) of the batch.
class Pass {
 public:
  Pass(const ConvShape& s, const float* input, const void* packed, float* output, const Epilogue& e, float* transformed,
       int64_t first, int64_t count)
      : s_(s),
        tiling_(s),
        input_(input),
        packed_(packed),
        output_(output),
        epilogue_(e),
        transformed_(transformed),
        first_(first),
        count_(count),
        blocks_(blocksOf(s)),
        panels_(channelBlocks(s.outChannels)) {}

  void transform(int threads) const {
    const int64_t pieces = (count_ + kPatchPiece - 1) / kPatchPiece;
    parallelFor(blocks_ * pieces, threads, [&](int64_t i) {
      Piece piece = pieceOf(count_, pieces, i % pieces);
      for (int64_t t = piece.begin; t < piece.end; ++t) transformPatch(i / pieces, t);
    });
  }

  void multiply(int threads) const {
    const int64_t pieces = (count_ + kPatchPiece - 1) / kPatchPiece, groups = groupsOfPanels(pieces);
    parallelFor(groups * pieces, threads, [&](int64_t i) {
      Piece patches = pieceOf(count_, pieces, i % pieces), group = pieceOf(panels_, groups, i / pieces);
      products(patches, group);
    });
  }

 private:
  void transformPatch(int64_t block, int64_t t) const {
    const int64_t inBlocks = channelBlocks(s_.inChannels), apart = blocks_ * count_ * kBlock;
    const auto [image, outFrame, y, x] = corner(first_ + t);
    const int64_t frame = outFrame * s_.frames.stride + block / inBlocks * s_.frames.dilation - s_.frames.padFront;
    float* to = transformed_ + (block * count_ + t) * kBlock;
    if (frame < 0 || frame >= s_.frames.in) {
      for (int64_t i = 0; i < kProducts; ++i) std::fill_n(to + i * apart, kBlock, 0.0f);
      return;
    }
    const int64_t plane = (image * inBlocks + block % inBlocks) * s_.frames.in + frame;
    TS_SIMD(patchToBlocks)
    (input_ + plane * s_.inHeight * s_.inWidth * kBlock, s_.inHeight, s_.inWidth, y.begin - s_.padTop,
     x.begin - s_.padLeft, s_.dilationHeight, s_.dilationWidth, to, apart);
  }

  // Four panels at a time, so that patches are read less often; fewer if one thread would have all the work.
  int64_t groupsOfPanels(int64_t pieces) const {
    constexpr int64_t kFewRows = 8;  // of a tile: they want many panels
    const int64_t groups = (panels_ + 3) / 4;
    return groups * pieces > 1 || count_ < kFewRows ? groups : std::min<int64_t>(panels_, 2);
  }

  struct Corner {
    int64_t image, frame;
    Piece y, x;  // of the outputs: the first, and from there how many
  };
  Corner corner(int64_t patch) const {
    const int64_t row = patch / tiling_.wide, plane = row / tiling_.high;
    return {plane / tiling_.frames, plane % tiling_.frames,
            outputsAlong(row % tiling_.high, s_.outHeight(), s_.dilationHeight),
            outputsAlong(patch % tiling_.wide, s_.outWidth(), s_.dilationWidth)};
  }

  void products(Piece patches, Piece group) const {
    const int64_t rows = patches.end - patches.begin, panels = group.end - group.begin;
    const int64_t apart = panels * rows * kBlock;
    float* results = threadScratch(kProducts * apart);
    const int64_t tileRows = maxTileRows(), tileCount = (rows + tileRows - 1) / tileRows;
    std::vector<RowTile> tiles(static_cast<size_t>(tileCount));
    for (int64_t i = 0; i < tileCount; ++i) {
      Piece tile = pieceOf(rows, tileCount, i);
      tiles[static_cast<size_t>(i)] = {tile.begin * kBlock, tile.begin * kBlock,
                                       static_cast<int>(tile.end - tile.begin)};
    }
    std::vector<int64_t> steps(static_cast<size_t>(blocks_));
    for (int64_t b = 0; b < blocks_; ++b) steps[static_cast<size_t>(b)] = b * count_ * kBlock;
    Product p{};
    p.rowStride = kBlock;
    p.steps = steps.data();
    p.stepCount = blocks_;
    p.depth = kBlock;
    if (s_.inChannels % kBlock != 0) {
      p.tailSteps = 1;
      p.tailDepth = s_.inChannels % kBlock;
    }
    p.columns = panels * kBlock;
    p.cRow = kBlock;
    p.cPanel = rows * kBlock;
    p.paddedColumns = true;
    const PackedWeights weights = weightsOf(s_);
    for (int64_t e = 0; e < kProducts; ++e) {
      p.a = transformed_ + (e * blocks_ * count_ + patches.begin) * kBlock;
      p.b = weights.values(packed_, e * panels_ + group.begin);
      p.c = results + e * apart;
      runTiles(p, tiles.data(), tileCount, 0, panels);
    }
    finish(patches, group, results, apart);
  }

  void finish(Piece patches, Piece group, const float* results, int64_t apart) const {
    auto outputs = TS_SIMD(blocksToOutputs);
    const int64_t rows = patches.end - patches.begin, height = s_.outHeight(), width = s_.outWidth();
    for (int64_t panel = group.begin; panel < group.end; ++panel)
      for (int64_t t = 0; t < rows; ++t) {
        const auto [image, frame, y, x] = corner(first_ + patches.begin + t);
        const int64_t plane = (image * panels_ + panel) * tiling_.frames + frame;
        const int64_t at = ((plane * height + y.begin) * width + x.begin) * kBlock;
        Epilogue e = epilogue_;
        if (e.bias) e.bias += panel * kBlock;
        if (e.residual) e.residual += at;
        outputs(results + ((panel - group.begin) * rows + t) * kBlock, apart, e, output_ + at,
                width * s_.dilationHeight * kBlock, s_.dilationWidth * kBlock, y.end - y.begin, x.end - x.begin);
      }
  }

  const ConvShape& s_;
  const Tiling tiling_;
  const float* input_;
  const void* packed_;
  float* output_;
  const Epilogue& epilogue_;
  float* transformed_;
  int64_t first_, count_, blocks_, panels_;
};

void run(const ConvShape& s, const float* input, const void* packed, WeightStorage, float* output, const Epilogue& e,
         void* workspace, int threads) {
  const Tiling tiling(s);
  threads = threadsWorth(cost(s), threads);
  const int64_t patches = s.batch * tiling.patches();
  for (int64_t first = 0; first < patches; first += tiling.atOnce) {
    Pass pass(s, input, packed, output, e, static_cast<float*>(workspace), first,
              std::min(tiling.atOnce, patches - first));
    pass.transform(threads);
    pass.multiply(threads);
  }
}

}  // namespace

const ConvTactic kWinogradConv = {.name = "winograd",
                                  .input = ActivationLayout::Blocked,
                                  .output = ActivationLayout::Blocked,
                                  .accepts = accepts,
                                  .cost = cost,
                                  .packedBytes = packedBytesOf,
                                  .pack = pack,
                                  .workspace = workspace,
                                  .run = run};

}  // namespace tscompile
#endif
