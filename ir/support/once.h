// Work that is done by whoever comes first.
#pragma once

#include <atomic>
#include <mutex>

namespace tscompile {

// std::call_once, but for work that may throw where memory is short: unwinding through that of libstdc++ needs some
// itself. After an exception the next caller tries again. Called by several threads at once.
class Once {
 public:
  template <class Work>
  void call(Work&& work) {
    if (done_.load(std::memory_order_acquire)) return;
    std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return;
    work();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> done_{false};
  std::mutex mutex_;
};

}  // namespace tscompile
