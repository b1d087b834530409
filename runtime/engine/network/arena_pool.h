// The memory that runs of an engine compute in. Plans for other sizes take turns in it.
#pragma once

#include "ir/values/tensor.h"

#include <vector>

namespace tscompile {

// Holds as many arenas as there were runs at once, each as large as the largest plan that was run in it.
class ArenaPool {
 public:
  ArenaPool() = default;
  ArenaPool(const ArenaPool&) = delete;
  // The arena that was given back last, or a new one if that has less than `bytes`.
  Ref<Storage> take(size_t bytes);
  void giveBack(Ref<Storage> arena);

 private:
  std::vector<Ref<Storage>> idle_;
};

}  // namespace tscompile
