#include "tools/session/progress.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <system_error>

namespace tscompile {

void Progress::step(std::string what) {
  if (!terminal_) return;
  std::lock_guard lock(mutex_);
  constexpr size_t kMostBytes = 60;  // a line that wraps could not be taken away
  what_ = abbreviate(what, kMostBytes);
  if (thread_.joinable()) return;
  start_ = Clock::now();
  try {
    thread_ = std::thread([this] { show(); });
  } catch (const std::system_error&) {  // nobody is shown what goes on
  }
}

void Progress::end() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    what_.clear();
  }
  ended_.notify_one();
  thread_.join();
}

void Progress::show() {
  std::unique_lock lock(mutex_);
  auto isOver = [this] { return what_.empty(); };
  if (ended_.wait_for(lock, delay_, isOver)) return;
  do {
    double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    *terminal_ << fmt::format("\r\033[K{} ({:.0f} s)", what_, seconds) << std::flush;
  } while (!ended_.wait_for(lock, interval_, isOver));
  *terminal_ << "\r\033[K" << std::flush;
}

}  // namespace tscompile
