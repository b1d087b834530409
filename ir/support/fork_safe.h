// Locks that a child of fork() can take: whoever forks holds them all, so that none is left taken, and nothing that
// they guard half written, by a thread that the child does not have.
#pragma once

#include <mutex>

namespace tscompile {

// One of a few for any object. Nobody takes a second one while holding one; memory may be allocated.
std::mutex& forkSafeMutex(const void* object);
// Of what allocates memory: taken last.
std::mutex& forkSafeHeapMutex();

}  // namespace tscompile
