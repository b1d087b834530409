// Tuples that are made and taken apart again become their elements, also where they leave branches or go round a loop:
//
//   %t = prim::If(%c)                        %1, %2 = prim::If(%c)
//     block0():                                block0():
//       %p = prim::TupleConstruct(%a, %b)        -> (%a, %b)
//       -> (%p)                           ->   ...
//     ...                                    %t = prim::TupleConstruct(%1, %2)
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

// The node that makes a tuple with elements of just these types; else null.
Node* constructOf(const Value* v, TypePtr tuple) {
  Node* n = v->node();
  if (!n || n->kind() != sym::TupleConstruct || !tuple->is(TypeKind::Tuple)) return nullptr;
  return n->inputCount() == tuple->elements().size() ? n : nullptr;
}

bool fits(const Value* v, TypePtr wanted) { return isSubtype(v->type(), withoutRefinement(wanted)); }

class Lowering {
 public:
  Lowering(Graph& graph, RewriteContext& context) : graph_(graph), context_(context) {}

  bool run() {
    std::vector<Node*> nodes;
    forEachNode(graph_, [&](Node* n) { nodes.push_back(n); });
    bool changed = false;
    // Inner blocks first: what they give shows then.
    for (size_t i = nodes.size(); i-- > 0;) {
      if (nodes[i]->kind() == sym::If) changed |= lowerResults(nodes[i]);
      if (nodes[i]->kind() == sym::Loop) changed |= lowerCarried(nodes[i]);
    }
    std::vector<Node*> gone;
    for (Node* n : nodes)
      if (takeApart(n)) gone.push_back(n);
    for (Node* n : gone) n->destroy();
    return changed || !gone.empty();
  }

 private:
  // A tuple of new values in place of another value.
  void rebuild(Builder b, Value* old, std::span<Value* const> items) {
    Value* made = b.tuple(items);
    made->setType(old->type());
    replaceValue(old, made);
  }

  bool lowerResults(Node* n) {
    bool changed = false;
    for (size_t o = n->outputCount(); o-- > 0;) {
      Value* out = n->output(o);
      Node* made[2] = {constructOf(n->block(0)->result(o), out->type()),
                       constructOf(n->block(1)->result(o), out->type())};
      if (!made[0] || !made[1]) continue;
      std::vector<Value*> items;
      for (size_t i = 0; i < out->type()->elements().size(); ++i) {
        for (size_t k = 0; k < 2; ++k) n->block(k)->addResult(made[k]->input(i));
        items.push_back(n->addOutput(out->type()->element(i)));
      }
      Builder b(graph_, n);
      b.setPlaceOf(n);
      b.setPointAfter(n);
      rebuild(b, out, items);
      for (Block* block : n->blocks()) block->returnNode()->removeInput(o);
      n->removeOutput(o);
      changed = true;
    }
    return changed;
  }

  bool lowerCarried(Node* n) {
    bool changed = false;
    Block* body = n->block(0);
    for (size_t o = n->outputCount(); o-- > 0;) {
      Value *out = n->output(o), *parameter = body->parameter(o + 1);
      Node* start = constructOf(n->input(o + 2), parameter->type());
      Node* next = constructOf(body->result(o + 1), parameter->type());
      if (!start || !next || out->type() != parameter->type()) continue;
      std::vector<Value*> inside, outside;
      for (size_t i = 0; i < out->type()->elements().size(); ++i) {
        TypePtr type = out->type()->element(i);
        n->addInput(start->input(i));
        inside.push_back(body->addParameter(type));
        body->addResult(next->input(i));
        outside.push_back(n->addOutput(type));
      }
      Builder b(graph_, n);
      b.setPlaceOf(n);
      b.setPointAfter(n);
      rebuild(b, out, outside);
      b.setPointAtStart(body);
      rebuild(b, parameter, inside);
      body->returnNode()->removeInput(o + 1);
      n->removeInput(o + 2);
      n->removeOutput(o);
      body->removeParameter(o + 1);
      changed = true;
    }
    return changed;
  }

  // Whether the node takes a tuple apart that is known, and is no longer needed.
  bool takeApart(Node* n) {
    if (n->kind() == sym::TupleUnpack) {
      Node* made = constructOf(n->input(0), n->input(0)->type());
      if (!made || made->inputCount() != n->outputCount()) return false;
      for (size_t i = 0; i < n->outputCount(); ++i)
        if (!fits(made->input(i), n->output(i)->type())) return false;
      for (size_t i = 0; i < n->outputCount(); ++i) replaceValue(n->output(i), made->input(i));
      return true;
    }
    if (n->kind() == sym::TupleIndex && n->inputCount() == 2 && n->outputCount() == 1) {
      Node* made = constructOf(n->input(0), n->input(0)->type());
      std::optional<int64_t> i = made ? context_.facts.integer(n->input(1)) : std::nullopt;
      auto count = made ? static_cast<int64_t>(made->inputCount()) : 0;
      if (i && *i < 0) *i += count;
      if (!i || *i < 0 || *i >= count) return false;
      Value* v = made->input(static_cast<size_t>(*i));
      if (!fits(v, n->output()->type())) return false;
      replaceValue(n->output(), v);
      return true;
    }
    return n->kind() == sym::TupleSlice && n->inputCount() == 1 && n->outputCount() == 1 && slice(n);
  }

  bool slice(Node* n) {
    static const Symbol kBegin = Symbol::of("beg"), kEnd = Symbol::of("end");
    Node* made = constructOf(n->input(0), n->input(0)->type());
    const IValue *begin = n->attributeValue(kBegin), *end = n->attributeValue(kEnd);
    if (!made || !begin || !end || !begin->isInt() || !end->isInt()) return false;
    int64_t from = begin->toInt(), to = end->toInt();
    if (from < 0 || from > to || to > static_cast<int64_t>(made->inputCount())) return false;
    if (static_cast<size_t>(to - from) > kMostItems) return false;
    std::vector<Value*> items;
    for (int64_t i = from; i < to; ++i) items.push_back(made->input(static_cast<size_t>(i)));
    rebuild(context_.before(n), n->output(), items);
    return true;
  }

  Graph& graph_;
  RewriteContext& context_;
};

}  // namespace

bool lowerTuples(Graph& graph, RewriteContext& context) {
  bool changed = false;
  // Elements may be tuples themselves.
  while (Lowering(graph, context).run()) changed = true;
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
