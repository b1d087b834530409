#include "runtime/kernels/pointwise.h"

#include "ir/values/dtype.h"
#include "runtime/kernels/pointwise_ops.h"
#include "tests/support/engine_reference.h"

#include <array>
#include <bit>
#include <cstring>

namespace tscompile::test {
namespace {

// Units in the last place between a result and the exact value.
double ulps(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  auto rounded = static_cast<float>(want);
  if (got == rounded) return 0;
  if (!std::isfinite(got) || !std::isfinite(rounded)) return 1e9;
  double unit =
      std::max(static_cast<double>(std::nextafter(std::fabs(rounded), INFINITY)) - std::fabs(rounded), 1.4e-45);
  return std::fabs(got - want) / unit;
}

std::vector<float> applied(PointwiseOp op, const std::vector<float>& x, const std::vector<float>& y = {},
                           float alpha = 0, float beta = 0) {
  std::vector<float> out(x.size());
  pointwiseFunction(op)(x.data(), y.data(), nullptr, out.data(), static_cast<int64_t>(x.size()), alpha, beta);
  return out;
}

// All magnitudes, both signs, and the special values.
std::vector<float> manyFloats() {
  std::vector<float> values = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, -1.0f, 1e-45f, -1e-45f, 3.4e38f, -3.4e38f};
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 60013) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(-std::bit_cast<float>(bits));
  }
  for (float v = -110; v < 110; v += 0.0173f) values.push_back(v);
  return values;
}

using Exact = double (*)(double);
void checkUlps(PointwiseOp op, Exact exact, double most) {
  std::vector<float> x = manyFloats();
  std::vector<float> got = applied(op, x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double error = ulps(got[i], exact(x[i]));
    ASSERT_LE(error, most) << "op " << static_cast<int>(op) << " of " << x[i] << ": " << got[i] << ", not "
                           << exact(x[i]);
    worst = std::max(worst, error);
  }
  testing::Test::RecordProperty(std::to_string(static_cast<int>(op)), std::to_string(worst));
}

void run(const PointwiseProgram& p, std::vector<int64_t> dims, std::vector<PointwiseOperand> inputs,
         std::vector<void*> outputs, int threads = 1) {
  runPointwise(p, dims, inputs, outputs, threads);
}

}  // namespace

TEST(EnginePointwise, FunctionsAreAccurate) {
  atEachSimdLevel([] {
    checkUlps(
        PointwiseOp::Exp, [](double x) { return std::exp(x); }, 2);
    checkUlps(
        PointwiseOp::Expm1, [](double x) { return std::expm1(x); }, 4);
    checkUlps(
        PointwiseOp::Log, [](double x) { return std::log(x); }, 2);
    checkUlps(
        PointwiseOp::Log1p, [](double x) { return std::log1p(x); }, 4);
    checkUlps(
        PointwiseOp::Log2, [](double x) { return std::log2(x); }, 1);
    checkUlps(
        PointwiseOp::Log10, [](double x) { return std::log10(x); }, 1);
    checkUlps(
        PointwiseOp::Exp2, [](double x) { return std::exp2(x); }, 2);
    checkUlps(
        PointwiseOp::Atanh, [](double x) { return std::atanh(x); }, 5);
    checkUlps(
        PointwiseOp::Tanh, [](double x) { return std::tanh(x); }, 3);
    checkUlps(
        PointwiseOp::Erf, [](double x) { return std::erf(x); }, 3);
    checkUlps(
        PointwiseOp::Erfc, [](double x) { return std::erfc(x); }, 4);
    checkUlps(
        PointwiseOp::Sin, [](double x) { return std::sin(x); }, 1);
    checkUlps(
        PointwiseOp::Cos, [](double x) { return std::cos(x); }, 1);
    checkUlps(
        PointwiseOp::Tan, [](double x) { return std::tan(x); }, 1);
    checkUlps(
        PointwiseOp::Atan, [](double x) { return std::atan(x); }, 1);
    checkUlps(
        PointwiseOp::Sigmoid, [](double x) { return x < -87 ? 0 * x : 1 / (1 + std::exp(-x)); }, 1e9);
    checkUlps(
        PointwiseOp::Rsqrt, [](double x) { return 1 / std::sqrt(x); }, 2);
  });
}

