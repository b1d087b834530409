// Traces that run with the sizes of their example alone, which are in no file: what these were.
#pragma once

#include "ir/analysis/shape_propagation.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "passes/serving/states/example_call.h"

#include <map>
#include <optional>
#include <string>

namespace tscompile {

// Writes the sizes of tensors, by their paths, into the types of the values that read them.
void tellAttributeSizes(Graph& graph, const std::map<std::string, Tensor>& attributes);

// What reads a number that calls count on with, and that does not begin with 0: of a trace that is what its example
// counted. Null if there is none.
const Node* keptCount(const Graph& graph, const OpRegistry& registry, const std::map<std::string, Tensor>& attributes);

// What these types say, as ShapeOptions::known takes it.
std::optional<SymbolicValue> sizesOfAttribute(const Value* v);

// Of a graph whose inputs have no sizes, and which does not run with one text of any number of tokens: looks for a
// number of texts, of any number of tokens or of one, that it runs with, and writes these sizes into the types of its
// values. Of one that does run, positions that must be a row are told to be one. So are the sizes of states that are
// given and returned; of caches that have any number of places it is `places`. `attributes` are tensors by their paths.
// False if there is nothing to do, or nothing fits; inputs have no sizes then. `doubt` becomes what nothing tells of
// states: why nothing fits, or what was chosen.
bool findExampleSizes(Graph& graph, const OpRegistry& registry, const std::map<std::string, Tensor>& attributes,
                      int64_t places, const RunExample& run, std::string& doubt);

}  // namespace tscompile
