// Why no overload of an operator takes what a node gives it.
#pragma once

#include "ir/graph/node.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "ir/support/remedy.h"

#include <string>

namespace tscompile {

// The overload that comes nearest, and what does not fit it.
struct NearestOverload {
  const Operator* op = nullptr;  // null: there is none of this name
  std::string problem;           // "argument 3 ('bias') is Float, not Tensor?"
  Remedy remedy = {};            // "a value whose type is written as Tensor?, or a cast to it"
};
NearestOverload nearestOverload(const Node& node, const OpRegistry& registry);
// Notes of the overloads there are: the nearest one with what does not fit, then those with about as many arguments.
void noteOverloads(const Node& node, const OpRegistry& registry, Diagnostic& diagnostic);

}  // namespace tscompile
