// Whose memory may be overwritten: an operator in place destroys its input, and this says whether anybody would see it.
#pragma once

#include "ir/analysis/alias.h"
#include "ir/graph/graph.h"

#include <unordered_map>

namespace tscompile {

class GraphFacts;

// Why nothing may be written over an input of a node.
enum class Objection : uint8_t {
  None,         // nobody would see it
  SameInput,    // it is another input as well
  SharedInput,  // another input shares its memory
  NotOurs,      // an input of the graph, an attribute, a constant; or somebody outside of the block may hold it
  OtherBlock,   // it was made in another block
  Returned,
  ReadLater,  // also through views and lists
};

// Made for a graph and valid while the only changes are those that it allowed: nodes of one output, which is new
// memory, that write it over an input instead, or that schedule() has moved.
class DestroyHandler {
 public:
  DestroyHandler(const Graph& graph, GraphFacts& facts);

  // `tolerateSame`: the operator may get the same value as another input, too.
  Objection objection(const Node* node, size_t input, bool tolerateSame = false) const;
  // Whether nothing speaks against it, or nothing any more: moves the node after the last that reads the memory, if
  // its own results are not needed before.
  bool schedule(Node* node, size_t input, bool tolerateSame = false);
  // To be told that a node does now write over this input.
  void destroyed(const Node* node, size_t input) { destroyed_[node] = aliases_.locations(node->input(input)); }
  // Whether the value is new memory as a whole, no part or view.
  bool isWhole(const Value* value) const;

 private:
  struct Memory {
    const Value* origin = nullptr;
    const Node* last = nullptr;  // of the nodes in the origin's block: the last that reads it, or holds one that does
    bool leaves = false;         // somebody outside of the block may get hold of it
  };
  void findOrigins(const Graph& graph, GraphFacts& facts);
  void findReaders(const Value* value);
  void read(Memory& memory, const Node* reader);
  const Memory* memory(uint32_t location) const;
  bool mayPass(const Node* node, const Node* other) const;

  const AliasAnalysis& aliases_;
  std::unordered_map<uint32_t, Memory> memory_;  // by location
  std::unordered_map<const Node*, LocationSet> destroyed_;
};

}  // namespace tscompile
