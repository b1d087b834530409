// Tensors of random numbers from the generator of the run (docs/random.md): the same ones in every run with a seed.
#include "runtime/reference/random.h"

#include "ir/values/size_expression.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/dtype_range.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/tensor_options.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace tscompile {
namespace {

constexpr DTypeSet kDrawnTypes = kFloatingTypes | kComplexTypes;

// ---- distributions ----

// A number of the dtype from `from` to `to`, without the latter.
auto uniformDraw(DType dtype, double from, double to) {
  return [=, unit = UnitDraw(dtype)](RandomState& r) { return from + (to - from) * unit(r); };
}
auto normalDraw(double mean, double deviation) {
  return [=](RandomState& r) { return mean + deviation * r.normal(); };
}

// Complex numbers have two independent parts, of half the variance where `deviation` is that of the whole.
void drawNormal(const Tensor& out, RandomState& random, double mean, double deviation) {
  if (!isComplex(out.dtype())) return drawElements(out, random, normalDraw(mean, deviation));
  auto part = normalDraw(0, deviation / std::numbers::sqrt2);
  drawElements(out, random, [=](RandomState& r) {
    double real = mean + part(r);
    return std::complex<double>(real, part(r));
  });
}
void drawUniform(const Tensor& out, RandomState& random, double from, double to) {
  auto draw = uniformDraw(realPart(out.dtype()), from, to);
  if (!isComplex(out.dtype())) return drawElements(out, random, draw);
  drawElements(out, random, [=](RandomState& r) {
    double real = draw(r);
    return std::complex<double>(real, draw(r));
  });
}

// Integers from `from` to `most`.
void drawIntegers(const Tensor& out, RandomState& random, int64_t from, int64_t most) {
  uint64_t count = static_cast<uint64_t>(most) - static_cast<uint64_t>(from) + 1;  // 0: all there are
  drawElements(out, random, [=](RandomState& r) {
    uint64_t bits = r.next();
    return static_cast<int64_t>(static_cast<uint64_t>(from) + (count ? bits % count : bits));
  });
}

// The integers that a dtype can tell apart, from 0 on.
int64_t greatestInteger(DType dtype) {
  switch (dtype) {
    case DType::BFloat16:
      return int64_t{1} << 8;
    case DType::Float16:
      return int64_t{1} << 11;
    case DType::Float32:
      return int64_t{1} << 24;
    case DType::Float64:
      return int64_t{1} << 53;
    default:
      return integerRange(dtype).most;
  }
}

// ---- arguments ----

RandomState& randomOf(const KernelCall& call) { return call.context().random(); }

// What a distribution is drawn into: the first argument of in-place variants, else a tensor like it.
Tensor drawnLike(KernelCall& call) {
  Tensor self = call.tensor(0), out = call.isInPlace() ? self : emptyLike(self, self.dtype());
  if (call.isInPlace()) requireWritable(self);
  call.setResult(out);
  return out;
}

// The same, in rows.
Tensor drawnInRows(KernelCall& call) {
  if (call.isInPlace()) return drawnLike(call);
  const Tensor self = call.tensor(0), out = Tensor::empty(self.dtype(), self.sizes());
  call.setResult(out);
  return out;
}

void requireDrawn(const KernelCall& call, DType dtype) {
  if (!kDrawnTypes.contains(dtype))
    call.fail("{} is not implemented for {}", call.op().kind().text(), pythonName(dtype));
}

// ---- rand, randn ----

template <bool kNormal>
void drawStandard(KernelCall& call, const Tensor& out) {
  requireDrawn(call, out.dtype());
  call.setResult(out);
  if (kNormal)
    drawNormal(out, randomOf(call), 0, 1);
  else
    drawUniform(out, randomOf(call), 0, 1);
}
template <bool kNormal>
void standardKernel(KernelCall& call) {
  drawStandard<kNormal>(call, call.out());
}
template <bool kNormal>
void standardLikeKernel(KernelCall& call) {
  drawStandard<kNormal>(call, emptyLike(call.tensor(0), call.spec().dtype, formatArgument(call, 5)));
}

// ---- integers ----

void drawBetween(KernelCall& call, const Tensor& out, int64_t low, int64_t most) {
  call.require(low <= most, "random integers need a range that is not empty, got one from {} to {}", low, most);
  DType dtype = out.dtype();
  call.require(!isComplex(dtype), "{} is not implemented for {}", call.op().kind().text(), pythonName(dtype));
  if (isIntegral(dtype, true)) {
    IntegerRange range = integerRange(dtype);
    call.require(low >= range.least && most <= range.most, "the integers from {} to {} are out of bounds for {}", low,
                 most, pythonName(dtype));
  }
  call.setResult(out);
  drawIntegers(out, randomOf(call), low, most);
}
// The last integer below a bound.
int64_t below(const KernelCall& call, int64_t low, int64_t high) {
  call.require(low < high, "random_ expects 'from' to be less than 'to', but got from={} >= to={}", low, high);
  return high - 1;
}

// (low?, high, sizes, ...) and (self, low?, high, ...)
template <bool kHasLow>
void randintKernel(KernelCall& call) {
  int64_t low = kHasLow ? call.integer(0) : 0;
  drawBetween(call, call.out(), low, below(call, low, call.integer(kHasLow ? 1 : 0)));
}
template <bool kHasLow>
void randintLikeKernel(KernelCall& call) {
  int64_t low = kHasLow ? call.integer(1) : 0, most = below(call, low, call.integer(kHasLow ? 2 : 1));
  drawBetween(call, emptyLike(call.tensor(0), call.spec().dtype, formatArgument(call, kHasLow ? 7 : 6)), low, most);
}

void randomKernel(KernelCall& call) {
  Tensor out = drawnLike(call);
  drawBetween(call, out, 0, greatestInteger(out.dtype()));
}
void randomToKernel(KernelCall& call) { drawBetween(call, drawnLike(call), 0, below(call, 0, call.integer(1))); }
void randomFromKernel(KernelCall& call) {
  Tensor out = drawnLike(call);
  int64_t from = call.integer(1);
  drawBetween(call, out, from, call.isNone(2) ? greatestInteger(out.dtype()) : below(call, from, call.integer(2)));
}

template <size_t kDType>
void inferRandperm(InferCall& call) {
  int64_t n = call.size(0);
  call.require(isUnknownInteger(n) || n >= 0, "n must be non-negative, got {}", n);
  call.result(optionsDType(call, kDType, DType::Int64), Dims{integerAsSize(n)});
}
void randpermKernel(KernelCall& call) {
  Tensor out = call.out(), order = Tensor::empty(DType::Int64, out.sizes());
  int64_t n = order.numel();
  call.require(
      n <= 1 || (out.dtype() != DType::Bool && !isComplex(out.dtype()) && n - 1 <= greatestInteger(out.dtype())),
      "{} numbers are too many for {}", n, pythonName(out.dtype()));
  auto* numbers = order.data<int64_t>();
  std::iota(numbers, numbers + n, 0);
  for (int64_t i = n - 1; i > 0; --i) {
    std::swap(numbers[i], numbers[randomOf(call).next() % static_cast<uint64_t>(i + 1)]);
    call.context().checkInterrupt(8);
  }
  copyTensor(out, order);
}

// ---- bernoulli ----

void requireProbability(const KernelCall& call, double p) {
  call.require(p >= 0 && p <= 1, "a probability must be from 0 to 1, got {}", p);
}

void drawByProbabilities(KernelCall& call, const Tensor& out, const Tensor& probabilities) {
  Tensor p = contiguous(convertTensor(probabilities, DType::Float64)), drawn = Tensor::empty(DType::Bool, p.sizes());
  RandomState& random = randomOf(call);
  generate(drawn, [&](int64_t i) {
    requireProbability(call, p.data<double>()[i]);
    return random.uniform() < p.data<double>()[i];
  });
  copyTensor(out, drawn);
}

void bernoulliSelfKernel(KernelCall& call) {
  Tensor p = call.tensor(0);
  requireDrawn(call, p.dtype());
  drawByProbabilities(call, drawnInRows(call), p);
}
void bernoulliNumberKernel(KernelCall& call) {
  double p = call.number(1);
  requireProbability(call, p);
  drawBernoulli(drawnInRows(call), randomOf(call), p);
}
void bernoulliTensorKernel(KernelCall& call) {
  Tensor out = drawnInRows(call), p = call.tensor(1);
  Dims sizes(out.sizes());
  call.require(
      broadcastInto(sizes, p.sizes()) && std::equal(sizes.begin(), sizes.end(), out.sizes().begin(), out.sizes().end()),
      "probabilities of sizes {} cannot be broadcast to {}", dimsText(p.sizes()), dimsText(out.sizes()));
  Tensor each = Tensor::empty(DType::Float64, out.sizes());
  copyTensor(each, p);
  drawByProbabilities(call, out, each);
}

// ---- continuous distributions of two parameters ----

void uniformKernel(KernelCall& call) {
  double from = call.number(1), to = call.number(2);
  DType dtype = call.tensor(0).dtype();
  double most = largestNumber(dtype);
  call.require(from <= to && std::fabs(from) <= most && std::fabs(to) <= most && to - from <= most,
               "uniform needs bounds in order whose distance {} can hold, got {} and {}", pythonName(dtype), from, to);
  drawUniform(drawnLike(call), randomOf(call), from, to);
}

void normalKernel(KernelCall& call) {
  double deviation = call.number(2);
  call.require(deviation >= 0, "normal expects std >= 0.0, but found std {}", deviation);
  drawNormal(drawnLike(call), randomOf(call), call.number(1), deviation);
}

void logNormalKernel(KernelCall& call) {
  double deviation = call.number(2);
  call.require(deviation > 0, "log_normal expects std > 0.0, but found std {}", deviation);
  auto draw = normalDraw(call.number(1), deviation);
  drawElements(drawnLike(call), randomOf(call), [=](RandomState& r) { return std::exp(draw(r)); });
}

void cauchyKernel(KernelCall& call) {
  double median = call.number(1), sigma = call.number(2);
  drawElements(drawnLike(call), randomOf(call),
               [=](RandomState& r) { return median + sigma * std::tan(std::numbers::pi * (r.uniform() - 0.5)); });
}

void exponentialKernel(KernelCall& call) {
  double lambda = call.number(1);
  call.require(lambda >= 0, "exponential expects lambda >= 0.0, but found lambda {}", lambda);
  drawElements(drawnLike(call), randomOf(call), [=](RandomState& r) { return -std::log1p(-r.uniform()) / lambda; });
}

void geometricKernel(KernelCall& call) {
  double p = call.number(1);
  call.require(p > 0 && p < 1, "geometric expects p to be in (0, 1), but got {}", p);
  double scale = 1 / std::log1p(-p);
  drawElements(drawnLike(call), randomOf(call),
               [=](RandomState& r) { return std::max(1.0, std::ceil(std::log1p(-r.uniform()) * scale)); });
}

// ---- normal with tensors for mean and deviation ----

void inferNormal(InferCall& call) {
  size_t first = call.isTensor(0) ? 0 : 1;
  DType dtype = call.tensor(first).dtype;
  call.require(dtype == DType::Undefined || kDrawnTypes.contains(dtype), "normal is not implemented for {}",
               pythonName(dtype));
  if (call.isTensor(0) && call.isTensor(1)) return resultBroadcast(call, dtype, 2);
  call.result(call.tensor(first), dtype);
}

void normalTensorKernel(KernelCall& call) {
  Tensor out = call.out(), mean = operandTensor(call, 0), deviation = operandTensor(call, 1);
  Tensor least = convertTensor(deviation, DType::Float64);
  for (int64_t i = 0; i < least.numel(); ++i)
    call.require(least.data<double>()[i] >= 0, "normal expects all elements of std >= 0.0, but found {}",
                 least.data<double>()[i]);
  drawNormal(out, randomOf(call), 0, 1);
  mapTensors<kFloats | kC128>(
      out.dtype(), [](auto x, auto m, auto d) { return x * d + m; }, out, out, mean, deviation);
}

// (mean, std, sizes, generator, dtype, ...)
void normalSizesKernel(KernelCall& call) {
  Tensor out = call.out();
  requireDrawn(call, out.dtype());
  double deviation = call.number(1);
  call.require(deviation >= 0, "normal expects std >= 0.0, but found std {}", deviation);
  drawNormal(out, randomOf(call), call.number(0), deviation);
}

// ---- multinomial(self, num_samples, replacement) ----

void inferMultinomial(InferCall& call) {
  TensorInfo t = call.tensor(0);
  int64_t n = call.integer(1);
  call.require(n > 0, "cannot sample n_sample <= 0 samples, got {}", n);
  if (!t.hasRank) return call.resultOfUnknownRank(DType::Int64);
  call.require(t.rank() == 1 || t.rank() == 2, "the probabilities must have 1 or 2 dimensions, not {}", t.rank());
  int64_t categories = t.sizes.back();
  call.require(!isKnownSize(categories) || (categories > 0 && (call.flag(2) || n <= categories)),
               "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  Dims sizes(t.sizes);
  sizes.back() = n;
  call.result(DType::Int64, sizes);
}

void sampleWithReplacement(const double* p, int64_t categories, int64_t* out, int64_t n, RandomState& random) {
  std::vector<double> sums(static_cast<size_t>(categories));
  std::partial_sum(p, p + categories, sums.begin());
  for (int64_t i = 0; i < n; ++i) {
    auto at = std::upper_bound(sums.begin(), sums.end(), random.uniform() * sums.back());
    out[i] = std::min<int64_t>(at - sums.begin(), categories - 1);
    RunContext::current().checkInterrupt(16);
  }
}

// Categories in the order of exponential waiting times at these rates.
void sampleWithoutReplacement(const double* p, int64_t categories, int64_t* out, int64_t n, RandomState& random) {
  std::vector<std::pair<double, int64_t>> times(static_cast<size_t>(categories));
  for (int64_t c = 0; c < categories; ++c) {
    double wait = -std::log1p(-random.uniform());
    times[static_cast<size_t>(c)] = {p[c] > 0 ? wait / p[c] : std::numeric_limits<double>::infinity(), c};
  }
  std::partial_sort(times.begin(), times.begin() + n, times.end());
  for (int64_t i = 0; i < n; ++i) out[i] = times[static_cast<size_t>(i)].second;
  RunContext::current().checkInterrupt(categories * 8);
}

void multinomialKernel(KernelCall& call) {
  Tensor p = contiguous(convertTensor(call.tensor(0), DType::Float64)), out = call.out();
  int64_t categories = p.size(p.rank() - 1), n = call.integer(1), rows = p.numel() / categories;
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = p.data<double>() + r * categories;
    double sum = 0;
    for (int64_t c = 0; c < categories; ++c) {
      call.require(row[c] >= 0 && std::isfinite(row[c]), "the probabilities contain inf, nan or a number below 0");
      sum += row[c];
    }
    call.require(sum > 0 && std::isfinite(sum), "invalid multinomial distribution: the sum of the probabilities is {}",
                 sum);
    auto sample = call.flag(2) ? sampleWithReplacement : sampleWithoutReplacement;
    sample(row, categories, out.data<int64_t>() + r * n, n, randomOf(call));
  }
}

}  // namespace