// Near their zeros, which lie between whole numbers below -2, only the error itself is small.
TEST(EnginePointwise, GammaAndInverseErfAreNear) {
  std::vector<float> x = manyFloats(), within = randomFloats(20000, 3, -1, 1);
  for (float v : {1 - 0x1p-24f, -1 + 0x1p-24f, 1e-30f, 0.99999f}) within.push_back(v);
  atEachSimdLevel([&] {
    const std::vector<float> gammas = applied(PointwiseOp::LogGamma, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::lgamma(static_cast<double>(x[i]));
      EXPECT_TRUE(ulps(gammas[i], want) <= 1 || std::fabs(gammas[i] - want) < 1e-7) << x[i] << ": " << gammas[i];
    }
    EXPECT_EQ(applied(PointwiseOp::LogGamma, {1, 2}), std::vector<float>({0, 0}));
    const std::vector<float> inverses = applied(PointwiseOp::Erfinv, within);
    for (size_t i = 0; i < within.size(); ++i) {
      const auto y = static_cast<double>(inverses[i]);
      // By how much erf misses, in terms of its argument.
      const double off = (std::erf(y) - static_cast<double>(within[i])) / (1.1283791670955126 * std::exp(-y * y));
      EXPECT_LE(std::fabs(off), 8e-7 * std::fabs(y) + 1e-36) << within[i] << ": " << inverses[i];
    }
    const std::vector<float> ends = applied(PointwiseOp::Erfinv, {1, -1, 0, 2, NAN});
    EXPECT_EQ(ends[0], INFINITY);
    EXPECT_EQ(ends[1], -INFINITY);
    EXPECT_EQ(ends[2], 0);
    EXPECT_TRUE(std::isnan(ends[3]) && std::isnan(ends[4]));
  });
}

// Zeros keep their sign, and what is too large for vectors leaves its neighbours as they are.
TEST(EnginePointwise, SinesDoNotDependOnTheirNeighbours) {
  atEachSimdLevel([] {
    std::vector<float> x = randomFloats(64, 1, -100, 100);
    const std::vector<float> alone = applied(PointwiseOp::Sin, x);
    for (size_t i = 0; i < x.size(); i += 2) x[i] = i % 4 ? 3e7f : -0.0f;
    const std::vector<float> beside = applied(PointwiseOp::Sin, x);
    for (size_t i = 0; i < x.size(); ++i) {
      if (i % 4 == 0) {
        EXPECT_TRUE(beside[i] == 0 && std::signbit(beside[i]));
      } else if (i % 4 == 2) {
        EXPECT_NEAR(beside[i], std::sin(3e7), 1e-6);
      } else {
        EXPECT_EQ(alone[i], beside[i]);
      }
    }
  });
}

// Of all pairs of some magnitudes, zeros and infinities: angles, and what divisions leave, which is exact.
TEST(EnginePointwise, PairsAreAsTheStandardLibraryHasThem) {
  std::vector<float> some = {0.0f, -0.0f, INFINITY, -INFINITY, NAN,     1.0f, -1.0f,
                             3.0f, -3.0f, 0.1f,     1e-45f,    3.4e38f, -2.5f};
  for (float v : randomFloats(60, 5, -30, 30)) some.insert(some.end(), {v, std::round(v), v * 1e9f, v * 1e-9f});
  std::vector<float> x, y;
  for (float a : some)
    for (float b : some) x.push_back(a), y.push_back(b);
  auto floored = [](float a, float b) {
    const float r = std::fmod(a, b);
    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
  };
  atEachSimdLevel([&] {
    const std::vector<float> angles = applied(PointwiseOp::Atan2, x, y), rests = applied(PointwiseOp::Fmod, x, y),
                             remainders = applied(PointwiseOp::Remainder, x, y),
                             powers = applied(PointwiseOp::Pow, x, y);
    for (size_t i = 0; i < x.size(); ++i) {
      SCOPED_TRACE(testing::Message() << x[i] << ", " << y[i]);
      EXPECT_LE(ulps(angles[i], std::atan2(static_cast<double>(x[i]), static_cast<double>(y[i]))), 1);
      EXPECT_EQ(std::signbit(angles[i]), std::signbit(std::atan2(x[i], y[i])) && !std::isnan(angles[i]));
      EXPECT_LE(ulps(powers[i], std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]))), 1);
      EXPECT_EQ(std::signbit(powers[i]) && !std::isnan(powers[i]),
                std::signbit(std::pow(x[i], y[i])) && !std::isnan(powers[i]));
      EXPECT_EQ(ulps(rests[i], std::fmod(x[i], y[i])), 0);
      EXPECT_EQ(ulps(remainders[i], floored(x[i], y[i])), 0);
      EXPECT_TRUE(std::isnan(rests[i]) || std::signbit(rests[i]) == std::signbit(x[i]));
    }
  });
}

