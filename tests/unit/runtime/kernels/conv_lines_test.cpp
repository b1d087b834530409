// Convolutions and pools of blocked activations that are lines of bf16 or bytes.
#include "ir/values/dtype.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/pool2d.h"
#include "runtime/kernels/rows.h"
#include "tests/support/engine_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace tscompile::test {
namespace {

// Numbers [batch][channels][area] as a blocked activation, and what it stands for. Lanes behind the channels hold some
// number.
class Blocks {
 public:
  Blocks(int64_t batch, int64_t channels, int64_t area, const ElementType& type)
      : batch_(batch),
        channels_(channels),
        area_(area),
        type_(type),
        bytes_(static_cast<size_t>(blockedSize(batch, channels, area, type) * 4 + 4096)),
        data_(static_cast<std::byte*>(std::aligned_alloc(64, bytes_)), &std::free) {
    std::memset(data_.get(), 0x3c, bytes_);
  }
  float* get() { return reinterpret_cast<float*>(data_.get()); }

  void fill(const std::vector<float>& numbers) {
    each([&](size_t i, std::byte* at) {
      const float v = numbers[i];
      if (type_.dtype == DType::Float32) {
        std::memcpy(at, &v, sizeof(v));
      } else if (type_.dtype == DType::BFloat16) {
        const BFloat16 brain(v);
        std::memcpy(at, &brain, sizeof(brain));
      } else {
        *at = static_cast<std::byte>(std::clamp(std::nearbyint(v / type_.scale + type_.zero), 0.0f, 255.0f));
      }
    });
  }
  std::vector<float> numbers() {
    std::vector<float> out(static_cast<size_t>(batch_ * channels_ * area_));
    each([&](size_t i, const std::byte* at) {
      if (type_.dtype == DType::Float32) {
        std::memcpy(&out[i], at, sizeof(float));
      } else if (type_.dtype == DType::BFloat16) {
        BFloat16 brain;
        std::memcpy(&brain, at, sizeof(brain));
        out[i] = static_cast<float>(brain);
      } else {
        out[i] = (static_cast<float>(static_cast<uint8_t>(*at)) - type_.zero) * type_.scale;
      }
    });
    return out;
  }

 private:
  template <class Body>
  void each(Body&& body) {
    const int64_t unit = type_.channels(), item = 64 / unit, blocks = channelBlocks(channels_, unit);
    size_t i = 0;
    for (int64_t n = 0; n < batch_; ++n)
      for (int64_t c = 0; c < channels_; ++c)
        for (int64_t p = 0; p < area_; ++p, ++i)
          body(i, data_.get() + ((n * blocks + c / unit) * area_ + p) * 64 + c % unit * item);
  }

