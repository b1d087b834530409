#include "ir/graph/side_table.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/plan.h"

namespace tscompile {
namespace {

// Hashes a graph by position: values by where they were defined, so that names do not matter.
class StructureHasher {
 public:
  explicit StructureHasher(const Graph& graph) : numbers_(graph), order_(graph) {
    for (const Value* v : graph.inputs()) define(v);
    walk(graph);
  }
  uint64_t hash() const { return hash_; }

 private:
  void add(uint64_t x) { hash_ = hashCombine(hash_, x); }
  void define(const Value* v) {
    numbers_[v] = ++count_;
    add(v->type()->hash());
  }
  // Large tensors by where they are: to read them all would take as long as a pass.
  void value(const IValue& v) {
    if (!v.isTensor()) return add(hashText(valueText(v, LiteralStyle::Schema)));
    add(hashOfBits(v));
    constexpr size_t kRead = 256;  // by hashOfBits
    const Tensor& t = v.toTensor();
    if (t.defined() && (!t.isContiguous() || static_cast<size_t>(t.numel()) * itemSize(t.dtype()) > kRead))
      add(reinterpret_cast<uintptr_t>(t.raw()));
  }
  void inputs(const Node* n) {
    add(n->inputCount());
    for (const Use& u : n->inputs()) add(numbers_[u.value]);
  }
  void walk(const Graph& graph) {
    const Block* last = graph.block();
    forEachNode(graph, [&](Node* n) {
      if (n->block() != last) {
        last = n->block();
        add(last->owner() ? order_[last->owner()] : 0);
      }
      order_[n] = ++nodes_;
      add(n->kind().hash());
      inputs(n);
      for (const Attribute& a : n->attributes()) {
        add(a.name.hash());
        if (const IValue* v = a.value()) value(*v);
      }
      for (const Value* v : n->outputs()) define(v);
      for (const Block* b : n->blocks()) {
        for (const Value* p : b->parameters()) define(p);
      }
    });
    forEachNode(graph, [&](Node* n) {
      for (const Block* b : n->blocks()) inputs(b->returnNode());
    });
    inputs(graph.returnNode());
  }

  ValueTable<uint64_t> numbers_;
  NodeTable<uint64_t> order_;
  uint64_t count_ = 0, nodes_ = 0, hash_ = 0;
};

}  // namespace

uint64_t structureHash(const Graph& graph) { return StructureHasher(graph).hash(); }

}  // namespace tscompile
