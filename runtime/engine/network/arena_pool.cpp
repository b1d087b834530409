#include "runtime/engine/network/arena_pool.h"

#include "ir/support/fork_safe.h"
#include "ir/values/memory.h"

namespace tscompile {

Ref<Storage> ArenaPool::take(size_t bytes) {
  Ref<Storage> arena;
  {
    std::lock_guard lock(forkSafeMutex(this));
    if (!idle_.empty()) {
      arena = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (arena && arena->bytes() >= bytes) return arena;
  arena = nullptr;                 // before there is another
  BudgetScope unlimited(nullptr);  // each run is charged for what its plan needs
  return Storage::allocate(bytes);
}

void ArenaPool::giveBack(Ref<Storage> arena) {
  std::lock_guard lock(forkSafeMutex(this));
  idle_.push_back(std::move(arena));
}

}  // namespace tscompile
