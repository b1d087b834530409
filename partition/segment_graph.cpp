#include "partition/segment_graph.h"

#include "ir/graph/builder.h"
#include "ir/graph/clone.h"

namespace tscompile {
namespace {

class SegmentCopier {
 public:
  SegmentCopier(const Segment& segment, const Partition& partition)
      : segment_(segment), partition_(partition), graph_(std::make_unique<Graph>()) {}

  std::unique_ptr<Graph> copy() {
    const Graph& source = *segment_.block->graph();
    for (const SourcePtr& s : source.sources()) graph_->keepAlive(s);
    for (const Value* v : segment_.inputs) {
      Value* input = graph_->addInput(v->type());
      values_[v] = input;
    }
    for (const auto* nodes : {&segment_.recomputed, &segment_.nodes})
      for (const Node* n : *nodes) add(n);
    for (const Value* v : segment_.outputs) graph_->addOutput(values_.at(v));
    for (auto [from, to] : values_) graph_->copyNaming(to, from);
    graph_->reserveNumbers(source.nextNumber());
    // The mark has done what it was for.
    forEachNode(*graph_, [](Node* n) { n->removeAttribute(sym::toCompile); });
    return std::move(graph_);
  }

 private:
  void add(const Node* n) {
    addGivenInputs(n);
    for (Block* b : n->blocks()) {
      for (const Use& u : b->results()) addGiven(u.value);
      forEachNode(b, [&](const Node* inner) {
        addGivenInputs(inner);
        for (const Block* deeper : inner->blocks())
          for (const Use& u : deeper->results()) addGiven(u.value);
      });
    }
    graph_->block()->append(cloneNode(*n, *graph_, values_));
  }
  void addGivenInputs(const Node* n) {
    for (const Use& u : n->inputs()) addGiven(u.value);
  }

  // A chain of attributes is copied from its start.
  void addGiven(const Value* v) {
    std::vector<const Node*> chain;
    while (v->node() && partition_.given.contains(v->node()) && !values_.contains(v) && isOutside(v)) {
      chain.push_back(v->node());
      if (v->node()->inputCount() == 0) break;
      v = v->node()->input(0);
    }
    for (; !chain.empty(); chain.pop_back()) graph_->block()->append(cloneNode(*chain.back(), *graph_, values_));
  }
  // Those inside blocks of the segment's nodes are copied with their blocks.
  bool isOutside(const Value* v) const {
    for (const Block* b = segment_.block; b; b = b->parent())
      if (v->block() == b) return true;
    return false;
  }

  const Segment& segment_;
  const Partition& partition_;
  std::unique_ptr<Graph> graph_;
  ValueMap values_;
};

}  // namespace

std::unique_ptr<Graph> segmentGraph(const Segment& segment, const Partition& partition) {
  return SegmentCopier(segment, partition).copy();
}

}  // namespace tscompile
