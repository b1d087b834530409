// Tuples that are made and taken apart again become their elements, also where they leave branches or go round a loop:
//
//   %t = prim::If(%c)                        %1, %2 = prim::If(%c)
//     block0():                                block0():
//       %p = prim::TupleConstruct(%a, %b)        -> (%a, %b)
//       -> (%p)                           ->   ...
//     ...                                    %t = prim::TupleConstruct(%1, %2)
//
// One that only some of these places make is taken apart at the others.
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace tscompile {
namespace {

// The node that makes a tuple with elements of just these types; else null.
Node* constructOf(const Value* v, TypePtr tuple) {
  Node* n = v->node();
  if (!n || n->kind() != sym::TupleConstruct || !tuple->is(TypeKind::Tuple)) return nullptr;
  return n->inputCount() == tuple->elements().size() ? n : nullptr;
}

bool isUninitialized(const Value* v) { return v->node() && v->node()->kind() == sym::Uninitialized; }

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
    there_.erase(old);
    Value* made = b.tuple(items);
    made->setType(old->type());
    replaceValue(old, made);
  }

  // A result of its branches of which it is not known whether it is there; null: of all it is.
  const Value* openResult(const Value* v) const {
    if (!isOfBranches(v)) return nullptr;
    for (const Block* b : v->node()->blocks())
      if (const Value* given = b->result(v->index()); !there_.contains(given)) return given;
    return nullptr;
  }
  static bool isOfBranches(const Value* v) { return v->node() && v->node()->kind() == sym::If; }

  // Whether it is there whenever it is handed on: what branches and loops give may be left out where nobody reads it.
  bool isThere(const Value* v) {
    std::vector<const Value*> todo{v};
    while (!todo.empty()) {
      const Value* asked = todo.back();
      if (const Value* open = openResult(asked)) {
        todo.push_back(open);
        continue;
      }
      todo.pop_back();
      const Node* n = asked->node();
      auto isGiven = [&](const Block* b) { return there_.at(b->result(asked->index())); };
      there_[asked] = isOfBranches(asked) ? std::ranges::all_of(n->blocks(), isGiven)
                      : n                 ? !n->hasBlocks() && !isUninitialized(asked)
                                          : asked->block() == graph_.block();
    }
    return there_.at(v);
  }

  // Whether `v` may be taken apart into elements of just these types.
  bool mayUnpack(const Value* v, TypePtr tuple) {
    const TypePtr own = v->type();
    if (!tuple->is(TypeKind::Tuple) || !own->is(TypeKind::Tuple)) return false;
    return own->elements().size() == tuple->elements().size() && isSubtype(own, tuple) &&
           (isUninitialized(v) || isThere(v));
  }

  // Whether one of two values is a tuple that is made, and the other one too, or may be taken apart.
  bool isMadeInOne(const Value* a, const Value* b, TypePtr tuple) {
    const bool isMade = constructOf(a, tuple), isOtherMade = constructOf(b, tuple);
    return (isMade || isOtherMade) && (isMade || mayUnpack(a, tuple)) && (isOtherMade || mayUnpack(b, tuple));
  }

  // Of a tuple that is made or may be unpacked, in front of `before`, for a node.
  std::vector<Value*> elementsOf(Value* tuple, TypePtr type, Node* before, const Node* user) {
    std::vector<Value*> items;
    if (const Node* made = constructOf(tuple, type)) {
      for (const Use& u : made->inputs()) items.push_back(u.value);
      return items;
    }
    Builder b(graph_, before);
    b.setPlaceOf(user);
    const bool isLeftOut = isUninitialized(tuple);
    Node* apart = isLeftOut ? nullptr : b.insert(sym::TupleUnpack, {tuple}, 0);
    for (TypePtr element : tuple->type()->elements())
      items.push_back(isLeftOut ? b.call(sym::Uninitialized, {}, element) : apart->addOutput(element));
    return items;
  }

  bool lowerResults(Node* n) {
    bool changed = false;
    for (size_t o = n->outputCount(); o-- > 0;) {
      Value* out = n->output(o);
      if (!isMadeInOne(n->block(0)->result(o), n->block(1)->result(o), out->type())) continue;
      std::vector<Value*> given[2], items;
      for (size_t k = 0; k < 2; ++k)
        given[k] = elementsOf(n->block(k)->result(o), out->type(), n->block(k)->returnNode(), n);
      for (size_t i = 0; i < out->type()->elements().size(); ++i) {
        for (size_t k = 0; k < 2; ++k) n->block(k)->addResult(given[k][i]);
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
      Value *first = n->input(o + 2), *last = body->result(o + 1);
      if (out->type() != parameter->type() || last == parameter || !isMadeInOne(first, last, parameter->type()))
        continue;
      const std::vector<Value*> start = elementsOf(first, parameter->type(), n, n);
      const std::vector<Value*> next = elementsOf(last, parameter->type(), body->returnNode(), n);
      std::vector<Value*> inside, outside;
      for (size_t i = 0; i < out->type()->elements().size(); ++i) {
        TypePtr type = out->type()->element(i);
        n->addInput(start[i]);
        inside.push_back(body->addParameter(type));
        body->addResult(next[i]);
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
  std::unordered_map<const Value*, bool> there_;
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
