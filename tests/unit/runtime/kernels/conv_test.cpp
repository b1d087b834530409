#include "runtime/kernels/conv.h"

#include "ir/values/dtype.h"
#include "runtime/kernels/layout.h"
#include "tests/support/engine_reference.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

namespace tscompile::test {
namespace {

struct ConvCase {
  ConvShape shape;
  Epilogue epilogue{};
  bool bias = true, residual = false;
  WeightStorage storage = WeightStorage::F32;
};

ConvShape shapeOf(int64_t n, int64_t c, int64_t h, int64_t w, int64_t o, int64_t kernel, int64_t stride = 1,
                  int64_t pad = 0, int64_t groups = 1, int64_t dilation = 1) {
  ConvShape s;
  s.batch = n;
  s.groups = groups;
  s.inChannels = c;
  s.outChannels = o;
  s.inHeight = h;
  s.inWidth = w;
  s.kernelHeight = s.kernelWidth = kernel;
  s.strideHeight = s.strideWidth = stride;
  s.padTop = s.padLeft = s.padBottom = s.padRight = pad;
  s.dilationHeight = s.dilationWidth = dilation;
  return s;
}

// As deep and padded as it is high.
ConvShape volumeOf(ConvShape s, int64_t frames) {
  s.frames = {frames, s.kernelHeight, s.strideHeight, s.dilationHeight, s.padTop, s.padBottom};
  return s;
}

struct Buffer {
  explicit Buffer(int64_t floats)
      : data(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>((floats * 4 + 127) / 64 * 64))),
             &std::free) {}
  std::unique_ptr<float, decltype(&std::free)> data;
  float* get() { return data.get(); }
};

double weightStored(float v, WeightStorage storage, double scale) {
  switch (storage) {
    case WeightStorage::F32:
    case WeightStorage::Integers:
    case WeightStorage::Bytes:
      return v;
    case WeightStorage::F16:
      return static_cast<float>(Half(v));
    case WeightStorage::BF16:
      return static_cast<float>(BFloat16(v));
    case WeightStorage::I8:
      break;
  }
  return std::nearbyint(v / scale) * scale;
}

struct Data {
  std::vector<float> input, weights, bias, residual;
  explicit Data(const ConvShape& s)
      : input(randomFloats(s.batch * s.inChannels * s.inArea(), 1)),
        weights(randomFloats(s.outChannels * s.inGroup() * s.taps(), 2)),
        bias(randomFloats(s.outChannels + kBlock, 3)),
        residual(randomFloats(s.batch * s.outChannels * s.outArea(), 4)) {}
};

// The products of one output, over the channels of its group.
double sumOf(const ConvCase& t, const Data& data, const float* w, double scale, int64_t image, int64_t group,
             std::array<int64_t, 3> at) {
  const ConvShape& s = t.shape;
  const ConvFrames& f = s.frames;
  double sum = 0;
  for (int64_t c = 0; c < s.inGroup(); ++c)
    for (int64_t tap = 0; tap < s.taps(); ++tap) {
      const int64_t kx = tap % s.kernelWidth, ky = tap / s.kernelWidth % s.kernelHeight;
      const int64_t z = at[0] * f.stride + tap / s.kernelWidth / s.kernelHeight * f.dilation - f.padFront;
      const int64_t y = at[1] * s.strideHeight + ky * s.dilationHeight - s.padTop;
      const int64_t x = at[2] * s.strideWidth + kx * s.dilationWidth - s.padLeft;
      if (z < 0 || z >= f.in || y < 0 || y >= s.inHeight || x < 0 || x >= s.inWidth) continue;
      const int64_t plane = (image * s.inChannels + group * s.inGroup() + c) * f.in + z;
      sum += data.input[static_cast<size_t>((plane * s.inHeight + y) * s.inWidth + x)] *
             weightStored(w[c * s.taps() + tap], t.storage, scale);
    }
  return sum;
}

