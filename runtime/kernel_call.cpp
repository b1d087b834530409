#include "runtime/kernel_call.h"

#include "runtime/reference/copy.h"

namespace tscompile {

Tensor KernelCall::tensor(size_t i) const {
  const IValue& v = argument(i);
  if (v.isTensor()) return v.toTensor();
  if (!v.isNone()) fail("expected a tensor as argument {}", i + 1);
  return {};
}

std::vector<Tensor> KernelCall::tensors(size_t i) const {
  const IValue& v = argument(i);
  if (!v.isList()) fail("expected a list of tensors as argument {}", i + 1);
  std::vector<Tensor> out;
  out.reserve(v.toList().items.size());
  for (const IValue& item : v.toList().items) {
    if (!item.isTensor() && !item.isNone()) fail("expected tensors in the list that is argument {}", i + 1);
    out.push_back(item.isTensor() ? item.toTensor() : Tensor());
  }
  return out;
}

int64_t KernelCall::integer(size_t i) const {
  const IValue& v = argument(i);
  if (v.isInt()) return v.toInt();
  if (v.isBool()) return v.toBool();
  if (v.isFloat()) return static_cast<int64_t>(v.toFloat());
  fail("expected an integer as argument {}", i + 1);
}

double KernelCall::number(size_t i) const {
  const IValue& v = argument(i);
  if (v.isComplex()) return v.toComplex().real();
  if (!v.isNumber()) fail("expected a number as argument {}", i + 1);
  return v.toDouble();
}

std::complex<double> KernelCall::complex(size_t i) const {
  const IValue& v = argument(i);
  return v.isComplex() ? v.toComplex() : std::complex<double>(number(i));
}

bool KernelCall::flag(size_t i) const {
  const IValue& v = argument(i);
  return v.isInt() ? v.toInt() != 0 : v.toBool();
}

const std::string& KernelCall::text(size_t i) const {
  const IValue& v = argument(i);
  if (!v.isString()) fail("expected a string as argument {}", i + 1);
  return v.toString();
}

Dims KernelCall::integers(size_t i) const {
  const IValue& v = argument(i);
  Dims out;
  if (v.isInt()) {
    out.push_back(v.toInt());
  } else if (v.isList()) {
    for (const IValue& item : v.toList().items) {
      if (!item.isInt()) fail("expected integers in the list that is argument {}", i + 1);
      out.push_back(item.toInt());
    }
  } else if (!v.isNone()) {
    fail("expected a list of integers as argument {}", i + 1);
  }
  return out;
}

std::vector<double> KernelCall::numbers(size_t i) const {
  const IValue& v = argument(i);
  std::vector<double> out;
  if (v.isNumber()) {
    out.push_back(v.toDouble());
  } else if (v.isList()) {
    for (const IValue& item : v.toList().items) {
      if (!item.isNumber() || item.isComplex()) fail("expected numbers in the list that is argument {}", i + 1);
      out.push_back(item.toDouble());
    }
  } else if (!v.isNone()) {
    fail("expected a list of numbers as argument {}", i + 1);
  }
  return out;
}

DType KernelCall::dtypeOr(size_t i, DType otherwise) const {
  const IValue& v = argument(i);
  if (v.isNone()) return otherwise;
  std::optional<DType> dtype = v.isInt() ? dtypeFromNumber(v.toInt()) : std::nullopt;
  if (!dtype) fail("expected the number of a dtype as argument {}", i + 1);
  return *dtype;
}

int64_t KernelCall::dim(size_t i, int rank) const {
  int64_t d = integer(i), wrapped = d;
  if (!wrapDim(wrapped, rank)) fail("dimension {} is out of range for a tensor of {} dimensions", d, rank);
  return wrapped;
}

Dims KernelCall::dims(size_t i, int rank, bool emptyIsAll) const {
  Dims out = integers(i);
  if (out.empty() && emptyIsAll)
    for (int64_t d = 0; d < rank; ++d) out.push_back(d);
  else
    for (int64_t& d : out)
      if (!wrapDim(d, rank)) fail("dimension {} is out of range for a tensor of {} dimensions", d, rank);
  return out;
}

Tensor KernelCall::out(size_t i) {
  if (hasOut(i)) return results_[i].toTensor();
  Tensor t = i == 0 && isInPlace() ? tensor(0) : Tensor::empty(spec(i).dtype, spec(i).sizes);
  results_[i] = t;
  return t;
}

void requireOwned(const Tensor& t) {
  if (t.storage()->readOnly())
    throw ExecutionError(ErrorKind::Model, "an in-place operation writes to a constant or a weight, which runs share");
}

void requireWritable(const Tensor& t) {
  requireOwned(t);
  if (repeatsElements(t.sizes(), t.strides()))
    throw ExecutionError(ErrorKind::Model,
                         "unsupported operation: more than one element of the written-to tensor refers to a single "
                         "memory location; clone it first");
}

void requireNoPartialOverlap(const Tensor& to, const Tensor& from) {
  if (from.storage() != to.storage()) return;
  bool same = from.raw() == to.raw() && from.dtype() == to.dtype() &&
              std::equal(to.strides().begin(), to.strides().end(), from.strides().begin(), from.strides().end()) &&
              std::equal(to.sizes().begin(), to.sizes().end(), from.sizes().begin(), from.sizes().end());
  if (!same && memoryOverlaps(to, from))
    throw ExecutionError(ErrorKind::Model,
                         "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                         "a single memory location; clone one of them first");
}

namespace {

// The rules that every operator with a trailing underscore shares.
void checkInPlace(const Operator& op, const IValue* const* arguments, size_t count, const InferCall* inferred) {
  const IValue& self = *arguments[0];
  if (!self.isTensor() || !self.tensorImpl()) throw ExecutionError(ErrorKind::Model, "expected a tensor as argument 1");
  Tensor t = self.toTensor();
  requireWritable(t);
  if (inferred && inferred->resultCount() && inferred->inferred(0).kind == InferredResult::Kind::Tensor) {
    const TensorSpec& spec = inferred->inferred(0).tensor;
    if (!std::equal(spec.sizes.begin(), spec.sizes.end(), t.sizes().begin(), t.sizes().end()))
      throw ExecutionError(ErrorKind::Model, fmt::format("output with shape {} doesn't match the broadcast shape {}",
                                                         dimsText(t.sizes()), dimsText(spec.sizes)));
    if (!canCast(spec.dtype, t.dtype()))
      throw ExecutionError(ErrorKind::Model, fmt::format("result type {} can't be cast to the desired output type {}",
                                                         graphName(spec.dtype), graphName(t.dtype())));
  }
  if (op.def().inplace != InPlace::Direct) return;
  for (size_t i = 1; i < count; ++i) {
    const IValue& v = *arguments[i];
    if (v.isTensor() && v.tensorImpl() && v.tensorImpl()->storage() == t.storage())
      requireNoPartialOverlap(t, v.toTensor());
  }
}

void checkDType(const Operator& op, const IValue* const* arguments, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!arguments[i]->isTensor()) continue;
    TensorImpl* t = arguments[i]->tensorImpl();
    if (!t || op.def().dtypes.contains(t->dtype())) return;
    throw ExecutionError(ErrorKind::Unsupported, fmt::format("not implemented for {}", pythonName(t->dtype())));
  }
}

// An undefined tensor, such as the gradient of a tensor that has none, stands for None where that is allowed.
void checkUndefined(const Operator& op, size_t i) {
  const Schema& schema = op.schema();
  bool needed = op.kind().nameSpace() == "aten" && i < schema.arguments.size() && schema.arguments[i].type->isTensor();
  if (needed)
    throw ExecutionError(ErrorKind::Model,
                         fmt::format("expected a tensor as argument {}, not an undefined one", i + 1));
}

// `out` variants and in-place variants without a kernel that can overwrite its argument: compute aside, copy over.
void copyInto(const IValue& target, const IValue& value) {
  if (!target.isTensor() || !target.tensorImpl() || !value.isTensor() || !value.tensorImpl())
    throw ExecutionError(ErrorKind::Model, "expected a tensor as the output argument");
  Tensor to = target.toTensor(), from = value.toTensor();
  if (!std::equal(to.sizes().begin(), to.sizes().end(), from.sizes().begin(), from.sizes().end())) {
    Tensor resized = Tensor::empty(to.dtype(), from.sizes());
    to.impl()->setStorage(resized.storage(), from.sizes(), resized.strides(), 0);
  }
  requireWritable(to);
  copyTensor(to, from);
}

}  // namespace

