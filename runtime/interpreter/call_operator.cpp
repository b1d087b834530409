#include "runtime/interpreter/call_operator.h"

#include "runtime/call/argument_check.h"
#include "runtime/call/quantized_arguments.h"
#include "runtime/call/session_functions.h"
#include "runtime/interpreter/out_arguments.h"
#include "runtime/reference/conjugates.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/pytorch_words.h"
#include "runtime/reference/resized_memory.h"

#include <algorithm>
#include <vector>

namespace tscompile {
namespace {

// The rules that every operator with a trailing underscore shares.
void checkInPlace(const Operator& op, const IValue* const* arguments, size_t count, const InferCall* inferred) {
  const IValue& self = *arguments[0];
  if (!self.isTensor() || !self.tensorImpl()) throw ExecutionError(ErrorKind::Model, "expected a tensor as argument 1");
  Tensor t = self.toTensor();
  // Of the others, kernels know which may write one element several times.
  if (op.has(Trait::Elementwise) || op.def().inplace == InPlace::ByCopy)
    requireWritable(t);
  else
    requireOwned(t);
  if (inferred && inferred->resultCount() && inferred->inferred(0).kind == InferredResult::Kind::Tensor) {
    const TensorSpec& spec = inferred->inferred(0).tensor;
    if (!std::equal(spec.sizes.begin(), spec.sizes.end(), t.sizes().begin(), t.sizes().end()))
      throw ExecutionError(ErrorKind::Model, fmt::format("output with shape {} doesn't match the broadcast shape {}",
                                                         dimsText(t.sizes()), dimsText(spec.sizes)));
    if (!canCast(spec.dtype, t.dtype()))
      throw ExecutionError(ErrorKind::Model, fmt::format("result type {} can't be cast to the desired output type {}",
                                                         graphName(spec.dtype), graphName(t.dtype())));
  }
  checkOverlaps(op, arguments, count, self, OutSizes::Final);
}

void checkDType(const Operator& op, const IValue* const* arguments, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!arguments[i]->isTensor()) continue;
    TensorImpl* t = arguments[i]->tensorImpl();
    if (!t || op.def().dtypes.contains(t->dtype())) return;
    throw DTypeRefused(t->dtype());
  }
}

// Gives the target of an `out` variant the sizes of its result.
void resizeFor(const IValue& target, const IValue& value) {
  if (!target.isTensor() || !target.tensorImpl() || !value.isTensor() || !value.tensorImpl())
    throw ExecutionError(ErrorKind::Model, "expected a tensor as the output argument");
  Tensor to = target.toTensor(), from = value.toTensor();
  for (DType d : {to.dtype(), from.dtype()})
    if (to.dtype() != from.dtype() && !kAllTypes.contains(d)) throw DTypeRefused(d);
  if (!std::equal(to.sizes().begin(), to.sizes().end(), from.sizes().begin(), from.sizes().end())) {
    const bool isDense = isNonOverlappingAndDense(from.sizes(), from.strides());
    const Dims strides = isDense ? Dims(from.strides()) : contiguousStrides(from.sizes());
    requireOwned(to);
    resizeInPlace(to, from.sizes(), strides);
  }
  requireWritable(to);
}

// `out` variants and in-place variants without a kernel that can overwrite its argument: compute aside, copy over.
void copyInto(const IValue& target, const IValue& value) {
  resizeFor(target, value);
  copyTensor(target.toTensor(), value.toTensor());
}

// Its record computes the whole result; of in-place variants too.
void callQuantized(const Operator& op, const IValue* const* arguments, size_t count, IValue* results,
                   size_t resultCount, RunContext& context) {
  if (op.outCount()) throw ExecutionError(ErrorKind::Unsupported, "not implemented for quantised tensors");
  const OpDef& def = *op.quantized();
  if (op.isInPlaceVariant()) requireWritable(arguments[0]->toTensor());
  InferCall infer(op, arguments, count);
  if (def.infer) def.infer(infer);
  KernelCall call(op, arguments, count, def.infer ? &infer : nullptr, results, resultCount, context);
  def.kernel(call);
  if (!op.isInPlaceVariant() || !results[0].isTensor() || results[0].tensorImpl() == arguments[0]->tensorImpl()) return;
  copyInto(*arguments[0], results[0]);
  results[0] = *arguments[0];
}

// What an operator has written may be seen through conjugates.
void tellWrites(const Operator& op, const IValue* const* arguments) {
  const Schema& schema = op.schema();
  for (size_t i = 0; i < schema.arguments.size(); ++i)
    if (schema.arguments[i].isWritten() && arguments[i]->isTensor() && arguments[i]->tensorImpl())
      followWrites(arguments[i]->toTensor());
}

// Of an operator on tensors.
void callKernel(const Operator& op, const IValue* const* arguments, size_t count, IValue* results, size_t resultCount,
                RunContext& context) {
  const OpDef& def = op.def();
  checkArguments(op, arguments, count - op.outCount());
  if (op.quantized() && takesQuantized(arguments, count))
    return callQuantized(op, arguments, count, results, resultCount, context);
  if (!def.dtypes.empty()) checkDType(op, arguments, count);

  size_t outs = op.outCount();
  count -= outs;
  const IntoArguments into(op, arguments, count);
  arguments = into.orGiven(arguments);
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
  if (def.infer == inferBySession) [[unlikely]]
    checkSessionResults(op, infer, std::span(results, resultCount));
  for (size_t i = 0; i < outs; ++i) {
    if (arguments[count + i]->isTensor() && arguments[count + i]->tensorImpl() && results[i].isTensor())
      checkOut(op, arguments, count, *arguments[count + i], results[i]);
    resizeFor(*arguments[count + i], results[i]);
    checkOverlaps(op, arguments, count, *arguments[count + i], OutSizes::Resized);
    copyTensor(arguments[count + i]->toTensor(), results[i].toTensor());
    results[i] = *arguments[count + i];
  }
}

}  // namespace

void callOperator(const Operator& op, const IValue* const* arguments, size_t count, IValue* results, size_t resultCount,
                  RunContext& context) {
  if (op.def().scalar) return op.def().scalar(arguments, results[0]);
  try {
    callKernel(op, arguments, count, results, resultCount, context);
    if (hasShownConjugates()) [[unlikely]]
      tellWrites(op, arguments);
  } catch (const DTypeRefused& refused) {
    throw ExecutionError(refused.kind(), refusalWords(op.kind().name(), refused.dtype()));
  }
}

}  // namespace tscompile