std::vector<double> reference(const ConvCase& t, const Data& data) {
  const ConvShape& s = t.shape;
  const int64_t taps = s.inGroup() * s.taps();
  std::vector<double> out;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.outChannels; ++o) {
      const float* w = data.weights.data() + o * taps;
      double scale = 0;
      for (int64_t i = 0; i < taps; ++i) scale = std::max(scale, std::fabs(static_cast<double>(w[i])) / 127);
      for (int64_t i = 0; i < s.outArea(); ++i) {
        const int64_t row = i / s.outWidth();
        double sum = t.bias ? data.bias[static_cast<size_t>(o)] : 0;
        sum +=
            sumOf(t, data, w, scale, n, o / s.outGroup(), {row / s.outHeight(), row % s.outHeight(), i % s.outWidth()});
        if (t.residual) sum += data.residual[out.size()];
        out.push_back(activationOf(t.epilogue.activation, sum, t.epilogue.alpha, t.epilogue.beta));
      }
    }
  return out;
}

// Blocked activations with NaN in the lanes that hold no channel: it must not reach a result.
void blockWithNan(int64_t batch, int64_t channels, int64_t area, const std::vector<float>& plain, float* blocked) {
  toBlocked(batch, channels, area, plain.data(), blocked, 1);
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = channels; c < channelBlocks(channels) * kBlock; ++c)
      for (int64_t i = 0; i < area; ++i)
        blocked[((n * channelBlocks(channels) + c / kBlock) * area + i) * kBlock + c % kBlock] = NAN;
}

std::vector<float> run(const ConvTactic& tactic, const ConvCase& t, const Data& data, int threads) {
  const ConvShape& s = t.shape;
  const int64_t inArea = s.inArea(), outArea = s.outArea();
  Buffer in(blockedSize(s.batch, s.inChannels, inArea)), out(blockedSize(s.batch, s.outChannels, outArea));
  Buffer residual(blockedSize(s.batch, s.outChannels, outArea));
  Buffer packed(tactic.packedBytes(s, t.storage) / 4 + 1), workspace(tactic.workspace(s, t.storage) / 4 + 1);
  std::memset(workspace.get(), 0xff, static_cast<size_t>(tactic.workspace(s, t.storage)));
  tactic.pack(s, data.weights.data(), t.storage, packed.get());
  if (tactic.input == ActivationLayout::Blocked)
    blockWithNan(s.batch, s.inChannels, inArea, data.input, in.get());
  else
    std::memcpy(in.get(), data.input.data(), data.input.size() * sizeof(float));
  Epilogue e = t.epilogue;
  if (t.bias) e.bias = data.bias.data();
  if (t.residual) {
    if (tactic.output == ActivationLayout::Blocked)
      toBlocked(s.batch, s.outChannels, outArea, data.residual.data(), residual.get(), 1);
    else
      std::memcpy(residual.get(), data.residual.data(), data.residual.size() * sizeof(float));
    e.residual = residual.get();
  }
  tactic.run(s, in.get(), packed.get(), t.storage, out.get(), e, workspace.get(), threads);
  std::vector<float> result(static_cast<size_t>(s.batch * s.outChannels * outArea));
  if (tactic.output == ActivationLayout::Blocked)
    fromBlocked(s.batch, s.outChannels, outArea, out.get(), result.data(), 1);
  else
    std::memcpy(result.data(), out.get(), result.size() * sizeof(float));
  return result;
}

