// Numbers in a row: arange, range, linspace, logspace.
#include "ir/values/size_expression.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/generate.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/pytorch_words.h"
#include "runtime/reference/tensor_options.h"

#include <cmath>

namespace tscompile {
namespace {

using C128 = std::complex<double>;

[[noreturn]] void failOverflow(const char* type) {
  throw ExecutionError(ErrorKind::Model,
                       std::string("value cannot be converted to type ") + type + " without overflow");
}

double asDouble(const IValue& v) {
  if (!v.isNumber()) throw ExecutionError(ErrorKind::Model, "the bounds and the step of a range are numbers");
  if (v.isComplex() && v.toComplex().imag() != 0) failOverflow("double");
  return v.isComplex() ? v.toComplex().real() : v.toDouble();
}
int64_t asInteger(const IValue& v) {
  if (v.isInt()) return v.toInt();
  double d = asDouble(v);
  if (!(d >= -0x1p63 && d < 0x1p63)) failOverflow("int64");
  return static_cast<int64_t>(d);
}

bool isInteger(const IValue& v) { return v.isInt() || v.isBool(); }

void requireReal(DType dtype) {
  if (dtype == DType::Bool || isComplex(dtype)) throw DTypeRefused(dtype);
}

// ---- arange, range: start, end and step, then dtype, layout, device, pin_memory ----

struct Range {
  IValue start = int64_t{0}, end, step = int64_t{1};
};

// The first arguments are (end), (start, end) or (start, end, step).
template <size_t kArguments>
Range rangeOf(const IValue* const* a) {
  Range r;
  if constexpr (kArguments > 1) r.start = *a[0];
  r.end = *a[kArguments > 1 ? 1 : 0];
  if constexpr (kArguments > 2) r.step = *a[2];
  return r;
}

// The number of elements; of `range`, the end counts as well.
int64_t rangeCount(const InferCall& call, const Range& r, DType dtype, bool inclusive) {
  double start = asDouble(r.start), end = asDouble(r.end), step = asDouble(r.step);
  // Of `range` the numbers become integers first; of arange, where all are.
  const bool integers =
      isIntegral(dtype, false) && (inclusive || (isInteger(r.start) && isInteger(r.end) && isInteger(r.step)));
  call.require(integers ? asInteger(r.step) != 0 : step > 0 || step < 0, "step must be nonzero");
  call.require(std::isfinite(start) && std::isfinite(end), "unsupported range: {} -> {}", start, end);
  if (integers) {
    int64_t a = asInteger(r.start), b = asInteger(r.end), s = asInteger(r.step);
    call.require(s > 0 ? b >= a : b <= a, "upper bound and lower bound inconsistent with step sign");
    if (dtype == DType::Int64 || inclusive) {
      __int128 length = static_cast<__int128>(b) - a,
               steps = inclusive ? length / s + 1 : (length + s - (s > 0 ? 1 : -1)) / s;
      call.require(steps <= INT64_MAX, "invalid size, possible overflow?");
      return static_cast<int64_t>(steps);
    }
  } else {
    call.require(step > 0 ? end >= start : end <= start, "upper bound and lower bound inconsistent with step sign");
  }
  double count = inclusive ? std::floor((end - start) / step) + 1 : std::ceil((end - start) / step);
  call.require(count >= 0 && count < 0x1p63, "invalid size, possible overflow?");
  return static_cast<int64_t>(count);
}

// Of integers that are not all known, upwards in steps that are; else kUnknownSize.
template <size_t kArguments>
int64_t symbolicCount(const InferCall& call) {
  constexpr size_t kEnd = kArguments > 1 ? 1 : 0;
  if (kArguments > 2 && !call.constant(2)) return kUnknownSize;
  int64_t step = kArguments > 2 ? call.integer(2) : 1;
  SizeExpression start = kEnd ? call.size(0) : 0;
  return step > 0 ? ceilDiv(SizeExpression(call.size(kEnd)) - start, step).size() : kUnknownSize;
}

template <size_t kArguments, bool kInclusive>
void inferRange(InferCall& call) {
  bool integers = !kInclusive, known = true;
  for (size_t i = 0; i < kArguments; ++i) {
    integers = integers && isIntegral(call.scalarType(i), true);
    known = known && call.constant(i);
  }
  DType dtype = optionsDType(call, kArguments, integers ? DType::Int64 : DType::Float32);
  requireReal(dtype);
  const IValue* arguments[kArguments];
  for (size_t i = 0; i < kArguments; ++i) arguments[i] = call.constant(i);
  call.result(dtype, Dims{known ? rangeCount(call, rangeOf<kArguments>(arguments), dtype, kInclusive) : kUnknownSize});
  if (!known && integers && dtype == DType::Int64) call.inferred(0).tensor.sizes[0] = symbolicCount<kArguments>(call);
}

// PyTorch computes arange in pairs of vectors, each from its first number as the dtype has it, and the rest from the
// start; range all from the start.
template <bool kFused, class T, class Round>
auto numbersFrom(T start, T step, int64_t paired, int64_t lanes, Round round) {
  return [=](int64_t i) {
    auto plus = [=](T from, int64_t steps) {
      const auto count = static_cast<T>(steps);
      return kFused ? std::fma(step, count, from) : from + step * count;
    };
    return i < paired ? plus(round(plus(start, i / lanes * lanes)), i % lanes) : plus(start, i);
  };
}

template <size_t kArguments, bool kInclusive>
void rangeKernel(KernelCall& call) {
  Tensor out = call.out();
  Range r = rangeOf<kArguments>(call.arguments());
  if (isIntegral(out.dtype(), false)) {
    int64_t start = asInteger(r.start), step = asInteger(r.step);
    return generate(out, [=](int64_t i) { return wrapAdd(start, wrapMul(step, i)); });
  }
  const double start = asDouble(r.start), step = asDouble(r.step);
  const int64_t lanes = 32 / static_cast<int64_t>(itemSize(out.dtype()));
  const int64_t paired = kInclusive ? 0 : out.numel() / (2 * lanes) * 2 * lanes;
  auto from = [&]<class T>(T first, auto round) {
    generate(out, numbersFrom<!kInclusive>(first, static_cast<T>(step), paired, lanes, round));
  };
  if (out.dtype() == DType::Float16)
    from(static_cast<float>(start), [](float v) { return static_cast<float>(Half(v)); });
  else if (out.dtype() == DType::BFloat16)
    from(static_cast<float>(start), [](float v) { return static_cast<float>(BFloat16(v)); });
  else if (out.dtype() == DType::Float64)
    from(start, [](double v) { return v; });
  else
    from(start, [](double v) { return static_cast<double>(static_cast<float>(v)); });
}

// ---- linspace, logspace: start, end, steps, (base,) dtype ... ----

// The dtype of a bound, which is a number or a tensor that holds one.
DType boundType(const InferCall& call, size_t i) {
  return call.isTensor(i) ? call.tensor(i).dtype : call.scalarType(i);
}

void checkBounds(const InferCall& call) {
  static constexpr const char* kNames[] = {"start", "end"};
  std::string given;
  bool isWrong = false;
  for (size_t i = 0; i < 2; ++i) {
    if (!call.isTensor(i) || !call.tensor(i).hasRank) continue;
    const size_t rank = call.tensor(i).rank();
    given += fmt::format("{}{} with {} dimension(s)", given.empty() ? "" : " and ", kNames[i], rank);
    isWrong |= rank > 0;
  }
  call.require(!isWrong, "{} only supports 0-dimensional start and end tensors, but got {}.", call.op().kind().name(),
               given);
}

template <size_t kDType>
void inferSpace(InferCall& call) {
  checkBounds(call);
  const DType start = boundType(call, 0), end = boundType(call, 1);
  const bool complex = isComplex(start) || isComplex(end);
  const bool isUntold = start == DType::Undefined || end == DType::Undefined;
  DType dtype = optionsDType(call, kDType, complex ? DType::Complex64 : isUntold ? DType::Undefined : DType::Float32);
  call.require(!complex || isComplex(dtype), "{}: complex limits can't be safely cast to {}", call.op().kind().text(),
               graphName(dtype));
  int64_t steps = call.constant(2) ? call.integer(2) : integerAsSize(call.size(2));
  if (dtype == DType::Bool && call.constant(2) && steps > 1) requireReal(dtype);
  call.require(!call.constant(2) || steps >= 0, "number of steps must be non-negative");
  call.result(dtype, Dims{steps});
}

// The numbers between two, counted from the nearer end, so that both are exact. `round` is applied after each step of
// the computation; without rounding on the way a float is one fused product and sum.
template <bool kFused = false, class T, class Round>
auto spacing(T start, T end, int64_t steps, Round round) {
  start = round(start);
  end = round(end);
  T step = round(round(end - start) / round(static_cast<T>(static_cast<double>(steps - 1))));
  return [=](int64_t i) {
    auto count = static_cast<T>(static_cast<double>(i < steps / 2 ? i : steps - 1 - i));
    if constexpr (kFused) return i < steps / 2 ? std::fma(step, count, start) : std::fma(-step, count, end);
    return i < steps / 2 ? round(start + round(step * count)) : round(end - round(step * count));
  };
}

C128 asComplex(const IValue& v) { return v.isComplex() ? v.toComplex() : C128(v.toDouble()); }

// Calls f with the function from index to number, in the type that PyTorch computes in.
template <class F>
void withSpacing(KernelCall& call, const Tensor& out, bool round16, F&& f) {
  const IValue &from = call.argument(0), &to = call.argument(1);
  int64_t steps = out.numel();
  auto same = [](auto v) { return v; };
  auto start = [&] { return static_cast<float>(asDouble(from)); };
  auto end = [&] { return static_cast<float>(asDouble(to)); };
  if (round16 && out.dtype() == DType::Float16)
    f(spacing(start(), end(), steps, [](float v) { return static_cast<float>(Half(v)); }));
  else if (round16 && out.dtype() == DType::BFloat16)
    f(spacing(start(), end(), steps, [](float v) { return static_cast<float>(BFloat16(v)); }));
  else if (isComplex(out.dtype()))
    f(spacing(asComplex(from), asComplex(to), steps, same));
  else if (out.dtype() == DType::Float64)
    f(spacing<true>(asDouble(from), asDouble(to), steps, same));
  else if (isFloating(out.dtype()))
    f(spacing<true>(start(), end(), steps, same));
  else
    f(spacing<true>(elementOf(from, out.dtype()).real(0), elementOf(to, out.dtype()).real(0), steps, same));
}

void linspaceKernel(KernelCall& call) {
  Tensor out = call.out();
  if (out.numel() == 1) return fillTensor(out, call.argument(0));
  withSpacing(call, out, true, [&](auto at) { generate(out, at); });
}

void logspaceKernel(KernelCall& call) {
  Tensor out = call.out();
  double base = call.number(3);
  if (out.numel() == 1) {
    const IValue& start = call.argument(0);
    return fillTensor(out, start.isComplex() ? IValue(std::pow(C128(base), start.toComplex()))
                                             : IValue(std::pow(base, start.toDouble())));
  }
  withSpacing(call, out, false, [&](auto at) {
    generate(out, [&](int64_t i) {
      auto exponent = at(i);
      return std::pow(static_cast<decltype(exponent)>(base), exponent);
    });
  });
}

// The same of bounds that are tensors.
template <const char* kOperator>
void spaceOfTensors(KernelCall& call) {
  std::vector<IValue> arguments;
  for (size_t i = 0; i < call.size(); ++i)
    arguments.push_back(i < 2 && call.argument(i).isTensor() ? numberOf(call.tensor(i)) : call.argument(i));
  call.setResult(invoke(call, kOperator, std::span(arguments)));
}

constexpr char kLinear[] = "aten::linspace", kPowers[] = "aten::logspace";

}  // namespace

void registerSequencesOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .dtypes = kAllTypes});
  };
  add("aten::arange", inferRange<1, false>, rangeKernel<1, false>);
  add("aten::arange.start", inferRange<2, false>, rangeKernel<2, false>);
  add("aten::arange.start_step", inferRange<3, false>, rangeKernel<3, false>);
  add("aten::range", inferRange<2, true>, rangeKernel<2, true>);
  add("aten::range.step", inferRange<3, true>, rangeKernel<3, true>);
  add("aten::linspace", inferSpace<3>, linspaceKernel);
  add("aten::logspace", inferSpace<4>, logspaceKernel);

#define TS_OPTIONS \
  ", *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
#define TS_BOUNDS(overload, bounds)                                                                            \
  add("aten::linspace." overload "(" bounds ", int steps" TS_OPTIONS, inferSpace<3>, spaceOfTensors<kLinear>); \
  add("aten::logspace." overload "(" bounds ", int steps, float base=10." TS_OPTIONS, inferSpace<4>,           \
      spaceOfTensors<kPowers>)
  TS_BOUNDS("Tensor_Tensor", "Tensor start, Tensor end");
  TS_BOUNDS("Tensor_Scalar", "Tensor start, Scalar end");
  TS_BOUNDS("Scalar_Tensor", "Scalar start, Tensor end");
#undef TS_BOUNDS
#undef TS_OPTIONS
}

}  // namespace tscompile
