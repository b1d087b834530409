#include "runtime/kernels/gemm.h"

#include "ir/values/dtype.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/simd.h"
#include "tests/support/engine_reference.h"

#include <array>

namespace tscompile::test {
namespace {

struct GemmCase {
  int64_t m, n, k;
  int64_t extraA = 0, extraC = 0;  // floats between rows
  Epilogue epilogue{};
  bool bias = false, residual = false, transposed = false;
  WeightStorage storage = WeightStorage::F32;
  bool roundsRows = true;
};

// The weight that the packed matrix stands for.
double stored(float value, WeightStorage storage, double scale) {
  switch (storage) {
    case WeightStorage::F32:
    case WeightStorage::Integers:
    case WeightStorage::Bytes:
      return value;
    case WeightStorage::F16:
      return static_cast<float>(Half(value));
    case WeightStorage::BF16:
      return static_cast<float>(BFloat16(value));
    case WeightStorage::I8:
      break;
  }
  return std::nearbyint(value / scale) * scale;
}

std::vector<float> run(const GemmCase& t, int threads, std::vector<double>* want = nullptr) {
  const int64_t lda = t.k + t.extraA, ldc = t.n + t.extraC;
  std::vector<float> a = randomFloats(t.m * lda, 1), b = randomFloats(t.k * t.n, 2), bias = randomFloats(t.n, 3);
  std::vector<float> residual = randomFloats(t.m * ldc, 4), c(static_cast<size_t>(t.m * ldc), 77.0f);
  std::vector<char> packed(static_cast<size_t>(packedBytes(t.k, t.n, t.storage)));
  packMatrix(t.k, t.n, b.data(), t.transposed ? 1 : t.n, t.transposed ? t.k : 1, t.storage, packed.data());
  PackedMatrix matrix{t.k, t.n, t.storage, packed.data(), 0, t.roundsRows};
  std::vector<char> workspace(static_cast<size_t>(gemmWorkspace(t.m, matrix)));
  Epilogue e = t.epilogue;
  if (t.bias) e.bias = bias.data();
  if (t.residual) e.residual = residual.data();
  gemm(t.m, a.data(), lda, matrix, c.data(), ldc, e, workspace.data(), threads);
  if (!want) return c;
  if (t.roundsRows && (t.storage == WeightStorage::BF16 || t.storage == WeightStorage::I8) && t.m > 4 &&
      hasLineProducts(t.storage))
    for (int64_t i = 0; i < t.m; ++i)
      roundToLines(t.storage, std::span(a).subspan(static_cast<size_t>(i * lda), static_cast<size_t>(t.k)));
  want->assign(c.size(), 77.0);
  for (int64_t j = 0; j < t.n; ++j) {
    auto weight = [&](int64_t p) { return b[static_cast<size_t>(t.transposed ? j * t.k + p : p * t.n + j)]; };
    double scale = 0;
    for (int64_t p = 0; p < t.k; ++p) scale = std::max(scale, std::fabs(static_cast<double>(weight(p))) / 127);
    for (int64_t i = 0; i < t.m; ++i) {
      double sum = t.bias ? bias[static_cast<size_t>(j)] : 0;
      for (int64_t p = 0; p < t.k; ++p)
        sum += a[static_cast<size_t>(i * lda + p)] * stored(weight(p), t.storage, scale);
      if (t.residual) sum += residual[static_cast<size_t>(i * ldc + j)];
      (*want)[static_cast<size_t>(i * ldc + j)] = activationOf(e.activation, sum, e.alpha, e.beta);
    }
  }
  return c;
}

void checkGemm(const GemmCase& t, double tolerance = 2e-5) {
  SCOPED_TRACE(testing::Message() << t.m << " x " << t.n << " x " << t.k);
  std::vector<double> want;
  std::vector<float> got = run(t, 1, &want);
  expectNear(got, want, tolerance, tolerance);
  for (int threads : {2, 3, 16}) EXPECT_TRUE(sameBytes(got, run(t, threads))) << threads << " threads";
}

}  // namespace

TEST(EngineGemm, SizesAroundTheTiles) {
  atEachSimdLevel([] {
    for (int64_t m : {1, 2, 3, 5, 6, 7, 13, 14, 15, 29})
      for (int64_t n : {1, 15, 16, 17, 33, 64, 100})
        for (int64_t k : {1, 4, 15, 16, 37}) checkGemm({m, n, k});
  });
}

TEST(EngineGemm, LargeSizesAreSplit) {
  checkGemm({130, 300, 1100});
  checkGemm({1, 4000, 768});
  checkGemm({1100, 96, 64});
  checkGemm({40000, 4, 4});
  checkGemm({3000, 70, 7, 2, 3});
  checkGemm({1500, 40, 130, 5, 3});
}

// As the last layers of networks are: sums along rows.
TEST(EngineGemm, FewColumnsOfManyRows) {
  atEachSimdLevel([] {
    for (int64_t n : {1, 2, 3, 4})
      for (int64_t k : {8 * n, int64_t{37}, int64_t{64}})
        for (int64_t m : {32, 33, 1100}) {
          GemmCase t{m, n, k, 3, m == 33 ? 2 : 0};
          checkGemm(t);
          t.bias = t.residual = true;
          t.epilogue.activation = n == 3 ? Activation::Relu : Activation::Sigmoid;
          checkGemm(t, 2e-5 + roundingOf(Activation::Sigmoid));
        }
  });
}

// So that what is served together is what each gives alone.
TEST(EngineGemm, ARowHasTheSameResultWhateverOthersThereAre) {
  atEachSimdLevel([] {
    for (WeightStorage storage : {WeightStorage::F32, WeightStorage::F16, WeightStorage::BF16})
      for (int64_t n : {1, 3, 4, 20, 48, 500})
        for (int64_t k : {5, 37, 64, 1030, 2100}) {
          GemmCase t{2, n, k};
          t.storage = storage;
          t.roundsRows = false;
          t.bias = true;
          t.residual = n % 8 == 0;
          t.epilogue.activation = Activation::Tanh;
          const std::vector<float> few = run(t, 1);
          for (int64_t m : {1, 5, 31, 32, 100, 700}) {
            t.m = m;
            const std::vector<float> many = run(t, 2);
            EXPECT_TRUE(std::equal(many.begin(), many.begin() + std::min<int64_t>(m, 2) * n, few.begin()))
                << m << " x " << n << " x " << k << ", storage " << static_cast<int>(storage);
          }
        }
  });
}

// Their rows are no whole vectors.
TEST(EngineGemm, NarrowResultsAreActivatedTogether) {
  atEachSimdLevel([] {
    for (int64_t n : {5, 20, 50})
      for (int64_t k : {2, 20, 33, 64})
        for (int64_t m : {3, 100, 1500}) {
          GemmCase t{m, n, k};
          t.bias = true;
          t.residual = m == 100;
          t.epilogue.activation = Activation::Tanh;
          checkGemm(t, 2e-5 + roundingOf(Activation::Tanh));
        }
  });
}

TEST(EngineGemm, EmptySizes) {
  checkGemm({0, 5, 3});
  checkGemm({4, 0, 3});
  GemmCase t{3, 20, 0};
  t.bias = true;
  checkGemm(t);
}

TEST(EngineGemm, RowStridesAndTransposedWeights) {
  GemmCase t{17, 35, 50, 3, 7};
  t.transposed = true;
  atEachSimdLevel([&] { checkGemm(t); });
}

TEST(EngineGemm, Epilogues) {
  atEachSimdLevel([] {
    for (Activation a : kActivations)
      for (bool bias : {false, true})
        for (bool residual : {false, true}) {
          GemmCase t{16, 50, 600, 0, 2};
          t.epilogue.activation = a;
          t.epilogue.alpha = a == Activation::LeakyRelu ? 0.1f : a == Activation::Elu ? 0.7f : -0.5f;
          t.epilogue.beta = 2;
          t.bias = bias;
          t.residual = residual;
          checkGemm(t, 4e-5 + roundingOf(a));
        }
  });
}

TEST(EngineGemm, StoredPrecisions) {
  atEachSimdLevel([] {
    for (WeightStorage storage : {WeightStorage::F16, WeightStorage::BF16, WeightStorage::I8})
      for (int64_t m : {1, 2, 3, 4, 5, 40}) {
        GemmCase t{m, 53, 300};
        t.storage = storage;
        t.bias = true;
        checkGemm(t, 1e-4);
        t.n = 140;
        t.residual = true;
        t.epilogue.activation = m == 1 ? Activation::Gelu : Activation::Relu;
        checkGemm(t, 1e-4);
      }
  });
}

// Rows of bf16 and of bytes in lines: tiles and panels that are only partly there, depths that do not fill them, many
// rows.
TEST(EngineGemm, RowsInLines) {
  atEachSimdLevel([] {
    for (WeightStorage storage : {WeightStorage::BF16, WeightStorage::I8})
      for (auto [m, n, k] : {std::array<int64_t, 3>{5, 1, 1},
                             {6, 3, 0},
                             {16, 16, 32},
                             {17, 33, 31},
                             {33, 48, 33},
                             {47, 15, 64},
                             {31, 100, 130},
                             {700, 40, 95},
                             {1500, 20, 40}}) {
        GemmCase t{m, n, k, 3, 5};
        t.storage = storage;
        checkGemm(t, 1e-4);
        t.bias = t.residual = t.transposed = true;
        t.epilogue.activation = Activation::Silu;
        checkGemm(t, 1e-4);
      }
  });
}

// Bytes have no infinity: all of the row is NaN.
TEST(EngineGemm, NanAndInfinityStayInTheirRowsOfBytes) {
  std::vector<float> a(20 * 40, 1), b(40 * 18, 1), c(20 * 18);
  a[5 * 40 + 39] = NAN;
  a[6 * 40] = INFINITY;
  std::fill_n(a.begin() + 7 * 40, 40, 0.0f);
  std::vector<char> packed(static_cast<size_t>(packedBytes(40, 18, WeightStorage::I8)));
  packMatrix(40, 18, b.data(), 18, 1, WeightStorage::I8, packed.data());
  PackedMatrix matrix{40, 18, WeightStorage::I8, packed.data()};
  std::vector<char> workspace(static_cast<size_t>(gemmWorkspace(20, matrix)));
  gemm(20, a.data(), 40, matrix, c.data(), 18, {}, workspace.data(), 1);
  for (size_t i = 0; i < c.size(); ++i) {
    if (i / 18 == 5 || (i / 18 == 6 && hasLineProducts(WeightStorage::I8)))
      EXPECT_TRUE(std::isnan(c[i])) << i;
    else
      EXPECT_FLOAT_EQ(c[i], i / 18 == 6 ? INFINITY : i / 18 == 7 ? 0.0f : 40.0f) << i;
  }
}

TEST(EngineGemm, NanAndInfinityInRowsOfBF16StayInTheirRows) {
  std::vector<float> a(20 * 40, 1), b(40 * 18, 1), c(20 * 18);
  a[5 * 40 + 39] = NAN;
  a[6 * 40] = INFINITY;
  std::vector<char> packed(static_cast<size_t>(packedBytes(40, 18, WeightStorage::BF16)));
  packMatrix(40, 18, b.data(), 18, 1, WeightStorage::BF16, packed.data());
  PackedMatrix matrix{40, 18, WeightStorage::BF16, packed.data()};
  std::vector<char> workspace(static_cast<size_t>(gemmWorkspace(20, matrix)));
  gemm(20, a.data(), 40, matrix, c.data(), 18, {}, workspace.data(), 1);
  for (size_t i = 0; i < c.size(); ++i) {
    if (i / 18 == 5)
      EXPECT_TRUE(std::isnan(c[i]));
    else
      EXPECT_EQ(c[i], i / 18 == 6 ? INFINITY : 40.0f);
  }
}

// Of very many weights some are so near a tie that they round either way.
TEST(EngineGemm, DepthsOfInt8Weights) {
  for (int64_t k : {0, 1, 3, 4, 5, 16, 31, 65536, 65600})
    for (int64_t m : {1, 3, 5}) {
      GemmCase t{m, 18, k, 1, 2};
      t.storage = WeightStorage::I8;
      checkGemm(t, k > 1000 ? 2e-2 : 1e-5);
    }
}

// Rows that share a product with others: values of any size, none at all, and those that are not finite.
TEST(EngineGemm, RowsOfInt8WeightsOfAnySize) {
  const int64_t k = 40, n = 20;
  const std::vector<float> b = randomFloats(k * n, 2);
  std::vector<char> packed(static_cast<size_t>(packedBytes(k, n, WeightStorage::I8)));
  packMatrix(k, n, b.data(), n, 1, WeightStorage::I8, packed.data());
  const PackedMatrix matrix{k, n, WeightStorage::I8, packed.data()};
  auto product = [&](const std::vector<float>& a) {
    const auto m = static_cast<int64_t>(a.size()) / k;
    std::vector<char> workspace(static_cast<size_t>(gemmWorkspace(m, matrix)));
    std::vector<float> c(static_cast<size_t>(m * n));
    gemm(m, a.data(), k, matrix, c.data(), n, {}, workspace.data(), 1);
    return c;
  };
  const std::vector<float> plain = randomFloats(k, 1), want = product(plain);
  atEachSimdLevel([&] {
    for (float factor : {0.0f, 1e-43f, 1e-36f, 1e-29f, 1.0f, 1e30f, 3e36f}) {
      std::vector<float> a = plain;
      for (float& v : a) v *= factor;
      a.insert(a.end(), plain.begin(), plain.end());
      const std::vector<float> c = product(a);
      const double tolerance = factor < 1e-37 ? 2e-44 : 2e-5 * factor;
      for (size_t j = 0; j < n; ++j) {
        EXPECT_NEAR(c[j], static_cast<double>(want[j]) * factor, tolerance) << factor;
        EXPECT_NEAR(c[n + j], want[j], 2e-5) << factor;
      }
    }
    for (float odd : {NAN, INFINITY, -INFINITY}) {
      std::vector<float> a = plain;
      a[17] = odd;
      a.insert(a.end(), plain.begin(), plain.end());
      const std::vector<float> c = product(a);
      for (size_t j = 0; j < n; ++j) {
        EXPECT_FALSE(std::isfinite(c[j]));
        EXPECT_EQ(std::isnan(c[j]), std::isnan(odd));
        EXPECT_NEAR(c[n + j], want[j], 2e-5);
      }
    }
  });
}

// Sums that float32 does not hold; biases that it does not hold either.
TEST(EngineGemm, IntegersAreExact) {
  atEachSimdLevel([] {
    for (auto [m, n, k] :
         {std::array<int64_t, 3>{1, 40, 16}, {1, 17, 1}, {3, 5, 35}, {7, 64, 300}, {30, 33, 5000}, {45, 70, 200}}) {
      SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
      std::vector<float> a = randomFloats(m * k, 1), b = randomFloats(k * n, 2),
                         factors(static_cast<size_t>(n + kBlock));
      for (float& v : a) v = std::clamp(std::nearbyint(v * 55 + 200), 73.0f, 328.0f);
      for (float& v : b) v = std::nearbyint(v * 28 + 99);
      std::vector<int32_t> bias(factors.size());
      for (size_t j = 0; j < factors.size(); ++j) {
        bias[j] = static_cast<int32_t>(j) * 1234567 + 1;
        factors[j] = 1e-7f * static_cast<float>(j + 1);
      }
      for (WeightStorage storage : {WeightStorage::Integers, WeightStorage::Bytes}) {
        if (storage == WeightStorage::Bytes && !hasLineProducts(storage)) continue;
        const float least = storage == WeightStorage::Bytes ? 73 : 0;
        std::vector<int32_t> added = bias;
        for (int64_t j = 0; j < n; ++j)
          for (int64_t p = 0; p < k; ++p)
            added[static_cast<size_t>(j)] += static_cast<int32_t>(least * b[static_cast<size_t>(p * n + j)]);
        std::vector<char> packed(static_cast<size_t>(packedBytes(k, n, storage)));
        packMatrix(k, n, b.data(), n, 1, storage, packed.data());
        PackedMatrix matrix{k, n, storage, packed.data(), least};
        std::vector<char> workspace(static_cast<size_t>(gemmWorkspace(m, matrix)));
        std::vector<float> sums(static_cast<size_t>(m * n)), rounded(sums.size());
        Epilogue e;
        e.integerBias = added.data();
        gemm(m, a.data(), k, matrix, sums.data(), n, e, workspace.data(), 2);
        e.factors = factors.data();
        e.alpha = 0;
        e.beta = 255;
        gemm(m, a.data(), k, matrix, rounded.data(), n, e, workspace.data(), 1);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            int64_t sum = bias[static_cast<size_t>(j)];
            for (int64_t p = 0; p < k; ++p)
              sum += static_cast<int64_t>(a[static_cast<size_t>(i * k + p)] * b[static_cast<size_t>(p * n + j)]);
            const auto at = static_cast<size_t>(i * n + j);
            ASSERT_EQ(sums[at], static_cast<float>(sum));
            const float wanted = std::nearbyint(static_cast<float>(sum) * factors[static_cast<size_t>(j)]);
            ASSERT_EQ(rounded[at], std::clamp(wanted, 0.0f, 255.0f));
          }
      }
    }
  });
}

