// What runs are bounded by: limits of time and memory as Python gives them, and Ctrl-C.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <nanobind/nanobind.h>
#include <optional>

namespace tscompile::python {

// None for what is as good as none: infinity, and more than nanoseconds can count from now.
std::optional<std::chrono::nanoseconds> timeLimitOf(nanobind::handle given);
std::optional<uint64_t> memoryLimitOf(nanobind::handle given);
// 0: one for each processor. Throws ValueError for less.
int threadsOf(int given);

// Called where the module is made, which is in the thread that Python hands signals to.
void rememberMainThread();

// Lets Ctrl-C stop runs of the main thread, the only one that Python hands it to, where Python listens to it at all.
// What a run prints may start another in it: that one stops by the same flag, and the handler stays the outer one's.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  const std::atomic<bool>* flag() const;

 private:
  bool listens_ = false, installed_ = false;
};

}  // namespace tscompile::python
