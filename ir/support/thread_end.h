// Tells what belongs to a thread that it ends, without memory: where there is none, the C++ runtime ends the process
// when it is to note the destructor of a thread_local object.
#pragma once

#include <pthread.h>

namespace tscompile {

// A static object in a function, whose `end` gets what a thread has noted last. The main thread does not end.
class ThreadEnd {
 public:
  explicit ThreadEnd(void (*end)(void*)) : made_(pthread_key_create(&key_, end) == 0) {}
  ThreadEnd(const ThreadEnd&) = delete;
  ThreadEnd& operator=(const ThreadEnd&) = delete;
  // Threads may end after the library was unloaded.
  ~ThreadEnd() {
    if (made_) pthread_key_delete(key_);
  }
  // False if it will not be told.
  bool note(const void* object) const { return made_ && pthread_setspecific(key_, object) == 0; }

 private:
  pthread_key_t key_{};
  bool made_;
};

}  // namespace tscompile
