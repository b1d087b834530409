// Products with matrices that are read where they lie, against plain loops, on every instruction set and number of
// threads.
#include "runtime/trtllm/matmul/matmul.h"

#include "ir/support/check.h"
#include "tests/support/engine_reference.h"

#include <random>

namespace tscompile::test {
namespace {

struct Stored {
  WeightRows weights;
  std::vector<std::byte> bytes;
  std::vector<float> scales, zeros;
  std::vector<double> values;  // [k][n], what the weights mean
};

Stored randomWeights(DType format, int64_t k, int64_t n, int64_t group, bool scaled, bool shifted, uint32_t seed) {
  Stored s;
  s.weights = {format, nullptr, k, n};
  s.weights.group = group;
  std::mt19937 engine(seed);
  s.bytes.resize(static_cast<size_t>(k * s.weights.rowBytes()));
  s.values.resize(static_cast<size_t>(k * n));
  auto store = [&](int64_t i, auto v) {
    std::memcpy(s.bytes.data() + i * static_cast<int64_t>(sizeof(v)), &v, sizeof(v));
  };
  for (int64_t i = 0; i < k * n; ++i) {
    float v = std::uniform_real_distribution<float>(-1, 1)(engine);
    auto bits = static_cast<int>(engine());
    double& value = s.values[static_cast<size_t>(i)];
    switch (format) {
      case DType::Float32:
        store(i, v), value = static_cast<double>(v);
        break;
      case DType::Float16:
        store(i, Half(v).bits), value = static_cast<double>(static_cast<float>(Half(v)));
        break;
      case DType::BFloat16:
        store(i, BFloat16(v).bits), value = static_cast<double>(static_cast<float>(BFloat16(v)));
        break;
      case DType::Int8:
        store(i, static_cast<int8_t>(bits)), value = static_cast<int8_t>(bits);
        break;
      case DType::Int4:
        s.bytes[static_cast<size_t>(i / 2)] |= static_cast<std::byte>((bits & 15) << (i % 2 * 4));
        value = (bits & 15) < 8 ? bits & 15 : (bits & 15) - 16;
        break;
      default:
        TS_UNREACHABLE();
    }
  }
  const int64_t groups = (k + s.weights.groupRows() - 1) / s.weights.groupRows();
  if (scaled) s.scales = randomFloats(groups * n, seed + 1, 0.01f, 0.1f);
  if (shifted) s.zeros = randomFloats(groups * n, seed + 2);
  for (int64_t i = 0; i < k * n; ++i) {
    auto at = static_cast<size_t>(i / n / s.weights.groupRows() * n + i % n);
    double& value = s.values[static_cast<size_t>(i)];
    if (scaled) value *= static_cast<double>(s.scales[at]);
    if (shifted) value += static_cast<double>(s.zeros[at]);
  }
  return s;
}

void checkRows(DType format, int64_t m, int64_t k, int64_t n, int64_t group, bool scaled, bool shifted, bool bias) {
  SCOPED_TRACE(testing::Message() << "format " << static_cast<int>(format) << ", " << m << " x " << k << " x " << n
                                  << ", groups of " << group << (scaled ? ", scales" : "")
                                  << (shifted ? ", zeros" : ""));
  Stored s = randomWeights(format, k, n, group, scaled, shifted, static_cast<uint32_t>(m * 31 + n));
  s.weights.data = s.bytes.data();
  if (scaled) s.weights.scales = s.scales.data();
  if (shifted) s.weights.zeros = s.zeros.data();
  std::vector<float> x = randomFloats(m * k, 5), biases = randomFloats(n, 6);
  std::vector<double> want(static_cast<size_t>(m * n)), magnitude(want.size());
  for (int64_t r = 0; r < m; ++r)
    for (int64_t c = 0; c < n; ++c) {
      auto at = static_cast<size_t>(r * n + c);
      want[at] = bias ? static_cast<double>(biases[static_cast<size_t>(c)]) : 0.0;
      for (int64_t i = 0; i < k; ++i) {
        double term = static_cast<double>(x[static_cast<size_t>(r * k + i)]) * s.values[static_cast<size_t>(i * n + c)];
        want[at] += term;
        magnitude[at] += std::fabs(term);
      }
    }
  std::vector<float> got(want.size()), other(want.size());
  multiplyRows(s.weights, m, x.data(), bias ? biases.data() : nullptr, got.data(), 1);
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], 1e-5 + 2e-6 * magnitude[i]) << "element " << i;
  for (int threads : {2, 5}) {
    multiplyRows(s.weights, m, x.data(), bias ? biases.data() : nullptr, other.data(), threads);
    ASSERT_TRUE(sameBytes(got, other)) << threads << " threads";
  }
}

