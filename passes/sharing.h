// Whether making two values one would let anybody see it: by writes to memory, or in the results of the graph.
#pragma once

#include "passes/rewrite/facts.h"

#include <unordered_set>

namespace tscompile {

// Holds for the graph as it was when this was made, and for replacements that it was told of.
class Sharing {
 public:
  Sharing(const Graph& graph, GraphFacts& facts) : facts_(facts), graph_(graph) {}

  // Whether `by` may take the place of `old`, a value of its own with equal elements.
  bool mayReplace(const Value* old, const Value* by) {
    if (!AliasAnalysis::canRefer(old->type()) || !AliasAnalysis::canRefer(by->type())) return true;
    if (facts_.isWritten(old) || facts_.isWritten(by)) return false;
    if (!escapes(old)) return true;
    // The caller gets it: then it must be memory that nobody else has.
    return by->node() && facts_.isFresh(by->node()) && !escapes(by);
  }
  void replaced(const Value* old, const Value* by) {
    if (AliasAnalysis::canRefer(old->type()) && escapes(old)) add(by);
  }

 private:
  bool escapes(const Value* v) {
    if (!ready_) {
      ready_ = true;
      for (const Use& u : graph_.outputs()) add(u.value);
    }
    if (!facts_.aliases().knows(v)) return true;
    Locations memory = facts_.aliases().reachable(v);
    for (uint32_t location : memory.list())
      if (seen_.contains(location)) return true;
    return false;
  }
  void add(const Value* v) {
    Locations memory = facts_.aliases().reachable(v);
    seen_.insert(memory.list().begin(), memory.list().end());
  }

  GraphFacts& facts_;
  const Graph& graph_;
  std::unordered_set<uint32_t> seen_;  // memory that the caller gets
  bool ready_ = false;
};

}  // namespace tscompile
