#include "passes/serving/drop_caches.h"

#include "ir/values/aten.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/lookups.h"
#include "passes/serving/serving_passes.h"

#include <algorithm>
#include <array>
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

// A tensor of caches: along which dimension they grow, and how many dimensions are before those of one cache.
struct Stack {
  std::optional<int64_t> dim = std::nullopt;  // nothing is joined to it
  int64_t depth = 0;
};

class Caches {
 public:
  Caches(Graph& graph, RewriteContext& context) : graph_(graph), c_(context) {}

  bool drop() {
    Value* ids = withIds();
    for (Value* input : graph_.inputs()) {
      const TypePtr type = input->type();
      const bool isMany = type->is(TypeKind::List) || type->is(TypeKind::Tuple) || type->is(TypeKind::Dict);
      if (input == ids || roleByName(input) || !(input->type()->isTensor() || isMany)) continue;
      if (input->type()->isTensor() ? isJoined(input) : input->hasUses())
        if (!look(input)) return false;
    }
    if (joins_.empty() || !settleAsked()) return false;
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
    for (const Use& u : v->uses()) {
      if (joinBehind(v, u.user)) return true;
      if (const Value* same = joinedToNothing(v, u.user); same && isJoined(same)) return true;
      if (isPart(u) && isJoined(u.user->output())) return true;
      if (takesFromStack(u.user) && std::ranges::any_of(u.user->outputs(), [&](const Value* e) { return isJoined(e); }))
        return true;
    }
    return false;
  }

  // One cache of a tensor that has several behind each other, or all of them.
  bool takesFromStack(const Node* n) {
    if (n->kind() == sym::ListUnpack || n->kind() == aten::getitem_) return true;
    const bool takes = n->kind() == aten::select || n->kind() == aten::unbind;
    return takes && n->inputCount() > 1 && c_.facts.integer(n->input(1)) == 0;
  }

  // What joins a list that nothing else reads; null if nothing does.
  static Node* catBehind(const Node* list) {
    if (list->kind() != sym::ListConstruct || list->output()->useCount() != 1) return nullptr;
    Node* cat = (*list->output()->uses().begin()).user;
    return cat->kind() == aten::cat ? cat : nullptr;
  }
  // Caches that are made anew begin as tensors of no elements and no form.
  std::vector<Value*> partsOf(const Node* list) {
    std::vector<Value*> parts;
    for (const Use& u : list->inputs())
      if (c_.facts.sizes(u.value) != Dims{0}) parts.push_back(u.value);
    return parts;
  }
  // cat([v, fresh], dim)
  std::optional<Join> joinBehind(const Value* v, const Node* list) {
    Node* cat = catBehind(list);
    std::optional<int64_t> dim = cat ? c_.facts.integer(cat->input(1)) : std::nullopt;
    if (!dim) return std::nullopt;
    const std::vector<Value*> parts = partsOf(list);
    return parts.size() == 2 && parts[0] == v ? std::optional(Join{cat, parts[1], *dim}) : std::nullopt;
  }
  // cat([empty, v], dim), which is v.
  Value* joinedToNothing(const Value* v, const Node* list) {
    Node* cat = catBehind(list);
    return cat && std::ranges::equal(partsOf(list), std::array{v}) ? cat->output() : nullptr;
  }

  // Its last tokens, which a window may see, or all of it.
  static bool isPart(const Use& use) { return use.user->kind() == aten::slice && use.index() == 0; }

  // Everything that is made of an input: elements of lists and tuples, joins, numbers of tokens.
  bool look(Value* v) {
    if (v->type()->isTensor()) return lookAtTensor(v).has_value();
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

  // Nothing if it is used otherwise.
  std::optional<Stack> lookAtTensor(Value* v) {
    Stack stack;
    auto add = [&](Stack part) {
      if (stack.dim && part.dim && (*stack.dim != *part.dim || stack.depth != part.depth)) return false;
      if (part.dim) stack = part;
      return true;
    };
    std::vector<Node*> asked;
    for (const Use& u : v->uses()) {
      if (std::optional<Join> j = joinBehind(v, u.user)) {
        if (!add({j->dim, 0})) return std::nullopt;
        joins_.push_back(*j);
      } else if (u.user->kind() == aten::size && u.user->inputCount() == 2) {
        asked.push_back(u.user);
      } else if (Value* same = joinedToNothing(v, u.user)) {
        std::optional<Stack> part = lookAtTensor(same);
        if (!part || !add(*part)) return std::nullopt;
      } else if (isPart(u)) {
        const std::optional<Stack> part = lookAtTensor(u.user->output());
        const std::optional<int64_t> dim = c_.facts.integer(u.user->input(1));
        const bool isOfTokens = part && part->dim && part->depth == 0 && dim && isSame(*dim, *part->dim);
        if (!part || !(isOfTokens || isWholeSlice(u.user, c_.facts)) || !add(*part)) return std::nullopt;
      } else if (takesFromStack(u.user)) {
        std::optional<Stack> part = lookAtParts(u.user);
        if (!part || !add(*part)) return std::nullopt;
      } else {
        return std::nullopt;
      }
    }
    for (Node* n : asked) asked_.emplace_back(n, stack);
    return stack;
  }
  std::optional<Stack> lookAtParts(Node* taking) {
    Stack all;
    auto add = [&](const std::optional<Stack>& part, int64_t depth) {
      if (!part) return false;
      if (!part->dim) return true;
      const Stack found{part->dim, part->depth + depth};
      if (all.dim && (all.dim != found.dim || all.depth != found.depth)) return false;
      all = found;
      return true;
    };
    for (Value* part : taking->outputs()) {
      if (part->type()->isTensor()) {
        if (!add(lookAtTensor(part), 1)) return std::nullopt;
        continue;
      }
      for (const Use& u : part->uses())
        if (!takesFromStack(u.user) || !add(lookAtParts(u.user), 0)) return std::nullopt;
    }
    return all;
  }

  // What is asked of a cache that nothing is joined to is that of all others.
  bool settleAsked() {
    for (auto [n, stack] : asked_) {
      std::optional<int64_t> at = c_.facts.integer(n->input(1));
      for (const Join& j : joins_)
        if (!stack.dim && j.dim != joins_.front().dim) return false;
      if (!at) return false;
      const int64_t dim = stack.dim.value_or(joins_.front().dim), of = *at < 0 ? *at : *at - stack.depth;
      if (*at >= 0 && of < 0) return false;
      if (isSame(of, dim))
        sizes_.push_back(n);
      else if (isSame(of, 0) && withIds())
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
  std::vector<std::pair<Node*, Stack>> asked_;
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