  int64_t batch_, channels_, area_;
  ElementType type_;
  size_t bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

struct LineCase {
  ConvShape shape;
  ElementType result;
  Epilogue epilogue{};
  bool residual = false;
};

ConvShape squareShape(int64_t c, int64_t size, int64_t o, int64_t kernel, int64_t stride, int64_t pad,
                      int64_t groups = 1) {
  ConvShape s;
  s.batch = 2;
  s.inChannels = c;
  s.outChannels = o;
  s.groups = groups;
  s.inHeight = size;
  s.inWidth = size + 1;
  s.kernelHeight = s.kernelWidth = kernel;
  s.strideHeight = s.strideWidth = stride;
  s.padTop = s.padLeft = s.padBottom = s.padRight = pad;
  return s;
}

struct Numbers {
  std::vector<float> input, weights, bias, residual;
};

// As they are stored, output channel by output channel.
std::vector<double> roundedWeights(const std::vector<float>& weights, int64_t taps, WeightStorage storage) {
  std::vector<double> out;
  for (size_t i = 0; i < weights.size(); i += static_cast<size_t>(taps)) {
    double largest = 0;
    for (size_t k = i; k < i + static_cast<size_t>(taps); ++k)
      largest = std::max(largest, std::fabs(static_cast<double>(weights[k])));
    const double scale = largest / 127;
    for (size_t k = i; k < i + static_cast<size_t>(taps); ++k)
      out.push_back(storage == WeightStorage::BF16 ? static_cast<float>(BFloat16(weights[k]))
                                                   : std::nearbyint(weights[k] / scale) * scale);
  }
  return out;
}

std::vector<double> expected(const LineCase& t, const Numbers& x, WeightStorage storage) {
  const ConvShape& s = t.shape;
  const int64_t area = s.kernelHeight * s.kernelWidth, taps = s.inGroup() * area;
  const std::vector<double> weights = roundedWeights(x.weights, taps, storage);
  std::vector<double> out;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.outChannels; ++o)
      for (int64_t y = 0; y < s.outHeight(); ++y)
        for (int64_t column = 0; column < s.outWidth(); ++column) {
          double sum = x.bias[static_cast<size_t>(o)];
          for (int64_t i = 0; i < taps; ++i) {
            const int64_t inY = y * s.strideHeight + i % area / s.kernelWidth * s.dilationHeight - s.padTop;
            const int64_t inX = column * s.strideWidth + i % s.kernelWidth - s.padLeft;
            if (inY < 0 || inY >= s.inHeight || inX < 0 || inX >= s.inWidth) continue;
            const int64_t c = o / s.outGroup() * s.inGroup() + i / area;
            sum += x.input[static_cast<size_t>(((n * s.inChannels + c) * s.inHeight + inY) * s.inWidth + inX)] *
                   weights[static_cast<size_t>(o * taps + i)];
          }
          if (t.residual) sum += x.residual[out.size()];
          out.push_back(activationOf(t.epilogue.activation, sum, t.epilogue.alpha, t.epilogue.beta));
        }
  return out;
}

std::vector<float> run(const ConvTactic& tactic, const LineCase& t, const Numbers& x, WeightStorage storage,
                       int threads) {
  const ConvShape& s = t.shape;
  const int64_t outArea = s.outHeight() * s.outWidth();
  Blocks in(s.batch, s.inChannels, s.inHeight * s.inWidth, s.input), out(s.batch, s.outChannels, outArea, t.result);
  Blocks residual(s.batch, s.outChannels, outArea, t.result),
      workspace(1, 16, tactic.workspace(s, storage) / 64 + 1, {});
  Blocks packed(1, 16, tactic.packedBytes(s, storage) / 64 + 1, {});
  tactic.pack(s, x.weights.data(), storage, packed.get());
  in.fill(x.input);
  residual.fill(x.residual);
  Epilogue e = t.epilogue;
  e.bias = x.bias.data();
  e.resultType = e.residualType = t.result;
  if (t.residual) e.residual = residual.get();
  const float* from = tactic.input == ActivationLayout::Plain ? x.input.data() : in.get();
  tactic.run(s, from, packed.get(), storage, out.get(), e, workspace.get(), threads);
  return out.numbers();
}

std::vector<float> rounded(const std::vector<float>& numbers, const ElementType& type) {
  Blocks blocks(1, 1, static_cast<int64_t>(numbers.size()), type);
  blocks.fill(numbers);
  return blocks.numbers();
}

void expectRounded(const std::vector<float>& got, const std::vector<double>& want, const ElementType& type) {
  ASSERT_EQ(got.size(), want.size());
  const double low = -type.zero * type.scale, high = (255 - type.zero) * type.scale;
  for (size_t i = 0; i < got.size(); ++i) {
    const double w = type.dtype == DType::UInt8 ? std::clamp(want[i], low, high) : want[i];
    const double allowed = type.dtype == DType::Float32    ? 1e-4
                           : type.dtype == DType::BFloat16 ? std::fabs(w) / 250 + 1e-4
                                                           : type.scale * 0.51;
    ASSERT_NEAR(got[i], w, allowed) << i;
  }
}

void check(LineCase t) {
  const ConvShape& s = t.shape;
  const WeightStorage storage =
      (s.input.isLines() ? s.input.dtype : t.result.dtype) == DType::UInt8 ? WeightStorage::I8 : WeightStorage::BF16;
  if (!hasLineProducts(storage) || !hasLineProducts(WeightStorage::BF16)) GTEST_SKIP();
  Numbers x;
  x.input = randomFloats(s.batch * s.inChannels * s.inHeight * s.inWidth, 1);
  x.weights = randomFloats(s.outChannels * s.inGroup() * s.kernelHeight * s.kernelWidth, 2);
  x.bias = randomFloats(s.outChannels + 64, 3);
  x.residual = rounded(randomFloats(s.batch * s.outChannels * s.outHeight() * s.outWidth(), 4), t.result);
  Numbers seen = x;
  seen.input = rounded(x.input, s.input.isLines() ? s.input : ElementType{DType::BFloat16});
  const std::vector<double> want = expected(t, seen, storage);
  int tried = 0;
  for (const ConvTactic* tactic : convTactics()) {
    const bool takes = s.input.isLines() ? tactic->takesLines && tactic->takesLines(s, storage, s.input.dtype)
                                         : tactic->multipliesLines(s, storage) && storage == WeightStorage::BF16;
    const bool makes = !t.result.isLines() || (tactic->makesLines && tactic->makesLines(s, storage, t.result.dtype));
    if (!tactic->accepts(s) || !takes || !makes) continue;
    if (tactic->keepsKind && s.input.dtype != t.result.dtype) continue;
    SCOPED_TRACE(testing::Message() << tactic->name << ": " << s.inChannels << 'x' << s.inHeight << " -> "
                                    << s.outChannels << ", kernel " << s.kernelHeight << " stride " << s.strideHeight);
    ++tried;
    const std::vector<float> got = run(*tactic, t, x, storage, 1);
    expectRounded(got, want, t.result);
    if (testing::Test::HasFailure()) return;
    EXPECT_TRUE(sameBytes(got, run(*tactic, t, x, storage, 3)));
  }
  EXPECT_GT(tried, 0);
}

const ElementType kFloats, kBrains{DType::BFloat16}, kBytes{DType::UInt8, 0.02f, 100}, kMore{DType::UInt8, 0.03f, 0};

// Each output is in one tile, at its place, and its row of lines is the right one.
TEST(GappedTiles, HaveEachOutputOnce) {
  constexpr int64_t kRows = 16, kApart = 3;
  int found = 0;
  for (int64_t height : {1, 2, 7, 9})
    for (int64_t width = 1; width <= 40; ++width)
      for (int64_t pitch = width + 1; pitch <= width + 20; ++pitch) {
        const std::vector<RowTile> tiles = gappedTiles(height, width, pitch, kApart, kRows);
        found += !tiles.empty();
        std::vector<int> seen(tiles.empty() ? 0 : static_cast<size_t>(height * width));
        for (const RowTile& tile : tiles) {
          EXPECT_LE(tile.rows, kRows);
          forEachRun(tile, kBlock, [&](const RowTile& run, int first) {
            for (int r = 0; r < run.rows; ++r) {
              const int64_t output = run.c / kBlock + r;
              ASSERT_LT(output, height * width);
              ++seen[static_cast<size_t>(output)];
              EXPECT_EQ(tile.a + (first + r) * kApart, (output / width * pitch + output % width) * kApart);
            }
          });
        }
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), std::ssize(seen)) << height << 'x' << width << '/' << pitch;
      }
  EXPECT_GT(found, 100);
}

