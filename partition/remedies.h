// What would let an engine have a node that it does not have.
#pragma once

#include "ir/analysis/alias.h"
#include "ir/operators/op_registry.h"
#include "ir/support/remedy.h"

#include <string>

namespace tscompile {

// Whether a text can say a value of this type.
bool canBeBound(TypePtr type);
// A tensor, or something that has one inside.
bool holdsTensors(TypePtr type);

class Remedies {
 public:
  Remedies(const Graph& graph, const OpRegistry& registry, const AliasAnalysis& aliases)
      : graph_(graph), registry_(registry), aliases_(aliases) {}

  // For what a node that writes keeps out, itself or others.
  Remedy ofWrite(const Node* writer) const;
  // For prim::If and prim::Loop: what makes a condition or a number of iterations known, or what it depends on that
  // nobody knows before the run.
  Remedy ofControl(const Node* node) const;

 private:
  Remedy ofWriteToView(const Node* writer) const;

  const Graph& graph_;
  const OpRegistry& registry_;
  const AliasAnalysis& aliases_;
};

}  // namespace tscompile
