#include "passes/serving/static_caches.h"

#include "ir/analysis/alias.h"
#include "ir/graph/builder.h"
#include "ir/graph/clone.h"
#include "ir/values/aten.h"
#include "passes/rewrite/rewrite.h"
#include "passes/serving/entrance.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/lookups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace tscompile {
namespace {

const Symbol kIndexCopy = Symbol::of("aten::index_copy"), kIndexPut = Symbol::of("aten::index_put"),
             kSliceScatter = Symbol::of("aten::slice_scatter"), kNumberOf = Symbol::of("aten::Int");

// The operator itself, or the one that writes its result in place.
bool isOrWrites(Symbol kind, Symbol op) { return kind == op || kind.text() == std::string(op.text()) + "_"; }

const TensorFacts* factsOf(const Value* v) { return v->type()->isTensor() ? &v->type()->tensor() : nullptr; }

bool hasKnownSizes(const Value* v) {
  const TensorFacts* f = factsOf(v);
  return f && f->hasRank && f->dtype != DType::Undefined &&
         std::ranges::all_of(f->sizes, [](int64_t s) { return s >= 0; });
}

// Of the longest tensor that is written at places of one of its dimensions.
int64_t placesInCaches(const Graph& graph) {
  int64_t most = 0;
  for (const Node* n : graph.block()->nodes()) {
    const TensorFacts* f = n->outputCount() == 1 ? factsOf(n->output()) : nullptr;
    if (!f || !f->hasRank) continue;
    std::optional<int64_t> dim;
    const Node* list = n->inputCount() > 1 ? n->input(1)->node() : nullptr;
    const IValue* number = n->inputCount() > 1 ? GraphFacts::constant(n->input(1)) : nullptr;
    if (isOrWrites(n->kind(), kIndexCopy) && number && number->isInt()) dim = number->toInt();
    if (isOrWrites(n->kind(), kIndexPut) && list && list->kind() == sym::ListConstruct)
      for (size_t i = 0; i < list->inputCount(); ++i)
        if (!GraphFacts::isNone(list->input(i))) dim = static_cast<int64_t>(i);
    if (dim && *dim < 0) dim = *dim + static_cast<int64_t>(f->sizes.size());
    if (dim && *dim >= 0 && static_cast<size_t>(*dim) < f->sizes.size())
      most = std::max(most, f->sizes[static_cast<size_t>(*dim)]);
  }
  return most;
}

class WholeTexts {
 public:
  WholeTexts(Graph& graph, const OpRegistry& registry) : graph_(graph), registry_(registry) {}

  StaticCaches run() {
    findInputs();
    if (!ids_ || !logitsOf(graph_) || !findCaches()) return StaticCaches::None;
    const bool isOneByOne = hasOneToken();
    if (isOneByOne && inputs_.size() > (places_ ? 2 : 1) + given_.size()) return StaticCaches::None;
    if (isOneByOne && !findReturned()) return StaticCaches::None;
    for (Node* n : attributes_) {
      Value* anew = writtenAnew(n->output());
      kept_.push_back({copyOf(n->output(), n->next()), anew});
    }
    for (size_t i = 0; i < given_.size(); ++i) beginWithZeros(given_[i], i < returned_.size() ? returned_[i] : nullptr);
    if (isOneByOne)
      loopOverTokens();
    else if (places_)
      places_->replaceAllUsesWith(countedFrom0(Builder(graph_, graph_.block()->first())));
    for (Value* start : starts_) {
      Builder b(graph_, graph_.block()->first() ? graph_.block()->first() : graph_.returnNode());
      start->replaceAllUsesWith(number(b, 0));
      eraseInput(start);
    }
    if (places_) eraseInput(places_);
    return isOneByOne ? StaticCaches::OneByOne : StaticCaches::WholeText;
  }

 private:
  // What is written has the form of the result.
  static TypePtr formOf(const Value* v) {
    if (v->type()->isTensor() && !hasKnownSizes(v))
      for (const Use& u : v->uses()) {
        const Symbol k = u.user->kind();
        const bool writes = isOrWrites(k, kIndexCopy) || isOrWrites(k, kIndexPut);
        if (writes && u.index() == 0 && hasKnownSizes(u.user->output())) return u.user->output()->type();
      }
    return v->type();
  }

