// Decides for each node of a graph whether it can run in an engine. The first cause is kept; what follows from it is
// said with a link to it.
#pragma once

#include "partition/borders.h"
#include "partition/remedies.h"

#include <deque>
#include <functional>
#include <unordered_map>

namespace tscompile {

class Decider {
 public:
  Decider(const Graph& graph, const OpRegistry& registry, const EngineSupport& support, const PartitionOptions& options,
          Partition& partition);

  // Decides all nodes by what they are and by what they hand to each other.
  void decide();
  // Sends a node elsewhere if it is not there already; settle() then draws the consequences.
  void fallBack(const Node* node, Reason reason, std::string detail, Remedy remedy, const Node* cause = nullptr);
  void settle();
  // Lists of tensors that nobody but nodes of one block touch, those inside of them counted for the block's own: if all
  // are in one engine, that may change the list. `runOf` tells where a node of a block is. Sends what writes lists that
  // would be in several places elsewhere; false if there are none.
  bool dropSplitLists(const std::function<uint32_t(const Node*)>& runOf);

  const AliasAnalysis& aliases() const { return aliases_; }
  const MemoryUses& memory() const { return memory_; }
  const Rematerialization& recomputing() const { return recomputing_; }

 private:
  void decideAlone(const Node* node);
  bool userExcludes(const Node* node);
  const std::string* nameAmong(const std::vector<std::string>& names, const Node* node) const;
  void hazard(const Node* node);
  void findOwnLists();
  bool isOwnList(const LocationSet& locations) const;
  bool isNew(const Value* value) const;
  const Node* writerBehind(const Node* node);
  bool isKnownToWrite(const Node* writer) const;
  std::string mayWrite(const Node* writer) const;
  const Node* writerOf(const Value* value, const Node* except);
  void checkInputs(const Node* node);
  void takesInputs(const Node* node);
  bool isKnownTo(const Node* node, const Value* input) const;
  void checkOutputs(const Node* node);
  void checkNumbers(const Node* node);
  void checkBlocksInside(const Node* node);
  void checkAll(const Node* node);
  bool takeWhole(const Node* node);
  void giveUpWhole(const Node* node);
  const Node* holderOf(const Node* node) const;
  void pushConsequences(const Node* node);
  bool isAssumed(const Node* node) const { return options_.assumed && options_.assumed->contains(node); }
  bool isElsewhere(const Node* node) const { return !partition_.decisions[node].accelerated(); }

  const Graph& graph_;
  const OpRegistry& registry_;
  const EngineSupport& support_;
  const PartitionOptions& options_;
  Partition& partition_;
  AliasAnalysis aliases_;
  Remedies remedies_;
  MemoryUses memory_;
  std::unordered_set<const Value*> knownInputs_;
  Rematerialization recomputing_;
  std::vector<const Node*> writers_;
  std::unordered_map<uint32_t, std::vector<size_t>> writersOf_;  // of each location: into writers_
  struct OwnList {
    const Node* maker;
    std::vector<const Node*> writers;
    std::vector<const Node*> places;  // of all that touch it, in the maker's block
  };
  std::unordered_map<uint32_t, OwnList> ownLists_;  // by location
  std::deque<const Node*> todo_;
  std::unordered_set<const Node*> left_;  // control flow that was in an engine as a whole, until what follows is drawn
  // Of nodes that control flow in an engine holds though no engine can run them: they are never reached, or raise.
  std::unordered_map<const Node*, Decision> unreached_;
};

}  // namespace tscompile
