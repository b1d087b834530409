#include "runtime/engine/number_inputs.h"

#include "runtime/engine/number_use.h"
#include "runtime/reference/promotion.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

// Whether an operation in this dtype takes the number as it is.
bool holds(DType dtype, const IValue& number) {
  if (dtype == DType::Float32 || dtype == DType::Float64) return true;
  if (dtype == DType::Int64) return !number.isFloat();
  return dtype == DType::Bool && number.isBool();
}

// What the operator gives for numbers of these types, whichever they are.
std::optional<TensorSpec> inferred(const Operator& op, std::span<const IValue* const> arguments) {
  if (!op.def().infer) return std::nullopt;
  InferCall infer(op, arguments.data(), arguments.size());
  op.def().infer(infer);
  if (infer.resultCount() != 1 || infer.inferred(0).kind != InferredResult::Kind::Tensor) return std::nullopt;
  const TensorSpec& spec = infer.inferred(0).tensor;
  if (!spec.hasRank || !allKnown(spec.sizes) || spec.dtype == DType::Undefined) return std::nullopt;
  return spec;
}

// The dtype that tensors and numbers are computed in.
DType computedIn(const Operator& op, std::span<const IValue* const> arguments, DType result) {
  if (result != DType::Bool) return result;
  ResultType type;
  InferCall call(op, arguments.data(), arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i]->isTensor() || arguments[i]->isNumber()) type.add(call, i);
  return type.get();
}

IValue constantOf(const IValue& number, DType dtype) {
  NetNumber as{.dtype = dtype};
  std::optional<Tensor> t = tensorOf(number, as);
  return t ? IValue(*t) : IValue();
}

}  // namespace

IValue NumberInputs::standIn(uint32_t input, const IValue& number) {
  IValue like = number.isFloat() ? IValue(1.0) : number.isBool() ? IValue(true) : IValue(int64_t{1});
  Tensor t = Tensor::view(DType::Float64, Storage::symbolic(sizeof(double)), {}, {}, 0);
  numbers_.emplace(t.impl(), Number{input, std::move(like)});
  kept_.push_back(IValue(t));
  return kept_.back();
}

const NumberInputs::Number* NumberInputs::find(const IValue& value) const {
  if (numbers_.empty() || !value.isTensor()) return nullptr;
  auto known = numbers_.find(value.tensorImpl());
  return known == numbers_.end() ? nullptr : &known->second;
}

bool NumberInputs::isAmong(std::span<const IValue* const> arguments) const {
  return std::any_of(arguments.begin(), arguments.end(), [&](const IValue* v) { return find(*v); });
}

IValue NumberInputs::tensorOf(const Number& number, DType dtype, int64_t extent) {
  for (const Made& m : made_)
    if (m.number.input == number.input && m.number.dtype == dtype && m.number.extent == extent) return m.tensor;
  NetNumber as{number.input, dtype, extent};
  Tensor t = tensors_.makeInput(nextTensor_++, Tensor::empty(dtype, extent ? Dims{1} : Dims{}));
  tensors_.network().numbers.push_back(as);
  made_.push_back({as, IValue(t)});
  return made_.back().tensor;
}

IValue NumberInputs::apply(std::string_view op, std::vector<IValue> arguments) {
  return tracer_.trace(*tracer_.registry().find(op), arguments);
}

