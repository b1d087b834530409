#include "runtime/ops/call_op.h"

#include "runtime/interpreter/call_operator.h"
#include "runtime/ops/ops.h"

#include <utility>

namespace tscompile {

namespace {

// The call whose kernel says which layers an engine has; null while kernels compute.
thread_local const ConvertCall* converted = nullptr;

std::vector<IValue> run(const KernelCall& call, std::string_view fullName, std::span<const IValue> arguments) {
  if (converted == &call) return {converted->compute(fullName, {arguments.begin(), arguments.end()})};
  const Operator* op = call.op().registry().builtIn().find(fullName);
  TS_CHECK(op && op->schema().arguments.size() == arguments.size());
  if (!op->isImplemented())
    throw ExecutionError(ErrorKind::Unsupported,
                         "operator " + std::string(fullName) + ", which this one uses, is not implemented");
  SmallVector<const IValue*, 16> pointers;
  for (const IValue& a : arguments) pointers.push_back(&a);
  std::vector<IValue> results(std::max<size_t>(op->schema().returns.size(), 1));
  callOperator(*op, pointers.data(), pointers.size(), results.data(), results.size(), call.context());
  return results;
}

}  // namespace

std::vector<IValue> invokeAll(const KernelCall& call, std::string_view fullName,
                              std::initializer_list<IValue> arguments) {
  return run(call, fullName, {arguments.begin(), arguments.size()});
}

IValue invoke(const KernelCall& call, std::string_view fullName, std::span<const IValue> arguments) {
  return std::move(run(call, fullName, arguments)[0]);
}

IValue invoke(const KernelCall& call, std::string_view fullName, std::initializer_list<IValue> arguments) {
  return std::move(invokeAll(call, fullName, arguments)[0]);
}

void convertByKernel(ConvertCall& call, KernelFunction kernel) {
  for (size_t i = 0; i < call.size(); ++i)
    if (call.argument(i).isTensor() && call.tensor(i).defined() && call.tensor(i).numel() == 0)
      return convertToKernel(call, "a tensor has no elements");
  const ConvertCall* outer = std::exchange(converted, &call);
  try {
    kernel(call);
  } catch (...) {
    converted = outer;
    throw;
  }
  converted = outer;
}

Tensor invokeTensor(const KernelCall& call, std::string_view fullName, std::initializer_list<IValue> arguments) {
  return invoke(call, fullName, arguments).toTensor();
}

}  // namespace tscompile
