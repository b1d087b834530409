// Cutting with a trial of every engine, so that what is announced is what compiling makes; and cutting once more where
// the sizes of a run are in an engine's way.
#pragma once

#include "api/partition.h"
#include "partition/report.h"
#include "runtime/engine/network/engine_options.h"
#include "runtime/interpreter/compiled_segment.h"

#include <optional>
#include <unordered_map>

namespace tscompile {

struct EngineCut {
  Partition partition;
  std::unordered_map<const Node*, Verdict> refused;  // by engines that were tried
};

// Segments whose engines cannot be made go back without the nodes that are in the way. Engines are planned where the
// types say for what sizes. Nothing after reporting a converter that is wrong. `withData`: constants have their data;
// if not, engines that need some are not tried.
std::optional<EngineCut> cutIntoEngines(const Prepared& prepared, PartitionOptions options, const EngineOptions& engine,
                                        bool withData, Diagnostics& diagnostics);

// The same graph cut otherwise, with trials of engines too: what would come of other options. `prepared` has to stay.
Repartition recuts(const Prepared& prepared, const EngineOptions& engine, bool withData);

// Engines with these options, for ProgramSources. For inputs that one cannot be planned for, its graph is cut without
// the node that is in the way: that is interpreted, and engines run what comes before and after it. `whole` is the
// graph that the segments are parts of.
SegmentCompiler recuttingCompiler(EngineOptions options, const Graph& whole, const OpRegistry& registry);

}  // namespace tscompile
