// Exported programs: their JSON as a graph of the module that was exported.
#pragma once

#include "frontend/export/exported_input.h"
#include "frontend/files/json_tree.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/operators/unknown_operators.h"
#include "ir/support/diagnostics.h"

#include <memory>
#include <string>
#include <vector>

namespace tscompile {

struct ExportedProgram {
  // Takes the module as %self, then what the user gives; parameters, buffers and constants are attributes of the
  // module by their whole path ("layer1.0.weight").
  std::unique_ptr<Graph> graph;
  ExportedInputs inputs;
};

// Reports what is wrong with the program, or not supported: each unknown operator once. Paths of attributes begin with
// `prefix`.
Result<ExportedProgram> readProgram(const JsonTree& json, const std::string& prefix, const OpRegistry& registry,
                                    Diagnostics& diagnostics, UnknownOperators unknown = UnknownOperators::Refused);

}  // namespace tscompile