void checkConv(const ConvCase& t, double tolerance = 3e-5) {
  const ConvShape& s = t.shape;
  Data data(s);
  std::vector<double> want = reference(t, data);
  for (const ConvTactic* tactic : convTactics()) {
    if (!tactic->accepts(s)) continue;
    SCOPED_TRACE(testing::Message() << tactic->name << ": " << s.batch << 'x' << s.inChannels << 'x' << s.inHeight
                                    << 'x' << s.inWidth << " -> " << s.outChannels << ", kernel " << s.kernelHeight
                                    << " stride " << s.strideHeight << " pad " << s.padLeft << " groups " << s.groups
                                    << " dilation " << s.dilationWidth);
    std::vector<float> got = run(*tactic, t, data, 1);
    const double allowed = tactic == &kWinogradConv ? 2 * tolerance : tolerance;
    Data seen = data;
    if (tactic->multipliesLines(s, t.storage))
      for (int64_t n = 0; n < s.batch; ++n) {
        const auto count = seen.input.size() / static_cast<size_t>(s.batch);
        roundToLines(t.storage, std::span(seen.input).subspan(static_cast<size_t>(n) * count, count));
      }
    expectNear(got, tactic->multipliesLines(s, t.storage) ? reference(t, seen) : want, allowed, allowed);
    if (testing::Test::HasFailure()) return;
    for (int threads : {2, 3, 16}) EXPECT_TRUE(sameBytes(got, run(*tactic, t, data, threads))) << threads << " threads";
    EXPECT_GT(tactic->cost(s), 0);
  }
}

// Integers of up to nine bits and weights of eight, brought to a grid by a factor for each channel: exact.
void checkIntegers(const ConvShape& s) {
  Data data(s);
  auto toIntegers = [](std::vector<float>& values, float most) {
    for (float& v : values) v = std::clamp(std::nearbyint(v * most), -most, most);
  };
  toIntegers(data.input, 255);
  toIntegers(data.weights, 127);
  toIntegers(data.bias, 1 << 20);
  std::vector<double> sums = reference({s}, data);
  std::vector<float> factors(static_cast<size_t>(channelBlocks(s.outChannels) * kBlock));
  for (size_t c = 0; c < factors.size(); ++c) factors[c] = 1e-3f * static_cast<float>(c % 7 + 1);
  for (const ConvTactic* tactic : {&kDirectConv, &kFirstLayerConv, &kDepthwiseConv, &kGroupedConv}) {
    if (!tactic->accepts(s)) continue;
    SCOPED_TRACE(testing::Message() << tactic->name << ": " << s.inChannels << 'x' << s.inHeight << 'x' << s.inWidth
                                    << " -> " << s.outChannels << ", kernel " << s.kernelHeight << " stride "
                                    << s.strideHeight << " pad " << s.padLeft << " groups " << s.groups);
    ConvCase t{s};
    for (WeightStorage storage : {WeightStorage::F32, WeightStorage::Integers, WeightStorage::Bytes}) {
      if ((storage == WeightStorage::F32) == tactic->integers && storage != WeightStorage::Bytes) continue;
      if (storage == WeightStorage::Bytes && !tactic->multipliesLines(s, storage)) continue;
      t.storage = storage;
      std::vector<int32_t> bias(factors.size());
      if (storage == WeightStorage::Bytes) {
        for (float& v : data.input) v = std::clamp(v, -128.0f, 127.0f);
        sums = reference({s}, data);
        t.shape.least = -128;
        const int64_t taps = s.inGroup() * s.taps();
        for (int64_t c = 0; c < s.outChannels; ++c)
          bias[static_cast<size_t>(c)] = static_cast<int32_t>(data.bias[static_cast<size_t>(c)]);
        for (int64_t i = 0; i < s.outChannels * taps; ++i)
          bias[static_cast<size_t>(i / taps)] -= 128 * static_cast<int32_t>(data.weights[static_cast<size_t>(i)]);
        t.epilogue.integerBias = bias.data();
      }
      t.epilogue.factors = nullptr;
      std::vector<float> got = run(*tactic, t, data, 1);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<float>(sums[i])) << i;
      t.epilogue.factors = factors.data();
      t.epilogue.alpha = -100;
      t.epilogue.beta = 155;
      got = run(*tactic, t, data, 2);
      const int64_t area = s.outArea();
      for (size_t i = 0; i < got.size(); ++i) {
        const float factor = factors[static_cast<size_t>(static_cast<int64_t>(i) / area % s.outChannels)];
        ASSERT_EQ(got[i], std::clamp(std::nearbyint(static_cast<float>(sums[i]) * factor), -100.0f, 155.0f)) << i;
      }
    }
  }
}

}  // namespace