void callOperator(const Operator& op, const IValue* const* arguments, size_t count, IValue* results, size_t resultCount,
                  RunContext& context) {
  const OpDef& def = op.def();
  if (def.scalar) return def.scalar(arguments, results[0]);
  for (size_t i = 0; i < count; ++i)
    if (arguments[i]->isTensor() && !arguments[i]->tensorImpl()) checkUndefined(op, i);
  if (!def.dtypes.empty()) checkDType(op, arguments, count);

  size_t outs = op.outCount();
  count -= outs;
  InferCall infer(op, arguments, count);
  if (def.infer) def.infer(infer);
  const InferCall* inferred = def.infer ? &infer : nullptr;
  if (op.isInPlaceVariant()) checkInPlace(op, arguments, count, inferred);
  if (op.isInPlaceVariant() && def.inplace == InPlace::ByCopy) {
    IValue aside;
    KernelCall call(op, arguments, count, inferred, &aside, 1, context);
    call.computeAside();
    def.kernel(call);
    copyInto(*arguments[0], aside);
    results[0] = *arguments[0];
    return;
  }
  KernelCall call(op, arguments, count, inferred, results, resultCount, context);
  def.kernel(call);
  for (size_t i = 0; i < outs; ++i) {
    copyInto(*arguments[count + i], results[i]);
    results[i] = *arguments[count + i];
  }
}

}  // namespace tscompile
