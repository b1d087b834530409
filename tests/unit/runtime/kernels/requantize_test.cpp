#include "runtime/kernels/requantize.h"

#include "tests/support/engine_reference.h"

namespace tscompile::test {
namespace {

constexpr StepRange kRange{-100, 155};
constexpr int64_t kCount = 1037;  // no whole vectors

double rounded(double x) {
  if (!(x < 0x1p63)) return kRange.least;
  return std::clamp<double>(std::nearbyint(x), kRange.least, kRange.most);
}

// Halves away from zero or up, in exact integers.
double shifted(const FixedPointSum& f, int64_t sum) {
  const int64_t unit = int64_t{1} << f.shift;
  int64_t quotient = sum >> f.shift, rest = sum - quotient * unit;
  if (2 * rest > unit || (2 * rest == unit && (f.roundsUp || sum > 0))) ++quotient;
  return std::clamp<double>(static_cast<double>(quotient), kRange.least, kRange.most);
}

std::vector<float> integers(uint32_t seed) {
  std::vector<float> values = randomFloats(kCount, seed, -255, 255);
  for (float& v : values) v = std::nearbyint(v);
  return values;
}

}  // namespace

TEST(Requantize, RoundsHalvesToEvenWithinTheRange) {
  atEachSimdLevel([] {
    std::vector<float> x = randomFloats(kCount, 1, -4000, 4000), y(x.size());
    const float special[] = {0.5f, 1.5f, -2.5f, NAN, INFINITY, -INFINITY, 0x1p62f, 0x1p63f, -0x1p63f, 1e30f, -0.0f};
    std::copy(std::begin(special), std::end(special), x.begin());
    for (float factor : {1.0f, 0.037f}) {
      requantize(x.data(), kCount, factor, kRange, y.data());
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], rounded(x[i] * factor)) << x[i] << " * " << factor;
    }
  });
}

TEST(Requantize, EachColumnHasItsFactor) {
  atEachSimdLevel([] {
    constexpr int64_t kRows = 17, kColumns = 61;
    std::vector<float> x = randomFloats(kRows * kColumns, 2, -4000, 4000), y(x.size());
    std::vector<float> factors = randomFloats(kColumns, 3, 0.01f, 0.1f);
    requantizeColumns(x.data(), kRows, kColumns, factors.data(), kRange, y.data());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], rounded(x[i] * factors[i % kColumns]));
  });
}

TEST(Requantize, WeightedSums) {
  atEachSimdLevel([] {
    std::vector<float> x = integers(4), y = integers(5), out(x.size());
    for (const FixedPointSum& f :
         {FixedPointSum{3 << 20, 1 << 21, 22, false}, FixedPointSum{1 << 20, 1 << 20, 21, true},
          FixedPointSum{1 << 20, 1 << 20, 21, false}, FixedPointSum{4000000, 77, 30, false}}) {
      addSteps(f, x.data(), y.data(), kCount, kRange, out.data());
      for (size_t i = 0; i < x.size(); ++i) {
        const int64_t sum = int64_t{f.a} * static_cast<int64_t>(x[i]) + int64_t{f.b} * static_cast<int64_t>(y[i]);
        ASSERT_EQ(out[i], shifted(f, sum)) << x[i] << ", " << y[i] << " by " << f.shift;
      }
    }
  });
}

TEST(Requantize, TablesTakeTheirEnds) {
  atEachSimdLevel([] {
    std::vector<float> table = randomFloats(256, 6), x = integers(7), y(x.size());
    lookUpSteps(table.data(), kRange, x.data(), kCount, y.data());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(y[i], table[static_cast<size_t>(std::clamp(x[i], kRange.least, kRange.most) - kRange.least)]);
  });
}

}  // namespace tscompile::test
