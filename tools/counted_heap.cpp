// What `new` takes in the command line tool, libraries with plugins included, counts against the limit of memory
// (ir/values/heap_account.h): containers, graphs, frames and scratch as much as tensors.
#include "ir/values/heap_account.h"

#include <cstdlib>
#include <malloc.h>
#include <new>

// The sanitizers have functions of their own, which know more about mistakes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TS_COUNT_HEAP 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TS_COUNT_HEAP 0
#endif
#endif
#ifndef TS_COUNT_HEAP
#define TS_COUNT_HEAP 1
#endif

#if TS_COUNT_HEAP

namespace {

// Each thread counts for itself until it is worth telling the others.
constexpr int64_t kTellAt = int64_t{64} << 10;
thread_local int64_t tUntold = 0;

// With what the heap itself notes in front of it.
int64_t bytesOf(void* memory) { return static_cast<int64_t>(malloc_usable_size(memory) + 2 * sizeof(size_t)); }

void* counted(void* memory) noexcept {
  if (!memory) return nullptr;
  const int64_t bytes = bytesOf(memory);
  tUntold += bytes;
  if (tUntold < kTellAt) [[likely]]
    return memory;
  if (tscompile::takeFromHeap(static_cast<size_t>(tUntold))) {
    tUntold = 0;
    return memory;
  }
  tUntold -= bytes;
  std::free(memory);
  return nullptr;
}

void* orThrow(void* memory) {
  if (memory) return memory;
  tscompile::noteHeapLack();
  throw std::bad_alloc();
}

void giveBack(void* memory) noexcept {
  if (!memory) return;
  tUntold -= bytesOf(memory);
  std::free(memory);
  if (tUntold > -kTellAt) [[likely]]
    return;
  tscompile::countGivenBack(static_cast<size_t>(-tUntold));
  tUntold = 0;
}

}  // namespace

void* operator new(size_t bytes) { return orThrow(counted(std::malloc(bytes ? bytes : 1))); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  auto unit = static_cast<size_t>(alignment);
  if (bytes > SIZE_MAX - unit) throw std::bad_alloc();
  return orThrow(counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)));
}
void operator delete(void* memory) noexcept { giveBack(memory); }
void operator delete(void* memory, size_t) noexcept { giveBack(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { giveBack(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { giveBack(memory); }

#endif
