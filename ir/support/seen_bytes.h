// For readers of JSON that tell places: the JSON library does not tell where its events are.
#pragma once

#include <cstddef>
#include <iterator>

namespace tscompile {

// Walks over the text and knows how far the JSON library has come.
class SeenBytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  SeenBytes(const char* at, const char** seen) : at_(at), seen_(seen) {}
  reference operator*() const { return *at_; }
  SeenBytes& operator++() {
    *seen_ = ++at_;
    return *this;
  }
  bool operator==(const SeenBytes& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** seen_;
};

}  // namespace tscompile
