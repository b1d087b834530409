// Properties run over seeds: a few hundred in a test run, for minutes or for many programs under `./dev soak`.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>

namespace tscompile::test {

// Calls check(seed) for seeds from TSCOMPILE_SOAK_FROM (else 0) on: `count` of them or TSCOMPILE_SOAK_PROGRAMS, and as
// many more as fit in TSCOMPILE_SOAK_MINUTES. Stops at the first failure, which names its seed.
template <class Check>
void forEachSeed(uint64_t count, Check&& check) {
  auto number = [](const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  const uint64_t first = number("TSCOMPILE_SOAK_FROM", 0);
  count = first + number("TSCOMPILE_SOAK_PROGRAMS", count);
  const char* minutes = std::getenv("TSCOMPILE_SOAK_MINUTES");
  auto end = std::chrono::steady_clock::now() +
             std::chrono::milliseconds(minutes ? static_cast<int64_t>(std::atof(minutes) * 60000) : 0);
  for (uint64_t seed = first; minutes ? std::chrono::steady_clock::now() < end || seed < count : seed < count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      check(seed);
    } catch (const std::exception& e) {
      ADD_FAILURE() << "it throws: " << e.what();
    }
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace tscompile::test
