// Places for the buffers of a network in one arena: those that are not needed at the same time share memory.
#pragma once

#include "runtime/engine/network/network.h"

#include <vector>

namespace tscompile {

struct MemoryPlan {
  static constexpr size_t kNowhere = SIZE_MAX;
  std::vector<size_t> offsets;  // by buffer; kNowhere: not in the arena
  size_t arenaBytes = 0;        // without the workspace
  size_t workspaceBytes = 0;    // after the arena; the largest that a layer needs
  size_t peakBytes() const { return arenaBytes + workspaceBytes; }
};

// Deterministic: depends on the network alone.
MemoryPlan planMemory(const Network& network);

}  // namespace tscompile
