// What would let an engine have a node that it does not have, in words.
#pragma once

#include "ir/analysis/alias.h"
#include "ir/operators/op_registry.h"
#include "partition/partition.h"

#include <string>

namespace tscompile {

// Whether `lower --bind` has words for values of this type.
bool canBeBound(TypePtr type);
// "aten::relu (%y)", or the kind alone.
std::string nodeName(const Node* node);
// A tensor, or something that has one inside.
bool holdsTensors(TypePtr type);

class Remedies {
 public:
  Remedies(const Graph& graph, const OpRegistry& registry, const AliasAnalysis& aliases,
           const PartitionOptions& options)
      : graph_(graph), registry_(registry), aliases_(aliases), options_(options) {}

  // For a node that the user has marked to stay out.
  std::string ofMark() const;
  // For what a node that writes keeps out, itself or others.
  std::string ofWrite(const Node* writer) const;
  // For prim::If and prim::Loop: what makes a condition or a number of turns known, or what it depends on that nobody
  // knows before the run.
  std::string ofControl(const Node* node) const;

 private:
  std::string ofWriteToView(const Node* writer) const;

  const Graph& graph_;
  const OpRegistry& registry_;
  const AliasAnalysis& aliases_;
  const PartitionOptions& options_;
};

}  // namespace tscompile
