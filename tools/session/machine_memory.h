// How much memory this process may use.
#pragma once

#include <cstdint>

namespace tscompile {

// The least of the machine's memory, the limits of the process's control groups, and its limit on address space.
uint64_t availableMemory();
// The most bytes of memory that this process has had so far.
uint64_t peakMemory();

}  // namespace tscompile
