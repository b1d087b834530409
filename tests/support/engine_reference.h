// Data and plain loops in double for the tests of the engine's kernels.
#pragma once

#include "ir/values/dtype.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/pointwise_ops.h"
#include "runtime/kernels/simd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace tscompile::test {

inline std::vector<float> randomFloats(int64_t count, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = distribution(engine);
  return values;
}

// What the step of an activation computes.
inline double stepOf(Activation a, double x, double alpha, double beta) {
  auto op = PointwiseOp::Copy;
  switch (a) {
    case Activation::None:
      break;
#define TS_ACTIVATION(name, ...) \
  case Activation::name:         \
    op = PointwiseOp::name;      \
    break;
#include "runtime/kernels/pointwise_ops.def"
  }
  auto in = static_cast<float>(x);
  float out = 0;
  pointwiseFunction(op)(&in, nullptr, nullptr, &out, 1, static_cast<float>(alpha), static_cast<float>(beta));
  return out;
}

inline double activationOf(Activation a, double x, double alpha, double beta) {
  auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  if (std::isnan(x)) return x;
  switch (a) {
    case Activation::None:
      return x;
    case Activation::Relu:
      return x > 0 ? x : 0;
    case Activation::Clamp:
      return std::min(beta, std::max(alpha, x));
    case Activation::LeakyRelu:
      return x > 0 ? x : alpha * x;
    case Activation::Sigmoid:
      return sigmoid(x);
    case Activation::Tanh:
      return std::tanh(x);
    case Activation::Gelu:
      return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
    case Activation::GeluTanh:
      return 0.5 * x * (1 + std::tanh(0.79788456080286541 * (x + 0.044715 * x * x * x)));
    case Activation::Silu:
      return x * sigmoid(x);
    case Activation::HardSwish:
      return x * std::min(6.0, std::max(0.0, x + 3)) / 6;
    case Activation::HardSigmoid:
      return std::min(6.0, std::max(0.0, x + 3)) / 6;
    case Activation::Elu:
      return x > 0 ? x : alpha * std::expm1(x);
    case Activation::Mish:
      return x * std::tanh(x > 20 ? x : std::log1p(std::exp(x)));
    case Activation::LogSigmoid:
      return -x > 20 ? x : -std::log1p(std::exp(-x));
    case Activation::Softplus:
      return x > 20 ? x : std::log1p(std::exp(x));
    default:
      return stepOf(a, x, alpha, beta);
  }
}

// How much of a result an activation may change where what it is given differs in its last digit.
inline double roundingOf(Activation a) {
  return a == Activation::RoundBF16 ? 0x1p-7 : a == Activation::RoundF16 ? 0x1p-10 : 0;
}

inline constexpr Activation kActivations[] = {
    Activation::None,
#define TS_ACTIVATION(name, ...) Activation::name,
#include "runtime/kernels/pointwise_ops.def"
};

// What products of lines make of floats that share a scale.
inline void roundToLines(WeightStorage storage, std::span<float> values) {
  float largest = 0;
  for (float v : values) largest = std::max(largest, std::fabs(v));
  const LineType type = LineType::ofLargest(largest);
  for (float& v : values)
    v = storage == WeightStorage::BF16 ? static_cast<float>(BFloat16(v))
                                       : (std::nearbyint(std::fma(v, type.factor, 128.0f)) - 128.0f) * type.scale();
}

// Each instruction set this machine has, best last; the best is in force again afterwards.
template <class Body>
void atEachSimdLevel(Body&& body) {
  for (SimdLevel level : {SimdLevel::Base, SimdLevel::Avx2, SimdLevel::Avx512, SimdLevel::Amx}) {
    limitSimdLevel(level);
    if (simdLevel() != level) continue;
    SCOPED_TRACE(simdLevelName(level));
    body();
  }
  limitSimdLevel(SimdLevel::Amx);
}

inline bool sameBytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// The first difference beyond the tolerance, or nothing.
inline void expectNear(const std::vector<float>& got, const std::vector<double>& want, double rtol, double atol) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << "at " << i << ": " << got[i] << " is not NaN";
    } else if (std::isinf(want[i])) {
      ASSERT_EQ(static_cast<double>(got[i]), want[i]) << "at " << i;
    } else {
      ASSERT_NEAR(got[i], want[i], atol + rtol * std::fabs(want[i])) << "at " << i;
    }
  }
}

}  // namespace tscompile::test
