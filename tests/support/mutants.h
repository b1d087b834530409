// What tests/tools/mutants.py puts into sources: places that do something else in one run of the tests than in another.
#pragma once

#include <atomic>
#include <cstdlib>

namespace tscompile::test {

inline constexpr int kMostMutants = 4096;
// Since the test began; for a run that asks for it.
inline std::atomic<bool> mutantsReached[kMostMutants];

// Whether this is the one of the run; 0 is none.
inline bool isMutant(int number) {
  static const char* const chosen = std::getenv("TSCOMPILE_MUTANT");
  static const int wanted = chosen ? std::atoi(chosen) : 0;
  if (wanted < 0) mutantsReached[number].store(true, std::memory_order_relaxed);
  return number == wanted;
}

}  // namespace tscompile::test
