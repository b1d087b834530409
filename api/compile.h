// Compiling: a method of a module is lowered, cut into segments, and its segments become engines.
#pragma once

#include "api/partition.h"
#include "runtime/engine/engine_options.h"

#include <functional>

namespace tscompile {

struct CompileSpec {
  PartitionSpec partition;
  EngineOptions engine;
  // Fails if a smaller part of the nodes than this runs in engines: 1 is all of them. 0: no bar.
  double requiredCoverage = 0;
  // Told of the graph that is cut, and of how it is; may be asked for reports.
  std::function<void(const Prepared&, const Partition&)> onPartition = nullptr;
};

}  // namespace tscompile
