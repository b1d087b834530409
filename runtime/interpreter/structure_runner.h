// Runs single prim:: nodes outside of a program: those that build and take apart values, and casts.
#pragma once

#include "ir/operators/op_registry.h"
#include "runtime/interpreter/machine.h"

#include <memory>
#include <span>
#include <vector>

namespace tscompile {

class StructureRunner {
 public:
  explicit StructureRunner(const OpRegistry& registry);
  // Whether a node of this kind has a handler and does nothing but compute its outputs.
  static bool runs(Symbol kind);
  // `results` are as many as the node has outputs.
  void run(const Node& node, std::span<const IValue> inputs, std::span<IValue> results, RunContext& context) const;

 private:
  Graph noGraph_;
  std::shared_ptr<const Program> empty_;  // that a machine belongs to
};

}  // namespace tscompile
