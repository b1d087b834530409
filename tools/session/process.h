// The process around a command: signals, time limits that hold even if a kernel does not return.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>

namespace tscompile {

// Called once by main(). Opens the standard streams if they are closed, and installs what handles signals and internal
// errors.
void prepareProcess();
// Whether it was: this process is the tool, not a program that calls its commands.
bool isToolProcess();
// Writes what is needed to repeat an internal error, and returns the path of the file; empty if it cannot be written.
using CrashWriter = std::string (*)(const std::string& failure);
void reportCrashesWith(CrashWriter writer);

// While one lives, SIGINT and SIGTERM set `interrupted` so that a run can end in good order. If it does not within 80
// ms, or at a second signal, the process ends without it; so it does 80 ms after the time limit.
class InterruptScope {
 public:
  explicit InterruptScope(std::optional<std::chrono::nanoseconds> timeLimit);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  const std::atomic<bool>& interrupted() const;
  // The signal that came, or 0.
  int signal() const;
};

}  // namespace tscompile