  // Lists and tuples of tensors that are only taken apart become tensors.
  void takeApart() {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      Value* input = graph_.input(i);
      Node* parts = input->useCount() == 1 ? (*input->uses().begin()).user : nullptr;
      if (!parts || (parts->kind() != sym::ListUnpack && parts->kind() != sym::TupleUnpack)) continue;
      for (Value* part : parts->outputs()) part->replaceAllUsesWith(graph_.addInput(formOf(part)));
      parts->destroy();
      eraseInput(graph_.input(i--));
    }
  }

  void findInputs() {
    takeApart();
    for (Value* v : graph_.inputs()) {
      if (v->type()->isTensor()) inputs_.push_back(v);
      if (v->type()->is(TypeKind::Int) && roleByName(v) == ServingInput::Positions) starts_.push_back(v);
    }
    for (Value* v : inputs_)
      if (roleByName(v) == ServingInput::Ids && !ids_) ids_ = v;
    for (Value* v : inputs_)
      if (!ids_ && !roleByName(v)) ids_ = v;
    for (Value* v : inputs_)
      if (roleByName(v) == ServingInput::Positions && (isRow(v) || (hasOneToken() && hasKnownSizes(v)))) places_ = v;
  }

  bool hasOneToken() const {
    const TensorFacts* f = ids_ ? factsOf(ids_) : nullptr;
    return f && f->hasRank && f->sizes.size() == 2 && f->sizes[1] == 1;
  }

  // Places of one dimension are those that a dimension of a tensor is written or read at.
  static bool isRow(const Value* v) {
    const TensorFacts* f = factsOf(v);
    if (f->hasRank) return f->sizes.size() == 1;
    for (const Use& u : v->uses()) {
      const Node* n = u.user;
      if (isOrWrites(n->kind(), kIndexCopy) && u.index() == 2) return true;
      if (n->kind() != sym::ListConstruct || n->inputCount() < 2) continue;
      for (const Use& list : n->output()->uses()) {
        const Symbol k = list.user->kind();
        const bool isIndexed = k == kIndex || isOrWrites(k, kIndexPut);
        if (isIndexed && list.index() == 1 && isOnlyTensor(n, u.index())) return true;
      }
    }
    return false;
  }

  static bool isOnlyTensor(const Node* list, size_t at) {
    for (size_t i = 0; i < list->inputCount(); ++i)
      if (i != at && !GraphFacts::isNone(list->input(i))) return false;
    return true;
  }

  // Attributes and inputs that calls write. Each call begins with copies of attributes of its own.
  bool findCaches() {
    if (!mergeReads()) return false;
    const AliasAnalysis alias(graph_, registry_);
    for (Node* n : graph_.block()->nodes()) {
      if (n->kind() == sym::GetAttr && n->output()->type()->isTensor() &&
          (alias.isWritten(n->output()) || writtenAnew(n->output())))
        attributes_.push_back(n);
      // Programs of torch.export copy what they write.
      if (n->kind() == aten::clone && isAttribute(n->input(0)) && alias.isWritten(n->output())) kept_.push_back({n});
    }
    for (Value* v : inputs_) {
      if (v == ids_ || v == places_ || !hasKnownSizes(v)) continue;
      if (alias.isWritten(v) || isPlacedIn(v, alias)) given_.push_back(v);
    }
    return !kept_.empty() || !attributes_.empty() || (places_ && (!given_.empty() || !hasOneToken()));
  }

  // Whether new tokens are put at places of it, or of parts of it.
  bool isPlacedIn(const Value* v, const AliasAnalysis& alias) const {
    for (const Use& u : v->uses()) {
      const Symbol k = u.user->kind();
      if ((k == kIndexCopy || k == kIndexPut || k == kSliceScatter) && u.index() == 0) return true;
      auto isPart = [&](const Value* made) { return alias.mayShareMemory(made, v) && isPlacedIn(made, alias); };
      if (u.index() == 0 && u.user != graph_.returnNode() && std::ranges::any_of(u.user->outputs(), isPart))
        return true;
    }
    return false;
  }

  // What becomes of a tensor that is left as it is: it with the new tokens at their places, made for nothing else.
  Value* writtenAnew(const Value* v) const {
    Value* out = nullptr;
    for (const Use& u : v->uses()) {
      const Symbol k = u.user->kind();
      if (k == aten::size) continue;
      if ((k != kIndexCopy && k != kIndexPut) || u.index() != 0 || out || !places_) return nullptr;
      out = u.user->output();
    }
    return out;
  }