TEST(EngineConv, IntegersAreExact) {
  atEachSimdLevel([] {
    for (int64_t kernel : {1, 3})
      for (int64_t stride : {1, 2})
        for (int64_t channels : {1, 3, 7, 16, 24, 35})
          checkIntegers(shapeOf(2, channels, 9, 11, 37, kernel, stride, 1));
    for (int64_t width : {1, 5, 6, 7, 13, 14, 15, 29}) checkIntegers(shapeOf(1, 32, 2, width, 48, 1));
    for (int64_t groups : {2, 6, 12, 24}) checkIntegers(shapeOf(1, 24, 7, 9, 24, 3, 1, 1, groups));
    for (int64_t perGroup : {1, 3, 5, 6, 24}) checkIntegers(shapeOf(1, 3 * perGroup, 7, 9, 21, 3, 2, 1, 3));
    checkIntegers(shapeOf(1, 3, 15, 15, 18, 3, 2, 3, 1, 3));
    checkIntegers(shapeOf(2, 17, 15, 15, 18, 3, 1, 2, 1, 2));
    checkIntegers(shapeOf(1, 64, 14, 14, 64, 3, 1, 1));
  });
}

TEST(EngineConv, KernelsStridesAndPadding) {
  atEachSimdLevel([] {
    for (int64_t kernel : {1, 2, 3, 5})
      for (int64_t stride : {1, 2, 3})
        for (int64_t pad : {0, 1, 2})
          for (int64_t channels : {3, 16, 24}) checkConv({shapeOf(1, channels, 11, 17, 20, kernel, stride, pad)});
  });
}

TEST(EngineConv, WidthsAroundTheTiles) {
  atEachSimdLevel([] {
    for (int64_t width : {1, 2, 5, 6, 7, 13, 14, 15, 28, 29, 43}) {
      checkConv({shapeOf(1, 16, 3, width, 33, 3, 1, 1)});
      checkConv({shapeOf(1, 35, 2, width, 48, 1)});
    }
  });
}

TEST(EngineConv, DilationAndOneSidedPadding) {
  atEachSimdLevel([] {
    checkConv({shapeOf(2, 17, 15, 15, 18, 3, 1, 2, 1, 2)});
    // Many outputs lie in the margins, some of them wholly.
    checkConv({shapeOf(2, 32, 6, 7, 36, 5, 1, 4)});
    checkConv({shapeOf(1, 16, 5, 4, 20, 7, 2, 6)});
    checkConv({shapeOf(1, 16, 3, 3, 16, 4, 1, 6, 1, 2)});
    checkConv({shapeOf(1, 32, 14, 9, 36, 3, 1, 12, 1, 12)});
    checkConv({shapeOf(2, 16, 19, 20, 40, 3, 2, 6, 1, 6)});
    checkConv({shapeOf(1, 32, 11, 8, 16, 2, 1, 4, 1, 7)});
    checkConv({shapeOf(1, 4, 15, 15, 18, 3, 2, 3, 1, 3)});
    ConvCase t{shapeOf(1, 20, 9, 8, 16, 3, 2)};
    t.shape.padRight = 1;
    t.shape.padBottom = 2;
    checkConv(t);
    t.shape.kernelHeight = 1;
    t.shape.strideHeight = 3;
    t.shape.dilationWidth = 2;
    checkConv(t);
    t.shape.padLeft = 5;
    t.shape.inWidth = 3;
    checkConv(t);
  });
}

// As one convolution for each row and column modulo the dilation, where a tactic does so.
TEST(EngineConv, DilatedSquares) {
  atEachSimdLevel([] {
    checkConv({shapeOf(1, 16, 13, 18, 16, 3, 1, 3, 1, 3)});
    checkConv({shapeOf(2, 20, 5, 7, 33, 3, 1, 8, 1, 8)});
    checkConv({volumeOf(shapeOf(1, 16, 8, 9, 16, 3, 1, 2, 1, 2), 4)});
    ConvCase t{shapeOf(1, 32, 24, 24, 32, 3, 1, 2, 1, 2)};
    t.shape.dilationWidth = 5;
    t.shape.padLeft = 6;
    t.residual = true;
    t.epilogue.activation = Activation::Gelu;
    checkConv(t);
  });
}

