#include "runtime/kernels/rows.h"

#include "runtime/kernels/layout.h"
#include "tests/support/engine_reference.h"

namespace tscompile::test {
namespace {

using Run = void (*)(int64_t rows, int64_t count, const float* in, const float* weight, const float* bias, float* out,
                     int threads);
using Reference = void (*)(int64_t count, const float* in, const float* weight, const float* bias, double* out);

double atOr(const float* p, int64_t i, double otherwise) { return p ? p[i] : otherwise; }

void softmax(int64_t count, const float* in, const float*, const float*, double* out) {
  double largest = -INFINITY, sum = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max<double>(largest, in[i]);
  for (int64_t i = 0; i < count; ++i) sum += out[i] = std::exp(in[i] - largest);
  for (int64_t i = 0; i < count; ++i) out[i] /= sum;
}
void logSoftmax(int64_t count, const float* in, const float* w, const float* b, double* out) {
  softmax(count, in, w, b, out);
  for (int64_t i = 0; i < count; ++i) out[i] = std::log(out[i]);
}
void layerNorm(int64_t count, const float* in, const float* w, const float* b, double* out) {
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < count; ++i) mean += in[i] / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) variance += (in[i] - mean) * (in[i] - mean) / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i)
    out[i] = (in[i] - mean) / std::sqrt(variance + 1e-5) * atOr(w, i, 1) + atOr(b, i, 0);
}
void rmsNorm(int64_t count, const float* in, const float* w, const float*, double* out) {
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) squares += static_cast<double>(in[i]) * in[i] / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] / std::sqrt(squares + 1e-5) * atOr(w, i, 1);
}

void check(Run run, Reference reference, int64_t rows, int64_t count, bool weight, bool bias) {
  SCOPED_TRACE(testing::Message() << rows << " rows of " << count);
  std::vector<float> in = randomFloats(rows * count, 1, -4, 9), w = randomFloats(count, 2), b = randomFloats(count, 3);
  const float* weights = weight ? w.data() : nullptr;
  const float* biases = bias ? b.data() : nullptr;
  std::vector<double> want(in.size());
  for (int64_t r = 0; r < rows; ++r) reference(count, in.data() + r * count, weights, biases, want.data() + r * count);
  std::vector<float> got(in.size()), other(in.size());
  run(rows, count, in.data(), weights, biases, got.data(), 1);
  expectNear(got, want, 5e-6, 3e-6);
  for (int threads : {2, 3, 16}) {
    run(rows, count, in.data(), weights, biases, other.data(), threads);
    EXPECT_TRUE(sameBytes(got, other));
  }
  run(rows, count, in.data(), weights, biases, in.data(), 1);
  EXPECT_TRUE(sameBytes(got, in)) << "in place";
}

void checkAll(Run run, Reference reference, bool affine) {
  atEachSimdLevel([&] {
    for (int64_t count : {1, 2, 7, 15, 16, 17, 64, 100, 128, 768})
      for (bool weight : {false, true})
        for (bool bias : {false, true})
          if (affine || (!weight && !bias)) check(run, reference, 3, count, weight, bias);
  });
  check(run, reference, 700, 300, affine, affine);
}

}  // namespace

TEST(EngineRows, Softmax) {
  checkAll([](int64_t rows, int64_t count, const float* in, const float*, const float*, float* out,
              int threads) { softmaxRows(rows, count, in, out, threads); },
           softmax, false);
}
TEST(EngineRows, LogSoftmax) {
  checkAll([](int64_t rows, int64_t count, const float* in, const float*, const float*, float* out,
              int threads) { logSoftmaxRows(rows, count, in, out, threads); },
           logSoftmax, false);
}
TEST(EngineRows, LayerNorm) {
  checkAll([](int64_t rows, int64_t count, const float* in, const float* w, const float* b, float* out,
              int threads) { layerNormRows(rows, count, in, w, b, 1e-5, out, threads); },
           layerNorm, true);
}
// Those that registers hold, and the first that they do not.
TEST(EngineRows, LayerNormOfShortRows) {
  auto run = [](int64_t rows, int64_t count, const float* in, const float* w, const float* b, float* out, int threads) {
    layerNormRows(rows, count, in, w, b, 1e-5, out, threads);
  };
  atEachSimdLevel([&] {
    for (int64_t count = 1; count < 280; count += count < 40 ? 1 : 9) check(run, layerNorm, 5, count, true, true);
  });
}
TEST(EngineRows, LayerNormWithoutEpsilon) {
  for (double epsilon : {0.0, 1e-50}) {
    std::vector<float> in{3, 5, 3, 5}, same(4, 2.0f), out(4);
    layerNormRows(1, 4, in.data(), nullptr, nullptr, epsilon, out.data(), 1);
    EXPECT_EQ(out, (std::vector<float>{-1, 1, -1, 1}));
    layerNormRows(1, 4, same.data(), nullptr, nullptr, epsilon, out.data(), 1);
    for (float v : out) EXPECT_TRUE(epsilon == 0 ? std::isnan(v) : v == 0) << v;
  }
}
TEST(EngineRows, RmsNorm) {
  checkAll([](int64_t rows, int64_t count, const float* in, const float* w, const float*, float* out,
              int threads) { rmsNormRows(rows, count, in, w, 1e-5, out, threads); },
           rmsNorm, true);
}