TEST(EnginePointwise, ActivationsAreNear) {
  std::vector<float> x = randomFloats(1000, 1, -12, 12);
  x.insert(x.end(), {NAN, 0.0f, 90.0f, -90.0f, 25.0f});
  struct {
    PointwiseOp op;
    Activation activation;
  } pairs[] = {
#define TS_ACTIVATION(name, ...) {PointwiseOp::name, Activation::name},
#include "runtime/kernels/pointwise_ops.def"
  };
  atEachSimdLevel([&] {
    for (auto [op, activation] : pairs) {
      SCOPED_TRACE(static_cast<int>(op));
      std::vector<double> want;
      for (float v : x) want.push_back(activationOf(activation, v, -0.5, 2));
      expectNear(applied(op, x, {}, -0.5f, 2), want, 2e-6, 5e-7);
    }
  });
}

// Where 1 + erf would cancel, and past that.
TEST(EnginePointwise, GeluOfNegativeNumbersIsNear) {
  std::vector<float> x;
  for (float v = -14; v < 14; v += 0.00131f) x.push_back(v);
  atEachSimdLevel([&] {
    const std::vector<float> got = applied(PointwiseOp::Gelu, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = 0.5 * x[i] * std::erfc(-x[i] / std::sqrt(2.0));
      ASSERT_NEAR(got[i], want, 1e-7 + std::max(0.0f, x[i]) * 6e-8) << x[i];
    }
    for (float v : {-3.4e38f, -100.0f}) EXPECT_EQ(applied(PointwiseOp::Gelu, {v})[0], 0) << v;
    for (float v : {3.4e38f, 100.0f}) EXPECT_EQ(applied(PointwiseOp::Gelu, {v})[0], v);
    EXPECT_TRUE(std::isnan(applied(PointwiseOp::Gelu, {-INFINITY})[0]));
    EXPECT_EQ(applied(PointwiseOp::Gelu, {INFINITY})[0], INFINITY);
  });
}

TEST(EnginePointwise, TanhNeverFalls) {
  std::vector<float> x;
  for (float v = -11; v < 11; v += 0.00037f) x.push_back(v);
  atEachSimdLevel([&] {
    const std::vector<float> got = applied(PointwiseOp::Tanh, x);
    for (size_t i = 1; i < x.size(); ++i) ASSERT_LE(got[i - 1], got[i] + (x[i] * x[i] < 1 ? 1e-7f : 0)) << x[i];
    EXPECT_EQ(got.back(), 1);
  });
}

TEST(EnginePointwise, ExactOperations) {
  std::vector<float> x = {1.5f, -1.5f, 2.5f, 0, NAN, INFINITY, -7, 7, 1e30f}, y = {2, 2, -2, 0, 1, 1, 3, NAN, 1e-30f};
  auto expect = [&](PointwiseOp op, std::vector<float> want) {
    std::vector<float> got = applied(op, x, y);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i])
          << "op " << static_cast<int>(op) << " at " << i << ": " << got[i] << ", not " << want[i];
  };
  atEachSimdLevel([&] {
    expect(PointwiseOp::Min, {1.5f, -1.5f, -2, 0, NAN, 1, -7, NAN, 1e-30f});
    expect(PointwiseOp::Max, {2, 2, 2.5f, 0, NAN, INFINITY, 3, NAN, 1e30f});
    expect(PointwiseOp::Ne, {1, 1, 1, 0, 1, 1, 1, 1, 1});
    expect(PointwiseOp::Eq, {0, 0, 0, 1, 0, 0, 0, 0, 0});
    expect(PointwiseOp::Lt, {1, 1, 0, 0, 0, 0, 1, 0, 0});
    expect(PointwiseOp::Ge, {0, 0, 1, 1, 0, 1, 0, 0, 1});
    expect(PointwiseOp::And, {1, 1, 1, 0, 1, 1, 1, 1, 1});
    expect(PointwiseOp::Xor, {0, 0, 0, 0, 0, 0, 0, 0, 0});
    expect(PointwiseOp::Round, {2, -2, 2, 0, NAN, INFINITY, -7, 7, 1e30f});
    expect(PointwiseOp::Sign, {1, -1, 1, 0, 0, 1, -1, 1, 1});
    expect(PointwiseOp::Remainder, {1.5f, 0.5f, -1.5f, NAN, NAN, NAN, 2, NAN, std::fmod(1e30f, 1e-30f)});
    expect(PointwiseOp::FloorDiv, {0, -1, -2, NAN, NAN, NAN, -3, NAN, INFINITY});
    expect(PointwiseOp::IsNan, {0, 0, 0, 0, 1, 0, 0, 0, 0});
    expect(PointwiseOp::Not, {0, 0, 0, 1, 0, 0, 0, 0, 0});
    expect(PointwiseOp::Relu, {1.5f, 0, 2.5f, 0, NAN, INFINITY, 0, 7, 1e30f});
  });
}

