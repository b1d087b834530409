// Whether work is shared by threads, and in how many pieces: by the microseconds that it takes on one thread, so that
// neither follows from the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tscompile {

// To hand a piece over takes about a microsecond.
inline constexpr double kLeastShared = 10;

inline int threadsWorth(double microseconds, int threads) { return microseconds < kLeastShared ? 1 : threads; }

// Pieces of about 10 us; what is shared though it takes less than 20 has smaller ones.
inline int64_t piecesWorth(double microseconds, int64_t most) {
  const double piece = microseconds < 2 * kLeastShared ? kLeastShared / 2 : 10;
  return std::clamp<int64_t>(static_cast<int64_t>(microseconds / piece), 1, std::max<int64_t>(most, 1));
}

}  // namespace tscompile
