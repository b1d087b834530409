// Activation functions of neural networks.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/pointwise_steps.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/arithmetic.h"
#include "runtime/reference/loops/memory_format.h"
#include "runtime/reference/views.h"

#include <cmath>

namespace tscompile {
namespace {

// ---- pieces that work on numbers and vectors ----

template <class V>
V sigmoid(V x) {
  return Lane<V>(1) / (Lane<V>(1) + exp(-x));
}

// x (1 + erf(x / sqrt 2)) / 2
template <class V>
V gelu(V x) {
  using T = Lane<V>;
  return x * T(0.5) * (1 + erf(x * T(0.70710678118654752440)));
}

// The approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
template <class V>
V geluTanh(V x) {
  using T = Lane<V>;
  return T(0.5) * x * (1 + tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
}

// log(1 / (1 + exp(-x))), safe where exp would overflow.
template <class V>
V logSigmoid(V x) {
  return select(x < 0, x, select(x == x, 0, x)) - log1p(exp(-abs(x)));
}

// max(0, min(6, x + 3))
template <class T>
T hardRamp(T x) {
  return clamped(x + T(3), T(0), T(6));
}

// ---- kernels with parameters ----

void geluKernel(KernelCall& call) {
  const std::string& approximate = call.text(1);
  if (approximate == "tanh") return mapInputs<kVectors, 1>(call, [](auto x) { return geluTanh(x); });
  call.require(approximate == "none", "approximate must be 'none' or 'tanh', not '{}'", approximate);
  mapInputs<kVectors, 1>(call, [](auto x) { return gelu(x); });
}

// scale * (x > 0 ? x : alpha (exp(x inputScale) - 1))
void eluWith(KernelCall& call, double alpha, double scale, double inputScale) {
  mapInputs<kVectors, 1>(call, [=](auto x) {
    using T = Lane<decltype(x)>;
    return select(x <= 0, expm1(x * T(inputScale)) * T(alpha * scale), x * T(scale));
  });
}
void eluKernel(KernelCall& call) { eluWith(call, call.number(1), call.number(2), call.number(3)); }
void celuKernel(KernelCall& call) {
  double alpha = call.number(1);
  call.require(alpha != 0, "alpha cannot be 0 for CELU");
  eluWith(call, alpha, 1, 1 / alpha);
}
// Klambauer et al. 2017, "Self-Normalizing Neural Networks".
constexpr double kSeluAlpha = 1.6732632423543772848170429916717, kSeluScale = 1.0507009873554804934193349852946;
void seluKernel(KernelCall& call) { eluWith(call, kSeluAlpha, kSeluScale, 1); }

// The dtype of a number that is not rounded to halves.
DType besideHalves(DType dtype) { return isFloating(dtype) && itemSize(dtype) == 2 ? DType::Float32 : dtype; }

void leakyWith(KernelCall& call, const ScalarArgument& slope) {
  mapInputs<kFloats, 1>(call, [=](auto x) { return x > 0 ? x : x * slope.as<decltype(x)>(); });
}
void leakyReluKernel(KernelCall& call) {
  leakyWith(call, ScalarArgument(call, 1, besideHalves(call.tensor(0).dtype())));
}

void hardtanhKernel(KernelCall& call) {
  DType dtype = call.tensor(0).dtype();
  call.require(dtype != DType::UInt8 || (call.number(1) >= 0 && call.number(2) >= 0),
               "cannot do hardtanh on an unsigned type with negative limits");
  ScalarArgument low(call, 1, dtype), high(call, 2, dtype);
  mapInputs<kReals, 1>(call, [=](auto x) { return clamped(x, low.as<decltype(x)>(), high.as<decltype(x)>()); });
}

void hardshrinkKernel(KernelCall& call) {
  ScalarArgument lambda(call, 1, call.tensor(0).dtype());
  mapInputs<kFloats, 1>(call, [=](auto x) {
    using T = decltype(x);
    T l = lambda.as<T>();
    return x >= -l && x <= l ? T(0) : x;
  });
}

void softshrinkKernel(KernelCall& call) {
  call.require(call.number(1) >= 0, "lambda must be greater or equal to 0, but found to be {}", call.number(1));
  ScalarArgument lambda(call, 1, call.tensor(0).dtype());
  mapInputs<kFloats, 1>(call, [=](auto x) {
    using T = decltype(x);
    T l = lambda.as<T>();
    return x > l ? x - l : x < -l ? x + l : x * T(0);  // NaN stays
  });
}

// log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold.
void softplusKernel(KernelCall& call) {
  double beta = call.number(1), threshold = call.number(2);
  mapInputs<kVectors, 1>(call, [=](auto x) {
    using T = Lane<decltype(x)>;
    auto y = x * T(beta);
    return select(y > T(threshold), x, log1p(exp(y)) / T(beta));
  });
}

void thresholdKernel(KernelCall& call) {
  DType dtype = call.tensor(0).dtype();
  const DType compared = besideHalves(dtype);
  // Which refuses what does not fit.
  numberFor(call.argument(1), compared);
  numberFor(call.argument(2), dtype);
  ScalarArgument threshold(call, 1, compared), value(call, 2, dtype);
  mapInputs<kReals, 1>(call, [=](auto x) {
    using T = decltype(x);
    return x <= threshold.as<T>() ? value.as<T>() : x;
  });
}

// ---- rrelu ----

// Without training the slope is the middle of its range.
void inferRrelu(InferCall& call) {
  size_t lower = call.op().kind().name().starts_with("rrelu_with_noise") ? 2 : 1;
  if (call.constant(lower) && call.constant(lower + 1))
    call.require(call.number(lower) <= call.number(lower + 1),
                 "lower bound should be less than or equal to the upper bound");
  inferSameAsSelf(call);
}

template <class T>
void drawSlopes(const Tensor& noise, const Tensor& in, double lower, double upper, RandomState& random) {
  Tensor x = convertTensor(in, kDTypeOf<T>), slopes = Tensor::empty(kDTypeOf<T>, in.sizes());
  for (int64_t i = 0; i < x.numel(); ++i)
    slopes.data<T>()[i] = x.data<T>()[i] <= 0 ? static_cast<T>(lower + (upper - lower) * random.uniform()) : T(1);
  copyTensor(noise, slopes);
}

// Arguments: self, then `noise` if hasNoise, lower, upper, training, generator.
template <bool kHasNoise>
void rreluKernel(KernelCall& call) {
  constexpr size_t kLower = kHasNoise ? 2 : 1;
  double lower = call.number(kLower), upper = call.number(kLower + 1);
  Tensor in = call.tensor(0);
  if (!call.flag(kLower + 2)) {
    double slope = (lower + upper) / 2;
    call.out();  // contiguous
    return mapInputs<kFloats, 1>(call, [=](auto x) { return x > 0 ? x : x * decltype(x)(slope); });
  }
  Tensor noise = kHasNoise ? call.tensor(1) : Tensor::empty(in.dtype(), in.sizes());
  call.require(noise.numel() == in.numel() && noise.rank() == in.rank(),
               "noise must have the sizes of the input, {}, not {}", dimsText(in.sizes()), dimsText(noise.sizes()));
  RandomState& random = call.context().random();
  if (in.dtype() == DType::Float64)
    drawSlopes<double>(noise, in, lower, upper, random);
  else
    drawSlopes<float>(noise, in, lower, upper, random);
  mapTensors<kFloats>(
      in.dtype(), [](auto x, auto slope) { return x * slope; }, elementwiseOutput(call, {&in}), in, noise);
}

// ---- prelu: one slope, or one for each channel ----

void inferPrelu(InferCall& call) {
  TensorInfo x = call.tensor(0), w = call.tensor(1);
  if (x.dtype != DType::Undefined && w.dtype != DType::Undefined)
    call.require(x.dtype == w.dtype, "the weight must be {} as the input is, not {}", pythonName(x.dtype),
                 pythonName(w.dtype));
  if (x.hasRank && w.hasRank) {
    call.require(w.rank() <= 1, "the weight must be a scalar or have one dimension, not {}", w.rank());
    int64_t channels = x.rank() > 1 ? x.sizes[1] : 1, count = w.rank() ? w.sizes[0] : 1;
    if (isKnownSize(count) && isKnownSize(channels) && count != 1)
      call.require(
          x.rank() > 0 && count == channels,
          "mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size "
          "= {}.",
          count, channels);
  }
  call.result(x);
}

void setPrelu(KernelCall& call, const Tensor& x, const Tensor& slopes) {
  Tensor out = elementwiseOutput(call, {&x, &slopes});
  mapTensors<kFloats>(
      x.dtype(), [](auto v, auto slope) { return v > 0 ? v : v * slope; }, out, x, slopes);
}
// The slopes and x are broadcast to each other.
void preluOfSlopesKernel(KernelCall& call) { setPrelu(call, call.tensor(0), call.tensor(1)); }

void preluKernel(KernelCall& call) {
  Tensor x = call.tensor(0), weight = call.tensor(1);
  if (weight.numel() != 1) {
    // The channels are dimension 1.
    Dims sizes(static_cast<size_t>(x.rank()), 1), strides(static_cast<size_t>(x.rank()), 0);
    sizes[1] = x.size(1);
    strides[1] = weight.stride(0);
    weight = weight.withGeometry(sizes, strides, weight.offset());
  }
  setPrelu(call, x, weight);
}

// ---- glu: the first half of a dimension times the sigmoid of the second ----

void inferGlu(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (!t.hasRank) return call.resultOfUnknownRank(t.dtype);
  call.require(t.rank() > 0, "glu does not support tensors without dimensions");
  auto dim = static_cast<size_t>(call.dim(1, t.rank()));
  Dims sizes(t.sizes);
  call.require(!isKnownSize(sizes[dim]) || sizes[dim] % 2 == 0,
               "halving dimension must be even, but dimension {} is size {}", dim, sizes[dim]);
  sizes[dim] = floorDiv(SizeExpression::ofSize(sizes[dim]), 2).size();
  call.result(t.dtype, sizes);
}

void gluKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  int64_t dim = call.dim(1, t.rank());
  int64_t half = t.size(static_cast<int>(dim)) / 2;
  Tensor a = narrowed(t, dim, 0, half), b = narrowed(t, dim, half, half);
  mapTensors<kVectors>(
      t.dtype(), [](auto x, auto y) { return x * sigmoid(y); }, elementwiseOutput(call, {&a, &b}), a, b);
}

// Its halves are views; the rest is element-wise.
void convertGlu(ConvertCall& call) {
  Tensor t = call.tensor(0);
  if (!isF32OrHalf(t) || t.numel() == 0) return convertToKernel(call, "it is neither float32 nor of 16 bits, or empty");
  const int64_t dim = call.dim(1, t.rank()), half = t.size(static_cast<int>(dim)) / 2;
  IValue kept = narrowed(t, dim, 0, half), gate = narrowed(t, dim, half, half);
  const bool isWide = t.dtype() == DType::Float32;
  const auto as = [&](const IValue& v, DType dtype) {  // the gate is not rounded
    return isWide ? v : call.compute("aten::to.dtype", {v, static_cast<int64_t>(dtype), false, false, IValue()});
  };
  gate = call.compute("aten::sigmoid", {as(gate, DType::Float32)});
  const IValue product = call.compute("aten::mul.Tensor", {as(kept, DType::Float32), gate});
  call.setResult(0, as(product, t.dtype()));
}

// One known weight: leaky_relu. Else relu(x) + weight * min(x, 0), the weight being one of each channel: one of the two
// is zero, unless the weight is infinite or unknown: then where(x > 0, x, x * weight).
void convertPrelu(ConvertCall& call) {
  Tensor x = call.tensor(0), weight = call.tensor(1);
  if (!isF32OrHalf(x) || weight.dtype() != x.dtype() || x.numel() == 0)
    return convertToKernel(call, "it is neither float32 nor of 16 bits, or empty");
  if (weight.rank() > 1 || (weight.numel() != 1 && (x.rank() < 2 || weight.numel() != x.size(1))))
    return convertToKernel(call, "there is not one weight for each channel");
  const std::optional<Tensor> known = constantVector(call, 1);
  if (known && known->numel() == 1)
    return call.setResult(0, call.compute("aten::leaky_relu", {x, static_cast<double>(known->data<float>()[0])}));
  IValue slopes = weight;
  if (weight.rank() > x.rank()) {
    slopes = call.compute("aten::reshape", {weight, intList({})});  // of one number
  } else if (weight.numel() != 1) {
    Dims sizes(static_cast<size_t>(x.rank() - 1), 1);
    sizes[0] = weight.numel();
    slopes = call.compute("aten::reshape", {weight, intList(sizes)});
  }
  call.setResult(0, call.compute("aten::_prelu_kernel", {x, slopes}));
}

// ---- log_sigmoid, and the variant that also returns what its derivative is made of ----

void inferLogSigmoidForward(InferCall& call) {
  inferSameAsSelf(call);
  inferSameAsSelf(call);
}
void logSigmoidKernel(KernelCall& call) {
  call.out();  // contiguous
  mapInputs<kVectors, 1>(call, [](auto x) { return logSigmoid(x); });
}
void logSigmoidForwardKernel(KernelCall& call) {
  logSigmoidKernel(call);
  Tensor x = call.tensor(0), buffer = call.out(1);
  mapTensors<kVectors>(
      x.dtype(), [](auto v) { return exp(-abs(v)); }, buffer, x);
}

// ---- as steps ----

int relu6Steps(StepBuilder& b) { return b.stepWith(0, 6, PointwiseOp::Clamp, b.value(0)); }
int hardtanhSteps(StepBuilder& b) {
  const double low = b.number(1), high = b.number(2);
  if (std::isnan(low) || std::isnan(high)) return b.fail("a limit is NaN");
  if (!isFloating(b.call().tensor(0).dtype())) return b.fail("the limits may be none of its dtype");
  return b.stepWith(low, high, PointwiseOp::Clamp, b.value(0));
}
int leakyReluSteps(StepBuilder& b) { return b.stepWith(b.number(1), 0, PointwiseOp::LeakyRelu, b.value(0)); }
int geluSteps(StepBuilder& b) {
  bool tanh = b.call().size() > 1 && b.call().argument(1).isString() && b.call().text(1) == "tanh";
  return b.step(tanh ? PointwiseOp::GeluTanh : PointwiseOp::Gelu, b.value(0));
}
int eluSteps(StepBuilder& b) {
  if (b.number(2) != 1 || b.number(3) != 1) return b.fail("the scales are not 1");
  return b.stepWith(b.number(1), 0, PointwiseOp::Elu, b.value(0));
}
int seluSteps(StepBuilder& b) { return b.stepWith(kSeluAlpha * kSeluScale, kSeluScale, PointwiseOp::Selu, b.value(0)); }
int celuSteps(StepBuilder& b) {
  const double alpha = b.number(1);
  if (alpha == 0) return b.fail("alpha is 0");
  const int x = b.value(0), scaled = b.step(PointwiseOp::Mul, x, b.constant(1 / alpha));
  const int bent = b.step(PointwiseOp::Mul, b.step(PointwiseOp::Expm1, scaled), b.constant(alpha));
  return b.step(PointwiseOp::Where, b.step(PointwiseOp::Le, x, b.constant(0)), bent, x);
}
int thresholdSteps(StepBuilder& b) {
  if (b.call().spec().dtype != DType::Float32) return b.fail("the elements are not float32");
  const int x = b.value(0), isLow = b.step(PointwiseOp::Le, x, b.constant(b.number(1)));
  return b.step(PointwiseOp::Where, isLow, b.constant(b.number(2)), x);
}
int hardshrinkSteps(StepBuilder& b) {
  if (!b.isElement(1)) return b.fail(kTooLarge);
  const int x = b.value(0), isSmall = b.step(PointwiseOp::Le, b.step(PointwiseOp::Abs, x), b.constant(b.number(1)));
  return b.step(PointwiseOp::Where, isSmall, b.constant(0), x);
}
int softshrinkSteps(StepBuilder& b) {
  if (!(b.number(1) >= 0)) return b.fail("lambda is negative");
  const int x = b.value(0);
  return b.step(PointwiseOp::Sub, x, b.stepWith(-b.number(1), b.number(1), PointwiseOp::Clamp, x));
}
int softplusSteps(StepBuilder& b) {
  const double beta = b.number(1);
  if (b.number(2) != 20) return b.fail("the threshold is not 20");
  if (!std::isfinite(beta)) return b.fail("beta is not finite");
  if (beta == 1) return b.step(PointwiseOp::Softplus, b.value(0));
  const int scaled = b.step(PointwiseOp::Mul, b.value(0), b.constant(beta));
  return b.step(PointwiseOp::Div, b.step(PointwiseOp::Softplus, scaled), b.constant(beta));
}

constexpr TraitSet kOneStep{Trait::Elementwise}, kSeveralSteps{Trait::Elementwise, Trait::RoundsOnce};

}  // namespace

void registerActivationOps(OpRegistry& ops) {
  auto add = [&](std::string_view name, KernelFunction kernel, ConvertFunction convert,
                 DTypeSet dtypes = kFloatingTypes, Cost cost = Cost::Step, TraitSet traits = kSeveralSteps) {
    ops.add({.schema = name,
             .infer = inferSameAsSelf,
             .kernel = kernel,
             .convert = convert,
             .dtypes = dtypes,
             .inplace = InPlace::Direct,
             .traits = traits,
             .cost = cost});
  };
  add("aten::relu", unaryKernel<kReals, [](auto x) { return x < 0 ? decltype(x)(0) : x; }>,
      convertPointwise<PointwiseOp::Relu>, kRealTypes, Cost::Step, kOneStep);
  add("aten::relu6", unaryKernel<kReals, [](auto x) { return clamped(x, decltype(x)(0), decltype(x)(6)); }>,
      convertPointwise<relu6Steps>, kRealTypes, Cost::Step, kOneStep);
  add("aten::hardtanh", hardtanhKernel, convertPointwise<hardtanhSteps>, kRealTypes, Cost::Step, kOneStep);
  add("aten::threshold", thresholdKernel, convertPointwise<thresholdSteps>, kRealTypes);
  add("aten::hardsigmoid", unaryKernel<kFloats, [](auto x) { return hardRamp(x) / 6; }>,
      convertPointwise<PointwiseOp::HardSigmoid>);
  add("aten::hardswish", unaryKernel<kFloats, [](auto x) { return x * hardRamp(x) / 6; }>,
      convertPointwise<PointwiseOp::HardSwish>);
  add("aten::gelu", geluKernel, convertPointwise<geluSteps>, kFloatingTypes, Cost::Function);
  add("aten::silu", unaryKernel<kVectors | kC128, [](auto x) { return x / (Lane<decltype(x)>(1) + exp(-x)); }>,
      convertPointwise<PointwiseOp::Silu>, kFloatingTypes | kComplexTypes, Cost::Function);
  add("aten::mish", unaryKernel<kVectors, [](auto x) { return x * tanh(log1p(exp(x))); }>,
      convertPointwise<PointwiseOp::Mish>, kFloatingTypes, Cost::Function);
  add("aten::elu", eluKernel, convertPointwise<eluSteps>, kFloatingTypes, Cost::Function);
  add("aten::celu", celuKernel, convertPointwise<celuSteps>, kFloatingTypes, Cost::Function);
  add("aten::selu", seluKernel, convertPointwise<seluSteps>, kFloatingTypes, Cost::Function);
  add("aten::leaky_relu", leakyReluKernel, convertPointwise<leakyReluSteps>);

  auto plain = [&](std::string_view name, KernelFunction kernel, ConvertFunction convert, Cost cost,
                   TraitSet traits = kSeveralSteps) {
    ops.add({.schema = name,
             .infer = inferSameAsSelf,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kFloatingTypes,
             .traits = traits,
             .cost = cost});
  };
  plain("aten::hardshrink", hardshrinkKernel, convertPointwise<hardshrinkSteps>, Cost::Step, kOneStep);
  plain("aten::softshrink", softshrinkKernel, convertPointwise<softshrinkSteps>, Cost::Step, kOneStep);
  plain("aten::softplus", softplusKernel, convertPointwise<softplusSteps>, Cost::Function);
  plain("aten::log_sigmoid", logSigmoidKernel, convertPointwise<PointwiseOp::LogSigmoid>, Cost::Function);
  auto other = [&](std::string_view name, InferFunction infer, KernelFunction kernel, ConvertFunction convert,
                   Cost cost) {
    ops.add(
        {.schema = name, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = kFloatingTypes, .cost = cost});
  };
  other("aten::log_sigmoid_forward", inferLogSigmoidForward, logSigmoidForwardKernel, nullptr, Cost::Function);
  other("aten::prelu", inferPrelu, preluKernel, convertPrelu, Cost::Step);
  ops.add({.schema = "aten::_prelu_kernel",
           .infer = inferBinary,
           .kernel = preluOfSlopesKernel,
           .convert = convertPointwise<PointwiseOp::PRelu>,
           .dtypes = kFloatingTypes,
           .traits = kSeveralSteps,
           .cost = Cost::Step});
  other("aten::glu", inferGlu, gluKernel, convertGlu, Cost::Function);
  ops.add({.schema = "aten::rrelu",
           .infer = inferRrelu,
           .kernel = rreluKernel<false>,
           .dtypes = kFloatingTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::Random}});
  ops.add({.schema = "aten::rrelu_with_noise",
           .infer = inferRrelu,
           .kernel = rreluKernel<true>,
           .dtypes = kFloatingTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::Random}});

  addAliases(ops, {"aten::sigmoid", "aten::special_expit"},
             {.infer = inferFloatUnary,
              .kernel = unaryKernel<kVectors | kC128, [](auto x) { return sigmoid(x); }>,
              .convert = convertPointwise<PointwiseOp::Sigmoid>,
              .dtypes = kAllTypes,
              .inplace = InPlace::Direct,
              .traits = {Trait::Elementwise},
              .cost = Cost::Function});
}

}  // namespace tscompile
