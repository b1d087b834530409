#include "runtime/kernels/attention.h"

#include "tests/support/engine_reference.h"

namespace tscompile::test {
namespace {

double elementOf(const BatchedMatrix& m, int64_t o, int64_t in, int64_t i, int64_t j) {
  return m.data[o * m.outerStride + in * m.innerStride + i * m.row + j * m.column];
}

// Contiguous [outer][inner][rows][columns], or with the last two swapped in memory.
BatchedMatrix matrixOf(const std::vector<float>& data, int64_t inner, int64_t rows, int64_t columns, bool swapped) {
  return {data.data(), inner * rows * columns, rows * columns, swapped ? 1 : columns, swapped ? rows : 1};
}

void checkProduct(int64_t m, int64_t n, int64_t k, bool swapA, bool swapB, int64_t outer = 2, int64_t inner = 3) {
  SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << (swapA ? " A swapped" : "")
                                  << (swapB ? " B swapped" : ""));
  std::vector<float> a = randomFloats(outer * inner * m * k, 1), b = randomFloats(outer * inner * k * n, 2);
  BatchedMatrix x = matrixOf(a, inner, m, k, swapA), y = matrixOf(b, inner, k, n, swapB);
  std::vector<double> want;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t in = 0; in < inner; ++in)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t p = 0; p < k; ++p) sum += elementOf(x, o, in, i, p) * elementOf(y, o, in, p, j);
          want.push_back(sum * 0.3f);
        }
  std::vector<float> first;
  for (int threads : {1, 2, 3, 16}) {
    std::vector<float> got(want.size());
    std::vector<float> workspace(batchedWorkspace(outer * inner, m, n, k, y.column) / sizeof(float));
    batchedGemm(outer, inner, m, n, k, 0.3f, x, y, got.data(), inner * m * n, m * n, n, workspace.data(), threads);
    if (first.empty()) expectNear(first = got, want, 1e-5, 1e-5);
    EXPECT_TRUE(sameBytes(first, got));
  }
}

struct AttentionCase {
  AttentionShape shape;
  bool mask = false, swapped = false;  // swapped: columns of queries, keys and values are apart
};

void checkAttention(const AttentionCase& t) {
  const AttentionShape& s = t.shape;
  SCOPED_TRACE(testing::Message() << s.queries << " queries, " << s.keys << " keys, depth " << s.depth);
  const int64_t pairs = s.outer * s.inner;
  std::vector<float> q = randomFloats(pairs * s.queries * s.depth, 1, -2, 2),
                     k = randomFloats(pairs * s.keys * s.depth, 2);
  std::vector<float> v = randomFloats(pairs * s.keys * s.valueDepth, 3), mask = randomFloats(s.queries * s.keys, 4);
  if (s.keys > 2) mask[1] = -INFINITY;
  BatchedMatrix mq = matrixOf(q, s.inner, s.queries, s.depth, t.swapped),
                mk = matrixOf(k, s.inner, s.keys, s.depth, t.swapped);
  BatchedMatrix mv = matrixOf(v, s.inner, s.keys, s.valueDepth, t.swapped);
  ScoreMask mm{.added = {t.mask ? mask.data() : nullptr}, .addedAt = {{.row = s.keys, .column = 1}}};
  std::vector<double> want;
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t in = 0; in < s.inner; ++in)
      for (int64_t i = 0; i < s.queries; ++i) {
        const int64_t seen = s.causal ? std::min(s.keys, i + 1) : s.keys;
        std::vector<double> weights;
        double sum = 0;
        for (int64_t j = 0; j < seen; ++j) {
          double score = 0;
          for (int64_t d = 0; d < s.depth; ++d) score += elementOf(mq, o, in, i, d) * elementOf(mk, o, in, j, d);
          weights.push_back(std::exp(score * s.scale + (t.mask ? mask[static_cast<size_t>(i * s.keys + j)] : 0)));
          sum += weights.back();
        }
        for (int64_t d = 0; d < s.valueDepth; ++d) {
          double value = 0;
          for (int64_t j = 0; j < seen; ++j)
            value += weights[static_cast<size_t>(j)] / sum * elementOf(mv, o, in, j, d);
          want.push_back(value);
        }
      }
  std::vector<float> first;
  for (int threads : {1, 2, 3, 16}) {
    std::vector<float> got(want.size());
    const int64_t area = s.queries * s.valueDepth;
    attention(s, mq, mk, mv, mm, got.data(), s.inner * area, area, s.valueDepth, threads);
    if (first.empty()) expectNear(first = got, want, 1e-5, 1e-5);
    EXPECT_TRUE(sameBytes(first, got));
  }
  AttentionShape rounded = s;
  rounded.rounds = true;
  first.clear();
  for (int threads : {1, 3}) {
    std::vector<float> got(want.size());
    const int64_t area = s.queries * s.valueDepth;
    attention(rounded, mq, mk, mv, mm, got.data(), s.inner * area, area, s.valueDepth, threads);
    if (first.empty()) expectNear(first = got, want, 2e-2, 2e-2);
    EXPECT_TRUE(sameBytes(first, got));
  }
}

}  // namespace

