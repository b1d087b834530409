// Exported programs: their JSON as a graph of the module that was exported.
#pragma once

#include "frontend/export/exported_input.h"
#include "frontend/files/json_tree.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/operators/unknown_operators.h"
#include "ir/support/diagnostics.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tscompile {

struct ExportedProgram {
  // Takes the module as %self, then what the user gives; parameters, buffers and constants are attributes of the
  // module by their whole path ("layer1.0.weight").
  std::unique_ptr<Graph> graph;
  std::vector<ExportedInput> inputs;  // that are tensors
  std::vector<std::string> buffers;   // paths of the attributes that are not parameters
};

// Reports what is wrong with the program, or not supported: each unknown operator once. Paths of attributes begin with
// `prefix`.
Result<ExportedProgram> readProgram(const JsonTree& json, const std::string& prefix, const OpRegistry& registry,
                                    Diagnostics& diagnostics, UnknownOperators unknown = UnknownOperators::Refused);

// Runs share what a module holds. Of those of these attributes that nodes write to in place a copy is made first, so
// that the writes are to tensors of the graph; a copy has the strides of its original where that is dense.
void copyWrittenBuffers(Graph& graph, const OpRegistry& registry, const std::set<std::string>& paths);

}  // namespace tscompile
