// Weights that are loaded into a model which has its own, as load_state_dict() does in PyTorch.
#pragma once

#include "api/module.h"
#include "api/module_state.h"

#include <string>
#include <vector>

namespace tscompile {

// Writes the weights of `options` over the tensors of the model file `path` that have their names. Tensors that share
// memory with these see it, and elements become those of the dtypes that the model has. `stored`: the names that a
// checkpoint of the model has at least; a warning tells which of them keep what the file has. False after a report: a
// tensor has other sizes, or none is one of the model.
bool loadWeights(ModuleState& state, const std::string& path, const std::vector<std::string>& stored,
                 const LoadOptions& options, Diagnostics& diagnostics);
// The names of the parameters of a module with objects.
std::vector<std::string> parameterNames(const ModuleState& state);

}  // namespace tscompile
