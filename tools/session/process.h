// The process around a command: signals, time limits that hold even if a kernel does not return.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>

namespace tscompile {

// Called once by main(). Opens the standard streams if they are closed, and installs what handles signals and internal
// errors: a plugin that crashes or ends the process is named, and the exit code is that of a model that failed.
void prepareProcess();
// Whether it was: this process is the tool, not a program that calls its commands.
bool isToolProcess();

// Crashes of plugins end the process as if nobody had named them: another process watches this one.
void leaveCrashesToOthers();

// While one lives, SIGINT and SIGTERM set `interrupted` so that a run can end in good order. If it does not within
// `grace`, or at a second signal, the process ends without it; so it does 80 ms after the time limit.
class InterruptScope {
 public:
  static constexpr std::chrono::microseconds kGrace{80'000};
  explicit InterruptScope(std::optional<std::chrono::nanoseconds> timeLimit, std::chrono::microseconds grace = kGrace);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  const std::atomic<bool>& interrupted() const;
  // The signal that came, or 0.
  int signal() const;
};

}  // namespace tscompile
