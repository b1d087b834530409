// Computes what a node gives for arguments that are known: constant folding and checks of rewrites ask for it.
#pragma once

#include "ir/graph/graph.h"

#include <optional>
#include <span>
#include <vector>

namespace tscompile {

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // The node's outputs, or nothing: its operator is not implemented, it fails for these arguments, or the results would
  // take more than `maxBytes`. Only for nodes without blocks, effects and random numbers.
  virtual std::optional<std::vector<IValue>> evaluate(const Node& node, std::span<const IValue> inputs,
                                                      uint64_t maxBytes) = 0;
  // The outputs of a whole graph, or nothing if it fails. Arguments may be written to.
  virtual std::optional<std::vector<IValue>> run(const Graph& graph, std::span<const IValue> inputs) = 0;
};

}  // namespace tscompile
