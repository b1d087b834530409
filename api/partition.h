// Partitioning of a loaded module: what is forced, lowering, shapes, segments.
#pragma once

#include "api/input_range.h"
#include "api/lower.h"
#include "api/module.h"
#include "partition/partition.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tscompile {

struct PartitionSpec {
  // Engines have at least so many nodes; none: 3, or 1 if there is a bar for what they are to cover.
  std::optional<size_t> minBlockSize = {};
  // Fails if a smaller part of the nodes than this runs in engines, and tells why: 1 is all of them. 0: no bar.
  double requiredCoverage = 0;
  Strategy strategy = Strategy::Dependency;
  // What is kept out of engines: "aten::relu", "aten::add.Tensor"; classes and paths of modules; names of values. Taken
  // from the graph as it is given; what lowering makes of marked nodes is marked as well. A name that matches nothing
  // is an error.
  std::vector<std::string> torchExecutedOps, torchExecutedModules, torchExecutedNodes;
  // Operators and overloads whose nodes stay out as if nobody had written a converter for them.
  std::vector<std::string> withoutConverters;
  bool lower = true;
  LowerOptions lowering;
  // Of inputs by their names. Ranges without one are of the tensors among the inputs, in order and of all of them.
  std::vector<InputRange> shapes;
  // Sizes to estimate with; the largest of `shapes` for inputs that are not among them.
  std::vector<InputRange> usualShapes;
};

// A name of the spec that matches nothing.
struct Unmatched {
  std::string message, note;  // the note may be empty
};

// The graph that partitioning is to cut: lowered and marked as the spec says.
struct Prepared {
  std::shared_ptr<const Module> module;
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const ShapePropagation> shapes;
  std::shared_ptr<const ShapePropagation> leastShapes;  // of the least sizes that are said; null if none are
  const OpRegistry* registry = nullptr;
  std::shared_ptr<const Extensions> extensions;  // which have the registry; may be null
  std::vector<Unmatched> unmatched;
};
Result<Prepared> prepareForPartition(const Module& module, const PartitionSpec& spec, Diagnostics& diagnostics);
// The same of a graph that is taken as it is. The registry must outlive the result.
Result<Prepared> prepareForPartition(const Graph& graph, const OpRegistry& registry, const PartitionSpec& spec,
                                     Diagnostics& diagnostics);
// What of the spec's nodes and modules matched nothing in a graph that was lowered by its `lowering`, which reported
// so.
std::vector<Unmatched> unmatchedForces(const Module& module, const PartitionSpec& spec,
                                       const RewriteArguments& reports);
// Reports the names that match nothing; whether there were none.
bool reportUnmatched(const Prepared& prepared, Diagnostics& diagnostics);

// How the spec wants a graph to be cut.
PartitionOptions partitionOptionsOf(const PartitionSpec& spec);
// Cuts it. May be asked again with other options.
Partition partition(const Prepared& prepared, PartitionOptions options);

// Reports that less than `required` of the nodes (1: all) run in engines, and every node that is in the way.
void reportNotCovered(const Prepared& prepared, const Partition& partition, double required, Diagnostics& diagnostics);

}  // namespace tscompile
