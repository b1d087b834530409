#include "runtime/engine/network/network.h"

#include "ir/values/error.h"

namespace tscompile {
namespace {

// What no tensor can be is refused as it is outside of engines.
int64_t possibleCount(DimSpan sizes) {
  if (std::optional<int64_t> count = checkedNumel(sizes)) return *count;
  throw ExecutionError(ErrorKind::Limit, "a tensor of size " + dimsText(sizes) + " has more than 2^48 elements");
}

}  // namespace

TensorId Network::addTensor(DType dtype, DimSpan sizes) {
  int64_t count = possibleCount(sizes);
  buffers.push_back({.bytes = static_cast<size_t>(count) * itemSize(dtype)});
  return addView(static_cast<BufferId>(buffers.size() - 1), dtype, sizes, contiguousStrides(sizes), 0);
}

TensorId Network::addView(BufferId buffer, DType dtype, DimSpan sizes, DimSpan strides, int64_t offset) {
  NetTensor t;
  t.buffer = buffer;
  t.dtype = dtype;
  t.sizes = Dims(sizes);
  t.strides = Dims(strides);
  t.offset = offset;
  t.numel = possibleCount(sizes);
  int64_t step = 1;
  // Sizes beside one of 0 may be any: their product is not.
  for (size_t d = t.numel == 0 ? 0 : sizes.size(); d-- > 0;) {
    t.contiguous &= sizes[d] == 1 || strides[d] == step;
    step *= sizes[d];
  }
  t.contiguous |= t.numel == 0;
  tensors.push_back(std::move(t));
  return static_cast<TensorId>(tensors.size() - 1);
}

TensorId Network::addConstant(const Tensor& constant) {
  buffers.push_back({.kind = NetBuffer::Kind::Constant, .constant = constant});
  return addView(static_cast<BufferId>(buffers.size() - 1), constant.dtype(), constant.sizes(), constant.strides(), 0);
}

namespace {

std::optional<TensorId> firstUnmade(const Network& network, const NetValue& value, const std::vector<bool>& made) {
  if (value.kind == NetValue::Kind::Tensor && !made[network[value.tensor].buffer]) return value.tensor;
  for (const NetValue& item : value.items)
    if (std::optional<TensorId> unmade = firstUnmade(network, item, made)) return unmade;
  return std::nullopt;
}

}  // namespace

std::optional<UnmadeTensor> firstUnmade(const Network& network) {
  std::vector<bool> made;
  for (const NetBuffer& b : network.buffers) made.push_back(b.kind != NetBuffer::Kind::Inner || b.bytes == 0);
  for (const std::unique_ptr<Layer>& layer : network.layers) {
    for (TensorId id : layer->inputs)
      if (!made[network[id].buffer]) return UnmadeTensor{id, layer.get()};
    for (TensorId id : layer->outputs) made[network[id].buffer] = true;
  }
  for (const NetValue& output : network.outputs)
    if (std::optional<TensorId> unmade = firstUnmade(network, output, made)) return UnmadeTensor{*unmade, nullptr};
  return std::nullopt;
}

}  // namespace tscompile
