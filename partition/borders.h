// What may cross the border of an engine, and what is computed once more on the other side instead (rematerialisation,
// Briggs, Cooper, Torczon 1992).
#pragma once

#include "ir/operators/engine_support.h"
#include "partition/dependencies.h"

namespace tscompile {

// Tensors and lists of tensors; modules, as what is read from them is known when the engine is made.
bool crossesBorders(const Value* value);

// Whether all that the node does with a number, itself or inside, takes it at each run anew (EngineSupport): then it
// may come from outside of the node's engine.
bool isTakenAsNumber(const Value* value, const Node* node, const EngineSupport& support);
// Whether the number picks (`x[n]`), in the node or inside, what others are to share the memory of.
bool wouldCopyByNumber(const Value* value, const Node* node, const EngineSupport& support, const OpRegistry& registry);

// Calls visit(value) for all that the node takes: its inputs, and what its blocks take from outside of it.
template <class Visit>
void forEachTaken(const Node* node, Visit&& visit) {
  for (const Use& u : node->inputs()) visit(static_cast<const Value*>(u.value));
  if (!node->hasBlocks()) return;
  const size_t depth = node->block()->depth();
  auto outer = [&](std::span<const Use> uses) {
    for (const Use& u : uses)
      if (u.value->block()->depth() <= depth) visit(static_cast<const Value*>(u.value));
  };
  for (Block* b : node->blocks()) {
    outer(b->results());
    forEachNode(b, [&](const Node* n) {
      outer(n->inputs());
      for (const Block* inner : n->blocks()) outer(inner->results());
    });
  }
}

// Which nodes an engine may run a second time: they only look at what never changes, so that any place gives the same.
// Asked for numbers, sizes and lists that are made of them.
class Rematerialization {
 public:
  // `known`: inputs of the graph that engines can have, whatever they are.
  Rematerialization(const Graph& graph, const GivenNodes& given, const AliasAnalysis& aliases, const MemoryUses& memory,
                    const std::unordered_set<const Value*>& known);

  // Takes the node in; those that its inputs, and the nodes in its blocks, take values from were taken in before.
  // `supported`: engines can run it.
  void add(const Node* node, bool supported);
  bool allows(const Node* node) const { return allowed_[node]; }
  // Whether an engine that needs the value and does not make it takes it as an input; otherwise it computes it.
  bool isTakenIn(const Value* value) const;

 private:
  bool neverChanges(const Node* node) const;
  bool isFixed(const Value* value) const;

  const GivenNodes& given_;
  const AliasAnalysis& aliases_;
  const MemoryUses& memory_;
  const std::unordered_set<const Value*>& known_;
  NodeTable<bool> allowed_;
};

}  // namespace tscompile
