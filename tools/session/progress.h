// What a command is doing, on a terminal, where it takes longer than a moment. Never changes what is computed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>

namespace tscompile {

class Progress {
 public:
  using Duration = std::chrono::milliseconds;
  // Writes nothing if `terminal` is null. A line appears when `delay` has passed since the first step.
  explicit Progress(std::ostream* terminal, Duration delay = Duration(1000), Duration interval = Duration(200))
      : terminal_(terminal), delay_(delay), interval_(interval) {}
  ~Progress() { end(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // "building engines": what goes on from now on.
  void step(std::string what);
  // Takes the line away: something is going to be written. The next step brings it back.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void show();

  std::ostream* terminal_;
  Duration delay_, interval_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::thread thread_;
  std::string what_;  // empty: nothing goes on
  Clock::time_point start_;
};

// A step that ends with its scope.
class ProgressStep {
 public:
  ProgressStep(Progress& progress, std::string what) : progress_(progress) { progress.step(std::move(what)); }
  ~ProgressStep() { progress_.end(); }
  ProgressStep(const ProgressStep&) = delete;
  ProgressStep& operator=(const ProgressStep&) = delete;

 private:
  Progress& progress_;
};

}  // namespace tscompile
