// How formulas and trees write what a node does: short names, operators, constants.
#pragma once

#include "ir/graph/graph.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile {

// Nodes with a subgraph, by their place among those of the graph: `fork_0`.
class SubgraphNumbers {
 public:
  explicit SubgraphNumbers(const Graph& graph);
  const std::vector<const Node*>& nodes() const { return nodes_; }
  // "relu", "prim::max", "tensorrt::execute_engine", "fork_0", "^MyFunction".
  void appendName(const Node& node, std::string& out) const;
  // And its attributes.
  void appendCall(const Node& node, std::string& out) const;

 private:
  std::vector<const Node*> nodes_;
  std::unordered_map<const Node*, size_t> numbers_;
};

// Calls write(graph) for the graph and then for each subgraph after "with NAME = ", outer ones first, as graph text
// has them.
void forEachSubgraph(const Graph& graph, std::string& out,
                     const std::function<bool(const Graph&, const SubgraphNumbers&)>& write);

// "x", "conv1.weight", "%12".
void appendShortName(const Value& value, std::string& out);
// The literal; for tensors that are not one number, the name of the value.
void appendConstant(const Node& constant, std::string& out);

// How tightly operators bind, from loose to tight.
namespace binding {
inline constexpr int kNone = 0, kNot = 2, kComparison = 3, kOr = 4, kXor = 5, kAnd = 6, kShift = 7, kSum = 8,
                     kProduct = 9, kSign = 10, kPower = 11, kCall = 12;
}

struct OperatorText {
  std::string_view text;  // " + ", "-"
  int binding;
  bool prefix = false;
  bool swapped = false;  // the second input is written first
  int left() const { return binding == binding::kComparison || binding == binding::kPower ? binding + 1 : binding; }
  int right() const { return prefix ? binding : binding == binding::kPower ? binding::kSign : binding + 1; }
};
// Null if the node is written as a call.
const OperatorText* operatorOf(const Node& node);

}  // namespace tscompile