TEST(EnginePointwise, RowsOfAnyStrideAreGathered) {
  // Numbers that each of the types holds.
  std::vector<float> x = randomFloats(40000, 3, 0, 100);
  for (float& v : x) v = std::floor(v);
  struct {
    std::vector<int64_t> dims, strides;
  } cases[] = {{{7, 9, 13}, {1000, 1, 9}},   {{3, 31, 50}, {5000, 1, 100}}, {{2, 130, 16}, {3000, 16, 0}},
               {{5, 70, 3}, {4000, 40, 1}},  {{6, 40, 20}, {2, 400, 1}},    {{4, 3, 700}, {1, 4, 12}},
               {{9, 11, 6}, {7, 0, 1}},      {{2, 5, 64}, {900, 1, 6}},     {{300, 16, 4}, {8, 0, 2}},
               {{301, 5, 8}, {3, 0, 0}},     {{99, 7, 13}, {20, 0, 1}},     {{70, 11, 16}, {16, 0, 1}},
               {{3, 90, 23}, {9000, 50, 1}}, {{3, 90, 31}, {900, 9, 0}},    {{2, 90, 41}, {9000, 50, 1}},
               {{2, 9, 5}, {900, 50, 3}},    {{3, 17, 30}, {5000, 1, 100}}, {{3, 8, 8}, {64, 1, 8}}};
  for (const auto& c : cases) {
    std::vector<float> want, got(static_cast<size_t>(c.dims[0] * c.dims[1] * c.dims[2]));
    for (int64_t i = 0; i < c.dims[0]; ++i)
      for (int64_t j = 0; j < c.dims[1]; ++j)
        for (int64_t k = 0; k < c.dims[2]; ++k)
          want.push_back(-x[static_cast<size_t>(i * c.strides[0] + j * c.strides[1] + k * c.strides[2])]);
    for (DType type : {DType::Float32, DType::BFloat16, DType::Float16, DType::UInt8, DType::Int32}) {
      std::vector<float> stored(x.size());
      storePointwise(type, x.data(), static_cast<int64_t>(x.size()), stored.data());
      PointwiseProgram p;
      p.output(p.step(PointwiseOp::Neg, p.input(type)));
      run(p, c.dims, {{stored.data(), c.strides}}, {got.data()}, 2);
      EXPECT_EQ(got, want) << pythonName(type) << " " << c.dims[0] << " " << c.dims[1] << " " << c.dims[2];
    }
  }
}

// As masks of edges that all heads share.
TEST(EnginePointwise, MasksAreRepeatedAlongRows) {
  for (int64_t length : {2, 3, 4, 7, 16, 64, 70})
    for (const std::vector<int64_t>& strides : {std::vector<int64_t>{90, 1, 0}, {0, 1, 0}, {1, 60, 0}}) {
      const int64_t n = 40, m = 50;
      const std::vector<int64_t> whole = {m * length, length, 1};
      const std::vector<float> x = randomFloats(n * m * length, 1), random = randomFloats(4000, 2);
      std::vector<uint8_t> mask;
      for (float v : random) mask.push_back(v > 0);
      PointwiseProgram p;
      const int a = p.input(), b = p.input(DType::Bool);
      p.output(p.step(PointwiseOp::Where, b, p.constant(-1), a));
      std::vector<float> want, got(x.size());
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j)
          for (int64_t k = 0; k < length; ++k)
            want.push_back(mask[static_cast<size_t>(i * strides[0] + j * strides[1])] ? -1 : x[want.size()]);
      run(p, {n, m, length}, {{x.data(), whole}, {mask.data(), strides}}, {got.data()}, 2);
      EXPECT_EQ(got, want) << length;
    }
}

