// Tensors that are made in the memory of another (`out=`), and with names for their dimensions.
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/resized_memory.h"

namespace tscompile {
namespace {

// The operator without `out`: its first arguments, in the dtype of `out`, which is the last. A sequence goes as it is
// into a tensor of as many elements, however many dimensions that has.
void makeInto(KernelCall& call, const char* name, size_t count, bool isSequence) {
  const Operator* op = call.op().registry().builtIn().find(name);
  Tensor out = call.tensor(call.size() - 1);
  call.require(out.defined(), "expected a tensor as the output argument");
  std::vector<IValue> arguments;
  for (size_t i = 0; i < count; ++i) arguments.push_back(call.argument(i));
  arguments.emplace_back(static_cast<int64_t>(out.dtype()));
  while (arguments.size() < op->schema().arguments.size()) arguments.emplace_back();
  Tensor made = invoke(call, name, std::span<const IValue>(arguments)).toTensor();
  requireOwned(out);
  if (isSequence && out.numel() == made.numel())
    made = made.withGeometry(out.sizes(), contiguousStrides(out.sizes()), made.offset());
  else if (!std::ranges::equal(out.sizes(), made.sizes()))
    resizeInPlace(out, made.sizes(), contiguousStrides(made.sizes()));
  requireWritable(out);
  copyTensor(out, made);
  call.setResult(out);
}

template <const char* kOperator, size_t kCount, bool kIsSequence = false>
void makeInto(KernelCall& call) {
  makeInto(call, kOperator, kCount, kIsSequence);
}

// (size, value, names, dtype, layout, device, pin_memory)
void fullWithNames(KernelCall& call) {
  if (!call.isNone(2)) call.unsupported("dimensions with names are not supported");
  call.setResult(invoke(
      call, "aten::full",
      {call.argument(0), call.argument(1), call.argument(3), call.argument(4), call.argument(5), call.argument(6)}));
}

constexpr char kFull[] = "aten::full", kZeros[] = "aten::zeros", kOnes[] = "aten::ones", kEye[] = "aten::eye";
constexpr char kLinspace[] = "aten::linspace", kLogspace[] = "aten::logspace";
constexpr char kArange[] = "aten::arange", kArangeStep[] = "aten::arange.start_step";

}  // namespace

void registerCreationIntoOps(OpRegistry& ops) {
  auto add = [&](const char* schema, KernelFunction kernel) {
    ops.add({.schema = schema, .kernel = kernel, .dtypes = {}, .traits = {Trait::ChangesGeometry}, .inEngines = false});
  };
  add("aten::full.out", makeInto<kFull, 2>);
  add("aten::zeros.out", makeInto<kZeros, 1>);
  add("aten::ones.out", makeInto<kOnes, 1>);
  add("aten::eye.out", makeInto<kEye, 1>);
  add("aten::linspace.out", makeInto<kLinspace, 3, true>);
  add("aten::logspace.out", makeInto<kLogspace, 4, true>);
  add("aten::arange.out", makeInto<kArange, 1, true>);
  add("aten::arange.start_out", makeInto<kArangeStep, 3, true>);
  ops.add({.schema = "aten::full.names", .kernel = fullWithNames, .dtypes = {}, .inEngines = false});
}

}  // namespace tscompile
