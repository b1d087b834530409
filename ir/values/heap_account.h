// What the process has taken from its heap, against one limit: blocks of tensors always, and in the command line tool
// everything that `new` makes as well (tools/counted_heap.cpp). Results are the same whatever the limit is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tscompile {

// Bytes that may be taken at a time; UINT64_MAX, which it is at first: as many as there are.
void setHeapLimit(uint64_t bytes);
// What is taken now.
uint64_t heapUsed();
// Counts bytes that are about to be taken. False if the limit does not allow them, though recycled blocks were given
// back. Never allocates.
bool takeFromHeap(size_t bytes) noexcept;
// The same for what is taken already, and for what was given back.
void countTaken(size_t bytes) noexcept;
void countGivenBack(size_t bytes) noexcept;
// Memory that somebody asked for could not be had: whoever ends the process may say so.
void noteHeapLack() noexcept;
bool heapLacked() noexcept;

}  // namespace tscompile