TEST(PluginMatmul, RowsOfEveryFormat) {
  atEachSimdLevel([&] {
    for (DType format : {DType::Float32, DType::Float16, DType::BFloat16, DType::Int8, DType::Int4})
      for (int64_t m : {1, 2, 3, 4, 7, 16, 17, 40})
        for (int64_t n : {2, 16, 18, 62, 96}) {
          checkRows(format, m, 45, n, 0, true, false, n == 16);
          checkRows(format, m, 45, n, 16, true, true, n == 18);
          checkRows(format, m, 3, n, 0, false, false, false);
        }
  });
}

TEST(PluginMatmul, LargeMatricesInParts) {
  for (DType format : {DType::Int8, DType::Int4, DType::BFloat16})
    for (int64_t m : {1, 6, 20}) {
      checkRows(format, m, 1500, 1100, 0, true, false, true);
      checkRows(format, m, 1500, 768, 128, true, true, true);
      checkRows(format, m, 700, 2050, 100, true, false, false);
    }
}

TEST(PluginMatmul, NothingToSum) {
  for (int64_t m : {1, 5, 20}) checkRows(DType::Int8, m, 0, 6, 0, true, false, true);
}

TEST(PluginMatmul, Columns) {
  atEachSimdLevel([&] {
    for (int64_t m : {1, 4, 5, 33, 200})
      for (auto [n, k] : {std::pair(1, 1), std::pair(17, 70), std::pair(64, 512), std::pair(130, 600)}) {
        std::vector<float> x = randomFloats(m * k, 1), b = randomFloats(int64_t{n} * k, 2);
        std::vector<double> want(static_cast<size_t>(m * n));
        for (int64_t r = 0; r < m; ++r)
          for (int64_t c = 0; c < n; ++c)
            for (int64_t i = 0; i < k; ++i)
              want[static_cast<size_t>(r * n + c)] += static_cast<double>(x[static_cast<size_t>(r * k + i)]) *
                                                      static_cast<double>(b[static_cast<size_t>(c * k + i)]);
        auto load = [&](int64_t column, int64_t first, int64_t end, float* to) {
          std::copy(b.data() + column * k + first, b.data() + column * k + end, to);
        };
        std::vector<float> got(want.size()), other(want.size());
        multiplyColumns(m, n, k, x.data(), load, got.data(), 1);
        expectNear(got, want, 1e-4, 1e-5);
        multiplyColumns(m, n, k, x.data(), load, other.data(), 3);
        EXPECT_TRUE(sameBytes(got, other));
      }
  });
}

TEST(PluginMatmul, Int8IsExact) {
  atEachSimdLevel([&] {
    for (int64_t m : {1, 3, 4, 9})
      for (int64_t n : {1, 5, 16, 67})
        for (int64_t k : {1, 31, 32, 64, 130, 1000}) {
          std::mt19937 engine(static_cast<uint32_t>(m * n + k));
          std::vector<int8_t> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(n * k));
          // -128 * -128 twice is the pair that int16 would not hold.
          for (int8_t& v : a) v = engine() % 3 ? static_cast<int8_t>(engine()) : int8_t{-128};
          for (int8_t& v : b) v = engine() % 3 ? static_cast<int8_t>(engine()) : int8_t{-128};
          std::vector<int32_t> got(static_cast<size_t>(m * n)), want(got.size());
          for (int64_t r = 0; r < m; ++r)
            for (int64_t c = 0; c < n; ++c)
              for (int64_t i = 0; i < k; ++i)
                want[static_cast<size_t>(r * n + c)] +=
                    a[static_cast<size_t>(r * k + i)] * b[static_cast<size_t>(c * k + i)];
          multiplyInt8(m, n, k, a.data(), b.data(), got.data(), 2);
          ASSERT_EQ(got, want) << m << ' ' << n << ' ' << k;
        }
  });
}

}  // namespace
}  // namespace tscompile::test
