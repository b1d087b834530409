#include "runtime/kernels/sampling/taps.h"

#include "runtime/kernels/simd.h"
#include "tests/support/engine_reference.h"

namespace tscompile::test {

TEST(EngineTaps, SumsInOrderAndNothingOutside) {
  atEachSimdLevel([] {
    constexpr int64_t kStride = 70;
    const std::vector<float> plane = randomFloats(33, 1), weights = randomFloats(kMostTaps * kStride, 2);
    std::vector<int32_t> index;
    for (int64_t i = 0; i < kMostTaps * kStride; ++i)
      index.push_back(i % 5 == 0 ? kNoTap : static_cast<int32_t>(i * 7 % 33));
    for (int taps : {1, 4, 8, 16})
      for (int64_t count : {1, 15, 16, 17, 70}) {
        std::vector<float> got(static_cast<size_t>(count + 1), 9.0f);
        std::vector<double> want;
        for (int64_t p = 0; p < count; ++p) {
          double sum = 0;
          for (int64_t t = 0; t < taps; ++t) {
            const auto at = static_cast<size_t>(t * kStride + p);
            sum += index[at] == kNoTap ? 0 : static_cast<double>(plane[static_cast<size_t>(index[at])] * weights[at]);
          }
          want.push_back(sum);
        }
        sumTaps(plane.data(), index.data(), weights.data(), kStride, taps, count, got.data());
        EXPECT_EQ(got.back(), 9.0f) << "behind the last place";
        got.pop_back();
        expectNear(got, want, 1e-6, 1e-6);

        // Each lane of a block is a plane of its own.
        std::vector<float> block(plane.size() * kBlock), made(static_cast<size_t>(count * kBlock));
        for (size_t i = 0; i < plane.size(); ++i)
          for (size_t lane = 0; lane < kBlock; ++lane) block[i * kBlock + lane] = plane[i] * static_cast<float>(lane);
        sumTapsOfBlock(block.data(), index.data(), weights.data(), kStride, taps, count, made.data());
        std::vector<double> lanes;
        for (double sum : want)
          for (int lane = 0; lane < kBlock; ++lane) lanes.push_back(sum * lane);
        expectNear(made, lanes, 1e-5, 1e-5);
      }
  });
}

}  // namespace tscompile::test
