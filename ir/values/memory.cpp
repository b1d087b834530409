#include "ir/values/memory.h"

#include "ir/values/error.h"

#include <cstdlib>
#include <mutex>
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

void* systemAllocate(size_t bytes) { return std::aligned_alloc(64, bytes); }

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
  List lists[kSmall / 64 + 1];
  ~SmallCache() {
    for (List& list : lists)
      while (Block* b = list.first) {
        list.first = b->next;
        std::free(b);
      }
    dead = true;
  }
  static thread_local bool dead;  // tensors may die after the thread's cache
};
thread_local bool SmallCache::dead = false;
thread_local SmallCache tSmall;

class LargeCache {
 public:
  LargeCache() { blocks_.reserve(kMostKept + 1); }
  void* take(size_t bytes) {
    std::lock_guard lock(mutex_);
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
    std::lock_guard lock(mutex_);
    blocks_.push_back({p, bytes});
    kept_ += bytes;
    while (kept_ > kLargeKept || blocks_.size() > kMostKept) {  // the oldest goes first
      std::free(blocks_.front().memory);
      kept_ -= blocks_.front().bytes;
      blocks_.erase(blocks_.begin());
    }
  }
  void clear() {
    std::lock_guard lock(mutex_);
    for (const Kept& b : blocks_) std::free(b.memory);
    blocks_.clear();
    kept_ = 0;
  }

 private:
  static constexpr size_t kMostKept = 64;
  struct Kept {
    void* memory;
    size_t bytes;
  };
  std::mutex mutex_;
  std::vector<Kept> blocks_;
  size_t kept_ = 0;
};
LargeCache& largeCache() {
  static LargeCache* cache = new LargeCache;
  return *cache;
}

#endif

}  // namespace

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
    if (!SmallCache::dead) {
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
    if (!SmallCache::dead) {
      SmallCache::List& list = tSmall.lists[bytes / 64];
      if (list.count < kSmallKept) {
        auto* b = static_cast<SmallCache::Block*>(block);
        b->next = list.first;
        list.first = b;
        ++list.count;
        return;
      }
    }
    std::free(block);
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
void freeBlock(void* block, size_t) { std::free(block); }

#endif

}  // namespace tscompile
