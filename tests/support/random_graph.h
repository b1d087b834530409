// Random valid graphs: each verifies, few compute anything sensible, and none may crash what reads, rewrites or runs
// it.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "tests/support/choices.h"

#include <memory>
#include <string>
#include <vector>

namespace tscompile::test {

struct RandomGraphOptions {
  size_t nodes = 20;        // at most, constants not counted
  bool controlFlow = true;  // prim::If and prim::Loop
  // Operators that may be called; empty: every implemented one.
  std::vector<std::string> operators;
};

// Inputs are tensors, ints, floats and lists; every graph has at least one tensor input and one output.
std::unique_ptr<Graph> randomGraph(Choices& choices, const OpRegistry& registry,
                                   const RandomGraphOptions& options = {});

// Arguments for the graph: small tensors of random dtype and shape, numbers that tend to the extremes.
std::vector<IValue> randomInputs(Choices& choices, const Graph& graph);

// Whether two runs give the same: clocks, addresses and memory that nobody has filled do not.
bool isRepeatable(const Graph& graph);

}  // namespace tscompile::test
