#include "tools/session/input_lines.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <unistd.h>

namespace tscompile {

std::optional<std::string> InputLines::next(bool wait) {
  constexpr int kMilliseconds = 100;  // signals are looked for in between
  while (true) {
    if (const size_t end = text_.find('\n', searched_); end != std::string::npos || (isEnded_ && !ended())) {
      std::string line = text_.substr(begin_, end == std::string::npos ? end : end - begin_);
      begin_ = searched_ = end == std::string::npos ? text_.size() : end + 1;
      return line;
    }
    if (isEnded_) return std::nullopt;
    text_.erase(0, begin_);
    begin_ = 0;
    searched_ = text_.size();
    if (text_.size() > mostBytes_) {
      fail("more than " + std::to_string(mostBytes_) + " bytes in a line");
      return std::nullopt;
    }
    pollfd waited{file_, POLLIN, 0};
    if (poll(&waited, 1, wait ? kMilliseconds : 0) <= 0) return std::nullopt;
    readSome();
  }
}

void InputLines::readSome() {
  constexpr size_t kBytes = size_t{64} << 10;
  const size_t known = text_.size();
  text_.resize(known + kBytes);
  const ssize_t count = read(file_, text_.data() + known, kBytes);
  const int error = errno;
  text_.resize(known + static_cast<size_t>(std::max<ssize_t>(count, 0)));
  if (count == 0) isEnded_ = true;
  if (count < 0 && error != EINTR && error != EAGAIN) fail("standard input cannot be read");
}

void InputLines::fail(std::string why) {
  failure_ = std::move(why);
  text_.clear();
  begin_ = searched_ = 0;
  isEnded_ = true;
}

}  // namespace tscompile
