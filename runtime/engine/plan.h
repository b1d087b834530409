// A network ready to run: its memory is planned, its frames are kept from run to run.
#pragma once

#include "runtime/engine/network/frame.h"
#include "runtime/engine/network/memory_plan.h"
#include "runtime/engine/network/network.h"

#include <memory>
#include <span>
#include <vector>

namespace tscompile {

// Immutable but for the frames that wait for their next use: any number of threads may run it at once.
class EnginePlan {
 public:
  // It runs in memory of `arenas`.
  EnginePlan(std::unique_ptr<const Network> network, std::shared_ptr<ArenaPool> arenas);
  // `tensors` are those among the inputs, in order, with the geometry that the network was made for. Throws
  // ExecutionError, which names the node.
  void run(std::span<const Tensor> tensors, std::span<IValue> outputs, RunContext& context, int threads) const;

  const Network& network() const { return *network_; }
  const MemoryPlan& memory() const { return memory_; }
  // About what it holds on to between two runs, without weights and arenas.
  size_t bytes() const;

 private:
  std::unique_ptr<Frame> takeFrame() const;

  std::unique_ptr<const Network> network_;
  MemoryPlan memory_;
  std::shared_ptr<ArenaPool> arenas_;
  mutable std::vector<std::unique_ptr<Frame>> idle_;
};

}  // namespace tscompile
