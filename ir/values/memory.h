// Memory for tensors: a cache of freed blocks, and the budget that a run may use.
#pragma once

#include "ir/values/refcount.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

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

// Counts bytes against a budget (null: nothing is counted). Throws ExecutionError (Limit) if they do not fit.
void chargeBudget(MemoryBudget* budget, uint64_t bytes);
// "12 MiB"
std::string bytesText(uint64_t bytes);

// The bytes that a string or container holds, counted against the run that made it.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(const MemoryCharge&) = delete;
  MemoryCharge& operator=(const MemoryCharge&) = delete;
  ~MemoryCharge() {
    if (budget_) giveBack();
  }
  // Counts up to `bytes`; small values are not worth counting. Throws ExecutionError (Limit) if they do not fit.
  void raise(uint64_t bytes) {
    if (bytes > bytes_ && bytes > kUncounted) [[unlikely]]
      chargeMore(bytes);
  }
  // The same for what may hold others of its kind, so that many small ones are counted as well.
  void raiseAlways(uint64_t bytes) {
    if (bytes > bytes_) chargeMore(bytes);
  }

 private:
  static constexpr uint64_t kUncounted = 128;
  void chargeMore(uint64_t bytes);
  void giveBack();

  MemoryBudget* budget_ = nullptr;  // one reference
  uint64_t bytes_ = 0;
};

// A block of at least `bytes`, aligned to 64, or null if there is no memory. `bytes` becomes the size of the block,
// which freeBlock wants to hear. Blocks are recycled: allocating large tensors anew costs a page fault for each 4 KiB.
void* allocateBlock(size_t& bytes);
void freeBlock(void* block, size_t bytes);

}  // namespace tscompile
