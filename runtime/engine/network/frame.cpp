#include "runtime/engine/network/frame.h"

#include "runtime/engine/network/memory_plan.h"
#include "runtime/engine/network/poison.h"
#include "runtime/reference/loops/copy.h"

#include <cstring>
#include <utility>

namespace tscompile {

Frame::Frame(const Network& network, const MemoryPlan& plan, ArenaPool& arenas)
    : network_(network),
      plan_(plan),
      arenas_(arenas),
      bases_(network.buffers.size()),
      storages_(network.buffers.size()),
      inputOffsets_(network.buffers.size()),
      tensors_(network.tensors.size()) {
  for (size_t b = 0; b < network.buffers.size(); ++b)
    if (network.buffers[b].kind == NetBuffer::Kind::Constant) bases_[b] = network.buffers[b].constant.raw();
}

// Mostly to where it was in the last run.
void Frame::moveTo(Ref<Storage> arena) {
  arena_ = std::move(arena);
  if (shown_ && shown_->data() == arena_->data()) return;
  for (TensorId id : inArena_) tensors_[id] = Tensor();
  inArena_.clear();
  shown_ = Storage::borrow(arena_->data(), plan_.peakBytes(), nullptr, nullptr, false);
  workspace_ = arena_->data() + plan_.arenaBytes;
  for (size_t b = 0; b < bases_.size(); ++b)
    if (plan_.offsets[b] != MemoryPlan::kNowhere) bases_[b] = arena_->data() + plan_.offsets[b];
}

void Frame::begin(std::span<const Tensor> tensors, RunContext& context, int threads) {
  chargeBudget(&context.budget(), plan_.peakBytes());
  context_ = &context;  // whose budget end() gives it back to, also if what follows fails
  moveTo(arenas_.take(plan_.peakBytes()));
  inputs_ = tensors;
  threads_ = threads;
  const bool poisoned = PoisonScope::isOpen();
  if (poisoned) std::memset(arena_->data(), PoisonScope::kByte, plan_.peakBytes());
  for (size_t b = 0; b < network_.buffers.size(); ++b) {
    const NetBuffer& buffer = network_.buffers[b];
    if (buffer.kind == NetBuffer::Kind::Input) {
      const Tensor& t = tensors[buffer.input];
      bases_[b] = t.raw();
      storages_[b] = t.storage();
      inputOffsets_[b] = t.offset() * static_cast<int64_t>(itemSize(t.dtype()));
    } else if (buffer.escapes) {
      storages_[b] = Storage::allocate(buffer.bytes);
      if (poisoned) std::memset(storages_[b]->data(), PoisonScope::kByte, buffer.bytes);
      bases_[b] = storages_[b]->data();
    }
  }
}

void Frame::end() {
  if (!context_) return;  // it has not begun
  std::exchange(context_, nullptr)->budget().refund(plan_.peakBytes());
  if (arena_) arenas_.giveBack(std::move(arena_));
  for (TensorId id : temporary_) tensors_[id] = Tensor();
  temporary_.clear();
  for (size_t b = 0; b < storages_.size(); ++b) storages_[b] = nullptr;
  inputs_ = {};
}

Tensor Frame::makeTensor(TensorId id) const {
  const NetTensor& t = network_[id];
  const NetBuffer& buffer = network_.buffers[t.buffer];
  if (t.input != NetTensor::kNotAnInput) return inputs_[static_cast<size_t>(t.input)];
  if (buffer.kind == NetBuffer::Kind::Constant) return buffer.constant;
  auto item = static_cast<int64_t>(itemSize(t.dtype));
  if (storages_[t.buffer])
    return Tensor::view(t.dtype, storages_[t.buffer], t.sizes, t.strides, t.offset + inputOffsets_[t.buffer] / item);
  return Tensor::view(t.dtype, shown_, t.sizes, t.strides,
                      t.offset + static_cast<int64_t>(plan_.offsets[t.buffer]) / item);
}

const Tensor& Frame::tensor(TensorId id) {
  Tensor& t = tensors_[id];
  if (!t.defined()) {
    t = makeTensor(id);
    if (storages_[network_[id].buffer])
      temporary_.push_back(id);
    else if (t.storage() == shown_)
      inArena_.push_back(id);
  }
  return t;
}

IValue Frame::value(const NetValue& v) {
  switch (v.kind) {
    case NetValue::Kind::Known:
      return v.known;
    case NetValue::Kind::Tensor:
      return tensor(v.tensor);
    case NetValue::Kind::List:
      break;
  }
  std::vector<IValue> items;
  items.reserve(v.items.size());
  for (const NetValue& item : v.items) items.push_back(value(item));
  return Ref<ListValue>::make(v.elementType, std::move(items));
}

}  // namespace tscompile
