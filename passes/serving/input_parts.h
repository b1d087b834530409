// Inputs that hold tensors, as lists, tuples or dicts of any depth, become an input for each of them.
#pragma once

#include "ir/graph/graph.h"

#include <functional>
#include <map>
#include <string>

namespace tscompile {

// Of inputs that are only taken apart at places that the graph names. The new inputs are last, in the order of what
// held them, with the types that `formOf` gives. Returns the keys of those that dicts held.
std::map<const Value*, std::string> takeInputsApart(Graph& graph, const std::function<TypePtr(const Value*)>& formOf);

}  // namespace tscompile
