#include "tests/support/sha256.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tscompile::test {
namespace {

// The first 32 bits after the point of a root of the i-th prime.
std::vector<uint32_t> roots(size_t count, double exponent) {
  std::vector<uint32_t> out;
  for (uint32_t n = 2; out.size() < count; ++n) {
    bool prime = true;
    for (uint32_t d = 2; d * d <= n; ++d) prime &= n % d != 0;
    if (!prime) continue;
    long double root = exponent == 2 ? std::sqrt(static_cast<long double>(n)) : std::cbrt(static_cast<long double>(n));
    out.push_back(static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L));
  }
  return out;
}

}  // namespace

std::string sha256(std::string_view text) {
  static const std::vector<uint32_t> kRounds = roots(64, 3), kStart = roots(8, 2);
  std::vector<uint8_t> data(text.begin(), text.end());
  data.push_back(0x80);
  while (data.size() % 64 != 56) data.push_back(0);
  uint64_t bits = uint64_t{text.size()} * 8;
  for (int i = 7; i >= 0; --i) data.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  std::array<uint32_t, 8> state;
  std::copy(kStart.begin(), kStart.end(), state.begin());
  for (size_t at = 0; at < data.size(); at += 64) {
    uint32_t w[64];
    for (size_t i = 0; i < 16; ++i)
      w[i] = uint32_t{data[at + 4 * i]} << 24 | uint32_t{data[at + 4 * i + 1]} << 16 |
             uint32_t{data[at + 4 * i + 2]} << 8 | data[at + 4 * i + 3];
    for (size_t i = 16; i < 64; ++i)
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3)) +
             (std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10));
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t i = 0; i < 64; ++i) {
      uint32_t t1 =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
      uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    uint32_t add[] = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state[i] += add[i];
  }
  std::string out;
  for (uint32_t word : state)
    for (int i = 28; i >= 0; i -= 4) out += "0123456789abcdef"[(word >> i) & 15];
  return out;
}

}  // namespace tscompile::test
