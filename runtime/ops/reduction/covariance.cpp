// Covariance and correlation of variables, which are the rows of a matrix of observations.
#include "runtime/engine/network/convert_call.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/tensor_math.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

#include <algorithm>

namespace tscompile {
namespace {

// One variable gives a number, more give a square matrix.
void resultCovariance(InferCall& call, DType dtype) {
  TensorInfo t = call.rankedTensor(0);
  call.require(t.rank() <= 2, "{}: expected input to have two or fewer dimensions but got an input with {} dimensions",
               std::string(call.op().kind().name()) + "()", t.rank());
  int64_t rows = t.rank() == 2 ? t.sizes[0] : 1;
  if (!isKnownSize(rows)) return call.resultOfUnknownRank(dtype);
  call.result(dtype, rows == 1 ? Dims{} : Dims{rows, rows});
}

DType covarianceDType(const InferCall& call) {
  DType dtype = call.tensor(0).dtype;
  call.require(dtype != DType::Bool, "{}: bool dtype is not supported for input", call.op().kind().text());
  return dtype == DType::Undefined ? dtype : toFloating(dtype);
}

void inferCov(InferCall& call) {
  DType dtype = covarianceDType(call);
  if (!call.isNone(3)) {
    DType weights = call.tensor(3).dtype;
    // Integers become what the weights are.
    dtype = dtype == DType::Undefined || weights == DType::Undefined ? DType::Undefined
                                                                     : promoteTypes(call.tensor(0).dtype, weights);
  }
  resultCovariance(call, dtype);
}
void inferCorrcoef(InferCall& call) { resultCovariance(call, covarianceDType(call)); }

// Weights of the observations: argument i, which may be None.
Tensor weightsArgument(const KernelCall& call, size_t i, const char* name, int64_t observations, bool floating) {
  Tensor w = call.tensor(i);
  if (!w.defined()) return w;
  call.require(w.rank() <= 1, "cov: expected {} to have one or fewer dimensions but got {}", name, w.rank());
  call.require(floating ? isFloating(w.dtype()) : isIntegral(w.dtype(), false),
               "cov: expected {} to have {} dtype but got {}", name, floating ? "floating point" : "integral",
               pythonName(w.dtype()));
  call.require(w.numel() == observations, "cov: expected {} to have one element for each of {} observations but got {}",
               name, observations, w.numel());
  Tensor numbers = convertTensor(w, DType::Float64);
  for (int64_t k = 0; k < observations; ++k)
    call.require(numbers.data<double>()[k] >= 0, "cov: {} cannot be negative", name);
  return w;
}

double numberIn(const Tensor& t) { return *convertTensor(t, DType::Float64).data<double>(); }

// The observations of a tensor with at most two dimensions, as columns.
Tensor observationsOf(const Tensor& t) { return t.rank() < 2 ? reshaped(t, Dims{1, t.numel()}) : t; }

void covKernel(KernelCall& call) {
  TensorMath math(call);
  Tensor x = observationsOf(call.tensor(0));
  int64_t count = x.sizes()[1];
  IValue correction = call.argument(1);
  Tensor frequencies = weightsArgument(call, 2, "fweights", count, false);
  Tensor weights = weightsArgument(call, 3, "aweights", count, true);
  Tensor w = frequencies.defined() && weights.defined() ? math.mul(frequencies, weights)
             : frequencies.defined()                    ? frequencies
                                                        : weights;
  auto weighted = [&](const Tensor& t) { return w.defined() ? math.mul(t, w) : t; };

  Tensor total = w.defined() ? math.sum(w) : scalarTensor(count);
  call.require(!w.defined() || numberIn(total) != 0, "cov: weights sum to zero, can't be normalized");
  Tensor mean = math.div(math.sum(weighted(x), 1), total), divisor;
  if (weights.defined() && call.integer(1) != 0)
    divisor = math.sub(total, math.div(math.mul(math.sum(math.mul(w, weights)), correction), total));
  else
    divisor = math.sub(total, correction);
  if (numberIn(divisor) <= 0) divisor = scalarTensor(0.0);

  x = math.sub(x, unsqueezed(mean, 1));
  Tensor products = invokeTensor(call, "aten::mm", {x, conjugated(transposed(weighted(x), 0, 1))});
  call.setResult(squeezed(math.div(products, divisor)));
}

// Rounding may take correlations out of [-1, 1].
Tensor clippedToOne(const KernelCall& call, const Tensor& t) {
  auto clipped = [&](const Tensor& part) { return invokeTensor(call, "aten::clamp", {part, -1, 1}); };
  if (!isComplex(t.dtype())) return clipped(t);
  return invokeTensor(call, "aten::complex",
                      {clipped(invokeTensor(call, "aten::real", {t})), clipped(invokeTensor(call, "aten::imag", {t}))});
}

void corrcoefKernel(KernelCall& call) {
  TensorMath math(call);
  Tensor c = invokeTensor(call, "aten::cov", {call.tensor(0), 1, IValue(), IValue()});
  if (c.rank() == 0) return call.setResult(math.div(c, c));
  Tensor variances = diagonalOf(c, 0, 0, 1);
  if (isComplex(c.dtype())) variances = invokeTensor(call, "aten::real", {variances});
  Tensor deviations = invokeTensor(call, "aten::sqrt", {variances});
  c = math.div(math.div(c, unsqueezed(deviations, 1)), unsqueezed(deviations, 0));
  call.setResult(clippedToOne(call, c));
}

// ---- in engines, without weights ----

bool isPlain(const ConvertCall& call) {
  const Tensor x = call.tensor(0);
  return (x.dtype() == DType::Float32 || x.dtype() == DType::Float64) && x.numel() > 0;
}
constexpr std::string_view kNotPlain = "it is neither float32 nor float64, or has no elements";

void convertCov(ConvertCall& call) {
  if (!isPlain(call)) return convertToKernel(call, kNotPlain);
  if (!call.isNone(2) || !call.isNone(3)) return convertToKernel(call, "there are weights");
  const IValue x = observationsOf(call.tensor(0));
  const int64_t count = x.toTensor().size(1);
  const IValue mean = call.compute("aten::mean.dim", {x, intList(Dims{1}), true, IValue()});
  const IValue moved = call.compute("aten::sub.Tensor", {x, mean, int64_t{1}});
  const IValue products = call.compute("aten::mm", {moved, call.compute("aten::t", {moved})});
  const auto divisor = static_cast<double>(std::max<int64_t>(count - call.integer(1), 0));
  call.setResult(0, call.compute("aten::reshape",
                                 {call.compute("aten::div.Scalar", {products, divisor}), intList(call.spec().sizes)}));
}

void convertCorrcoef(ConvertCall& call) {
  if (!isPlain(call)) return convertToKernel(call, kNotPlain);
  IValue c = call.compute("aten::cov", {call.argument(0), int64_t{1}, IValue(), IValue()});
  auto divided = [&](const IValue& by) { return call.compute("aten::div.Tensor", {c, by}); };
  if (c.toTensor().rank() == 0) return call.setResult(0, divided(c));
  const IValue deviations =
      call.compute("aten::sqrt", {call.compute("aten::diagonal", {c, int64_t{0}, int64_t{0}, int64_t{1}})});
  for (int64_t d : {1, 0}) c = divided(call.compute("aten::unsqueeze", {deviations, d}));
  call.setResult(0, call.compute("aten::clamp", {c, int64_t{-1}, int64_t{1}}));
}

}  // namespace

void registerCovarianceOps(OpRegistry& ops) {
  constexpr DTypeSet kTypes = kRealTypes | kComplexTypes;
  ops.add({.schema = "aten::cov", .infer = inferCov, .kernel = covKernel, .convert = convertCov, .dtypes = kTypes});
  ops.add({.schema = "aten::corrcoef",
           .infer = inferCorrcoef,
           .kernel = corrcoefKernel,
           .convert = convertCorrcoef,
           .dtypes = kTypes});
}

}  // namespace tscompile
