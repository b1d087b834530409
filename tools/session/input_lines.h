// Lines of standard input as they come, for commands that answer before it has ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tscompile {

class InputLines {
 public:
  // Of a file descriptor, at most so many bytes in a line, or of a text.
  InputLines(int file, uint64_t mostBytes) : file_(file), mostBytes_(mostBytes) {}
  explicit InputLines(std::string text) : text_(std::move(text)), isEnded_(true) {}

  // The next line without its end, if it is there; `wait` waits a moment for it.
  std::optional<std::string> next(bool wait);
  // Whether no more lines come.
  bool ended() const { return isEnded_ && begin_ >= text_.size(); }
  // Why that is, if it is not the end of the input.
  const std::string& failure() const { return failure_; }

 private:
  void readSome();
  void fail(std::string why);

  int file_ = -1;
  uint64_t mostBytes_ = 0;
  std::string text_, failure_;
  size_t begin_ = 0, searched_ = 0;  // of the next line; how far there is no end of it
  bool isEnded_ = false;
};

}  // namespace tscompile