TEST(EngineGemm, ResidualMayBeTheResult) {
  std::vector<float> a = randomFloats(20 * 700, 1), b = randomFloats(700 * 40, 2), c = randomFloats(20 * 40, 3);
  std::vector<char> packed(static_cast<size_t>(packedBytes(700, 40, WeightStorage::F32)));
  packMatrix(700, 40, b.data(), 40, 1, WeightStorage::F32, packed.data());
  PackedMatrix matrix{700, 40, WeightStorage::F32, packed.data()};
  std::vector<char> workspace(static_cast<size_t>(gemmWorkspace(20, matrix)));
  std::vector<float> apart(c.size()), in = c;
  Epilogue e;
  e.residual = in.data();
  gemm(20, a.data(), 700, matrix, apart.data(), 40, e, workspace.data(), 2);
  e.residual = c.data();
  gemm(20, a.data(), 700, matrix, c.data(), 40, e, workspace.data(), 2);
  EXPECT_TRUE(sameBytes(apart, c));
}

TEST(EngineGemm, NanAndInfinityPass) {
  atEachSimdLevel([] {
    std::vector<float> a(32, 1.0f), b(16 * 20, 1.0f), c(40);
    a[3] = NAN;
    b[7 * 20 + 19] = INFINITY;
    std::vector<char> packed(static_cast<size_t>(packedBytes(16, 20, WeightStorage::F32)));
    packMatrix(16, 20, b.data(), 20, 1, WeightStorage::F32, packed.data());
    PackedMatrix matrix{16, 20, WeightStorage::F32, packed.data()};
    std::vector<char> workspace(static_cast<size_t>(gemmWorkspace(2, matrix)));
    Epilogue e;
    e.activation = Activation::Relu;
    gemm(2, a.data(), 16, matrix, c.data(), 20, e, workspace.data(), 1);
    for (size_t j = 0; j < 20; ++j) EXPECT_TRUE(std::isnan(c[j]));
    for (size_t j = 20; j < 39; ++j) EXPECT_EQ(c[j], 16.0f);
    EXPECT_TRUE(std::isinf(c[39]));
  });
}

}  // namespace tscompile::test
