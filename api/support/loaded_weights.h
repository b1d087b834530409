// Weights that are loaded into a model which has its own, as load_state_dict() does in PyTorch.
#pragma once

#include "frontend/export/export_file.h"
#include "frontend/files/weights.h"
#include "ir/graph/module.h"
#include "ir/values/ivalue.h"

#include <span>
#include <string>
#include <vector>

namespace tscompile {

// Adds what a file of weights holds, or an exported program: all its tensors or, for a model whose constants have other
// names, its parameters and buffers alone. False after a report.
bool addWeightsFile(Weights& weights, const std::string& path, const OpRegistry& registry, const Limits& limits,
                    Diagnostics& diagnostics, bool constants = true);
bool addExported(Weights& weights, const std::string& path, ExportFile& file, Diagnostics& diagnostics);

// What a model file holds: objects, of which the first is the module, or tensors by name.
struct ModelContents {
  std::span<const Ref<ObjectValue>> objects;
  const Weights& tensors;
  std::span<const std::string> programs = {};  // several, whose names the names of their tensors begin with
};

// Writes `given` over the tensors of the model file `path` that have their names, or have them in some of the programs:
// one checkpoint then serves all. Tensors that share memory with these see it, and elements become those of the dtypes
// that the model has. `stored`: the names that a checkpoint of the model has at least; a warning tells which of them
// keep what the file has. Fails after a report: a tensor has other sizes, or none is one of the model. Afterwards, what
// is unused in `given` is not in the model.
bool loadWeights(const ModelContents& model, Weights& given, const std::string& path,
                 const std::vector<std::string>& stored, Diagnostics& diagnostics);
// The names of the parameters of a module with objects.
std::vector<std::string> parameterNames(const ModuleDump& dump, std::span<const Ref<ObjectValue>> objects);

}  // namespace tscompile
