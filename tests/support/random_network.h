// Random networks: the layers that models are made of, in any order, on sizes that fit no block and on those that do.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "tests/support/choices.h"

#include <memory>
#include <vector>

namespace tscompile::test {

struct RandomNetwork {
  std::unique_ptr<Graph> graph;  // weights are constants
  std::vector<IValue> inputs;    // contiguous, strided, expanded, or parts of larger tensors
  std::vector<IValue> expected;  // what the operators' kernels give, one call after another
};

// At most `layers` calls. Every value that nothing uses is an output, and some others. Copies and views of them are
// written in place if asked for.
RandomNetwork randomNetwork(Choices& choices, const OpRegistry& registry, size_t layers = 14, bool writes = false);

}  // namespace tscompile::test
