#include "passes/serving/drop_caches.h"

#include "ir/values/aten.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/serving_passes.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tscompile {
namespace {

// What is joined after a cache, and along which dimension.
struct Join {
  Node* cat;
  Value* fresh;
  int64_t dim;
};

class Caches {
 public:
  Caches(Graph& graph, RewriteContext& context) : graph_(graph), c_(context) {}

  bool drop() {
    Value* ids = withIds();
    for (Value* input : graph_.inputs()) {
      const bool isMany = input->type()->is(TypeKind::List) || input->type()->is(TypeKind::Tuple);
      if (input == ids || roleByName(input) || !(input->type()->isTensor() || isMany)) continue;
      if (input->type()->isTensor() ? isJoined(input) : input->hasUses())
        if (!look(input)) return false;
    }
    if (joins_.empty()) return false;
    Builder b(graph_, graph_.block()->first());
    for (Node* node : sizes_) node->output()->replaceAllUsesWith(b.constant(IValue(int64_t{0})));
    for (Node* node : batches_) {
      node->replaceInput(0, ids);
      node->replaceInput(1, b.constant(IValue(int64_t{0})));
    }
    for (const Join& j : joins_) replaceValue(j.cat->output(), j.fresh);
    removeUnused();
    return true;
  }

 private:
  // The first input, unless another one is called so.
  Value* withIds() const {
    for (Value* v : graph_.inputs())
      if (roleByName(v) == ServingInput::Ids) return v;
    for (Value* v : graph_.inputs())
      if (v->type()->isTensor() && !roleByName(v)) return v;
    return nullptr;
  }

  bool isJoined(const Value* v) {
    for (const Use& u : v->uses())
      if (joinBehind(v, u.user)) return true;
    return false;
  }

  // cat([v, fresh], dim)
  std::optional<Join> joinBehind(const Value* v, const Node* list) {
    if (list->kind() != sym::ListConstruct || list->inputCount() != 2 || list->input(0) != v) return std::nullopt;
    if (list->output()->useCount() != 1) return std::nullopt;
    Node* cat = (*list->output()->uses().begin()).user;
    std::optional<int64_t> dim = cat->kind() == aten::cat ? c_.facts.integer(cat->input(1)) : std::nullopt;
    return dim ? std::optional(Join{cat, list->input(1), *dim}) : std::nullopt;
  }

  // Everything that is made of an input: elements of lists and tuples, joins, numbers of tokens.
  bool look(Value* v) {
    if (v->type()->isTensor()) return lookAtTensor(v);
    for (const Use& u : v->uses()) {
      Node* n = u.user;
      const bool takesApart = n->kind() == sym::TupleUnpack || n->kind() == sym::ListUnpack ||
                              n->kind() == sym::TupleIndex || n->kind() == aten::getitem_;
      if (!takesApart) return false;
      for (Value* element : n->outputs())
        if (element->hasUses() && !look(element)) return false;
    }
    return true;
  }

  bool lookAtTensor(Value* v) {
    std::optional<int64_t> dim;
    std::vector<Node*> asked;
    for (const Use& u : v->uses()) {
      if (std::optional<Join> j = joinBehind(v, u.user)) {
        if (dim && *dim != j->dim) return false;
        dim = j->dim;
        joins_.push_back(*j);
      } else if (u.user->kind() == aten::size && u.user->inputCount() == 2) {
        asked.push_back(u.user);
      } else {
        return false;
      }
    }
    for (Node* n : asked) {
      std::optional<int64_t> at = c_.facts.integer(n->input(1));
      if (!dim || !at) return false;
      if (isSame(*at, *dim))
        sizes_.push_back(n);
      else if (isSame(*at, 0) && withIds())
        batches_.push_back(n);
      else
        return false;
    }
    return true;
  }
  // Of keys and values [batch, heads, tokens, size].
  static bool isSame(int64_t a, int64_t b) {
    constexpr int64_t kRank = 4;
    return (a < 0 ? a + kRank : a) == (b < 0 ? b + kRank : b);
  }

  void removeUnused() {
    c_.facts.refresh();
    removeDeadCode(graph_, c_);
    for (size_t i = graph_.inputs().size(); i-- > 0;)
      if (!graph_.input(i)->hasUses()) graph_.block()->removeParameter(i);
  }

  Graph& graph_;
  RewriteContext& c_;
  std::vector<Join> joins_;
  std::vector<Node*> sizes_;    // that ask for tokens of a cache
  std::vector<Node*> batches_;  // for texts, of which there are as many ids
};

}  // namespace

bool writeCopies(Graph& graph) {
  std::map<std::pair<const Value*, std::string>, int> counts;
  std::vector<std::pair<Node*, std::string>> reads;
  forEachNode(graph, [&](Node* n) {
    const IValue* name = n->kind() == sym::GetAttr && n->inputCount() == 1 ? n->attributeValue(sym::name) : nullptr;
    if (!name || !name->isString() || !n->output()->type()->isTensor()) return;
    reads.emplace_back(n, name->toString());
    ++counts[{n->input(0), name->toString()}];
  });
  bool found = false;
  for (const auto& [node, name] : reads) {
    if (counts.at({node->input(0), name}) != 1 || node->output()->useCount() != 1) continue;
    const Use& use = *node->output()->uses().begin();
    Node* writer = use.user;
    if (writer->kind() != aten::copy_ || use.index() != 0) continue;
    Builder b(graph, writer);
    writer->replaceInput(0, b.call(aten::clone, {node->output(), b.constant(IValue())}, types().tensor));
    found = true;
  }
  return found;
}

bool dropCaches(Graph& graph, const OpRegistry& registry) {
  Diagnostics ignored;
  RewriteContext context(graph, registry, ignored);
  return Caches(graph, context).drop();
}

}  // namespace tscompile
