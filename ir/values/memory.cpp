#include "ir/values/memory.h"

#include "ir/support/fork_safe.h"
#include "ir/support/thread_end.h"
#include "ir/values/error.h"
#include "ir/values/heap_account.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <malloc.h>
#include <sys/mman.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TS_RECYCLE_BLOCKS 0  // the sanitizers must see every allocation end
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TS_RECYCLE_BLOCKS 0
#endif
#endif
#ifndef TS_RECYCLE_BLOCKS
#define TS_RECYCLE_BLOCKS 1
#endif

namespace tscompile {
namespace {

thread_local MemoryBudget* tBudget = nullptr;

constexpr size_t kAlignment = 64;
std::atomic<int64_t> gTaken{0};
std::atomic<int64_t> gLimit{INT64_MAX};
std::atomic<bool> gLacked{false};

// Large blocks hold weights and activations, which are read from end to end: in pages of 4 KiB a good part of the time
// goes to finding them. The system may refuse.
void askForLargePages(void* block, size_t bytes) {
  constexpr size_t kLarge = size_t{4} << 20, kPage = 4096;
  if (bytes < kLarge) return;
  const auto begin = (reinterpret_cast<uintptr_t>(block) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(block) + bytes) / kPage * kPage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

// The heap rounds sizes up, and loses about as much in front of a block as it is aligned to; what it has really taken
// is counted.
void* systemAllocate(size_t bytes) {
  if (!takeFromHeap(bytes)) return nullptr;
  void* block = std::aligned_alloc(kAlignment, bytes);
  if (block) askForLargePages(block, bytes);
  countGivenBack(bytes);
  if (block) countTaken(malloc_usable_size(block) + kAlignment);
  return block;
}

void systemFree(void* block) {
  countGivenBack(malloc_usable_size(block) + kAlignment);
  std::free(block);
}

#if TS_RECYCLE_BLOCKS

// Sizes are rounded up to a multiple of 64, and above 4 KiB to eighths of a power of two.
size_t roundSize(size_t bytes) {
  if (bytes <= 4096) return bytes == 0 ? 64 : (bytes + 63) & ~size_t{63};
  size_t step = (size_t{1} << (63 - __builtin_clzll(bytes - 1))) / 8;
  return (bytes + step - 1) / step * step;
}

constexpr size_t kSmall = 4096;                 // blocks up to here are kept by each thread
constexpr size_t kSmallKept = 64;               // of each size
constexpr size_t kLargeKept = size_t{1} << 29;  // bytes of large blocks kept by the process

struct SmallCache {
  struct Block {
    Block* next;
  };
  struct List {
    Block* first = nullptr;
    size_t count = 0;
  };
  enum class State : uint8_t { New, Kept, Gone };
  List lists[kSmall / 64 + 1];
  State state = State::New;

  // Not at the end of the thread, nor where that would not be told.
  bool keeps() {
    if (state == State::New) state = noteThread() ? State::Kept : State::Gone;
    return state == State::Kept;
  }
  bool noteThread() const {
    static const ThreadEnd end([](void* cache) { static_cast<SmallCache*>(cache)->clear(); });
    return end.note(this);
  }
  void clear() {
    state = State::Gone;
    for (List& list : lists)
      while (Block* b = list.first) {
        list.first = b->next;
        systemFree(b);
      }
  }
};
constinit thread_local SmallCache tSmall;

class LargeCache {
 public:
  LargeCache() { blocks_.reserve(kMostKept + 1); }
  void* take(size_t bytes) {
    std::lock_guard lock(forkSafeHeapMutex());
    for (size_t i = blocks_.size(); i-- > 0;) {
      if (blocks_[i].bytes != bytes) continue;
      void* p = blocks_[i].memory;
      blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(i));
      kept_ -= bytes;
      return p;
    }
    return nullptr;
  }
  // Takes no memory itself: tensors die while there is none.
  void put(void* p, size_t bytes) {
    std::lock_guard lock(forkSafeHeapMutex());
    blocks_.push_back({p, bytes});
    kept_ += bytes;
    while (kept_ > kLargeKept || blocks_.size() > kMostKept) {  // the oldest goes first
      systemFree(blocks_.front().memory);
      kept_ -= blocks_.front().bytes;
      blocks_.erase(blocks_.begin());
    }
  }
  void clear() {
    std::lock_guard lock(forkSafeHeapMutex());
    for (const Kept& b : blocks_) systemFree(b.memory);
    blocks_.clear();
    kept_ = 0;
  }

 private:
  static constexpr size_t kMostKept = 64;
  struct Kept {
    void* memory;
    size_t bytes;
  };
  std::vector<Kept> blocks_;
  size_t kept_ = 0;
};
std::atomic<LargeCache*> gLargeCache{nullptr};  // null until it is made
LargeCache& largeCache() {
  static LargeCache* cache = [] {
    auto* made = new LargeCache;
    gLargeCache = made;
    return made;
  }();
  return *cache;
}
void dropRecycled() {
  if (LargeCache* cache = gLargeCache) cache->clear();
}

#else

void dropRecycled() {}

#endif

}  // namespace

void setHeapLimit(uint64_t bytes) { gLimit = bytes > INT64_MAX ? INT64_MAX : static_cast<int64_t>(bytes); }
uint64_t heapUsed() { return static_cast<uint64_t>(std::max<int64_t>(gTaken.load(std::memory_order_relaxed), 0)); }

bool takeFromHeap(size_t bytes) noexcept {
  if (bytes > size_t{INT64_MAX} / 4) return false;
  auto size = static_cast<int64_t>(bytes);
  for (bool again : {true, false}) {
    if (gTaken.fetch_add(size, std::memory_order_relaxed) + size <= gLimit.load(std::memory_order_relaxed)) return true;
    gTaken.fetch_sub(size, std::memory_order_relaxed);
    if (again) dropRecycled();
  }
  return false;
}
void noteHeapLack() noexcept { gLacked = true; }
bool heapLacked() noexcept { return gLacked; }
void countTaken(size_t bytes) noexcept { gTaken.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed); }
void countGivenBack(size_t bytes) noexcept { gTaken.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed); }

