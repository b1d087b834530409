// Elements of float32 that are stored smaller.
#include "ir/values/encoded.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tscompile::test {
namespace {

Tensor ramp(Dims sizes) {
  Tensor t = Tensor::empty(DType::Float32, sizes);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i % 37) * 0.37f - 5.5f;
  return t;
}

Tensor encodedLike(const Tensor& t, DType dtype, int axis) {
  Encoded e = encode(t, dtype, axis);
  return encodedTensor(e.values, e.scales, axis);
}

// What rounding costs at most: half a step.
double boundOf(DType dtype, double largest) {
  return dtype == DType::Float16 ? largest / 2048 : dtype == DType::BFloat16 ? largest / 256 : largest / 254;
}

TEST(Encoded, ElementsAreRoundedOnce) {
  const Tensor t = ramp({6, 5, 7});
  for (DType dtype : {DType::Float16, DType::BFloat16, DType::Int8})
    for (int axis = 0; axis < 3; ++axis) {
      const Tensor e = encodedLike(t, dtype, axis);
      EXPECT_EQ(e.dtype(), DType::Float32);
      EXPECT_TRUE(e.storage()->readOnly());
      const Tensor once = decodedOnce(e), again = decodedOnce(encodedLike(once, dtype, axis));
      for (int64_t i = 0; i < t.numel(); ++i) {
        EXPECT_NEAR(once.data<float>()[i], t.data<float>()[i], boundOf(dtype, 8)) << i;
        EXPECT_NEAR(again.data<float>()[i], once.data<float>()[i], 1e-6) << i;
      }
    }
}

TEST(Encoded, AnyRangeIsDecodedAlike) {
  for (DType dtype : {DType::Float16, DType::BFloat16, DType::Int8}) {
    const Tensor e = encodedLike(ramp({4, 3, 5}), dtype, 1), all = decodedOnce(e);
    std::vector<float> part(60);
    for (int64_t begin = 0; begin < 60; begin += 7)
      for (int64_t count = 0; begin + count <= 60; count += 4) {
        e.storage()->encoding()->decode(begin, count, part.data());
        for (int64_t i = 0; i < count; ++i) EXPECT_EQ(part[static_cast<size_t>(i)], all.data<float>()[begin + i]);
      }
  }
}

TEST(Encoded, ViewsReadTheirElements) {
  const Tensor t = ramp({4, 6}), e = encodedLike(t, DType::Float16, 0);
  const Tensor rows = e.withGeometry(Dims{2, 6}, Dims{6, 1}, 12), turned = e.permuted(Dims{1, 0});
  EXPECT_EQ(decodedOnce(rows).data<float>()[0], decodedOnce(e).data<float>()[12]);
  // The whole is decoded by whoever asks where it is.
  EXPECT_EQ(rows.data<float>(), e.data<float>() + 12);
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(turned.real(i), e.real(i % 4 * 6 + i / 4));
}

TEST(Encoded, ChannelsWithoutElementsOrFiniteOnesHaveAScale) {
  Tensor t = Tensor::zeros(DType::Float32, Dims{2, 3});
  t.data<float>()[4] = INFINITY;
  t.data<float>()[5] = NAN;
  const Tensor e = encodedLike(t, DType::Int8, 0);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(e.real(i), 0);
  EXPECT_EQ(e.real(4), 127);
  EXPECT_EQ(e.real(5), 0);
}

}  // namespace
}  // namespace tscompile::test
