// Text on its way to a sink, up to a number of bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tscompile {

// Takes the text piece by piece.
using TextSink = std::function<void(std::string_view)>;

class BoundedText {
 public:
  BoundedText(const TextSink& sink, uint64_t maxBytes) : sink_(sink), left_(maxBytes) {}

  // What is to be written next is appended here.
  std::string text;
  // Whether there was more than may be written; the rest is dropped.
  bool full() const { return full_; }
  // False if it is full.
  bool flush() {
    if (text.size() > left_) {
      text.resize(left_);
      full_ = true;
    }
    left_ -= text.size();
    if (!text.empty()) sink_(text);
    text.clear();
    return !full_;
  }
  void flushIfLong() {
    if (text.size() > kChunk) flush();
  }
  // In pieces: the blanks of one deep line may exceed what is left to write.
  void blanks(uint64_t count) {
    for (; count > kChunk && !full_; count -= kChunk) {
      text.append(kChunk, ' ');
      flush();
    }
    if (!full_) text.append(count, ' ');
  }

 private:
  static constexpr size_t kChunk = size_t{64} << 10;
  const TextSink& sink_;
  uint64_t left_;
  bool full_ = false;
};

}  // namespace tscompile