TEST(EngineBatchedGemm, SizesAndStrides) {
  atEachSimdLevel([] {
    for (bool swapA : {false, true})
      for (bool swapB : {false, true})
        for (int64_t m : {1, 14, 15, 40})
          for (int64_t n : {1, 16, 33})
            for (int64_t k : {1, 20, 64}) checkProduct(m, n, k, swapA, swapB);
  });
  checkProduct(130, 128, 64, false, true, 1, 12);
  checkProduct(300, 100, 80, false, false, 1, 1);
  // Columns that do not stay in a cache together, packed at once for pieces of rows or as they are needed.
  checkProduct(230, 75, 1700, true, false, 1, 2);
  checkProduct(20, 75, 1700, false, true, 1, 2);
  checkProduct(3, 5, 0, false, false);
  for (int64_t m : {1, 2, 3, 4})
    for (int64_t n : {64, 71, 600}) checkProduct(m, n, 37, m == 2, false, 1, n == 600 ? 1 : 2);
}

TEST(EngineAttention, QueriesKeysAndDepths) {
  atEachSimdLevel([] {
    for (int64_t queries : {1, 3, 14, 37})
      for (int64_t keys : {1, 16, 45})
        for (int64_t depth : {8, 20, 64})
          for (bool mask : {false, true})
            for (bool causal : {false, true})
              for (bool swapped : {false, true})
                checkAttention({{2, 2, queries, keys, depth, depth + 4, 0.125f, causal}, mask, swapped});
  });
}

TEST(EngineAttention, LargeShapesAreSplit) {
  checkAttention({{1, 12, 128, 128, 64, 64, 0.125f, false}});
  checkAttention({{1, 12, 128, 128, 64, 64, 0.125f, true}});
  checkAttention({{1, 2, 300, 520, 64, 64, 0.125f, true}});
  checkAttention({{1, 12, 1, 256, 64, 64, 0.125f, false}});
  checkAttention({{1, 1, 4, 9, 8, 8, -0.5f, false}});
  checkAttention({{1, 1, 40, 1200, 8, 8, 3.0f, false}, true});
}

// Scores that grow from block to block of keys: what was summed before is scaled, each query by its own.
TEST(EngineAttention, LaterBlocksOutweighEarlierOnes) {
  AttentionShape s{1, 1, 20, 1100, 4, 4, 1.0f, false};
  std::vector<float> q(20 * 4, 0.5f), k(1100 * 4), v = randomFloats(1100 * 4, 1), out(20 * 4);
  for (int64_t j = 0; j < 1100; ++j)
    for (int64_t d = 0; d < 4; ++d) k[static_cast<size_t>(j * 4 + d)] = static_cast<float>(j) * 0.05f;
  BatchedMatrix mq = matrixOf(q, 1, 20, 4, false), mk = matrixOf(k, 1, 1100, 4, false),
                mv = matrixOf(v, 1, 1100, 4, false);
  attention(s, mq, mk, mv, {}, out.data(), 0, 0, 4, 1);
  double sum = 0, want = 0;
  for (int64_t j = 0; j < 1100; ++j) {
    const double weight = std::exp(0.1 * static_cast<double>(j - 1099));
    sum += weight;
    want += weight * v[static_cast<size_t>(j * 4)];
  }
  EXPECT_NEAR(out[0], want / sum, 1e-5);
  EXPECT_NEAR(out[19 * 4], want / sum, 1e-5);
}

TEST(EngineAttention, QueriesThatSeeNothing) {
  bool flags[3 * 600] = {};
  std::fill_n(flags, 600, true);
  flags[1 * 600 + 599] = true;
  std::vector<float> q = randomFloats(3 * 8, 1), k = randomFloats(600 * 8, 2), v = randomFloats(600 * 8, 3);
  for (bool few : {true, false})
    for (bool zero : {true, false}) {
      AttentionShape s{1, 1, 3, 600, 8, 8, 1.0f, false, zero};
      BatchedMatrix mk = matrixOf(k, 1, 600, 8, !few);
      std::vector<float> out(3 * 8);
      attention(s, matrixOf(q, 1, 3, 8, false), mk, matrixOf(v, 1, 600, 8, false),
                {.flags = flags, .flagsAt = {.row = 600, .column = 1}}, out.data(), 0, 0, 8, 1);
      EXPECT_TRUE(std::isfinite(out[0]));
      EXPECT_FLOAT_EQ(out[8], v[599 * 8]);
      EXPECT_EQ(out[16] == 0, zero);
      EXPECT_EQ(std::isnan(out[16]), !zero);
    }
}

}  // namespace tscompile::test