TEST(ConvLines, FromLinesToLines) {
  for (SimdLevel level : {SimdLevel::Amx, SimdLevel::Avx512}) {
    limitSimdLevel(level);
    for (auto [in, out] : {std::pair(kBrains, kBrains),
                           {kBrains, kFloats},
                           {kFloats, kBrains},
                           {kBytes, kMore},
                           {kBytes, kFloats},
                           {kBytes, kBrains}})
      for (ConvShape s :
           {squareShape(32, 5, 32, 1, 1, 0), squareShape(24, 5, 40, 3, 1, 1), squareShape(64, 6, 16, 1, 2, 0),
            squareShape(72, 5, 72, 3, 2, 1), squareShape(3, 9, 24, 3, 2, 1), squareShape(128, 2, 128, 3, 1, 1, 2),
            squareShape(128, 8, 56, 3, 1, 1)}) {
        s.input = in;
        check({s, out, {.activation = Activation::Relu}, true});
        check({s, out, {.activation = Activation::Silu}});
        check({s, out, {.activation = Activation::Clamp, .alpha = -0.5f, .beta = 1}});
        check({s, out, {}});
      }
  }
  limitSimdLevel(SimdLevel::Amx);
}

TEST(ConvLines, Depthwise) {
  for (ElementType type : {kBrains, kBytes})
    for (auto [channels, size, kernel, stride, pad] : {std::array<int64_t, 5>{40, 9, 3, 1, 1},
                                                       {64, 20, 3, 1, 1},
                                                       {96, 12, 3, 2, 1},
                                                       {72, 12, 5, 1, 2},
                                                       {32, 5, 7, 2, 3},
                                                       {32, 13, 3, 1, 1},
                                                       {24, 14, 3, 2, 0},
                                                       {40, 21, 5, 2, 2},
                                                       {16, 2, 3, 1, 2},
                                                       {16, 4, 5, 1, 4},
                                                       {48, 27, 3, 1, 1},
                                                       {32, 41, 5, 2, 2},
                                                       {32, 34, 3, 2, 1},
                                                       {32, 6, 3, 1, 3}}) {
      ConvShape s = squareShape(channels, size, channels, kernel, stride, pad, channels);
      s.input = type;
      check({s, type, {.activation = Activation::Clamp, .alpha = -1, .beta = 2}});
      check({s, type, {.activation = Activation::Silu}, true});
    }
}

