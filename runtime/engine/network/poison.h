// Shows what layers read without anybody having written it: while one lives, the memory of engines is filled with NaN
// (and -1) in front of each run.
#pragma once

#include <atomic>

namespace tscompile {

class PoisonScope {
 public:
  PoisonScope() { count_.fetch_add(1, std::memory_order_relaxed); }
  ~PoisonScope() { count_.fetch_sub(1, std::memory_order_relaxed); }
  PoisonScope(const PoisonScope&) = delete;
  PoisonScope& operator=(const PoisonScope&) = delete;
  static bool isOpen() { return count_.load(std::memory_order_relaxed) != 0; }
  static constexpr int kByte = 0xff;

 private:
  static inline std::atomic<int> count_{0};
};

}  // namespace tscompile
