// Exported programs: their JSON as a graph of the module that was exported.
#pragma once

#include "frontend/files/json_tree.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tscompile {

// What a program asks of a dimension of an input: bounds, and that it is as large as all others with this symbol.
struct ExportedSize {
  int64_t least = 0, most = 0;
  std::string symbol;  // empty for none
};
struct ExportedInput {
  std::string name;               // of the input of the graph, without "%"
  std::vector<std::string> path;  // to the tensor in it, if the input is a container: indices and keys
  std::vector<ExportedSize> sizes;
};

struct ExportedProgram {
  // Takes the module as %self, then what the user gives; parameters, buffers and constants are attributes of the
  // module by their whole path ("layer1.0.weight").
  std::unique_ptr<Graph> graph;
  std::vector<ExportedInput> inputs;  // that are tensors
};

// Reports what is wrong with the program, or not supported. Paths of attributes begin with `prefix`.
Result<ExportedProgram> readProgram(const JsonTree& json, const std::string& prefix, const OpRegistry& registry,
                                    Diagnostics& diagnostics);

}  // namespace tscompile