// Over a dimension that is not the last.
TEST(EngineRows, SoftmaxOfColumns) {
  atEachSimdLevel([] {
    for (bool logarithm : {false, true})
      for (int64_t count : {1, 3, 21})
        for (int64_t inner : {1, 2, 3, 4, 5, 7, 16, 50, 600}) {
          SCOPED_TRACE(testing::Message() << count << " by " << inner);
          const int64_t outer = 3;
          std::vector<float> in = randomFloats(outer * count * inner, 1, -4, 9), row(static_cast<size_t>(count));
          in[in.size() / 2] = -INFINITY;
          std::vector<double> want(in.size()), made(row.size());
          for (int64_t o = 0; o < outer; ++o)
            for (int64_t i = 0; i < inner; ++i) {
              auto at = [&](int64_t c) { return static_cast<size_t>((o * count + c) * inner + i); };
              for (int64_t c = 0; c < count; ++c) row[static_cast<size_t>(c)] = in[at(c)];
              (logarithm ? logSoftmax : softmax)(count, row.data(), nullptr, nullptr, made.data());
              for (int64_t c = 0; c < count; ++c) want[at(c)] = made[static_cast<size_t>(c)];
            }
          std::vector<float> got(in.size()), other(in.size());
          softmaxMiddle(outer, count, inner, logarithm, in.data(), got.data(), 1);
          expectNear(got, want, 5e-6, 3e-6);
          softmaxMiddle(outer, count, inner, logarithm, in.data(), other.data(), 3);
          EXPECT_TRUE(sameBytes(got, other));
        }
  });
}

TEST(EngineRows, SoftmaxOfInfinitiesAndNan) {
  std::vector<float> in(20, 1.0f), out(20);
  in[3] = -INFINITY;
  softmaxRows(1, 20, in.data(), out.data(), 1);
  EXPECT_EQ(out[3], 0.0f);
  EXPECT_NEAR(out[4], 1.0 / 19, 1e-7);
  in[18] = NAN;
  softmaxRows(1, 20, in.data(), out.data(), 1);
  for (float v : out) EXPECT_TRUE(std::isnan(v));
  std::fill(in.begin(), in.end(), -INFINITY);
  softmaxRows(1, 20, in.data(), out.data(), 1);
  for (float v : out) EXPECT_TRUE(std::isnan(v));
}

// What is hidden by -100, as windows of Swin are, would be subnormal, and slow to multiply.
TEST(EngineRows, SoftmaxGivesNoSubnormals) {
  atEachSimdLevel([] {
    std::vector<float> in(40, 1.0f), out(40), columns(40);
    for (size_t i = 0; i < 20; ++i) in[2 * i] = -100.0f;
    softmaxRows(1, 40, in.data(), out.data(), 1);
    softmaxMiddle(1, 40, 1, false, in.data(), columns.data(), 1);
    for (size_t i = 0; i < 40; ++i) {
      EXPECT_EQ(std::fpclassify(out[i]), i % 2 ? FP_NORMAL : FP_ZERO) << i;
      EXPECT_EQ(std::fpclassify(columns[i]), i % 2 ? FP_NORMAL : FP_ZERO) << i;
    }
  });
}

namespace {

// As groupNorm(), by way of blocks, in whose lanes without a channel stands NaN.
std::vector<float> groupNormInBlocks(int64_t batch, int64_t channels, int64_t area, int64_t groups,
                                     const std::vector<float>& in, const float* w, const float* b, int threads) {
  std::vector<float> blocked(static_cast<size_t>(blockedSize(batch, channels, area))), out(in.size());
  toBlocked(batch, channels, area, in.data(), blocked.data(), 1);
  for (size_t i = 0; i < blocked.size(); ++i) {
    const int64_t plane = static_cast<int64_t>(i) / kBlock / area % channelBlocks(channels);
    if (plane * kBlock + static_cast<int64_t>(i) % kBlock >= channels) blocked[i] = NAN;
  }
  groupNormOfBlocks(batch, channels, area, groups, blocked.data(), {}, w, b, 1e-5, blocked.data(), {}, threads);
  fromBlocked(batch, channels, area, blocked.data(), out.data(), 1);
  return out;
}

void checkGroupNorm(int64_t channels, int64_t area) {
  const int64_t batch = 2;
  std::vector<float> in = randomFloats(batch * channels * area, 1), w = randomFloats(channels, 2);
  std::vector<float> b = randomFloats(channels, 3);
  for (int64_t groups : {int64_t{1}, int64_t{3}, channels}) {
    const int64_t size = channels / groups * area;
    std::vector<double> want(in.size());
    for (int64_t g = 0; g < batch * groups; ++g)
      layerNorm(size, in.data() + g * size, nullptr, nullptr, want.data() + g * size);
    for (size_t i = 0; i < want.size(); ++i) {
      size_t channel = i / static_cast<size_t>(area) % static_cast<size_t>(channels);
      want[i] = want[i] * w[channel] + b[channel];
    }
    std::vector<float> got(in.size());
    groupNorm(batch, channels, area, groups, in.data(), w.data(), b.data(), 1e-5, got.data(), 2);
    expectNear(got, want, 5e-6, 5e-6);
    got = groupNormInBlocks(batch, channels, area, groups, in, w.data(), b.data(), 1);
    expectNear(got, want, 5e-6, 5e-6);
    EXPECT_TRUE(sameBytes(got, groupNormInBlocks(batch, channels, area, groups, in, w.data(), b.data(), 3)));
  }
}

}  // namespace

TEST(EngineRows, GroupNorm) {
  atEachSimdLevel([] {
    checkGroupNorm(12, 35);
    checkGroupNorm(48, 600);
  });
}

}  // namespace tscompile::test