// Neighbouring outputs are computed together, in pieces of rows and columns.
TEST(EngineConv, FewOutputs) {
  EXPECT_TRUE(findConvTactic("few_outputs")->accepts(shapeOf(1, 16, 8, 8, 3, 3, 1, 1)));
  atEachSimdLevel([] {
    for (int64_t outputs : {1, 2, 3, 4, 5, 6, 7, 8})
      for (int64_t kernel : {3, 5, 7}) checkConv({shapeOf(2, 20, 11, 37, outputs, kernel, 1, kernel / 2)});
    checkConv({shapeOf(1, 16, 70, 300, 3, 3, 1, 1)});
    checkConv({shapeOf(1, 17, 15, 15, 2, 3, 1, 2, 1, 2)});
    ConvCase t{shapeOf(1, 24, 1, 700, 1, 7)};
    t.shape.kernelHeight = 1;
    t.shape.padLeft = t.shape.padRight = 3;
    checkConv(t);
    t.residual = true;
    for (Activation activation : {Activation::Relu, Activation::Tanh}) {
      t.epilogue.activation = activation;
      checkConv(t);
    }
    for (WeightStorage storage : {WeightStorage::F16, WeightStorage::BF16, WeightStorage::I8}) {
      t.storage = storage;
      checkConv(t, 2e-4);
    }
  });
}

// Filters of each colour, and few channels to few.
TEST(EngineConv, FewPlanes) {
  EXPECT_TRUE(findConvTactic("planes")->accepts(shapeOf(1, 3, 8, 8, 3, 3, 1, 1, 3)));
  EXPECT_TRUE(findConvTactic("planes")->accepts(shapeOf(1, 3, 8, 8, 8, 3, 1, 1)));
  EXPECT_FALSE(findConvTactic("planes")->accepts(shapeOf(1, 16, 8, 8, 16, 3, 1, 1, 16)));
  atEachSimdLevel([] {
    for (int64_t outputs : {5, 6, 7, 8}) checkConv({shapeOf(2, 3, 13, 37, outputs, 5, 1, 2)});
    for (int64_t kernel : {1, 3, 11}) {
      checkConv({shapeOf(2, 3, 14, 37, 3, kernel, 1, kernel / 2, 3)});
      checkConv({shapeOf(2, 2, 13, 18, 4, kernel, 1, kernel / 2, 1)});
      checkConv({shapeOf(1, 4, 12, 70, 8, kernel, 1, kernel / 2, 2)});
    }
    checkConv({shapeOf(1, 1, 80, 300, 1, 5, 1, 2)});
    ConvCase t{shapeOf(2, 6, 20, 21, 6, 3, 1, 2, 6, 2)};
    t.residual = true;
    for (Activation a : {Activation::Relu, Activation::Gelu}) {
      t.epilogue.activation = a;
      checkConv(t);
    }
    for (WeightStorage storage : {WeightStorage::F16, WeightStorage::BF16, WeightStorage::I8}) {
      t.storage = storage;
      checkConv(t);
    }
  });
}

TEST(EngineConv, Groups) {
  atEachSimdLevel([] {
    checkConv({shapeOf(2, 32, 7, 9, 64, 3, 1, 1, 2)});
    checkConv({shapeOf(2, 12, 7, 9, 6, 3, 1, 1, 3)});
    for (int64_t channels : {2, 16, 40})
      for (int64_t kernel : {3, 5})
        for (int64_t stride : {1, 2})
          for (int64_t pad : {0, 1, 2})
            checkConv({shapeOf(2, channels, 13, 21, channels, kernel, stride, pad, channels)});
    checkConv({shapeOf(1, 16, 13, 21, 16, 3, 1, 4, 16, 2)});
    checkConv({shapeOf(1, 16, 2, 2, 16, 3, 1, 1, 16)});
  });
}