TEST(EnginePointwise, BroadcastsAndStrides) {
  const int64_t n = 5, m = 301, k = 7;
  std::vector<float> full = randomFloats(n * m * k, 1), row = randomFloats(k, 2), column = randomFloats(n * m, 3);
  std::vector<float> swapped = randomFloats(m * n * k, 4), scalar = {3};
  PointwiseProgram p;
  int a = p.input(), b = p.input(), c = p.input(), d = p.input(), e = p.input();
  int sum = p.step(PointwiseOp::Add, a, b);
  int product = p.step(PointwiseOp::Mul, sum, c);
  int all = p.step(PointwiseOp::MulAdd, d, e, product);
  int two = p.constant(2);
  int shifted = p.step(PointwiseOp::Sub, all, two);
  p.output(p.step(PointwiseOp::Clamp, shifted, -1, -1, -6, 4));
  EXPECT_LE(p.slots(), 8);
  const std::vector<int64_t> contiguous = {m * k, k, 1}, rows = {0, 0, 1}, columns = {m, 1, 0},
                             transposed = {k, n * k, 1};
  const std::vector<int64_t> none = {0, 0, 0};
  std::vector<double> want;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      for (int64_t l = 0; l < k; ++l) {
        double v = (static_cast<double>(full[want.size()]) + row[static_cast<size_t>(l)]) *
                   column[static_cast<size_t>(i * m + j)];
        v += 3.0 * swapped[static_cast<size_t>((j * n + i) * k + l)] - 2;
        want.push_back(std::min(4.0, std::max(-6.0, v)));
      }
  std::vector<float> first;
  for (int threads : {1, 2, 3, 16}) {
    std::vector<float> got(want.size());
    run(p, {n, m, k},
        {{full.data(), contiguous},
         {row.data(), rows},
         {column.data(), columns},
         {swapped.data(), transposed},
         {scalar.data(), none}},
        {got.data()}, threads);
    expectNear(got, want, 1e-6, 1e-6);
    if (first.empty()) first = got;
    EXPECT_TRUE(sameBytes(first, got));
  }
}

// A tile is a part of a row, or some rows; what repeats is loaded once.
TEST(EnginePointwise, RowsOfAnyLengthBesideOthers) {
  for (int64_t n : {1, 3, 64, 100, 511, 600, 1024, 1025, 2050, 5000}) {
    const int64_t images = 3, m = n < 100 ? 50 : 4;
    SCOPED_TRACE(n);
    const std::vector<float> full = randomFloats(images * m * n, 1), row = randomFloats(n, 2),
                             channel = randomFloats(m, 3), wide = randomFloats(images * m * (n + 5), 4);
    const std::vector<int64_t> contiguous{m * n, n, 1}, rows{0, 0, 1}, channels{0, 1, 0}, parts{m * (n + 5), n + 5, 1};
    PointwiseProgram p;
    const int a = p.input(), b = p.input(), c = p.input(), d = p.input();
    const int product = p.step(PointwiseOp::MulAdd, p.step(PointwiseOp::Add, a, b), c, d);
    p.output(p.step(PointwiseOp::RoundBF16, product), DType::BFloat16);
    std::vector<BFloat16> want, got(full.size());
    for (int64_t i = 0; i < images * m * n; ++i) {
      auto at = [](const std::vector<float>& v, int64_t place) { return v[static_cast<size_t>(place)]; };
      const float both = at(full, i) + at(row, i % n);
      want.emplace_back(std::fma(both, at(channel, i / n % m), at(wide, i / n * (n + 5) + i % n)));
    }
    for (int threads : {1, 3}) {
      run(p, {images, m, n},
          {{full.data(), contiguous}, {row.data(), rows}, {channel.data(), channels}, {wide.data(), parts}},
          {got.data()}, threads);
      ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(BFloat16)), 0);
    }
  }
}

