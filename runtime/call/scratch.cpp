#include "runtime/call/scratch.h"

#include "ir/support/thread_end.h"

#include <cstdlib>
#include <new>

namespace tscompile {
namespace {

struct Scratch {
  float* buffer;
  int64_t size;
  void drop() {
    std::free(buffer);
    *this = {};
  }
};
constinit thread_local Scratch tScratch{};

}  // namespace

float* threadScratch(int64_t floats) {
  static const ThreadEnd end([](void* scratch) { static_cast<Scratch*>(scratch)->drop(); });
  if (floats > tScratch.size) {
    tScratch.drop();
    size_t bytes = (static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64;
    tScratch.buffer = static_cast<float*>(std::aligned_alloc(64, bytes));
    if (!tScratch.buffer) throw std::bad_alloc();
    tScratch.size = floats;
    end.note(&tScratch);
  }
  return tScratch.buffer;
}

}  // namespace tscompile
