#include "runtime/call/scratch.h"

#include <cstdlib>
#include <memory>
#include <new>

namespace tscompile {

float* threadScratch(int64_t floats) {
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  thread_local std::unique_ptr<float, Free> buffer;
  thread_local int64_t size = 0;
  if (floats > size) {
    buffer.reset();
    size = 0;
    size_t bytes = (static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64;
    buffer.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    if (!buffer) throw std::bad_alloc();
    size = floats;
  }
  return buffer.get();
}

}  // namespace tscompile