// The last tile is one row, whose element lies as far in memory as the tile before begins in what is repeated.
TEST(EnginePointwise, RowsOfOneElementAreNotThoseOfTheTileBefore) {
  const int64_t images = 513, m = 1025, n = 2;
  const std::vector<float> full = randomFloats(images * m * n, 1), column = randomFloats(m, 2);
  const std::vector<int64_t> contiguous{m * n, n, 1}, columns{0, 1, 0};
  PointwiseProgram p;
  const int a = p.input(), b = p.input();
  p.output(p.step(PointwiseOp::Add, a, b));
  std::vector<float> got(full.size());
  run(p, {images, m, n}, {{full.data(), contiguous}, {column.data(), columns}}, {got.data()});
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], full[i] + column[i / n % m]) << i;
}

// What is only stored: as it is, and rounded once.
TEST(EnginePointwise, CopiesAndRoundingsAreStored) {
  const std::vector<float> values = manyFloats();
  const auto count = static_cast<int64_t>(values.size());
  const std::vector<int64_t> strides{1};
  for (DType type : {DType::Float32, DType::BFloat16, DType::Float16}) {
    PointwiseProgram p;
    const int copy = p.step(PointwiseOp::Copy, p.input());
    p.output(type == DType::Float32
                 ? copy
                 : p.step(type == DType::Float16 ? PointwiseOp::RoundF16 : PointwiseOp::RoundBF16, copy),
             type);
    std::vector<float> got(values.size());
    run(p, {count}, {{values.data(), strides}}, {got.data()});
    for (size_t i = 0; i < values.size(); ++i) {
      const auto* halves = reinterpret_cast<const uint16_t*>(got.data());
      if (type == DType::Float32)
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(values[i]));
      else
        ASSERT_EQ(halves[i], type == DType::Float16 ? Half(values[i]).bits : BFloat16(values[i]).bits) << values[i];
    }
  }
}

// Long rows of transposed operands are taken in blocks, beside operands that lie otherwise.
TEST(EnginePointwise, TransposedRowsInBlocks) {
  for (auto [outer, rows, columns] : {std::array<int64_t, 3>{2, 21, 150}, {1, 8, 129}, {3, 40, 193}, {1, 100, 1000}}) {
    const int64_t area = rows * columns, count = outer * area;
    const std::vector<float> turned = randomFloats(count, 1), plain = randomFloats(count, 2),
                             row = randomFloats(columns, 3), other = randomFloats(count, 4);
    std::vector<uint8_t> flags;
    for (float v : randomFloats(count, 5)) flags.push_back(v > 0);
    std::vector<Half> halves;
    for (float v : randomFloats(count, 6)) halves.emplace_back(v);
    PointwiseProgram p;
    const int t = p.input(), x = p.input(), r = p.input(), f = p.input(DType::Bool), o = p.input(),
              h = p.input(DType::Float16);
    const int sum = p.step(PointwiseOp::Add, p.step(PointwiseOp::Add, p.step(PointwiseOp::Mul, t, r), x), h);
    p.output(p.step(PointwiseOp::Gt, sum, o), DType::Bool);
    p.output(p.step(PointwiseOp::Where, f, sum, o));
    const std::vector<int64_t> transposed = {area, 1, rows}, contiguous = {area, columns, 1}, broadcast = {0, 0, 1},
                               swapped = {columns, outer * columns, 1};
    std::vector<float> chosen(plain.size());
    std::vector<uint8_t> larger(plain.size());
    for (int threads : {1, 3}) {
      run(p, {outer, rows, columns},
          {{turned.data(), transposed},
           {plain.data(), contiguous},
           {row.data(), broadcast},
           {flags.data(), transposed},
           {other.data(), swapped},
           {halves.data(), transposed}},
          {larger.data(), chosen.data()}, threads);
      for (int64_t n = 0; n < outer; ++n)
        for (int64_t y = 0; y < rows; ++y)
          for (int64_t c = 0; c < columns; ++c) {
            const auto at = static_cast<size_t>(n * area + y * columns + c),
                       from = static_cast<size_t>(n * area + c * rows + y),
                       beside = static_cast<size_t>((y * outer + n) * columns + c);
            const float want =
                turned[from] * row[static_cast<size_t>(c)] + plain[at] + static_cast<float>(halves[from]);
            ASSERT_EQ(larger[at], want > other[beside]) << at;
            ASSERT_EQ(chosen[at], flags[from] ? want : other[beside]) << at;
          }
    }
  }
}