BudgetScope::BudgetScope(MemoryBudget* budget) : previous_(tBudget) { tBudget = budget; }
BudgetScope::~BudgetScope() { tBudget = previous_; }
MemoryBudget* BudgetScope::current() { return tBudget; }

std::string bytesText(uint64_t bytes) {
  static const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  while (bytes >= 10240 && unit < 6) bytes /= 1024, ++unit;
  return std::to_string(bytes) + " " + kUnits[unit];
}

void chargeBudget(MemoryBudget* budget, uint64_t bytes) {
  if (!budget || budget->charge(bytes)) return;
  throw ExecutionError(ErrorKind::Limit, "the run needs " + bytesText(bytes) + " more than its memory limit of " +
                                             bytesText(budget->limit()) + " leaves (" + bytesText(budget->used()) +
                                             " are in use)");
}

void MemoryCharge::chargeMore(uint64_t bytes) {
  MemoryBudget* budget = budget_ ? budget_ : tBudget;
  if (!budget) return;
  chargeBudget(budget, bytes - bytes_);
  if (!budget_) budget->retain();
  budget_ = budget;
  bytes_ = bytes;
}

void MemoryCharge::giveBack() {
  budget_->refund(bytes_);
  budget_->release();
}

#if TS_RECYCLE_BLOCKS

void* allocateBlock(size_t& bytes) {
  if (bytes > (size_t{1} << 62)) return nullptr;
  bytes = roundSize(bytes);
  if (bytes <= kSmall) {
    if (tSmall.keeps()) {
      SmallCache::List& list = tSmall.lists[bytes / 64];
      if (SmallCache::Block* b = list.first) {
        list.first = b->next;
        --list.count;
        return b;
      }
    }
    return systemAllocate(bytes);
  }
  if (void* p = largeCache().take(bytes)) return p;
  if (void* p = systemAllocate(bytes)) return p;
  largeCache().clear();
  return systemAllocate(bytes);
}

void freeBlock(void* block, size_t bytes) {
  if (bytes <= kSmall) {
    if (tSmall.keeps()) {
      SmallCache::List& list = tSmall.lists[bytes / 64];
      if (list.count < kSmallKept) {
        auto* b = static_cast<SmallCache::Block*>(block);
        b->next = list.first;
        list.first = b;
        ++list.count;
        return;
      }
    }
    systemFree(block);
    return;
  }
  largeCache().put(block, bytes);
}

#else

void* allocateBlock(size_t& bytes) {
  if (bytes > (size_t{1} << 40)) return nullptr;
  bytes = bytes == 0 ? 64 : (bytes + 63) & ~size_t{63};
  return systemAllocate(bytes);
}
void freeBlock(void* block, size_t) { systemFree(block); }

#endif

}  // namespace tscompile
