// Partitioning of a loaded module: what is forced, lowering, shapes, segments.
#pragma once

#include "api/lower.h"
#include "api/module.h"
#include "partition/partition.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tscompile {

// What is known of an input of a graph: "x=1..8x3x224x224:f32"; sizes that are open stay open.
struct InputRange {
  std::string name;
  DType dtype = DType::Undefined;  // Undefined: as the text says, else float32
  Dims least, most;                // of each dimension
};
// Reads NAME=DIMxDIM...[:dtype], where DIM is N or LEAST..MOST; nothing if it is malformed.
std::optional<InputRange> parseInputRange(std::string_view text);

struct PartitionSpec {
  PartitionOptions options;
  // Taken from the graph as it is given; what lowering makes of marked nodes is marked as well. A name that matches
  // nothing is an error.
  std::vector<std::string> operators, modules, nodes;
  bool lower = true;
  LowerOptions lowering;
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
  const OpRegistry* registry = nullptr;
  std::vector<Unmatched> unmatched;
};
Result<Prepared> prepareForPartition(const Module& module, const PartitionSpec& spec, Diagnostics& diagnostics);

// Cuts it. May be asked again with other options.
Partition partition(const Prepared& prepared, PartitionOptions options);

}  // namespace tscompile
