// Where random tests take their decisions from: the bytes of a fuzzer's input, or a seeded sequence.
#pragma once

#include "ir/values/random.h"

#include <cstdint>
#include <span>

namespace tscompile::test {

class Choices {
 public:
  explicit Choices(uint64_t seed) : seed_(seed), endless_(true) {}
  explicit Choices(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  // In [0, n); 0 when the bytes are used up. Small ranges take one byte.
  uint64_t below(uint64_t n) {
    if (n <= 1) return 0;
    if (endless_) return random::bits(seed_, count_++) % n;
    uint64_t v = 0;
    for (uint64_t reach = 1; reach < n && reach != 0; reach <<= 8) v = v << 8 | next();
    return v % n;
  }
  bool oneIn(uint64_t n) { return below(n) == n - 1; }
  template <class T, size_t N>
  const T& oneOf(const T (&list)[N]) {
    return list[below(N)];
  }
  bool exhausted() const { return !endless_ && count_ >= bytes_.size(); }

 private:
  uint8_t next() { return count_ < bytes_.size() ? bytes_[count_++] : 0; }

  std::span<const uint8_t> bytes_;
  uint64_t seed_ = 0, count_ = 0;
  bool endless_ = false;
};

}  // namespace tscompile::test
