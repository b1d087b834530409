#include "runtime/reference/tensor_options.h"

namespace tscompile {

void checkDevice(const InferCall& call, size_t i) {
  const IValue* device = call.constant(i);
  if (device && device->isDevice() && device->toDevice().kind == DeviceKind::Meta)
    throw ExecutionError(ErrorKind::Unsupported, "tensors without data (device 'meta') are not supported");
}

void checkLayout(const InferCall& call, size_t i) {
  const IValue* layout = call.constant(i);
  if (layout && layout->isInt() && layout->toInt() != 0)
    throw ExecutionError(ErrorKind::Unsupported,
                         "only strided tensors are supported, not layout number " + std::to_string(layout->toInt()));
}

DType optionsDType(const InferCall& call, size_t first, DType otherwise) {
  checkLayout(call, first + 1);
  checkDevice(call, first + 2);
  return call.dtypeOr(first, otherwise);
}

MemoryFormat formatArgument(const KernelCall& call, size_t i, MemoryFormat otherwise) {
  if (call.isNone(i)) return otherwise;
  int64_t number = call.integer(i);
  if (number < 0 || number > 3) call.fail("{} is not the number of a memory format", number);
  return static_cast<MemoryFormat>(number);
}

std::optional<TensorInfo> rankedSelf(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (t.hasRank) return t;
  call.resultOfUnknownRank(t.dtype);
  return std::nullopt;
}

namespace {
[[noreturn]] void failSize(const InferCall& call, int64_t size, const Dims& sizes) {
  if (call.op().kind().name() == "zeros") call.fail("zeros: Dimension size must be non-negative.");
  call.fail("trying to create tensor with negative dimension {}: {}", size, dimsText(sizes));
}
}  // namespace

Dims sizesArgument(const InferCall& call, size_t i) {
  Dims sizes = call.sizes(i);
  for (int64_t& s : sizes) {
    if (s < 0 && !isUnknownInteger(s)) failSize(call, s, sizes);
    s = integerAsSize(s);
  }
  return sizes;
}

}  // namespace tscompile
