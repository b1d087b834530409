#include "partition/boundary.h"

#include <algorithm>

namespace tscompile {
namespace {

class BorderFinder {
 public:
  BorderFinder(const Graph& graph, const Rematerialization& recomputing, Partition& partition)
      : recomputing_(recomputing),
        partition_(partition),
        place_(graph),
        inSegment_(graph),
        seenBy_(graph),
        isOutput_(graph) {
    uint32_t count = 0;
    forEachNode(graph, [&](const Node* n) { place_[n] = count++; });
  }

  void run() {
    for (Segment& s : partition_.segments) findInputs(s);
    for (const Segment& s : partition_.segments)
      for (const Value* v : s.inputs) noteUse(v, s.block, s.id);
    for (const Partition::BlockSegments& b : partition_.blocks)
      for (const Use& u : b.block->results())
        if (u.value->block() == b.block) isOutput_[u.value] = true;
    for (Segment& s : partition_.segments)
      for (const Node* n : s.nodes)
        for (const Value* v : n->outputs())
          if (isOutput_[v]) s.outputs.push_back(v);
  }

 private:
  void findInputs(Segment& s) {
    // Marks of one segment: its number from 1 on.
    mark_ = s.id + 1;
    for (const Node* n : s.nodes) {
      inSegment_[n] = mark_;
      markInside(n);
    }
    for (const Node* n : s.nodes) needAll(n, s);
    while (!pending_.empty()) {
      const Node* n = pending_.back();
      pending_.pop_back();
      s.recomputed.push_back(n);
      markInside(n);
      needAll(n, s);
    }
    // One result of a node was asked for as it is, then another made the node be computed anew.
    std::erase_if(s.inputs, [&](const Value* v) { return v->node() && inSegment_[v->node()] == mark_; });
    std::sort(s.recomputed.begin(), s.recomputed.end(),
              [&](const Node* a, const Node* b) { return place_[a] < place_[b]; });
  }

  // What is defined in blocks of the node is no input of its segment.
  void markInside(const Node* n) {
    auto parameters = [&](const Node* owner) {
      for (const Block* b : owner->blocks())
        for (const Value* v : b->parameters()) seenBy_[v] = mark_;
    };
    parameters(n);
    for (Block* b : n->blocks())
      forEachNode(b, [&](const Node* inner) {
        parameters(inner);
        for (const Value* v : inner->outputs()) seenBy_[v] = mark_;
      });
  }

  void needAll(const Node* n, Segment& s) {
    needInputs(n, s);
    for (Block* b : n->blocks()) forEachNode(b, [&](const Node* inner) { needInputs(inner, s); });
  }

  void needInputs(const Node* n, Segment& s) {
    for (const Use& u : n->inputs()) need(u.value, s);
    for (const Block* b : n->blocks())
      for (const Use& u : b->results()) need(u.value, s);
  }

  void need(const Value* v, Segment& s) {
    // Of a chain of attributes: what it starts from.
    while (v->node() && partition_.given.contains(v->node())) {
      if (v->node()->inputCount() == 0) return;
      v = v->node()->input(0);
    }
    if (seenBy_[v] == mark_) return;
    seenBy_[v] = mark_;
    const Node* from = v->node();
    if (from && inSegment_[from] == mark_) return;
    // Of numbers that only others can make the engine takes each as it comes.
    const bool isRunsNumber = from && isNumber(v->type()) && !recomputing_.allows(from);
    if (from && s.target == Target::Accelerated && !recomputing_.isTakenIn(v) && !isRunsNumber) {
      inSegment_[from] = mark_;
      pending_.push_back(from);
      return;
    }
    s.inputs.push_back(v);
  }

  // A use of a value by a segment of `block`: an output, unless the value's own segment holds the user.
  void noteUse(const Value* v, const Block* block, uint32_t user) {
    if (!v->node()) return;
    while (block != v->block()) {
      user = partition_.decisions[block->owner()].segment;
      block = block->parent();
    }
    if (partition_.decisions[v->node()].segment != user) isOutput_[v] = true;
  }

  const Rematerialization& recomputing_;
  Partition& partition_;
  NodeTable<uint32_t> place_, inSegment_;
  ValueTable<uint32_t> seenBy_;
  ValueTable<bool> isOutput_;
  std::vector<const Node*> pending_;
  uint32_t mark_ = 0;
};

}  // namespace

void findBorders(const Graph& graph, const Rematerialization& recomputing, Partition& partition) {
  BorderFinder(graph, recomputing, partition).run();
}

}  // namespace tscompile
