// Whether an operator of a graph can run here, and if not, why.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace tscompile {

enum class OpStatus : uint8_t {
  Implemented,
  Structure,        // control flow, containers, attributes: part of the interpreter
  Unknown,          // PyTorch 1.13 has no such operator
  NotImplemented,   // known, but no overload of it can run
  NoOverload,       // no overload takes these inputs
  OverloadMissing,  // the overload that is meant cannot run, others can
  Python,           // a call into Python
};

struct OpFinding {
  OpStatus status = OpStatus::Implemented;
  const Operator* op = nullptr;  // the overload that the node means
};

inline bool isMissing(OpStatus s) { return s != OpStatus::Implemented && s != OpStatus::Structure; }

class OpFinder {
 public:
  explicit OpFinder(const OpRegistry& registry);
  OpFinding find(const Node& node);
  bool isStructure(Symbol kind) const { return structure_.count(kind) != 0; }

 private:
  OpFinding classify(const Node& node) const;

  const OpRegistry& registry_;
  std::unordered_set<Symbol> structure_;
  std::unordered_map<uint64_t, OpFinding> known_;  // by kind and types of inputs: large graphs repeat few
};

// "(Tensor, int)": the types of a node's inputs.
std::string inputTypesText(const Node& node);

}  // namespace tscompile
