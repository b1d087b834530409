#include "partition/stitch.h"

#include "ir/graph/builder.h"
#include "ir/graph/clone.h"
#include "ir/support/check.h"
#include "partition/segment_graph.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile {
namespace {

class Stitcher {
 public:
  Stitcher(const Graph& source, const Partition& partition)
      : partition_(partition), graph_(cloneGraph(source)), nodes_(source), values_(source) {
    match(source);
  }

  std::unique_ptr<Graph> run() {
    for (const Partition::BlockSegments& b : partition_.blocks) stitchBlock(b);
    forgetInside();
    for (Node* n : replaced_) removeUses(n);
    for (Node* n : replaced_) n->destroy();
    removeUnusedConstants();
    // The mark has done what it was for.
    forEachNode(*graph_, [](Node* n) { n->removeAttribute(sym::toCompile); });
    return std::move(graph_);
  }

 private:
  // Both graphs have the same nodes in the same order.
  void match(const Graph& source) {
    auto values = [&](std::span<Value* const> from, std::span<Value* const> to) {
      for (size_t i = 0; i < from.size(); ++i) values_[from[i]] = to[i];
    };
    values(source.inputs(), graph_->inputs());
    std::vector<Node*> copies;
    forEachNode(*graph_, [&](Node* n) { copies.push_back(n); });
    size_t at = 0;
    forEachNode(source, [&](const Node* n) {
      Node* copy = copies[at++];
      nodes_[n] = copy;
      values(n->outputs(), copy->outputs());
      for (size_t b = 0; b < n->blocks().size(); ++b) values(n->block(b)->parameters(), copy->block(b)->parameters());
    });
    for (Node* n : copies)
      if (partition_.given.contains(n) && n->output()->hasUses()) given_.push_back(n);
  }

  void stitchBlock(const Partition::BlockSegments& b) {
    const Node* owner = b.block->owner();
    Block* block = graph_->block();
    if (owner) {
      auto blocks = owner->blocks();
      block =
          nodes_[owner]->block(static_cast<size_t>(std::find(blocks.begin(), blocks.end(), b.block) - blocks.begin()));
    }
    for (uint32_t i = 0; i < b.count; ++i) {
      const Segment& s = partition_.segments[b.first + i];
      if (s.target == Target::Accelerated) {
        insertEngine(s, block);
        continue;
      }
      for (const Node* n : s.nodes) nodes_[n]->moveBefore(block->returnNode());
    }
  }

  void insertEngine(const Segment& s, Block* block) {
    std::unique_ptr<Graph> inside = segmentGraph(s, partition_);
    std::vector<Value*> inputs;
    for (const Value* v : s.inputs) inputs.push_back(values_[v]);
    Node* engine = graph_->create(sym::Engine, inputs, s.outputs.size());
    engine->copyPlace(s.nodes.front());
    engine->scope = Symbol();
    engine->setAttribute(sym::id, IValue(contentHash(*inside)));
    engine->setAttribute(sym::Subgraph, std::move(inside));
    block->append(engine);
    for (size_t i = 0; i < s.outputs.size(); ++i) {
      Value* old = values_[s.outputs[i]];
      Value* made = engine->output(i);
      made->setType(old->type());
      old->replaceAllUsesWith(made);
      graph_->copyNaming(made, old);
      values_[s.outputs[i]] = made;
    }
    for (size_t i = s.nodes.size(); i-- > 0;) replaced_.push_back(nodes_[s.nodes[i]]);
  }

  // Constants inside of what engines replace go with that.
  void forgetInside() {
    std::unordered_set<const Node*> gone;
    for (Node* n : replaced_)
      for (Block* b : n->blocks()) forEachNode(b, [&](const Node* inner) { gone.insert(inner); });
    std::erase_if(given_, [&](const Node* n) { return gone.contains(n); });
  }

  // Of the node and of all inside.
  static void removeUses(Node* node) {
    node->removeAllInputs();
    for (Block* b : node->blocks()) {
      b->returnNode()->removeAllInputs();
      forEachNode(b, [](Node* n) {
        n->removeAllInputs();
        for (Block* inner : n->blocks()) inner->returnNode()->removeAllInputs();
      });
    }
  }

  // Those that only engines used. Chains of attributes from their end.
  void removeUnusedConstants() {
    for (size_t i = given_.size(); i-- > 0;)
      if (!given_[i]->output()->hasUses()) given_[i]->destroy();
  }

  const Partition& partition_;
  std::unique_ptr<Graph> graph_;
  NodeTable<Node*> nodes_;  // copies of the source's
  ValueTable<Value*> values_;
  std::vector<Node*> replaced_, given_;
};

}  // namespace

std::unique_ptr<Graph> stitch(const Graph& graph, const Partition& partition) {
  return Stitcher(graph, partition).run();
}

void inlineEngines(Graph& graph) {
  std::vector<Node*> engines;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() == sym::Engine && n->subgraph()) engines.push_back(n);
  });
  for (Node* engine : engines) {
    const Graph& inside = *engine->subgraph();
    TS_CHECK(inside.inputs().size() == engine->inputCount() && inside.outputs().size() == engine->outputCount());
    ValueMap values;
    for (size_t i = 0; i < engine->inputCount(); ++i) values[inside.input(i)] = engine->input(i);
    cloneNodesBefore(*inside.block(), engine, values);
    for (size_t i = 0; i < engine->outputCount(); ++i)
      engine->output(i)->replaceAllUsesWith(values.at(inside.output(i)));
    engine->destroy();
  }
}

}  // namespace tscompile
