#include "ir/graph/clone.h"

#include "ir/support/check.h"

namespace tscompile {
namespace {

// Subgraphs that are still to be copied: into the attribute of a copy. Collected, so that their nesting costs no stack.
struct PendingGraph {
  const Graph* from;
  Graph* to;
};

class Cloner {
 public:
  // With `exact`, the target is empty and becomes a copy down to the numbers.
  Cloner(Graph& target, ValueMap& values, bool exact) : target_(target), values_(values), exact_(exact) {}

  Node* node(const Node& from) {
    Node* copy = shallow(from);
    // Blocks inside, from an explicit stack.
    struct Open {
      const Node* from;
      Node* to;
      size_t block;
      const Node* next;
    };
    std::vector<Open> stack;
    auto open = [&](const Node* f, Node* t) {
      if (!f->hasBlocks()) return;
      startBlock(*f->block(0), t);
      stack.push_back({f, t, 0, f->block(0)->first()});
    };
    open(&from, copy);
    while (!stack.empty()) {
      Open& top = stack.back();
      if (top.next) {
        const Node* f = top.next;
        top.next = f->next();
        Node* t = shallow(*f);
        top.to->block(top.block)->append(t);
        open(f, t);
        continue;
      }
      for (const Use& u : top.from->block(top.block)->results()) top.to->block(top.block)->addResult(mapped(u.value));
      if (++top.block < top.from->blocks().size()) {
        startBlock(*top.from->block(top.block), top.to);
        top.next = top.from->block(top.block)->first();
      } else {
        stack.pop_back();
      }
    }
    return copy;
  }

  void value(const Value* from, Value* to) {
    to->setType(from->type());
    values_[from] = to;
    if (exact_)
      target_.copyNaming(to, from);
    else if (from->isNamed() && !target_.find(from->givenName()))
      to->setName(from->givenName());
  }

  Value* mapped(const Value* v) {
    auto it = values_.find(v);
    if (it != values_.end()) return it->second;
    TS_CHECK(v->graph() == &target_);
    return const_cast<Value*>(v);
  }

  std::vector<PendingGraph> pending;

 private:
  void startBlock(const Block& from, Node* owner) {
    Block* b = owner->addBlock();
    b->range = from.range;
    for (const Value* p : from.parameters()) value(p, b->addParameter(p->type()));
  }

  Node* shallow(const Node& from) {
    SmallVector<Value*, 16> inputs;
    for (const Use& u : from.inputs()) inputs.push_back(mapped(u.value));
    Node* copy = target_.create(from.kind(), inputs, from.outputCount());
    for (size_t i = 0; i < from.outputCount(); ++i) value(from.output(i), copy->output(i));
    copy->copyPlace(&from);
    if (from.python) copy->python = std::make_unique<PythonOp>(*from.python);
    for (const Attribute& a : from.attributes()) copy->setAttribute(a.name, payload(a));
    return copy;
  }

  std::unique_ptr<Graph> later(const Graph& from) {
    auto to = std::make_unique<Graph>();
    pending.push_back({&from, to.get()});
    return to;
  }

  Attribute::Payload payload(const Attribute& a) {
    if (const IValue* v = a.value()) return *v;
    if (TypePtr t = a.type()) return t;
    if (auto* list = std::get_if<std::vector<TypePtr>>(&a.payload)) return *list;
    if (const Graph* g = a.graph()) return later(*g);
    std::vector<std::unique_ptr<Graph>> graphs;
    for (const auto& g : std::get<std::vector<std::unique_ptr<Graph>>>(a.payload)) graphs.push_back(later(*g));
    return graphs;
  }

  Graph& target_;
  ValueMap& values_;
  bool exact_;
};

void copyInto(const Graph& from, Graph& to, ValueMap& values, std::vector<PendingGraph>& pending) {
  Cloner cloner(to, values, true);
  for (const SourcePtr& s : from.sources()) to.keepAlive(s);
  to.range = from.range;
  to.block()->range = from.block()->range;
  for (const Value* p : from.inputs()) cloner.value(p, to.addInput(p->type()));
  for (const Node* n : from.block()->nodes()) to.block()->append(cloner.node(*n));
  for (const Use& u : from.outputs()) to.addOutput(cloner.mapped(u.value));
  to.returnNode()->copyPlace(from.returnNode());
  to.reserveNumbers(from.nextNumber());
  for (const PendingGraph& p : cloner.pending) pending.push_back(p);
}

void finish(std::vector<PendingGraph> pending) {
  while (!pending.empty()) {
    PendingGraph next = pending.back();
    pending.pop_back();
    ValueMap values;
    copyInto(*next.from, *next.to, values, pending);
  }
}

}  // namespace

std::unique_ptr<Graph> cloneGraph(const Graph& graph, ValueMap& values) {
  auto copy = std::make_unique<Graph>();
  std::vector<PendingGraph> pending;
  copyInto(graph, *copy, values, pending);
  finish(std::move(pending));
  return copy;
}

std::unique_ptr<Graph> cloneGraph(const Graph& graph) {
  ValueMap values;
  return cloneGraph(graph, values);
}

Node* cloneNode(const Node& node, Graph& target, ValueMap& values) {
  for (const SourcePtr& s : node.graph()->sources()) target.keepAlive(s);
  Cloner cloner(target, values, false);
  Node* copy = cloner.node(node);
  finish(std::move(cloner.pending));
  return copy;
}

void cloneNodesBefore(const Block& from, Node* before, ValueMap& values) {
  Graph& target = *before->graph();
  for (const Node* n : from.nodes()) cloneNode(*n, target, values)->insertBefore(before);
}

}  // namespace tscompile
