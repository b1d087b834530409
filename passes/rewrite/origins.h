// Values that matter to some nodes, and all from which these values are made.
#pragma once

#include "ir/graph/side_table.h"
#include "passes/rewrite/facts.h"

#include <vector>

namespace tscompile {

class Origins {
 public:
  // Whether a node's outputs do not depend on its inputs in the way that matters.
  using Ends = bool (*)(const Node*, GraphFacts&);

  Origins(const Graph& graph, GraphFacts& facts, Ends ends);
  void addInputs(const Node* n);
  // If there are any, true as well for values that are newer.
  bool contains(const Value* v) const { return hasAny_ && (Graph::idOf(v) >= limit_ || matters_[v]); }

 private:
  void add(const Value* v);
  void goBack();
  void throughNode(const Node* n, size_t output);
  void throughParameter(const Value* v);

  const Graph& graph_;
  ValueTable<bool> matters_;
  uint32_t limit_;
  bool hasAny_ = false, hasContainer_ = false, hasFillings_ = false;
  GraphFacts& facts_;
  Ends ends_;
  std::vector<const Value*> todo_;
};

// Whether a node gives a view of its first argument or a copy by how that lies in memory: aten::reshape.
bool isViewByOrder(const Node* n);

// Values of which some node may tell how they lie in memory, or one from another with the same elements.
Origins valuesThatAreSeen(const Graph& graph, GraphFacts& facts);

}  // namespace tscompile
