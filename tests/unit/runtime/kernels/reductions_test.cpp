#include "runtime/kernels/reductions.h"

#include "runtime/kernels/layout.h"
#include "tests/support/engine_reference.h"

namespace tscompile::test {
namespace {

void check(RowReduction kind, int64_t outer, int64_t count, int64_t inner, bool nan) {
  SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << ": " << outer << " x " << count << " x " << inner);
  std::vector<float> x = randomFloats(outer * count * inner, 1);
  if (nan) x[x.size() / 2] = NAN;
  std::vector<double> want;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      double sum = 0, product = 1, most = -INFINITY, least = INFINITY, exponentials = 0;
      bool unknown = false;
      for (int64_t c = 0; c < count; ++c) {
        const double v = x[static_cast<size_t>((o * count + c) * inner + i)];
        unknown |= std::isnan(v);
        sum += v;
        product *= v;
        exponentials += std::exp(v);
        most = std::max(most, v);
        least = std::min(least, v);
      }
      const double values[] = {sum / 3, most, least, product, std::log(exponentials)};
      want.push_back(unknown ? NAN : values[static_cast<size_t>(kind)]);
    }
  std::vector<float> first;
  for (int threads : {1, 3}) {
    std::vector<float> got(want.size());
    reduceMiddle(kind, outer, count, inner, 3, x.data(), got.data(), threads);
    if (first.empty()) expectNear(first = got, want, 1e-5, 1e-5);
    EXPECT_TRUE(sameBytes(first, got));
  }
}

}  // namespace

TEST(EngineReductions, SizesAndNan) {
  atEachSimdLevel([] {
    for (RowReduction kind :
         {RowReduction::Sum, RowReduction::Max, RowReduction::Min, RowReduction::Product, RowReduction::LogSumExp})
      for (bool nan : {false, true})
        for (int64_t count : {1, 3, 16, 45, 2500})
          for (int64_t inner : {1, 2, 17, 70}) check(kind, 3, count, inner, nan);
  });
  atEachSimdLevel([] {
    for (RowReduction kind :
         {RowReduction::Sum, RowReduction::Max, RowReduction::Min, RowReduction::Product, RowReduction::LogSumExp})
      for (bool nan : {false, true})
        for (int64_t count : {1, 2, 4, 15, 16, 17, 64, 65})
          for (int64_t outer : {64, 65, 301}) check(kind, outer, count, 1, nan);
  });
  check(RowReduction::Sum, 1, 200000, 1, false);
  check(RowReduction::Sum, 2, 3000, 300, false);
}

// Each time the same is lost, where they are added one after the other.
TEST(EngineReductions, ManyEqualExponentials) {
  const int64_t count = 200000;
  atEachSimdLevel([&] {
    for (int64_t inner : {1, 2}) {
      std::vector<float> x(static_cast<size_t>(count * inner), std::log(0.1f)), got(static_cast<size_t>(inner));
      std::fill_n(x.begin(), inner, 0.0f);
      reduceMiddle(RowReduction::LogSumExp, 1, count, inner, 1, x.data(), got.data(), 1);
      expectNear(got, std::vector<double>(got.size(), std::log(1 + 0.1 * static_cast<double>(count - 1))), 1e-6, 1e-6);
    }
  });
}

TEST(EngineReductions, ChannelsInBlocks) {
  const int64_t batch = 2, area = 300;
  for (int64_t channels : {1, 5, 16, 24, 67}) {
    const std::vector<float> x = randomFloats(batch * channels * area, 3);
    std::vector<float> blocked(static_cast<size_t>(blockedSize(batch, channels, area)));
    toBlocked(batch, channels, area, x.data(), blocked.data(), 1);
    if (channels % kBlock) blocked.back() = NAN;  // of no channel
    atEachSimdLevel([&] {
      for (RowReduction kind : {RowReduction::Sum, RowReduction::Max, RowReduction::Min}) {
        std::vector<float> want(static_cast<size_t>(batch * area)), first;
        reduceMiddle(kind, batch, channels, area, 3, x.data(), want.data(), 1);
        for (int threads : {1, 3}) {
          std::vector<float> got(want.size());
          reduceChannels(kind, batch, channels, area, 3, blocked.data(), got.data(), threads);
          if (first.empty()) expectNear(first = got, std::vector<double>(want.begin(), want.end()), 1e-5, 1e-5);
          EXPECT_TRUE(sameBytes(first, got));
        }
      }
    });
  }
}

}  // namespace tscompile::test