std::optional<IValue> NumberInputs::compute(const Operator& op, std::span<const IValue* const> arguments) {
  NumberUse use;
  const Number* first = nullptr;
  std::vector<const IValue*> alike(arguments.begin(), arguments.end());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Number* number = find(*arguments[i]);
    if (!number) continue;
    use = numberUse(op, i);
    if (use.kind == NumberUse::Kind::None) return std::nullopt;
    // A float as exponent may mean a root, which has other values at -inf and -0 than the power by a tensor.
    if (number->like.isFloat() && op.schema().argumentIndex("exponent") == i) return std::nullopt;
    alike[i] = &number->like;
    if (!first) first = number;
  }
  if (use.kind == NumberUse::Kind::Index) return select(arguments);
  std::optional<TensorSpec> result = inferred(op, alike);
  if (use.kind == NumberUse::Kind::Elements) return fill(*first, result ? *result : made(op, alike));
  if (!result) return std::nullopt;
  // Integers to the power of negative ones are refused, whatever tensors of them give.
  if (isIntegral(result->dtype, true) && op.schema().argumentIndex("exponent")) return std::nullopt;
  const DType dtype = computedIn(op, alike, result->dtype);
  std::vector<IValue> tensors;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Number* number = find(*arguments[i]);
    const bool isOperand = numberUse(op, i).onTensors == use.onTensors && alike[i]->isNumber();
    if (isOperand && !holds(dtype, *alike[i])) return std::nullopt;
    tensors.push_back(number ? tensorOf(*number, dtype) : isOperand ? constantOf(*alike[i], dtype) : *alike[i]);
  }
  IValue made = tracer_.trace(*use.onTensors, tensors);
  const TensorImpl* t = made.isTensor() ? made.tensorImpl() : nullptr;
  const bool isSame = t && t->dtype() == result->dtype && std::ranges::equal(t->sizes(), result->sizes);
  return isSame ? std::optional(std::move(made)) : std::nullopt;
}

std::optional<IValue> NumberInputs::select(std::span<const IValue* const> arguments) {
  const IValue &self = *arguments[0], &dim = *arguments[1];
  const Number* index = find(*arguments[2]);
  if (!index || find(self) || find(dim) || !self.isTensor() || !self.tensorImpl()) return std::nullopt;
  const DimSpan sizes = self.tensorImpl()->sizes();
  const auto rank = static_cast<int64_t>(sizes.size());
  const int64_t at = dim.toInt() < 0 ? dim.toInt() + rank : dim.toInt();
  if (at < 0 || at >= rank || sizes[static_cast<size_t>(at)] == 0) return std::nullopt;
  IValue place = tensorOf(*index, DType::Int64, sizes[static_cast<size_t>(at)]);
  return apply(kDrop, {apply(kTake, {self, dim, std::move(place)}), dim});
}

// What an operator without a shape function makes of such a number.
TensorSpec NumberInputs::made(const Operator& op, std::span<const IValue* const> alike) {
  std::vector<IValue> arguments;
  for (const IValue* v : alike) arguments.push_back(*v);
  const Tensor t = tracer_.trace(op, arguments).toTensor();
  return {t.dtype(), true, Dims(t.sizes())};
}

std::optional<IValue> NumberInputs::fill(const Number& number, const TensorSpec& result) {
  if (!holds(result.dtype, number.like)) return std::nullopt;
  const Tensor one = tensorOf(number, result.dtype).toTensor();
  Tensor everywhere = Tensor::view(result.dtype, one.storage(), result.sizes, Dims(result.sizes.size(), 0), 0);
  return apply(kClone, {std::move(everywhere), IValue()});
}

std::optional<Tensor> tensorOf(const IValue& number, const NetNumber& as) {
  Tensor t = Tensor::empty(as.dtype, as.extent ? Dims{1} : Dims{});
  if (as.extent) {
    const int64_t at = number.toInt();
    if (at < -as.extent || at >= as.extent) return std::nullopt;
    *t.data<int64_t>() = at < 0 ? at + as.extent : at;
    return t;
  }
  const double real = number.toDouble();
  switch (as.dtype) {
    case DType::Bool:
      *t.data<bool>() = number.toBool();
      break;
    case DType::Int64:
      *t.data<int64_t>() = number.isInt() ? number.toInt() : number.toBool();
      break;
    case DType::Float64:
      *t.data<double>() = real;
      break;
    default:
      if (std::isfinite(real) && !std::isfinite(static_cast<float>(real))) return std::nullopt;
      *t.data<float>() = static_cast<float>(real);
  }
  return t;
}

}  // namespace tscompile