void registerRandomOps(OpRegistry& ops) {
  auto add = [&](std::string_view name, InferFunction infer, KernelFunction kernel, DTypeSet dtypes = kAllTypes,
                 InPlace inplace = InPlace::No) {
    ops.add({.schema = name,
             .infer = infer,
             .kernel = kernel,
             .dtypes = dtypes,
             .inplace = inplace,
             .traits = {Trait::Random}});
  };
  add("aten::rand", inferOfSizes<1>, standardKernel<false>);
  add("aten::rand.generator", inferOfSizes<2>, standardKernel<false>);
  add("aten::rand.names", inferOfSizes<2>, standardKernel<false>);
  add("aten::rand.generator_with_names", inferOfSizes<3>, standardKernel<false>);
  add("aten::randn", inferOfSizes<1>, standardKernel<true>);
  add("aten::randn.generator", inferOfSizes<2>, standardKernel<true>);
  add("aten::randn.names", inferOfSizes<2>, standardKernel<true>);
  add("aten::randn.generator_with_names", inferOfSizes<3>, standardKernel<true>);
  add("aten::rand_like", inferLike<1>, standardLikeKernel<false>);
  add("aten::randn_like", inferLike<1>, standardLikeKernel<true>);
  add("aten::randint", inferOfSizes<2, 1>, randintKernel<false>);
  add("aten::randint.generator", inferOfSizes<3, 1>, randintKernel<false>);
  add("aten::randint.low", inferOfSizes<3, 2>, randintKernel<true>);
  add("aten::randint.low_generator", inferOfSizes<4, 2>, randintKernel<true>);
  add("aten::randint_like", inferLike<2>, randintLikeKernel<false>);
  add("aten::randint_like.low_dtype", inferLike<3>, randintLikeKernel<true>);
  add("aten::randperm", inferRandperm<1>, randpermKernel);
  add("aten::randperm.generator", inferRandperm<2>, randpermKernel);

  auto draw = [&](std::string_view name, KernelFunction kernel, DTypeSet dtypes) {
    add(name, inferSameAsSelf, kernel, dtypes, InPlace::Direct);
  };
  draw("aten::random", randomKernel, kRealAndBool);
  draw("aten::random.to", randomToKernel, kRealAndBool);
  draw("aten::random.from", randomFromKernel, kRealAndBool);
  draw("aten::uniform", uniformKernel, kDrawnTypes);
  draw("aten::_no_grad_uniform_", uniformKernel, kDrawnTypes);
  draw("aten::_no_grad_uniform_.later", uniformKernel, kDrawnTypes);
  draw("aten::normal_", normalKernel, kDrawnTypes);
  draw("aten::_no_grad_normal_", normalKernel, kDrawnTypes);
  draw("aten::_no_grad_normal_.later", normalKernel, kDrawnTypes);
  add("aten::normal_functional", inferSameAsSelf, normalKernel, kDrawnTypes);
  draw("aten::log_normal", logNormalKernel, kFloatingTypes);
  draw("aten::cauchy", cauchyKernel, kFloatingTypes);
  draw("aten::exponential", exponentialKernel, kFloatingTypes);
  draw("aten::geometric", geometricKernel, kRealTypes);
  add("aten::bernoulli", inferSameAsSelf, bernoulliSelfKernel, kFloatingTypes);
  add("aten::bernoulli.p", inferSameAsSelf, bernoulliNumberKernel, kRealAndBool);
  add("aten::bernoulli.Tensor", inferSameAsSelf, bernoulliTensorKernel, kRealAndBool);
  draw("aten::bernoulli_.float", bernoulliNumberKernel, kRealAndBool);
  draw("aten::bernoulli_.Tensor", bernoulliTensorKernel, kRealAndBool);

  for (std::string_view name : {"aten::normal.Tensor_float", "aten::normal.float_Tensor", "aten::normal.Tensor_Tensor"})
    add(name, inferNormal, normalTensorKernel);
  add("aten::normal.float_float", inferOfSizes<4, 2>, normalSizesKernel);
  add("aten::multinomial", inferMultinomial, multinomialKernel, kFloatingTypes);
}

}  // namespace tscompile