TEST(ConvLines, DepthwiseOfOtherHeights) {
  for (ElementType type : {kBrains, kBytes})
    for (int64_t height : {1, 2, 4, 6})
      for (int64_t stride : {1, 2}) {
        ConvShape s = squareShape(40, 16, 40, 3, stride, 1, 40);
        s.kernelHeight = height;
        s.padTop = height / 2, s.padBottom = 0;
        s.input = type;
        check({s, type, {.activation = Activation::Relu}, true});
        s.dilationHeight = 2;
        check({s, type, {}});
      }
}

TEST(ConvLines, Pools) {
  if (!hasLineProducts(WeightStorage::I8)) GTEST_SKIP();
  PoolShape s{.batch = 2, .channels = 40, .inHeight = 9, .inWidth = 10, .outHeight = 5, .outWidth = 5};
  s.kernelHeight = s.kernelWidth = 3;
  s.strideHeight = s.strideWidth = 2;
  s.padTop = s.padLeft = s.padBottom = s.padRight = 1;
  const std::vector<float> x = randomFloats(2 * 40 * 90, 5);
  for (ElementType type : {kBrains, kBytes}) {
    if (type.dtype == DType::BFloat16 && !hasLineProducts(WeightStorage::BF16)) continue;
    Blocks in(2, 40, 90, type), out(2, 40, 25, type);
    in.fill(x);
    std::vector<float> seen = in.numbers(), want(2 * 40 * 25), means(2 * 40), plain(seen.size());
    maxPool2d(s, ActivationLayout::Plain, seen.data(), want.data(), 1);
    maxPoolOfLines(s, type, in.get(), out.get(), 2);
    expectRounded(out.numbers(), {want.begin(), want.end()}, type);
    averagePool2d(s, ActivationLayout::Plain, true, 0, seen.data(), want.data(), 1);
    averagePoolOfLines(s, type, true, 0, in.get(), out.get(), 2);
    expectRounded(out.numbers(), {want.begin(), want.end()}, type);
    globalAveragePool(2, 40, 90, ActivationLayout::Plain, seen.data(), want.data(), 1);
    globalAveragePoolOfLines(2, 40, 90, type, in.get(), means.data(), 2);
    for (size_t i = 0; i < means.size(); ++i) ASSERT_NEAR(means[i], want[i], 1e-5);
    fromLines(2, 40, 90, type, in.get(), plain.data(), 2);
    EXPECT_EQ(plain, seen);
  }
}

// Numbers that are on a grid go to other places as they are.
TEST(ConvLines, ChannelsMove) {
  constexpr int64_t kArea = 21;
  const std::vector<float> a = randomFloats(2 * 40 * kArea, 1), b = randomFloats(2 * 67 * kArea, 2);
  for (ElementType type : {kFloats, kBrains, kBytes}) {
    Blocks first(2, 40, kArea, type), second(2, 67, kArea, type), out(2, 100, kArea, type);
    first.fill(a);
    second.fill(b);
    const std::vector<float> from = first.numbers(), more = second.numbers();
    const ChannelMove moves[] = {{first.get(), 40, 3, 35, 0}, {second.get(), 67, 2, 65, 35}};
    moveChannels(moves, 2, 100, kArea, type, out.get(), 2);
    std::vector<float> want;
    for (int64_t n = 0; n < 2; ++n) {
      want.insert(want.end(), from.begin() + (n * 40 + 3) * kArea, from.begin() + (n * 40 + 38) * kArea);
      want.insert(want.end(), more.begin() + (n * 67 + 2) * kArea, more.begin() + (n + 1) * 67 * kArea);
    }
    EXPECT_EQ(out.numbers(), want);
  }
}

TEST(ConvLines, GroupNorms) {
  if (!hasLineProducts(WeightStorage::I8)) GTEST_SKIP();
  constexpr int64_t kArea = 300, kChannels = 72;
  const std::vector<float> x = randomFloats(2 * kChannels * kArea, 1), w = randomFloats(kChannels, 2);
  for (auto [type, result] : {std::pair(kBrains, kBrains), {kBytes, kMore}})
    for (int64_t groups : {3, 72}) {
      if (type.dtype == DType::BFloat16 && !hasLineProducts(WeightStorage::BF16)) continue;
      Blocks in(2, kChannels, kArea, type), out(2, kChannels, kArea, result);
      in.fill(x);
      std::vector<float> seen = in.numbers(), want(seen.size());
      groupNorm(2, kChannels, kArea, groups, seen.data(), w.data(), w.data(), 1e-5, want.data(), 1);
      groupNormOfBlocks(2, kChannels, kArea, groups, in.get(), type, w.data(), w.data(), 1e-5, out.get(), result, 2);
      expectRounded(out.numbers(), {want.begin(), want.end()}, result);
    }
}

}  // namespace
}  // namespace tscompile::test
