// What one run of a program carries: limits, interruption, random numbers, where prints go.
#pragma once

#include "ir/values/memory.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace tscompile {

class RunState;

// The seeded generator that operators such as aten::rand draw from (see docs/random.md). Not PyTorch's sequence.
class RandomState {
 public:
  explicit RandomState(uint64_t seed = 0) : seed_(seed) {}
  void seed(uint64_t seed) {
    seed_ = seed;
    counter_ = 0;
  }
  uint64_t next();
  double uniform();  // [0, 1)
  double normal();   // mean 0, deviation 1

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
};

struct RunOptions {
  // Bytes at a time of the tensors, containers and scratch that the run makes; inputs and weights do not count.
  uint64_t memoryLimit = UINT64_MAX;
  // Of one run, which stops between two layers, or between the chunks that a large one is cut into: within 80 ms.
  std::optional<std::chrono::nanoseconds> timeLimit = std::nullopt;
  const std::atomic<bool>* interrupt = nullptr;  // the run stops soon after it becomes true
  uint64_t seed = 0;
  int threads = 0;                                        // of engines, at most; 0: as many as the process may use
  std::function<void(std::string_view)> print = nullptr;  // of prim::Print; nothing is printed without it
  std::function<void(std::string_view)> warn = nullptr;   // of aten::warn
  RunState* state = nullptr;  // what earlier runs have written; null: the module as it was loaded
};

class RunContext {
 public:
  explicit RunContext(const RunOptions& options);  // which it does not copy
  explicit RunContext(RunOptions&&) = delete;

  // Throws ExecutionError if the run is to stop. Cheap enough for every loop iteration and every few thousand elements.
  void checkInterrupt() {
    if (--untilCheck_ <= 0) [[unlikely]]
      slowCheck();
  }
  // The same, for callers that know they have done about `work` elements since the last check.
  void checkInterrupt(int64_t work) {
    untilCheck_ -= work / 256;
    checkInterrupt();
  }

  const RunOptions& options() const { return options_; }
  RandomState& random() { return random_; }
  MemoryBudget& budget() { return *budget_; }

  bool gradEnabled = true;  // what torch.is_grad_enabled() says; gradients are never computed

  // The context of the run that this thread is in, or a default one outside of runs.
  static RunContext& current();

 private:
  friend class RunScope;
  void slowCheck();

  static constexpr int64_t kInterval = 1024;
  const RunOptions& options_;
  Ref<MemoryBudget> budget_;
  RandomState random_;
  int64_t untilCheck_ = kInterval;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
};

// Makes a context the current one of this thread, and its budget the one that allocations are charged to.
class RunScope {
 public:
  explicit RunScope(RunContext& context);
  ~RunScope();

 private:
  RunContext* previous_;
  BudgetScope budget_;
};

}  // namespace tscompile
