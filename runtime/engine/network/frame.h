// The memory of one run of an engine: where each tensor of the network lies.
#pragma once

#include "runtime/call/run_context.h"
#include "runtime/engine/network/arena_pool.h"
#include "runtime/engine/network/network.h"

#include <span>
#include <vector>

namespace tscompile {

struct MemoryPlan;

// Kept from run to run, but used by one at a time.
class Frame {
 public:
  Frame(const Network& network, const MemoryPlan& plan, ArenaPool& arenas);
  Frame(const Frame&) = delete;

  // Prepares a run: `tensors` are those among the inputs, in order.
  void begin(std::span<const Tensor> tensors, RunContext& context, int threads);
  // Gives up what the run has held.
  void end();

  // The address of the element with index 0.
  template <class T>
  T* data(TensorId id) const {
    const NetTensor& t = network_[id];
    return reinterpret_cast<T*>(bases_[t.buffer]) + t.offset;
  }
  // Of a blocked activation, whatever its elements are.
  float* blocks(TensorId id) const { return reinterpret_cast<float*>(raw(id)); }
  std::byte* raw(TensorId id) const {
    const NetTensor& t = network_[id];
    return bases_[t.buffer] + t.offset * static_cast<int64_t>(itemSize(t.dtype));
  }
  // The same as a tensor, for reference kernels and results.
  const Tensor& tensor(TensorId id);
  IValue value(const NetValue& v);

  const Network& network() const { return network_; }
  RunContext& context() const { return *context_; }
  int threads() const { return threads_; }
  std::byte* workspace() const { return workspace_; }

 private:
  void moveTo(Ref<Storage> arena);
  Tensor makeTensor(TensorId id) const;

  const Network& network_;
  const MemoryPlan& plan_;
  ArenaPool& arenas_;
  Ref<Storage> arena_;  // while it runs
  Ref<Storage> shown_;  // where the arena was in the last run, as tensors show it
  std::byte* workspace_ = nullptr;
  std::vector<std::byte*> bases_;       // by buffer
  std::vector<Ref<Storage>> storages_;  // by buffer, of those that change with each run
  std::vector<int64_t> inputOffsets_;   // by buffer, in bytes from the start of the storage
  std::vector<Tensor> tensors_;         // made when they are asked for
  std::vector<TensorId> inArena_;       // those of them that lie in the arena
  std::vector<TensorId> temporary_;     // those of them that end with the run
  std::span<const Tensor> inputs_;
  RunContext* context_ = nullptr;
  int threads_ = 1;
};

}  // namespace tscompile
