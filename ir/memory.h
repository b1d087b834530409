// Memory for tensors: a cache of freed blocks, and the budget that a run may use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ir/refcount.h"

namespace tscompile {

// Bytes that the tensors of one run may hold at a time. Storages keep theirs alive.
class MemoryBudget : public RefCounted {
 public:
  explicit MemoryBudget(uint64_t limit) : limit_(limit) {}
  // False if the bytes do not fit.
  bool charge(uint64_t bytes) {
    uint64_t now = used_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (now <= limit_) {
      uint64_t peak = peak_.load(std::memory_order_relaxed);
      while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
      }
      return true;
    }
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  void refund(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  uint64_t limit_;
  std::atomic<uint64_t> used_{0}, peak_{0};
};

// While one lives, allocations of this thread are charged to its budget.
class BudgetScope {
 public:
  explicit BudgetScope(MemoryBudget* budget);
  ~BudgetScope();
  BudgetScope(const BudgetScope&) = delete;
  BudgetScope& operator=(const BudgetScope&) = delete;
  static MemoryBudget* current();

 private:
  MemoryBudget* previous_;
};

// A block of at least `bytes`, aligned to 64, or null if there is no memory. `bytes` becomes the size of the block,
// which freeBlock wants to hear. Blocks are recycled: allocating large tensors anew costs a page fault for each 4 KiB.
void* allocateBlock(size_t& bytes);
void freeBlock(void* block, size_t bytes);

}  // namespace tscompile