// Those of 2, 4, 8 and 16 channels have a tactic of their own; others see blocks that are not all theirs.
TEST(EngineConv, SmallGroups) {
  atEachSimdLevel([] {
    for (int64_t perGroup : {2, 4, 8, 16, 3, 12, 24})
      for (int64_t stride : {1, 2})
        for (int64_t groups : {2, 5})
          checkConv({shapeOf(2, perGroup * groups, 9, 15, perGroup * groups, 3, stride, 1, groups)});
    checkConv({shapeOf(1, 32, 7, 7, 32, 5, 1, 2, 4, 2)});
    checkConv({shapeOf(1, 12, 6, 7, 36, 3, 1, 1, 12)});
    checkConv({shapeOf(1, 40, 6, 7, 10, 1, 1, 0, 10)});
    for (WeightStorage storage : {WeightStorage::F16, WeightStorage::BF16, WeightStorage::I8})
      for (int64_t perGroup : {3, 4, 5, 6, 12, 24}) {
        ConvCase t{shapeOf(1, 3 * perGroup, 6, 7, 3 * perGroup, 3, 1, 1, 3)};
        t.storage = storage;
        t.residual = true;
        t.epilogue.activation = Activation::Relu;
        checkConv(t, 1e-4);
      }
  });
}

TEST(EngineConv, DepthwiseAtMargins) {
  atEachSimdLevel([] {
    for (int64_t kernel : {3, 5})
      for (int64_t stride : {1, 2})
        for (int64_t pad = 0; pad <= kernel; ++pad)
          for (int64_t size : {1, 2, 7, 14, 23}) {
            if (size + 2 * pad < kernel) continue;
            ConvCase t{shapeOf(1, 24, size, size, 24, kernel, stride, pad, 24)};
            t.residual = size % 2 == 0;
            t.epilogue.activation = pad == 1 ? Activation::Relu : Activation::None;
            checkConv(t);
          }
  });
}

// Depthwise with several outputs of a channel.
TEST(EngineConv, OutputsThatShareAChannel) {
  atEachSimdLevel([] {
    for (int64_t many : {2, 3, 4})
      for (int64_t stride : {1, 2}) checkConv({shapeOf(2, 24, 9, 15, 24 * many, 3, stride, 1, 24)});
    checkConv({shapeOf(1, 48, 20, 20, 96, 7, 2, 3, 48)});
  });
}

TEST(EngineConv, Volumes) {
  atEachSimdLevel([] {
    for (int64_t channels : {3, 16, 24, 32})
      for (int64_t kernel : {1, 3})
        for (int64_t stride : {1, 2})
          checkConv({volumeOf(shapeOf(2, channels, 6, 9, 20, kernel, stride, kernel / 2), 5)});
    checkConv({volumeOf(shapeOf(1, 16, 8, 9, 16, 2, 1, 2, 1, 2), 4)});
    ConvCase t{volumeOf(shapeOf(2, 32, 10, 11, 48, 3, 1, 1), 6)};
    t.residual = true;
    t.epilogue.activation = Activation::Relu;
    checkConv(t);
    t.shape.frames = {7, 1, 2, 1, 0, 0};
    checkConv(t);
    t.shape.kernelHeight = t.shape.kernelWidth = 1;
    t.shape.frames = {7, 3, 1, 1, 2, 0};
    checkConv(t);
  });
}

// Groups of one channel with one output and several, of 2 to 16 channels, and others; kernels that share columns or
// not.
TEST(EngineConv, VolumesInGroups) {
  atEachSimdLevel([] {
    for (int64_t channels : {6, 16, 40})
      for (int64_t kernel : {1, 2, 3, 5, 7})
        for (int64_t stride : {1, 2})
          for (int64_t outputs : {1, 3})
            checkConv(
                {volumeOf(shapeOf(2, channels, 6, 9, channels * outputs, kernel, stride, kernel / 2, channels), 5)});
    for (int64_t group : {2, 4, 8, 16, 6})
      checkConv({volumeOf(shapeOf(1, 3 * group, 7, 10, 3 * group, 3, 1, 1, 3), 6)});
    checkConv({volumeOf(shapeOf(1, 16, 8, 9, 16, 2, 1, 2, 16, 2), 4)});
    ConvCase t{volumeOf(shapeOf(2, 32, 10, 11, 32, 3, 1, 1, 32), 6)};
    t.residual = true;
    t.epilogue.activation = Activation::Gelu;
    for (int64_t kernel : {1, 3})
      for (int64_t front : {2, 5}) {
        t.shape.frames = {7, kernel, 1, 2, front, 0};
        checkConv(t);
      }
    checkIntegers(volumeOf(shapeOf(1, 24, 6, 7, 24, 3, 1, 1, 24), 4));
  });
}

