// The process around a command: signals, time limits that hold even if a kernel does not return.
#pragma once

#include "ir/values/memory.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <string>

namespace tscompile {

// Called once by main(). Opens the standard streams if they are closed, and installs what handles signals and internal
// errors: a plugin that crashes or ends the process is named, and the exit code is that of a model that failed.
void prepareProcess();
// Whether it was: this process is the tool, not a program that calls its commands.
bool isToolProcess();
// Whether what handlers say is JSON, as diagnostics are.
void setHandlerForm(bool json);

// What a command may take, while one lives. Tensors and containers of this thread are charged to the memory, in the
// tool all of its heap is. The tool ends at the time limit; where it runs a model, 80 ms later if the run has not
// ended.
class LimitScope {
 public:
  LimitScope(uint64_t memory, std::optional<std::chrono::nanoseconds> time);
  ~LimitScope();
  LimitScope(const LimitScope&) = delete;

 private:
  Ref<MemoryBudget> budget_;
  BudgetScope charged_;
};
// What is left of the time, if there is a limit.
std::optional<std::chrono::nanoseconds> remainingTime();
bool isOutOfTime();
// What was computed in time is written, however long that takes. Returns whether it was in time.
bool endTimeLimit();
const char* timeLimitPassed();  // what is said if it was not
// Writes what is needed to repeat an internal error, and returns the path of the file; empty if it cannot be written.
using CrashWriter = std::string (*)(const std::string& failure);
void reportCrashesWith(CrashWriter writer);

// Crashes of plugins end the process as if nobody had named them: another process watches this one.
void leaveCrashesToOthers();

// While one lives, SIGINT and SIGTERM set `interrupted` so that a run can end in good order. If it does not within
// `grace`, or at a second signal, the process ends without it.
class InterruptScope {
 public:
  static constexpr std::chrono::microseconds kGrace{80'000};
  explicit InterruptScope(std::chrono::microseconds grace = kGrace);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  const std::atomic<bool>& interrupted() const;
  // The signal that came, or 0.
  int signal() const;
};

}  // namespace tscompile