  // An attribute is read once, before it is written. False if it becomes another tensor.
  bool mergeReads() {
    std::map<std::pair<const Value*, std::string>, Node*> first;
    std::vector<Node*> reads;
    bool areReplaced = false;
    forEachNode(graph_, [&](Node* n) {
      areReplaced |= n->kind() == sym::SetAttr;
      if (n->kind() == sym::GetAttr && n->inputCount() == 1 && n->attributeValue(sym::name)) reads.push_back(n);
    });
    if (areReplaced) return false;
    for (Node* n : reads) {
      auto [at, isNew] = first.try_emplace({n->input(0), std::string(n->attributeValue(sym::name)->toString())}, n);
      if (isNew || at->second->block() != graph_.block()) continue;
      n->output()->replaceAllUsesWith(at->second->output());
      n->destroy();
    }
    return true;
  }

  static bool isAttribute(const Value* v) {
    return v->node() && (v->node()->kind() == sym::GetAttr || v->node()->kind() == sym::Constant);
  }

  // Takes the place of a value.
  Node* copyOf(Value* v, Node* before) {
    Builder b(graph_, before);
    Node* copy = cloneOf(v, b)->node();
    v->replaceAllUsesWith(copy->output());
    copy->replaceInput(0, v);
    return copy;
  }

  // Among what is returned beside logits, in the order of the inputs, unless these are written themselves.
  bool findReturned() {
    const AliasAnalysis alias(graph_, registry_);
    if (std::ranges::all_of(given_, [&](const Value* v) { return alias.isWritten(v); })) return true;
    std::vector<Value*> all;
    for (const Use& u : graph_.outputs()) addTensors(u.value, all);
    size_t next = 1;
    for (const Value* v : given_) {
      while (next < all.size() && !hasFormOf(all[next], v)) ++next;
      if (next == all.size()) return false;
      returned_.push_back(all[next++]);
    }
    return true;
  }
  static void addTensors(Value* v, std::vector<Value*>& out) {
    if (v->type()->isTensor()) return out.push_back(v);
    const Node* n = v->node();
    if (!n || (n->kind() != sym::TupleConstruct && n->kind() != sym::ListConstruct && n->kind() != sym::DictConstruct))
      return;
    for (const Use& u : n->inputs()) addTensors(u.value, out);
  }
  static bool hasFormOf(const Value* a, const Value* b) {
    return hasKnownSizes(a) && factsOf(a)->dtype == factsOf(b)->dtype && factsOf(a)->sizes == factsOf(b)->sizes;
  }

  void beginWithZeros(Value* input, Value* returned) {
    Builder b(graph_, graph_.block()->first());
    Value* constant = b.constant(IValue(Tensor::zeros(factsOf(input)->dtype, factsOf(input)->sizes)));
    Node* first = constant->node()->next();
    input->replaceAllUsesWith(constant);
    kept_.push_back({copyOf(constant, first), returned});
    eraseInput(input);
  }

  void eraseInput(const Value* input) {
    std::span<Value* const> inputs = graph_.inputs();
    graph_.block()->removeParameter(
        static_cast<size_t>(std::find(inputs.begin(), inputs.end(), input) - inputs.begin()));
  }

  static Value* none(Builder& b) { return b.constant(IValue(), types().none); }
  static Value* number(Builder& b, int64_t n) { return b.constant(IValue(n)); }
  static Value* cloneOf(Value* v, Builder& b) { return b.call(aten::clone, {v, none(b)}, types().tensor); }
  // a + b, of tensors too
  static Value* sum(Value* v, Value* more, Builder& b) {
    if (!v->type()->isTensor()) return b.call(aten::add, {v, more}, v->type());
    return b.call(aten::add, {v, more, number(b, 1)}, v->type());
  }
  static Value* tokens(Builder& b, Value* ids) { return b.call(aten::size, {ids, number(b, 1)}, types().integer); }

  // [tokens]
  Value* countedFrom0(Builder b) {
    const DType known = factsOf(places_)->dtype;
    Value* dtype = number(b, static_cast<int64_t>(known == DType::Undefined ? DType::Int64 : known));
    return b.call(aten::arange, {tokens(b, ids_), dtype, none(b), none(b), none(b)}, types().tensor);
  }

