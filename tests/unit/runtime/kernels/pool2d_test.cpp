#include "runtime/kernels/pool2d.h"

#include "runtime/kernels/layout.h"
#include "tests/support/engine_reference.h"

namespace tscompile::test {
namespace {

enum class Kind { Max, Average, AverageCountPadding, AverageDivisor };

PoolShape poolOf(int64_t channels, int64_t height, int64_t width, int64_t kernel, int64_t stride, int64_t pad,
                 int64_t dilation = 1, bool ceil = false) {
  PoolShape s;
  s.batch = 2;
  s.channels = channels;
  s.inHeight = height;
  s.inWidth = width;
  s.kernelHeight = s.kernelWidth = kernel;
  s.strideHeight = s.strideWidth = stride;
  s.padTop = s.padLeft = s.padBottom = s.padRight = pad;
  s.dilationHeight = s.dilationWidth = dilation;
  auto size = [&](int64_t in) {
    return (in + 2 * pad - dilation * (kernel - 1) - 1 + (ceil ? stride - 1 : 0)) / stride + 1;
  };
  s.outHeight = size(height);
  s.outWidth = size(width);
  return s;
}

// PyTorch's rules, one window at a time.
std::vector<double> reference(const PoolShape& s, Kind kind, const std::vector<float>& in) {
  std::vector<double> out;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane)
    for (int64_t y = 0; y < s.outHeight; ++y)
      for (int64_t x = 0; x < s.outWidth; ++x) {
        int64_t top = y * s.strideHeight - s.padTop, left = x * s.strideWidth - s.padLeft;
        double best = -INFINITY, sum = 0;
        int64_t seen = 0;
        for (int64_t j = 0; j < s.kernelHeight; ++j)
          for (int64_t i = 0; i < s.kernelWidth; ++i) {
            int64_t inY = top + j * s.dilationHeight, inX = left + i * s.dilationWidth;
            if (inY < 0 || inY >= s.inHeight || inX < 0 || inX >= s.inWidth) continue;
            double v = in[static_cast<size_t>((plane * s.inHeight + inY) * s.inWidth + inX)];
            if (v > best || std::isnan(v)) best = v;
            sum += v;
            ++seen;
          }
        int64_t all = (std::min(top + s.kernelHeight, s.inHeight + s.padBottom) - top) *
                      (std::min(left + s.kernelWidth, s.inWidth + s.padRight) - left);
        int64_t divisor = kind == Kind::AverageDivisor ? 5 : kind == Kind::AverageCountPadding ? all : seen;
        out.push_back(kind == Kind::Max ? best : seen ? sum / static_cast<double>(divisor) : 0);
      }
  return out;
}

std::vector<float> run(const PoolShape& s, Kind kind, bool blocked, const std::vector<float>& in, int threads) {
  const int64_t inArea = s.inHeight * s.inWidth, outArea = s.outHeight * s.outWidth;
  std::vector<float> a = in, b(static_cast<size_t>(s.batch * s.channels * outArea)), result(b.size());
  ActivationLayout layout = blocked ? ActivationLayout::Blocked : ActivationLayout::Plain;
  if (blocked) {
    a.resize(static_cast<size_t>(blockedSize(s.batch, s.channels, inArea)));
    b.resize(static_cast<size_t>(blockedSize(s.batch, s.channels, outArea)));
    toBlocked(s.batch, s.channels, inArea, in.data(), a.data(), 1);
  }
  if (kind == Kind::Max)
    maxPool2d(s, layout, a.data(), b.data(), threads);
  else
    averagePool2d(s, layout, kind == Kind::AverageCountPadding, kind == Kind::AverageDivisor ? 5 : 0, a.data(),
                  b.data(), threads);
  if (!blocked) return b;
  fromBlocked(s.batch, s.channels, outArea, b.data(), result.data(), 1);
  return result;
}

void checkPool(const PoolShape& s) {
  std::vector<float> in = randomFloats(s.batch * s.channels * s.inHeight * s.inWidth, 3);
  in[5] = NAN;
  in.back() = -INFINITY;
  for (Kind kind : {Kind::Max, Kind::Average, Kind::AverageCountPadding, Kind::AverageDivisor}) {
    if (kind != Kind::Max && s.dilationWidth != 1) continue;
    std::vector<double> want = reference(s, kind, in);
    for (bool blocked : {false, true}) {
      SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << (blocked ? " blocked" : " plain")
                                      << " kernel " << s.kernelWidth << " stride " << s.strideWidth << " pad "
                                      << s.padLeft);
      std::vector<float> got = run(s, kind, blocked, in, 1);
      expectNear(got, want, 1e-6, 1e-6);
      for (int threads : {2, 3, 16}) EXPECT_TRUE(sameBytes(got, run(s, kind, blocked, in, threads)));
    }
  }
}

}  // namespace

TEST(EnginePool2d, WindowsStridesAndPadding) {
  atEachSimdLevel([] {
    for (int64_t channels : {1, 16, 19})
      for (int64_t kernel : {1, 2, 3})
        for (int64_t stride : {1, 2, 3})
          for (int64_t pad : {0, 1}) {
            if (2 * pad > kernel) continue;
            checkPool(poolOf(channels, 9, 12, kernel, stride, pad));
            checkPool(poolOf(channels, 9, 12, kernel, stride, pad, 1, true));
          }
    checkPool(poolOf(5, 11, 10, 3, 1, 1, 2));
    // Windows wider than a vector has lanes, rows of several vectors.
    checkPool(poolOf(3, 20, 20, 13, 1, 6));
    for (int64_t stride : {1, 2, 5}) checkPool(poolOf(2, 7, 75, 5, stride, 2));
    for (int64_t width : {2, 3, 7, 16, 17, 30, 32, 33, 63, 66}) checkPool(poolOf(3, 7, width, 2, 2, 0));
  });
}

TEST(EnginePool2d, LargeShapesAreSplit) { checkPool(poolOf(64, 112, 112, 3, 2, 1)); }

TEST(EnginePool2d, GlobalAverage) {
  atEachSimdLevel([] {
    for (int64_t channels : {1, 16, 37})
      for (int64_t area : {1, 3, 49, 1000}) {
        std::vector<float> in = randomFloats(2 * channels * area, 6);
        std::vector<float> blocked(static_cast<size_t>(blockedSize(2, channels, area)));
        toBlocked(2, channels, area, in.data(), blocked.data(), 1);
        std::vector<double> want;
        for (int64_t c = 0; c < 2 * channels; ++c) {
          double sum = 0;
          for (int64_t i = 0; i < area; ++i) sum += in[static_cast<size_t>(c * area + i)];
          want.push_back(sum / static_cast<double>(area));
        }
        std::vector<float> got(want.size());
        globalAveragePool(2, channels, area, ActivationLayout::Plain, in.data(), got.data(), 2);
        expectNear(got, want, 1e-6, 1e-6);
        globalAveragePool(2, channels, area, ActivationLayout::Blocked, blocked.data(), got.data(), 2);
        expectNear(got, want, 1e-6, 1e-6);
      }
  });
}

}  // namespace tscompile::test
