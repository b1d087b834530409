// Special functions of one or two tensors: gamma, error, Bessel functions, orthogonal polynomials.
#include "runtime/engine/layers/alone/map_layer.h"
#include "runtime/engine/layers/half_tensors.h"
#include "runtime/kernels/pointwise_ops.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/scalars.h"
#include "runtime/reference/special/special_math.h"

#include <numbers>

namespace tscompile {
namespace {

constexpr TraitSet kPerElement{Trait::Elementwise};
// Of 16 bits their steps are rounded, which kernels know.
constexpr TraitSet kInSteps{Trait::ReadsLimits};

// Of functions that PyTorch has not for floats of 16 bits.
constexpr DTypeSet kNoHalves = DTypeSet{DType::Float32, DType::Float64} | kIntegerTypes | kBoolType;

// ---- products that are 0 where the first factor is ----

// x times a logarithm of y. Of 16 bits it is rounded before it is multiplied, as by PyTorch's vectors.
template <class V>
V timesLog(V x, V y, V logarithm) {
  return select(y != y, y, select(x == 0, 0, x * logarithm));
}
void timesLogOfHalves(KernelCall& call, DType dtype, std::string_view logarithm) {
  const Tensor x = operandTensor(call, 0), y = convertTensor(operandTensor(call, 1), dtype);
  const Tensor logs = invokeTensor(call, logarithm, {y});
  mapTensors<kVectors>(
      dtype, [](auto a, auto b, auto log) { return timesLog(a, b, log); }, elementwiseOutput(call, {&x, &y}), x, y,
      logs);
}
void xLogYKernel(KernelCall& call) {
  const DType dtype = promotedDType(call, 2);
  if (isHalf(dtype)) return timesLogOfHalves(call, dtype, "aten::log");
  mapElements<kVectors, 2>(call, dtype, [](auto x, auto y) { return timesLog(x, y, log(y)); });
}
void xLog1pYKernel(KernelCall& call) {
  const DType dtype = promotedDType(call, 2);
  if (isHalf(dtype)) return timesLogOfHalves(call, dtype, "aten::log1p");
  mapElements<kVectors, 2>(call, dtype, [](auto x, auto y) { return timesLog(x, y, log1p(y)); });
}

// -x log x, with the logarithm rounded as above.
template <class V>
V entropy(V x, V logarithm) {
  constexpr auto kInfinity = std::numeric_limits<Lane<V>>::infinity();
  return select(x != x, x, select(x > 0, -x * logarithm, select(x == 0, 0, splat<V>(-kInfinity))));
}
void entropyKernel(KernelCall& call) {
  const Tensor x = call.tensor(0);
  if (!isHalf(x.dtype())) return mapInputs<kVectors, 1>(call, [](auto v) { return entropy(v, log(v)); });
  mapTensors<kVectors>(
      x.dtype(), [](auto v, auto log) { return entropy(v, log); }, elementwiseOutput(call, {&x}), x,
      invokeTensor(call, "aten::log", {x}));
}

// ---- polygamma, mvlgamma ----

template <size_t kOrder>
void inferPolygamma(InferCall& call) {
  if (call.constant(kOrder)) call.require(call.integer(kOrder) >= 0, "polygamma(n, x) does not support negative n");
  TensorInfo t = call.tensor(1 - kOrder);
  call.result(t, t.dtype == DType::Undefined ? t.dtype : toFloating(t.dtype));
}

template <size_t kOrder, class Call = KernelCall>
void polygammaKernel(Call& call) {
  int64_t n = call.integer(kOrder);
  mapElements<kFloats, 1>(
      call, call.tensor(1 - kOrder).dtype(), [=](auto x) { return polygamma(n, x); }, 1 - kOrder);
}

void inferMultigamma(InferCall& call) {
  call.require(call.tensor(0).dtype != DType::Bool, "the input tensor may not be a boolean tensor");
  if (call.constant(1)) call.require(call.integer(1) >= 1, "p has to be greater than or equal to 1");
  inferFloatUnary(call);
}

// Floats by vectors: the standard library takes a hundred times as long for negative ones.
void logGammaTile(const Tile& t) {
  pointwiseFunction(PointwiseOp::LogGamma)(static_cast<const float*>(t.operand[1]), nullptr, nullptr,
                                           static_cast<float*>(t.operand[0]), t.n, 0, 0);
}
void logGammaKernel(KernelCall& call) {
  const DType dtype = toFloating(promotedDType(call, 1));
  if (computeTypeOf(dtype) != Compute::F32) return mapInputs<kFloats, 1>(call, [](auto x) { return logGamma(x); });
  ElementLoop{0, 1, dtype, {logGammaTile, Compute::F32, Compute::F32}, nullptr}.run(call);
}

// p (p - 1) / 4 log pi + the sum of logGamma(x - j / 2) over j = 0 ... p - 1
template <class Call>
void multigammaKernel(Call& call) {
  int64_t p = call.integer(1);
  double count = static_cast<double>(p);
  // PyTorch makes all terms first: more of them than memory holds are refused as there.
  (void)Tensor::empty(toFloating(call.tensor(0).dtype()), {call.tensor(0).numel(), p});
  mapInputs<kFloats, 1>(call, [=](auto x) {
    using T = decltype(x);
    T sum = 0;
    for (int64_t j = p - 1; j >= 0 && std::isfinite(sum); --j) {
      sum += logGamma(x - T(0.5) * static_cast<T>(j));
      if (j % 4096 == 4095) RunContext::current().checkInterrupt(4096);
    }
    return sum + T(count * (count - 1) / 4 * std::log(std::numbers::pi));
  });
}

// ---- two tensors ----

// Floats alone; integers are refused.
template <auto kF, class Call>
void floatPairKernel(Call& call) {
  DType dtype = promotedDType(call, 2);
  if (!isFloating(dtype)) refuseDType(dtype);
  mapElements<kFloats, 2>(call, dtype, kF);
}

// Both together have a dtype of kNoHalves, whatever each has.
void refuseHalves(const KernelCall& call) {
  const DType dtype = promotedDType(call, 2);
  if (!kNoHalves.contains(dtype)) refuseDType(dtype);
}

template <auto kF>
void widePairKernel(KernelCall& call) {
  refuseHalves(call);
  mapInputs<kFloats, 2>(call, kF);
}

// A polynomial whose degree is the second argument.
template <auto kF>
void polynomialKernel(KernelCall& call) {
  refuseHalves(call);
  mapInputs<kFloats, 2>(call, [](auto x, auto n) { return kF(x, truncatedInt(static_cast<double>(n))); });
}

template <auto kF>
constexpr MappedFunction kFloatPair{floatPairKernel<kF, KernelCall>, convertMapped<floatPairKernel<kF, ConvertCall>>};

// ---- the records ----

constexpr InPlace kDirect = InPlace::Direct;

void registerGammas(OpRegistry& ops) {
  auto add = [&](std::initializer_list<std::string_view> names, InferFunction infer, MappedFunction function,
                 InPlace inplace = kDirect, DTypeSet dtypes = kRealAndBool) {
    addAliases(ops, names,
               {.infer = infer,
                .kernel = function.kernel,
                .convert = function.convert,
                .dtypes = dtypes,
                .inplace = inplace,
                .traits = kPerElement,
                .cost = Cost::Function});
  };
  add({"aten::lgamma", "aten::special_gammaln"}, inferFloatUnary,
      {logGammaKernel, convertPointwise<PointwiseOp::LogGamma>});
  add({"aten::digamma", "aten::special_psi", "aten::special_digamma"}, inferFloatUnary,
      kMapped<kFloats, [](auto x) { return digamma(x); }>);
  add({"aten::mvlgamma", "aten::special_multigammaln"}, inferMultigamma,
      {multigammaKernel<KernelCall>, convertMapped<multigammaKernel<ConvertCall>>});
  add({"aten::polygamma", "aten::special_polygamma"}, inferPolygamma<0>,
      {polygammaKernel<0>, convertMapped<polygammaKernel<0, ConvertCall>>}, InPlace::No);
  add({"aten::polygamma_"}, inferPolygamma<1>, {polygammaKernel<1>, nullptr});
  add({"aten::igamma", "aten::special_gammainc"}, inferBinary,
      kFloatPair<[](auto a, auto x) { return lowerGamma(a, x); }>);
  add({"aten::igammac", "aten::special_gammaincc"}, inferBinary,
      kFloatPair<[](auto a, auto x) { return upperGamma(a, x); }>);
  add({"aten::special_zeta", "aten::special_zeta.other_scalar", "aten::special_zeta.self_scalar"}, inferFloatBinary,
      {widePairKernel<[](auto x, auto q) { return hurwitzZeta(x, q); }>, nullptr});
}

int normalCdfSteps(StepBuilder& b) {
  const int e = b.step(PointwiseOp::Erf, b.step(PointwiseOp::Mul, b.value(0), b.constant(0.70710678118654752440)));
  return b.step(PointwiseOp::Mul, b.step(PointwiseOp::Add, b.constant(1), e), b.constant(0.5));
}

// 0 where the factor is, but for logarithms of NaN.
template <PointwiseOp kLogarithm>
int timesLogarithm(StepBuilder& b) {
  const int x = b.value(0), y = b.value(1);
  const int isNothing = b.step(PointwiseOp::And, b.step(PointwiseOp::Eq, x, b.constant(0)),
                               b.step(PointwiseOp::Not, b.step(PointwiseOp::IsNan, y)));
  return b.step(PointwiseOp::Where, isNothing, b.constant(0), b.step(PointwiseOp::Mul, x, b.step(kLogarithm, y)));
}
template <PointwiseOp kLogarithm>
void convertTimesLogarithm(ConvertCall& call) {
  if (isHalf(call.spec().dtype)) return convertToKernel(call, "its logarithm is rounded to 16 bits");
  convertPointwise<timesLogarithm<kLogarithm>>(call);
}

void registerSpecialFunctions(OpRegistry& ops) {
  DTypeSet dtypes = kRealAndBool;
  auto add = [&](std::initializer_list<std::string_view> names, MappedFunction function) {
    addAliases(ops, names,
               {.infer = inferFloatUnary,
                .kernel = function.kernel,
                .convert = function.convert,
                .dtypes = dtypes,
                .inplace = kDirect,
                .traits = kPerElement,
                .cost = Cost::Function});
  };
  add({"aten::erfinv", "aten::special_erfinv"},
      kStepsOr<singleStep<PointwiseOp::Erfinv>, kFloats, [](auto x) { return inverseErf(x); }>);
  add({"aten::special_ndtr"}, kStepsOr<normalCdfSteps, kVectors, [](auto x) {
        using T = Lane<decltype(x)>;
        return (1 + erf(x * T(0.70710678118654752440))) * T(0.5);
      }>);
  addAliases(ops, {"aten::special_entr"},
             {.infer = inferFloatUnary,
              .kernel = entropyKernel,
              .dtypes = dtypes,
              .traits = kPerElement | kInSteps,
              .cost = Cost::Function});

  add({"aten::i0", "aten::special_i0"}, kMapped<kFloats, [](auto x) { return besselI0<false>(x); }>);
  add({"aten::special_i0e"}, kMapped<kFloats, [](auto x) { return besselI0<true>(x); }>);
  add({"aten::special_i1"}, kMapped<kFloats, [](auto x) { return besselI1<false>(x); }>);
  add({"aten::special_i1e"}, kMapped<kFloats, [](auto x) { return besselI1<true>(x); }>);

  dtypes = kNoHalves;
  add({"aten::special_erfcx"}, kMapped<kFloats, [](auto x) { return scaledErfc(x); }>);
  add({"aten::special_ndtri"}, kMapped<kFloats, [](auto x) { return normalQuantile(x); }>);
  add({"aten::special_log_ndtr"}, kMapped<kFloats, [](auto x) { return logNormalCdf(x); }>);
  add({"aten::special_modified_bessel_i0"}, kMapped<kFloats, [](auto x) { return besselI0<false>(x); }>);
  add({"aten::special_modified_bessel_i1"}, kMapped<kFloats, [](auto x) { return besselI1<false>(x); }>);
  add({"aten::special_modified_bessel_k0"}, kMapped<kFloats, [](auto x) { return besselK0<false>(x); }>);
  add({"aten::special_modified_bessel_k1"}, kMapped<kFloats, [](auto x) { return besselK1<false>(x); }>);
  add({"aten::special_scaled_modified_bessel_k0"}, kMapped<kFloats, [](auto x) { return besselK0<true>(x); }>);
  add({"aten::special_scaled_modified_bessel_k1"}, kMapped<kFloats, [](auto x) { return besselK1<true>(x); }>);
  add({"aten::special_bessel_j0"}, kMapped<kFloats, [](auto x) { return besselJ0(x); }>);
  add({"aten::special_bessel_j1"}, kMapped<kFloats, [](auto x) { return besselJ1(x); }>);
  add({"aten::special_bessel_y0"}, kMapped<kFloats, [](auto x) { return besselY0(x); }>);
  add({"aten::special_bessel_y1"}, kMapped<kFloats, [](auto x) { return besselY1(x); }>);
  add({"aten::special_spherical_bessel_j0"}, kMapped<kFloats, [](auto x) { return sphericalBesselJ0(x); }>);
  add({"aten::special_airy_ai"}, kMapped<kFloats, [](auto x) { return airyAi(x); }>);
}

void registerProducts(OpRegistry& ops) {
  auto add = [&](std::initializer_list<std::string_view> names, KernelFunction kernel, InPlace inplace = InPlace::No,
                 ConvertFunction convert = convertTimesLogarithm<PointwiseOp::Log>) {
    addAliases(ops, names,
               {.infer = inferFloatBinary,
                .kernel = kernel,
                .convert = convert,
                .inplace = inplace,
                .traits = kPerElement | kInSteps,
                .cost = Cost::Function});
  };
  add({"aten::xlogy.Tensor", "aten::xlogy.Scalar_Other"}, xLogYKernel, kDirect);
  add({"aten::xlogy.Scalar_Self", "aten::special_xlogy", "aten::special_xlogy.other_scalar",
       "aten::special_xlogy.self_scalar"},
      xLogYKernel);
  add({"aten::special_xlog1py", "aten::special_xlog1py.other_scalar", "aten::special_xlog1py.self_scalar"},
      xLog1pYKernel, InPlace::No, convertTimesLogarithm<PointwiseOp::Log1p>);
}

// Each takes tensors, or a number in place of one of them.
void registerPolynomials(OpRegistry& ops) {
#define TS_POLYNOMIAL(name, ...)                                                                                 \
  addAliases(ops, {"aten::special_" name, "aten::special_" name ".x_scalar", "aten::special_" name ".n_scalar"}, \
             {.infer = inferFloatBinary,                                                                         \
              .kernel = polynomialKernel<[](auto x, int64_t n) { return __VA_ARGS__; }>,                         \
              .dtypes = kRealAndBool,                                                                            \
              .traits = kPerElement,                                                                             \
              .cost = Cost::Function})
  TS_POLYNOMIAL("chebyshev_polynomial_t", chebyshevT(x, n, 6));
  TS_POLYNOMIAL("chebyshev_polynomial_u", chebyshevU(x, n, 8));
  TS_POLYNOMIAL("chebyshev_polynomial_v", chebyshevV(x, n, 8));
  TS_POLYNOMIAL("chebyshev_polynomial_w", chebyshevW(x, n, 8));
  TS_POLYNOMIAL("shifted_chebyshev_polynomial_t", chebyshevT(x + x - 1, n, 6));
  TS_POLYNOMIAL("shifted_chebyshev_polynomial_u", chebyshevU(x + x - 1, n, 6));
  TS_POLYNOMIAL("shifted_chebyshev_polynomial_v", chebyshevV(x + x - 1, n, 6));
  TS_POLYNOMIAL("shifted_chebyshev_polynomial_w", chebyshevW(x + x - 1, n, 4));
  TS_POLYNOMIAL("hermite_polynomial_h", hermiteH(x, n));
  TS_POLYNOMIAL("hermite_polynomial_he", hermiteHe(x, n));
  TS_POLYNOMIAL("laguerre_polynomial_l", laguerre(x, n));
  TS_POLYNOMIAL("legendre_polynomial_p", legendre(x, n));
#undef TS_POLYNOMIAL
}

}  // namespace

void registerSpecialOps(OpRegistry& ops) {
  registerGammas(ops);
  registerSpecialFunctions(ops);
  registerProducts(ops);
  registerPolynomials(ops);
}

}  // namespace tscompile
