#include "passes/serving/drop_caches.h"

#include "ir/values/aten.h"
#include "ir/values/kind_set.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/lookups.h"
#include "passes/serving/moved_dim.h"
#include "passes/serving/serving_passes.h"

#include <algorithm>
#include <array>
#include <limits>
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

// A tensor of caches: which of its dimensions counts tokens, and which texts.
struct Stack {
  std::optional<size_t> dim = std::nullopt;  // nothing is joined to it
  std::optional<size_t> texts = std::nullopt;
  size_t rank = 0;
  bool operator==(const Stack&) const = default;
};

class Caches {
 public:
  Caches(Graph& graph, RewriteContext& context) : graph_(graph), c_(context) {}

  bool drop() {
    Value* ids = idsOf(graph_);
    for (Value* input : graph_.inputs()) {
      const TypePtr type = input->type();
      const bool isMany = type->is(TypeKind::List) || type->is(TypeKind::Tuple) || type->is(TypeKind::Dict);
      if (input == ids || roleByName(input) || !(input->type()->isTensor() || isMany)) continue;
      if (input->type()->isTensor() ? isJoined(input) : input->hasUses())
        if (!look(input)) return false;
    }
    if (joins_.empty() || !one_ || !settleAsked()) return false;
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
  bool isJoined(const Value* v) {
    for (const Use& u : v->uses()) {
      if (joinBehind(v, u.user)) return true;
      if (const Value* same = joinedToNothing(v, u.user); same && isJoined(same)) return true;
      if (takesPart(u) && std::ranges::any_of(u.user->outputs(), [&](const Value* e) { return isJoined(e); }))
        return true;
    }
    return false;
  }

  // Some of a tensor of caches, or all of it in another order or dtype; items of a list of those.
  bool takesPart(const Use& use) {
    const Node* n = use.user;
    if (use.index() != 0) return false;
    return isItem(n) || c_.facts.movesElements(n) || c_.facts.keepsElements(n);
  }
  static bool isItem(const Node* n) { return n->kind() == sym::ListUnpack || n->kind() == aten::getitem_; }

  // What joins a list that nothing else reads; null if nothing does.
  static Node* catBehind(const Node* list) {
    if (list->kind() != sym::ListConstruct || list->output()->useCount() != 1) return nullptr;
    Node* cat = (*list->output()->uses().begin()).user;
    return cat->kind() == aten::cat ? cat : nullptr;
  }
  // Caches that are made anew begin as tensors of no elements and no form, which exports say of attributes that they
  // mark in place.
  std::vector<Value*> partsOf(const Node* list) {
    auto isNothing = [this](const Value* v) {
      const TensorFacts* said = v->type()->isTensor() ? &v->type()->tensor() : nullptr;
      return (said && said->hasRank && said->sizes == Dims{0}) || c_.facts.sizes(v) == Dims{0};
    };
    std::vector<Value*> parts;
    for (const Use& u : list->inputs())
      if (!isNothing(u.value)) parts.push_back(u.value);
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
    std::vector<Node*> asked;
    for (const Use& u : v->uses()) {
      std::optional<Stack> part = Stack{};
      if (const std::optional<Join> j = joinBehind(v, u.user)) {
        part = oneCache(v, j->dim);
        joins_.push_back(*j);
        if (part && !one_) one_ = part;
      } else if (u.user->kind() == aten::size && u.user->inputCount() == 2) {
        asked.push_back(u.user);
      } else if (Value* same = joinedToNothing(v, u.user)) {
        part = lookAtTensor(same);
      } else {
        part = takesPart(u) ? lookAtParts(u.user) : std::nullopt;
      }
      if (!part || (stack.dim && part->dim && stack != *part)) return std::nullopt;
      if (part->dim) stack = *part;
    }
    for (Node* n : asked) asked_.emplace_back(n, stack);
    return stack;
  }
  std::optional<Stack> lookAtParts(Node* taking) {
    Stack all;
    for (Value* part : taking->outputs()) {
      std::optional<Stack> found = lookAtTensor(part);
      if (found && found->dim) found = before(taking, *found);
      if (!found || (all.dim && found->dim && all != *found)) return std::nullopt;
      if (found->dim) all = *found;
    }
    return all;
  }

  // Keys or values [batch, heads, tokens, size], if nothing else is known of them.
  static std::optional<Stack> oneCache(const Value* v, int64_t dim) {
    constexpr int64_t kRank = 4;
    const TensorFacts* facts = v->type()->isTensor() ? &v->type()->tensor() : nullptr;
    const int64_t rank = facts && facts->hasRank ? static_cast<int64_t>(facts->sizes.size()) : std::max(kRank, dim + 1);
    const int64_t at = dim < 0 ? dim + rank : dim;
    if (at < 0 || at >= rank) return std::nullopt;
    return Stack{static_cast<size_t>(at), at == 0 ? std::nullopt : std::optional<size_t>(0), static_cast<size_t>(rank)};
  }

  // What a node takes it from.
  std::optional<Stack> before(const Node* taking, const Stack& part) {
    if (isItem(taking) || c_.facts.keepsElements(taking)) return part;
    if (taking->kind() == aten::slice) return beforeSlice(taking, part);
    const bool makesList = !taking->output()->type()->isTensor(), isUnbound = taking->kind() == aten::unbind;
    if (makesList && !isUnbound) return beforeSplit(taking, part);
    size_t rank = part.rank + (isUnbound ? 1 : 0);
    if (!isUnbound) rank = rankBefore(taking, part.rank);
    auto of = [&](size_t to) -> std::optional<size_t> {
      for (size_t d = 0; d < rank; ++d)
        if ((isUnbound ? pastUnbound(taking, d, rank) : movedDim(taking, d, rank, part.rank, c_.facts)) == to) return d;
      return std::nullopt;
    };
    const std::optional<size_t> dim = of(*part.dim);
    if (!dim) return std::nullopt;
    return Stack{dim, part.texts ? of(*part.texts) : std::nullopt, rank};
  }
  std::optional<size_t> pastUnbound(const Node* n, size_t dim, size_t rank) {
    const std::optional<size_t> gone = dimNamed(n->input(1), rank, c_.facts);
    if (!gone || *gone == dim) return std::nullopt;
    return dim - (*gone < dim ? 1 : 0);
  }
  size_t rankBefore(const Node* n, size_t rank) const {
    if (n->kind() == aten::unsqueeze) return rank - 1;
    if (n->kind() == aten::select) return rank + 1;
    if (n->kind() != aten::squeeze || n->inputCount() < 2) return rank;
    const std::optional<Dims> gone = c_.facts.integers(n->input(1));
    return rank + (gone ? gone->size() : 1);
  }
  // Of tokens the last ones, which a window may see, or all; of layers, heads or numbers the same in each call.
  std::optional<Stack> beforeSlice(const Node* slice, Stack part) {
    const std::optional<size_t> dim = dimNamed(slice->input(1), part.rank, c_.facts);
    if (isWholeSlice(slice, c_.facts)) return part;
    const std::optional<int64_t> begin = c_.facts.integer(slice->input(2)), step = c_.facts.integer(slice->input(4));
    if (step != 1) return std::nullopt;
    // From a place on that is the same for all lengths: each call forgets some.
    if (dim && dim == part.dim) return begin && *begin > 0 ? std::nullopt : std::optional(part);
    auto isKnown = [&](const Value* v) { return GraphFacts::isNone(v) || c_.facts.integer(v); };
    if (!dim || !isKnown(slice->input(2)) || !isKnown(slice->input(3))) return std::nullopt;
    if (dim == part.texts) part.texts = std::nullopt;
    return part;
  }
  std::optional<Stack> beforeSplit(const Node* split, Stack part) {
    const std::optional<size_t> dim = dimNamed(split->input(split->inputCount() - 1), part.rank, c_.facts);
    if (!dim || dim == part.dim) return std::nullopt;
    if (dim == part.texts) part.texts = std::nullopt;
    return part;
  }

  // What is asked of a cache that nothing is joined to is that of all others.
  bool settleAsked() {
    for (auto [n, stack] : asked_) {
      const Stack& one = stack.dim ? stack : *one_;
      const std::optional<size_t> at = dimNamed(n->input(1), one.rank, c_.facts);
      if (!at) return false;
      for (const Join& j : joins_)
        if (const auto other = oneCache(j.cat->output(), j.dim); !stack.dim && (!other || other->dim != one.dim))
          return false;
      if (at == one.dim)
        sizes_.push_back(n);
      else if (at == one.texts && idsOf(graph_))
        batches_.push_back(n);
      else
        return false;
    }
    return true;
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
  std::optional<Stack> one_;  // that something is joined to
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

bool takesTensorsBesideTexts(const Graph& graph) {
  return std::ranges::any_of(graph.inputs(), [](const Value* v) {
    const TensorFacts* f = v->type()->isTensor() ? &v->type()->tensor() : nullptr;
    return f && f->hasRank && f->sizes.size() > 2 && !roleByName(v);
  });
}

bool beginAtFirstPlace(Graph& graph, bool hasCaches) {
  bool found = false;
  for (size_t i = graph.inputs().size(); i-- > 0;) {
    Value* input = graph.input(i);
    if (!isFirstPlace(input) || !(hasCaches || isCountedFrom(input))) continue;
    Builder b(graph, graph.block()->first() ? graph.block()->first() : graph.returnNode());
    input->replaceAllUsesWith(b.constant(firstPlaceOf(input)));
    graph.block()->removeParameter(i);
    found = true;
  }
  return found;
}

namespace {

bool holdsTensors(TypePtr type) { return type->isTensor() || std::ranges::any_of(type->elements(), holdsTensors); }

// As it is in the first call of a text: without any, or with None where that may stand; null: nothing asks.
Value* madeEmpty(const Value* input, Builder& b) {
  static const KindSet kQuestions{"aten::len", "aten::__contains__"};
  const TypePtr type = input->type();
  const bool isDict = type->is(TypeKind::Dict);
  if ((!isDict && !type->is(TypeKind::List)) || !holdsTensors(type)) return nullptr;
  const TypePtr held = type->element(isDict ? 1 : 0);
  const bool mayBeNone = !isDict && held->is(TypeKind::Optional);
  size_t places = 0;
  bool isAsked = mayBeNone;
  for (const Use& u : input->uses()) {
    isAsked = isAsked || kQuestions.contains(u.user->kind());
    if (u.user->kind() == sym::ListUnpack) places = u.user->outputCount();
    const IValue* at = u.user->kind() == aten::getitem_ ? GraphFacts::constant(u.user->input(1)) : nullptr;
    if (at && at->isInt() && at->toInt() >= 0) places = std::max(places, static_cast<size_t>(at->toInt()) + 1);
  }
  if (!isAsked) return nullptr;
  if (!isDict) {
    Value* none = mayBeNone ? b.constant(IValue(), held) : nullptr;
    return b.list(std::vector<Value*>(mayBeNone ? places : 0, none), held);
  }
  Value* dict = b.insert(sym::DictConstruct, {})->output();
  dict->setType(type);
  return dict;
}

// Whether it is as much of the join, up to its end, as was joined.
bool isEndOf(const Value* v, const Node* join, const Value* joined) {
  const IValue* dim = GraphFacts::constant(join->input(1));
  const TensorFacts* f = joined->type()->isTensor() ? &joined->type()->tensor() : nullptr;
  if (!dim || !dim->isInt() || !f || !f->hasRank || !haveOneForm(v, joined)) return false;
  const int64_t rank = static_cast<int64_t>(f->sizes.size()), at = dim->toInt() + (dim->toInt() < 0 ? rank : 0);
  if (at < 0 || at >= rank || f->sizes[static_cast<size_t>(at)] < 0) return false;
  while (v != join->output()) {
    const Node* n = v->node();
    if (!n || n->kind() != aten::slice) return false;
    const IValue *end = GraphFacts::constant(n->input(3)), *step = GraphFacts::constant(n->input(4));
    const bool isToEnd =
        end && (end->isNone() || (end->isInt() && end->toInt() == std::numeric_limits<int64_t>::max()));
    if (!isToEnd || !step || !step->isInt() || step->toInt() != 1) return false;
    v = n->input(0);
  }
  return true;
}

}  // namespace

bool beginEmpty(Graph& graph) {
  bool found = false;
  const bool hasIds = idsOf(graph);
  for (size_t i = graph.inputs().size(); hasIds && i-- > 0;) {
    Builder b(graph, graph.block()->first() ? graph.block()->first() : graph.returnNode());
    Value* empty = roleByName(graph.input(i)) ? nullptr : madeEmpty(graph.input(i), b);
    if (!empty) continue;
    graph.input(i)->replaceAllUsesWith(empty);
    graph.block()->removeParameter(i);
    found = true;
  }
  return found;
}

bool dropCaches(Graph& graph, const OpRegistry& registry) {
  Diagnostics ignored;
  RewriteContext context(graph, registry, ignored);
  return Caches(graph, context).drop();
}

Value* joinOf(const Value* cache, const Value* fresh) {
  for (const Use& u : cache->uses()) {
    const Node* list = u.user;
    if (list->kind() != sym::ListConstruct || list->inputCount() != 2 || u.index() != 0) continue;
    for (const Use& join : list->output()->uses())
      if (join.user->kind() == aten::cat && (list->input(1) == fresh || isEndOf(fresh, join.user, list->input(1))))
        return join.user->output();
  }
  return nullptr;
}

}  // namespace tscompile
