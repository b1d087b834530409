#include "ir/support/fork_safe.h"

#include <cstdint>
#include <pthread.h>

namespace tscompile {
namespace {

constexpr size_t kCount = 16;

// Never destroyed: threads may use them until the process ends.
struct Locks {
  std::mutex each[kCount], heap;
};

Locks& locks();

void takeAll() {
  for (std::mutex& m : locks().each) m.lock();
  locks().heap.lock();
}
void leaveAll() {
  locks().heap.unlock();
  for (std::mutex& m : locks().each) m.unlock();
}

Locks& locks() {
  static Locks* all = [] {
    pthread_atfork(takeAll, leaveAll, leaveAll);
    return new Locks;
  }();
  return *all;
}

}  // namespace

std::mutex& forkSafeMutex(const void* object) {
  // Objects on the heap are some 16 bytes apart at least.
  return locks().each[(reinterpret_cast<uintptr_t>(object) >> 6) % kCount];
}
std::mutex& forkSafeHeapMutex() { return locks().heap; }

}  // namespace tscompile