TEST(EngineConv, VolumesOfStoredPrecisions) {
  for (WeightStorage storage : {WeightStorage::F16, WeightStorage::BF16, WeightStorage::I8})
    for (int64_t channels : {3, 40}) {
      ConvCase t{volumeOf(shapeOf(1, channels, 6, 7, 36, 3, 1, 1), 4)};
      t.storage = storage;
      checkConv(t, 1e-4);
      t.shape = volumeOf(shapeOf(1, channels, 6, 7, channels, 3, 1, 1, channels), 4);
      checkConv(t, 1e-4);
    }
}

// A row of a kernel is deeper than what becomes f32 at a time.
TEST(EngineConv, LongKernelsOfStoredPrecisions) {
  for (WeightStorage storage : {WeightStorage::F16, WeightStorage::BF16, WeightStorage::I8})
    for (int64_t channels : {1, 3}) {
      ConvCase t{shapeOf(2, channels, 1, 3000, 70, 401, 40)};
      t.shape.kernelHeight = t.shape.strideHeight = 1;
      t.storage = storage;
      checkConv(t, 1e-3);
    }
}

TEST(EngineConv, Batches) {
  checkConv({shapeOf(64, 1, 32, 32, 6, 3)});
  checkConv({shapeOf(64, 6, 15, 15, 16, 3)});
  checkConv({shapeOf(5, 24, 9, 9, 40, 3, 2, 1)});
}

TEST(EngineConv, LargeShapesAreSplit) {
  checkConv({shapeOf(1, 64, 28, 28, 64, 3, 1, 1)});
  checkConv({shapeOf(1, 256, 7, 7, 128, 3, 1, 1)}, 1e-4);
  checkConv({shapeOf(1, 64, 56, 56, 96, 1)});
  checkConv({shapeOf(1, 3, 64, 64, 64, 7, 2, 3)});
  checkConv({shapeOf(1, 96, 56, 56, 96, 3, 1, 1, 96)});
}

TEST(EngineConv, Epilogues) {
  atEachSimdLevel([] {
    for (Activation a : kActivations)
      for (bool residual : {false, true})
        for (int64_t groups : {1, 20}) {
          ConvCase t{shapeOf(1, 20, 6, 11, 20, 3, 1, 1, groups)};
          t.epilogue.activation = a;
          t.epilogue.alpha = a == Activation::LeakyRelu ? 0.1f : a == Activation::Elu ? 0.7f : -0.5f;
          t.epilogue.beta = 2;
          t.residual = residual;
          t.bias = residual;
          checkConv(t, 3e-5 + roundingOf(a));
        }
  });
}

TEST(EngineConv, StoredPrecisions) {
  atEachSimdLevel([] {
    for (WeightStorage storage : {WeightStorage::F16, WeightStorage::BF16, WeightStorage::I8})
      for (int64_t groups : {1, 4, 36}) {
        ConvCase t{shapeOf(1, 36, 6, 7, 36, 3, 1, 1, groups)};
        t.storage = storage;
        checkConv(t, 1e-4);
        t.shape.inChannels = t.shape.groups = 1;
        checkConv(t, 1e-4);
      }
  });
}

