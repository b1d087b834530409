// Distributions whose numbers need several draws each: gamma, Dirichlet, Poisson and binomial (docs/random.md).
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/random.h"

#include <cmath>
#include <limits>

namespace tscompile {
namespace {

constexpr DTypeSet kWhole{DType::Float32, DType::Float64};

// The least number that is not 0, without subnormal ones: gamma and Dirichlet numbers are not below.
double leastNumber(DType dtype) {
  return dtype == DType::Float32 ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
}

// ---- one number ----

// log of a number in (0, 1].
double logDraw(RandomState& random) { return std::log1p(-random.uniform()); }

// Of shape 1 and more (Marsaglia, Tsang 2000).
double drawLargeGamma(double shape, RandomState& random) {
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (logDraw(random) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

// The logarithm, which tells numbers apart that are too small themselves. Without shape above 0 they are all 0.
double drawLogGamma(double shape, RandomState& random) {
  if (!(shape > 0)) return -std::numeric_limits<double>::infinity();
  if (std::isinf(shape)) return shape;
  if (shape >= 1) return std::log(drawLargeGamma(shape, random));
  const double large = drawLargeGamma(shape + 1, random);
  return std::log(large) + logDraw(random) / shape;
}

// Transformed rejection (Hörmann 1993), for means of 10 and more: integers around `middle`, until one is taken at once,
// which most are, or accepted by its probability. a and b fit the hat to the deviation.
template <class Accept>
double drawByRejection(double middle, double a, double b, double atOnce, RandomState& random, Accept&& accepts) {
  for (;;) {
    const double u = random.uniform() - 0.5, v = 1 - random.uniform(), us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + middle);
    if (us >= 0.07 && v <= atOnce) return k;
    if (k >= 0 && accepts(k, v / (a / (us * us) + b))) return k;
  }
}

double drawPoisson(double rate, RandomState& random) {
  if (rate == 0 || std::isinf(rate)) return rate;
  if (rate < 10) {
    // The arrivals before time 1.
    double time = 0;
    for (double count = 0;; ++count)
      if (time -= logDraw(random); time > rate) return count;
  }
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b, inverse = 1.1239 + 1.1328 / (b - 3.4);
  return drawByRejection(rate + 0.43, a, b, 0.9277 - 3.6224 / (b - 2), random, [&](double k, double v) {
    return std::log(v * inverse) <= k * std::log(rate) - rate - std::lgamma(k + 1);
  });
}

// p at most a half.
double drawFewOf(double count, double p, RandomState& random) {
  if (count * p < 10) {
    // Failures up to each success.
    const double scale = 1 / std::log1p(-p);
    double trials = 0;
    for (double successes = 0;; ++successes)
      if (trials += std::max(1.0, std::ceil(logDraw(random) * scale)); trials > count) return successes;
  }
  const double deviation = std::sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, alpha = (2.83 + 5.1 / b) * deviation;
  const double mode = std::floor((count + 1) * p), odds = std::log(p / (1 - p));
  const double most = std::lgamma(mode + 1) + std::lgamma(count - mode + 1);
  return drawByRejection(count * p + 0.5, a, b, 0.92 - 4.2 / b, random, [&](double k, double v) {
    return k <= count &&
           std::log(v * alpha) <= most - std::lgamma(k + 1) - std::lgamma(count - k + 1) + (k - mode) * odds;
  });
}

double drawBinomial(double count, double p, RandomState& random) {
  if (std::isnan(count) || std::isnan(p)) return std::numeric_limits<double>::quiet_NaN();
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1 || std::isinf(count)) return count;
  return p <= 0.5 ? drawFewOf(count, p, random) : count - drawFewOf(count, 1 - p, random);
}

// ---- operators ----

RandomState& generatorOf(const KernelCall& call) { return call.context().random(); }
Tensor numbers(const Tensor& t) { return contiguous(convertTensor(t, DType::Float64)); }

void poissonKernel(KernelCall& call) {
  const Tensor rates = numbers(call.tensor(0)), out = Tensor::empty(call.tensor(0).dtype(), rates.sizes());
  const auto* rate = rates.data<double>();
  for (int64_t i = 0; i < rates.numel(); ++i)
    call.require(rate[i] >= 0, "invalid Poisson rate, expected rate to be non-negative, got {}", rate[i]);
  generate(out, [&](int64_t i) { return drawPoisson(rate[i], generatorOf(call)); });
  call.setResult(out);
}

void gammaKernel(KernelCall& call) {
  const Tensor shapes = numbers(call.tensor(0)), out = Tensor::empty(call.tensor(0).dtype(), shapes.sizes());
  const double least = leastNumber(out.dtype());
  generate(out, [&](int64_t i) {
    return std::max(least, std::exp(drawLogGamma(shapes.data<double>()[i], generatorOf(call))));
  });
  call.setResult(out);
}

// Gamma numbers over their sum, all within (0, 1).
void dirichletKernel(KernelCall& call) {
  const Tensor shapes = numbers(call.tensor(0)), shares = Tensor::empty(DType::Float64, shapes.sizes());
  const int64_t count = shapes.rank() ? shapes.size(shapes.rank() - 1) : 1;
  const DType dtype = call.tensor(0).dtype();
  const double least = leastNumber(dtype), most = 1 - (dtype == DType::Float32 ? 0x1p-24 : 0x1p-53);
  for (int64_t at = 0; at < shapes.numel(); at += count) {
    auto* to = shares.data<double>() + at;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      to[i] = drawLogGamma(shapes.data<double>()[at + i], generatorOf(call));
      largest = std::max(largest, to[i]);
    }
    for (int64_t i = 0; i < count; ++i) sum += to[i] = to[i] == largest ? 1 : std::exp(to[i] - largest);
    for (int64_t i = 0; i < count; ++i) to[i] = std::clamp(to[i] / sum, least, most);
    call.context().checkInterrupt(count * 16);
  }
  call.setResult(convertTensor(shares, dtype));
}

void inferBinomial(InferCall& call) {
  const TensorInfo count = call.tensor(0), p = call.tensor(1);
  call.require(count.dtype == p.dtype || count.dtype == DType::Undefined || p.dtype == DType::Undefined,
               "Found dtype {} but expected {}", graphName(p.dtype), graphName(count.dtype));
  resultBroadcast(call, count.dtype, 2);
}

void binomialKernel(KernelCall& call) {
  const Tensor out = call.out();
  const Tensor counts = Tensor::empty(DType::Float64, out.sizes());
  const Tensor chances = Tensor::empty(DType::Float64, out.sizes());
  copyTensor(counts, call.tensor(0));
  copyTensor(chances, call.tensor(1));
  generate(out, [&](int64_t i) {
    return drawBinomial(counts.data<double>()[i], chances.data<double>()[i], generatorOf(call));
  });
  call.setResult(out);
}

}  // namespace

void registerDistributionsOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, DTypeSet dtypes) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .dtypes = dtypes, .traits = {Trait::Random}});
  };
  add("aten::poisson", inferSameAsSelf, poissonKernel, kFloatingTypes);
  add("aten::_standard_gamma", inferSameAsSelf, gammaKernel, kWhole);
  add("aten::_sample_dirichlet", inferSameAsSelf, dirichletKernel, kWhole);
  add("aten::binomial", inferBinomial, binomialKernel, kWhole);
}

}  // namespace tscompile