TEST(EnginePointwise, LargeRunsOnThreadsAndInPlace) {
  const int64_t count = 200'003;
  std::vector<float> x = randomFloats(count, 1), y = randomFloats(count, 2);
  PointwiseProgram p;
  int a = p.input(), b = p.input();
  p.output(p.step(PointwiseOp::Tanh, p.step(PointwiseOp::Add, a, b)));
  std::vector<int64_t> strides = {1};
  std::vector<float> want(x.size()), got = x;
  run(p, {count}, {{x.data(), strides}, {y.data(), strides}}, {want.data()});
  run(p, {count}, {{got.data(), strides}, {y.data(), strides}}, {got.data()}, 3);
  EXPECT_TRUE(sameBytes(want, got));
  EXPECT_NEAR(want.back(), std::tanh(x.back() + y.back()), 1e-6);
}

TEST(EnginePointwise, StoredTypesAndSeveralOutputs) {
  const int64_t count = 2500;
  std::vector<float> values = randomFloats(count, 1);
  std::vector<Half> halves;
  std::vector<BFloat16> brains;
  std::vector<uint8_t> flags;
  for (float v : values) {
    halves.emplace_back(v);
    brains.emplace_back(v * 3);
    flags.push_back(v > 0.3f);
  }
  PointwiseProgram p;
  int h = p.input(DType::Float16), b = p.input(DType::BFloat16), f = p.input(DType::Bool);
  int chosen = p.step(PointwiseOp::Where, f, h, b);
  int positive = p.step(PointwiseOp::Gt, chosen, p.constant(0));
  p.output(positive, DType::Bool);
  p.output(chosen);
  p.output(chosen, DType::Float16);
  std::vector<uint8_t> isPositive(values.size());
  std::vector<float> plain(values.size());
  std::vector<Half> half(values.size());
  std::vector<int64_t> strides = {1};
  run(p, {count}, {{halves.data(), strides}, {brains.data(), strides}, {flags.data(), strides}},
      {isPositive.data(), plain.data(), half.data()}, 2);
  for (size_t i = 0; i < values.size(); ++i) {
    float want = flags[i] ? static_cast<float>(halves[i]) : static_cast<float>(brains[i]);
    ASSERT_EQ(plain[i], want);
    ASSERT_EQ(isPositive[i], want > 0);
    ASSERT_EQ(half[i].bits, Half(want).bits);
  }
}

TEST(EnginePointwise, EmptyAndSingle) {
  PointwiseProgram p;
  p.output(p.step(PointwiseOp::Neg, p.input()));
  float x = 4, y = 0;
  run(p, {}, {{&x, {}}}, {&y});
  EXPECT_EQ(y, -4);
  std::vector<int64_t> strides = {1};
  run(p, {0}, {{nullptr, strides}}, {nullptr});
  PointwiseProgram copy;
  copy.output(copy.input());
  run(copy, {}, {{&x, {}}}, {&y});
  EXPECT_EQ(y, 4);
}

// Programs of logic on bool alone work on its bytes.
TEST(EnginePointwise, LogicOfBool) {
  constexpr int64_t kRows = 70, kColumns = 131;
  std::vector<uint8_t> a(kRows * kColumns), b(kColumns), got(a.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = i % 3 == 0;
  for (size_t i = 0; i < b.size(); ++i) b[i] = i % 2;
  PointwiseProgram p;
  const int x = p.input(DType::Bool), y = p.input(DType::Bool), z = p.input(DType::Bool);
  const int either = p.step(PointwiseOp::Or, p.step(PointwiseOp::Not, x), y);
  p.output(p.step(PointwiseOp::Xor, p.step(PointwiseOp::And, either, p.constant(1)), z), DType::Bool);
  const int64_t same[] = {kColumns, 1}, row[] = {0, 1}, column[] = {kColumns, 0};
  run(p, {kRows, kColumns}, {{a.data(), same}, {b.data(), row}, {a.data(), column}}, {got.data()}, 2);
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(got[i], (!a[i] || b[i % kColumns]) != (a[i / kColumns * kColumns] != 0)) << i;
}

}  // namespace tscompile::test
