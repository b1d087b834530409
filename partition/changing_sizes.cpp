#include "partition/changing_sizes.h"

#include "ir/values/aten.h"

#include <algorithm>

namespace tscompile {
namespace {

class LoopSizes {
 public:
  LoopSizes(const OpRegistry& registry, const ShapePropagation* shapes) : registry_(registry), shapes_(shapes) {}

  void read(const Node* loop) {
    const Block* body = loop->block(0);
    for (size_t before = SIZE_MAX; before != found.size();) {
      before = found.size();
      readBlock(body);
      // Results are the condition and what the next iteration is given, parameters its number and that.
      for (size_t i = 1; i < body->results().size(); ++i)
        if (found.contains(body->result(i))) add(body->parameter(i));
    }
  }

  std::unordered_set<const Value*> found;

 private:
  void readBlock(const Block* block) {
    for (const Node* n : block->nodes()) {
      if (n->kind() == sym::Loop)
        for (size_t i = 2; i < n->inputCount(); ++i)
          if (found.contains(n->input(i))) add(n->block(0)->parameter(i - 1));
      for (const Block* inner : n->blocks()) readBlock(inner);
      if (n->hasBlocks()) {
        const size_t first = n->kind() == sym::Loop ? 1 : 0;
        for (const Block* inner : n->blocks())
          for (size_t i = first; i < inner->results().size() && i - first < n->outputCount(); ++i)
            if (found.contains(inner->result(i))) add(n->output(i - first));
        continue;
      }
      const bool changes =
          picks(n) || std::ranges::any_of(n->inputs(), [&](const Use& u) { return found.contains(u.value); });
      for (const Value* v : n->outputs())
        if (changes) add(v);
    }
  }

  // Whether sizes of its results follow from elements.
  bool picks(const Node* n) const {
    const Operator* op = registry_.resolve(*n);
    if (op && op->has(Trait::DependsOnElements)) return true;
    if (n->kind() != aten::index || n->inputCount() != 2) return false;
    const Node* list = n->input(1)->node();
    return list && std::ranges::any_of(list->inputs(), [&](const Use& u) {
             return u.value->type()->isTensor() && factsOf(u.value).dtype == DType::Bool;
           });
  }

  const TensorFacts& factsOf(const Value* v) const {
    const SymbolicValue* known = shapes_ ? shapes_->find(v) : nullptr;
    return known && known->type->isTensor() ? known->type->tensor() : v->type()->tensor();
  }

  // Lists of tensors hand them on.
  void add(const Value* v) {
    const TypePtr type = v->type();
    if (type->isTensor()) {
      const TensorFacts& t = factsOf(v);
      if (t.hasRank && std::ranges::all_of(t.sizes, [](int64_t s) { return isKnownSize(s); })) return;
    } else if (!type->is(TypeKind::List)) {
      return;
    }
    found.insert(v);
  }

  const OpRegistry& registry_;
  const ShapePropagation* shapes_;
};

}  // namespace

std::unordered_set<const Value*> tensorsOfChangingSizes(const Graph& graph, const OpRegistry& registry,
                                                        const ShapePropagation* shapes) {
  LoopSizes sizes(registry, shapes);
  forEachNode(graph, [&](const Node* n) {
    if (n->kind() == sym::Loop) sizes.read(n);
  });
  return std::move(sizes.found);
}

}  // namespace tscompile