// Products of lines: channels that do not fill them, groups, strides, tiles at the edge, the patches of a first layer.
TEST(EngineConv, InputsInLines) {
  atEachSimdLevel([] {
    for (WeightStorage storage : {WeightStorage::BF16, WeightStorage::I8})
      for (const ConvShape& s :
           {shapeOf(2, 3, 15, 33, 20, 3, 2, 1), shapeOf(1, 3, 25, 33, 18, 7, 2, 3), shapeOf(2, 3, 16, 16, 384, 16, 16),
            shapeOf(1, 8, 9, 9, 16, 5, 1, 2), shapeOf(1, 3, 12, 12, 17, 3, 1, 2, 1, 2),
            shapeOf(2, 16, 7, 18, 40, 3, 1, 1), shapeOf(1, 31, 5, 17, 16, 1), shapeOf(2, 33, 9, 9, 33, 1, 2),
            shapeOf(1, 96, 8, 20, 48, 3, 2, 1), shapeOf(1, 64, 6, 6, 32, 3, 1, 1, 2),
            shapeOf(3, 65, 4, 31, 15, 3, 1, 1), shapeOf(1, 48, 9, 8, 16, 3, 1, 2, 1, 2)}) {
        ConvCase t{s};
        t.storage = storage;
        checkConv(t, 2e-4);
        t.bias = t.residual = true;
        t.epilogue.activation = Activation::Relu;
        checkConv(t, 2e-4);
        t.epilogue.activation = Activation::HardSwish;
        checkConv(t, 2e-4);
      }
  });
}

TEST(EngineConv, NanAndInfinityPass) {
  ConvCase t{shapeOf(1, 16, 5, 5, 16, 3, 1, 1)};
  t.epilogue.activation = Activation::Relu;
  Data data(t.shape);
  data.input[7] = NAN;
  data.input[40] = INFINITY;
  std::vector<double> want = reference(t, data);
  for (const ConvTactic* tactic : convTactics())
    if (tactic->accepts(t.shape) && tactic != &kWinogradConv) expectNear(run(*tactic, t, data, 1), want, 1e-4, 1e-4);
}

TEST(EngineConv, ARecordIsThereOnce) {
  for (const ConvTactic* tactic : {&kDirectConv, &kFirstLayerConv, &kWinogradConv, &kDepthwiseConv, &kIm2colConv}) {
    EXPECT_EQ(findConvTactic(tactic->name), tactic);
    EXPECT_TRUE(std::ranges::count(convTactics(), tactic)) << tactic->name;
  }
}

TEST(EngineConv, Doubles) {
  ConvShape s = shapeOf(2, 6, 9, 8, 4, 3, 2, 1, 2);
  Data data(s);
  std::vector<double> in(data.input.begin(), data.input.end()), w(data.weights.begin(), data.weights.end());
  std::vector<double> bias(data.bias.begin(), data.bias.end());
  std::vector<double> want = reference({s}, data), got(want.size());
  im2colConv(s, in.data(), w.data(), bias.data(), got.data(), 2);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12);
}

TEST(EngineLayout, ThereAndBack) {
  atEachSimdLevel([] {
    for (int64_t channels : {1, 16, 20, 33})
      for (int64_t area : {1, 15, 16, 50, 5000}) {
        std::vector<float> plain = randomFloats(2 * channels * area, 5), back(plain.size()), last(plain.size());
        std::vector<float> blocked(static_cast<size_t>(blockedSize(2, channels, area))), again(blocked.size());
        toBlocked(2, channels, area, plain.data(), blocked.data(), 2);
        EXPECT_EQ(blocked[static_cast<size_t>((area - 1) * kBlock)], plain[static_cast<size_t>(area - 1)]);
        fromBlocked(2, channels, area, blocked.data(), back.data(), 2);
        EXPECT_TRUE(sameBytes(plain, back));
        blockedToChannelsLast(2, channels, area, blocked.data(), last.data(), 2);
        for (int64_t c = 0; c < channels; ++c)
          ASSERT_EQ(last[static_cast<size_t>(area * channels + c)], plain[static_cast<size_t>((channels + c) * area)]);
        channelsLastToBlocked(2, channels, area, last.data(), again.data(), 2);
        EXPECT_TRUE(sameBytes(blocked, again));
      }
  });
}

}  // namespace tscompile::test
