#include "passes/rewrite/destroy_handler.h"

#include "passes/rewrite/facts.h"

namespace tscompile {
namespace {

// The node of the block that is this one or holds it; null if it stands elsewhere.
const Node* ancestorIn(const Block* block, const Node* n) {
  constexpr int kDeepest = 256;  // that is looked at
  for (int depth = 0; n && depth < kDeepest; ++depth, n = n->block()->owner())
    if (n->block() == block) return n;
  return nullptr;
}

}  // namespace

DestroyHandler::DestroyHandler(const Graph& graph, GraphFacts& facts) : aliases_(facts.aliases()) {
  findOrigins(graph, facts);
  for (const Value* v : graph.inputs()) findReaders(v);
  forEachNode(graph, [this](Node* n) {
    for (const Value* v : n->outputs()) findReaders(v);
    for (const Block* b : n->blocks())
      for (const Value* v : b->parameters()) findReaders(v);
  });
}

void DestroyHandler::findOrigins(const Graph& graph, GraphFacts& facts) {
  forEachNode(graph, [&](Node* n) {
    if (n->outputCount() != 1 || !n->output()->type()->isTensor() || !facts.isFresh(n)) return;
    const LocationSet& at = aliases_.locations(n->output());
    if (at.only() && !at.reachOutside()) memory_[*at.only()].origin = n->output();
  });
}

// A value that the memory can be reached by.
void DestroyHandler::findReaders(const Value* value) {
  if (!AliasAnalysis::canRefer(value->type())) return;
  const LocationSet reachable = aliases_.reachable(value);
  for (uint32_t location : reachable.list()) {
    auto it = memory_.find(location);
    if (it == memory_.end()) continue;
    Memory& m = it->second;
    const Block* home = m.origin->block();
    const Node* around = value->node() ? value->node() : value->block()->owner();
    // What lives outside may have been given the memory by an earlier iteration.
    if (!around || !ancestorIn(home, around)) m.leaves = true;
    for (Use& u : value->uses()) {
      const Node* reader = ancestorIn(home, u.user);
      if (reader)
        read(m, reader);
      else
        m.leaves = true;
    }
  }
}

void DestroyHandler::read(Memory& memory, const Node* reader) {
  if (!memory.last || memory.last->isBefore(reader)) memory.last = reader;
}

const DestroyHandler::Memory* DestroyHandler::memory(uint32_t location) const {
  auto it = memory_.find(location);
  return it == memory_.end() ? nullptr : &it->second;
}

bool DestroyHandler::isWhole(const Value* value) const {
  std::span<const uint32_t> at = aliases_.locations(value).list();
  const Memory* m = at.size() == 1 ? memory(at[0]) : nullptr;
  return m && m->origin == value;
}

Objection DestroyHandler::objection(const Node* node, size_t input, bool tolerateSame) const {
  const Value* x = node->input(input);
  const LocationSet& memory = aliases_.locations(x);
  if (memory.empty()) return Objection::NotOurs;
  for (size_t i = 0; i < node->inputCount(); ++i) {
    const Value* other = node->input(i);
    if (i == input || (other == x && tolerateSame) || !AliasAnalysis::canRefer(other->type())) continue;
    if (other == x) return Objection::SameInput;
    if (!aliases_.knows(other) || memory.intersects(aliases_.reachable(other))) return Objection::SharedInput;
  }
  for (uint32_t location : memory.list()) {
    const Memory* m = this->memory(location);
    if (!m || m->leaves) return Objection::NotOurs;
    if (m->origin->block() != node->block()) return Objection::OtherBlock;
    if (m->last->isReturn()) return Objection::Returned;
    if (node->isBefore(m->last)) return Objection::ReadLater;
  }
  return Objection::None;
}

// Whether a node that writes nothing may run after another.
bool DestroyHandler::mayPass(const Node* node, const Node* other) const {
  for (const Use& u : other->inputs())
    if (u.value->node() == node) return false;
  auto it = destroyed_.find(other);
  if (it != destroyed_.end() && it->second.intersects(aliases_.reads(node))) return false;
  if (!other->hasBlocks()) return !aliases_.conflict(node, other);
  // What is inside may use the results, or destroy by now what the analysis saw being read.
  return false;
}

bool DestroyHandler::schedule(Node* node, size_t input, bool tolerateSame) {
  Objection why = objection(node, input, tolerateSame);
  if (why != Objection::ReadLater) return why == Objection::None;
  const Node* last = node;
  for (uint32_t location : aliases_.locations(node->input(input)).list())
    if (const Memory* m = memory(location); last->isBefore(m->last)) last = m->last;
  constexpr int kFarthest = 64;  // nodes
  int passed = 0;
  for (const Node* n = node; n != last;) {
    n = n->next();
    if (++passed > kFarthest || !mayPass(node, n)) return false;
  }
  node->moveAfter(const_cast<Node*>(last));
  const LocationSet reads = aliases_.reads(node);
  for (uint32_t location : reads.list())
    if (auto it = memory_.find(location); it != memory_.end())
      if (const Node* reader = ancestorIn(it->second.origin->block(), node)) read(it->second, reader);
  return objection(node, input, tolerateSame) == Objection::None;
}

}  // namespace tscompile