  // logits = graph(ids, places) -> logits of a loop over tokens. What is written goes from turn to turn; so does the
  // place, since a text may go on where another loop stopped.
  void loopOverTokens() {
    std::vector<Node*> body;
    for (Node* n : graph_.block()->nodes())
      if (n->kind() != sym::Constant && n->kind() != sym::GetAttr && !isCopy(n)) body.push_back(n);
    Builder b(graph_);
    Value *rows = b.list({}, types().tensor), *yes = b.constant(IValue(true));
    std::vector<Value*> begin{tokens(b, ids_), yes, b.constant(IValue(Tensor::zeros(DType::Int64, Dims{1})))};
    for (const Kept& cache : kept_) begin.push_back(cache.copy->input(0));
    Node* loop = b.insert(sym::Loop, begin, 1 + kept_.size());
    Block* turn = loop->addBlock();
    Value* at = turn->addParameter(types().integer);
    Value* place = turn->addParameter(types().tensor);
    ValueMap values;
    b.setPointAtEnd(turn);
    values[ids_] =
        b.call(aten::slice, {ids_, number(b, 1), at, sum(at, number(b, 1), b), number(b, 1)}, types().tensor);
    if (places_) values[places_] = placeLike(place, b);
    for (Value* start : starts_) values[start] = b.call(kNumberOf, {place}, types().integer);
    std::vector<Value*> left;
    for (const Kept& cache : kept_) {
      Value* own = turn->addParameter(types().tensor);
      left.push_back(cloneOf(own, b));
      values[cache.copy->output()] = left.back();
    }
    for (const Node* n : body) cloneNode(*n, graph_, values)->insertBefore(turn->returnNode());
    for (size_t i = 0; i < kept_.size(); ++i)
      if (kept_[i].anew) left[i] = values.at(kept_[i].anew);
    Value* logits = logitsOf(graph_);
    const TensorFacts& facts = logits->type()->tensor();
    const bool isRow = facts.hasRank && facts.sizes.size() == 2;
    b.call(aten::append, {rows, values.contains(logits) ? values.at(logits) : logits}, rows->type());
    turn->addResult(yes);
    turn->addResult(sum(place, number(b, 1), b));
    for (Value* v : left) turn->addResult(v);

    b.setPoint(graph_.returnNode());
    Value* all = b.call(isRow ? aten::stack : aten::cat, {rows, number(b, 1)}, types().tensor);
    while (graph_.outputs().size() > 0) graph_.returnNode()->removeInput(graph_.outputs().size() - 1);
    graph_.addOutput(all);
    for (size_t i = body.size(); i-- > 0;) body[i]->destroy();
    for (const Kept& cache : kept_) cache.copy->destroy();
  }

  // [1], in the form of the input.
  Value* placeLike(Value* place, Builder& b) const {
    const TensorFacts& f = places_->type()->tensor();
    const Dims ones(f.sizes.size(), 1);
    if (ones.size() != 1) place = b.call(aten::reshape, {place, b.constant(intList(ones))}, types().tensor);
    if (f.dtype == DType::Undefined || f.dtype == DType::Int64) return place;
    Value* no = b.constant(IValue(false));
    return b.call(aten::to, {place, number(b, static_cast<int64_t>(f.dtype)), no, no, none(b)}, types().tensor);
  }

  // A copy, which a call writes, or what becomes of it.
  struct Kept {
    Node* copy;
    Value* anew = nullptr;
  };
  bool isCopy(const Node* n) const {
    return std::ranges::any_of(kept_, [n](const Kept& k) { return k.copy == n; });
  }

  Graph& graph_;
  const OpRegistry& registry_;
  Value *ids_ = nullptr, *places_ = nullptr;
  std::vector<Value*> inputs_, given_;  // tensors; those that are written
  std::vector<Value*> starts_;          // numbers: places of the first of the tokens
  std::vector<Node*> attributes_;       // that are written
  std::vector<Value*> returned_;        // what becomes of those that are given
  std::vector<Kept> kept_;
};

}  // namespace

StaticCaches readWholeTexts(Graph& graph, const OpRegistry& registry, int64_t* tokens) {
  if (tokens) *tokens = placesInCaches(graph);
  return WholeTexts(graph, registry).run();
}

}  // namespace tscompile
