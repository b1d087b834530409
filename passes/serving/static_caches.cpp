#include "passes/serving/static_caches.h"

#include "ir/analysis/alias.h"
#include "ir/graph/builder.h"
#include "ir/graph/clone.h"
#include "ir/values/aten.h"
#include "passes/serving/entrance.h"
#include "passes/serving/input_roles.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace tscompile {
namespace {

const Symbol kIndexCopy = Symbol::of("aten::index_copy"), kIndexCopyInPlace = Symbol::of("aten::index_copy_");

const TensorFacts* factsOf(const Value* v) { return v->type()->isTensor() ? &v->type()->tensor() : nullptr; }

bool hasKnownSizes(const Value* v) {
  const TensorFacts* f = factsOf(v);
  return f && f->hasRank && f->dtype != DType::Undefined && std::ranges::all_of(f->sizes, [](int64_t s) { return s >= 0; });
}

class WholeTexts {
 public:
  WholeTexts(Graph& graph, const OpRegistry& registry) : graph_(graph), registry_(registry) {}

  StaticCaches run() {
    findInputs();
    if (!ids_ || !logitsOf(graph_) || !findCaches()) return StaticCaches::None;
    const bool isOneByOne = hasOneToken();
    if (isOneByOne && inputs_.size() > (places_ ? 2 : 1) + given_.size()) return StaticCaches::None;
    for (Node* n : attributes_) kept_.push_back(copyOf(n->output(), n->next()));
    for (Value* input : given_) beginWithZeros(input);
    if (isOneByOne)
      loopOverTokens();
    else if (places_)
      places_->replaceAllUsesWith(countedFrom0(Builder(graph_, graph_.block()->first())));
    if (places_) eraseInput(places_);
    return isOneByOne ? StaticCaches::OneByOne : StaticCaches::WholeText;
  }

 private:
  void findInputs() {
    for (Value* v : graph_.inputs())
      if (v->type()->isTensor()) inputs_.push_back(v);
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

  // Places of one dimension are those that tensors are written at.
  static bool isRow(const Value* v) {
    const TensorFacts* f = factsOf(v);
    if (f->hasRank) return f->sizes.size() == 1;
    for (const Use& u : v->uses())
      if ((u.user->kind() == kIndexCopy || u.user->kind() == kIndexCopyInPlace) && u.index() == 2) return true;
    return false;
  }

  // Attributes and inputs that calls write. Each call begins with copies of attributes of its own.
  bool findCaches() {
    const AliasAnalysis alias(graph_, registry_);
    if (!alias.graphHasWrites()) return false;
    for (Node* n : graph_.block()->nodes()) {
      if (n->kind() == sym::GetAttr && n->output()->type()->isTensor() && alias.isWritten(n->output()))
        attributes_.push_back(n);
      // Programs of torch.export copy what they write.
      if (n->kind() == aten::clone && isAttribute(n->input(0)) && alias.isWritten(n->output())) kept_.push_back(n);
    }
    for (Value* v : inputs_)
      if (v != ids_ && v != places_ && alias.isWritten(v)) {
        if (!hasKnownSizes(v)) return false;
        given_.push_back(v);
      }
    return !kept_.empty() || !attributes_.empty() || !given_.empty();
  }

  static bool isAttribute(const Value* v) {
    return v->node() && (v->node()->kind() == sym::GetAttr || v->node()->kind() == sym::Constant);
  }

  // Takes the place of a value.
  Node* copyOf(Value* v, Node* before) {
    Builder b(graph_, before);
    Node* copy = b.insert(aten::clone, {v, none(b)});
    v->replaceAllUsesWith(copy->output());
    copy->replaceInput(0, v);
    return copy;
  }

  void beginWithZeros(Value* input) {
    Builder b(graph_, graph_.block()->first());
    Value* constant = b.constant(IValue(Tensor::zeros(factsOf(input)->dtype, factsOf(input)->sizes)));
    Node* first = constant->node()->next();
    input->replaceAllUsesWith(constant);
    kept_.push_back(copyOf(constant, first));
    eraseInput(input);
  }

  void eraseInput(const Value* input) {
    std::span<Value* const> inputs = graph_.inputs();
    graph_.block()->removeParameter(
        static_cast<size_t>(std::find(inputs.begin(), inputs.end(), input) - inputs.begin()));
  }

  static Value* none(Builder& b) { return b.constant(IValue(), types().none); }
  static Value* number(Builder& b, int64_t n) { return b.constant(IValue(n)); }
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
      if (n->kind() != sym::Constant && n->kind() != sym::GetAttr && std::ranges::find(kept_, n) == kept_.end()) body.push_back(n);
    Builder b(graph_);
    Value *rows = b.list({}, types().tensor), *yes = b.constant(IValue(true));
    std::vector<Value*> begin{tokens(b, ids_), yes, b.constant(IValue(Tensor::zeros(DType::Int64, Dims{1})))};
    for (const Node* cache : kept_) begin.push_back(cache->input(0));
    Node* loop = b.insert(sym::Loop, begin, 1 + kept_.size());
    Block* turn = loop->addBlock();
    Value* at = turn->addParameter(types().integer);
    Value* place = turn->addParameter(types().tensor);
    ValueMap values;
    b.setPointAtEnd(turn);
    values[ids_] = b.call(aten::slice, {ids_, number(b, 1), at, b.call(aten::add, {at, number(b, 1)}, types().integer),
                                        number(b, 1)},
                          types().tensor);
    if (places_) values[places_] = placeLike(place, b);
    std::vector<Value*> left;
    for (Node* cache : kept_) {
      Value* own = turn->addParameter(types().tensor);
      left.push_back(b.call(aten::clone, {own, none(b)}, types().tensor));
      values[cache->output()] = left.back();
    }
    for (const Node* n : body) cloneNode(*n, graph_, values)->insertBefore(turn->returnNode());
    Value* logits = logitsOf(graph_);
    const TensorFacts& facts = logits->type()->tensor();
    const bool isRow = facts.hasRank && facts.sizes.size() == 2;
    b.call(aten::append, {rows, values.contains(logits) ? values.at(logits) : logits}, rows->type());
    turn->addResult(yes);
    turn->addResult(b.call(aten::add, {place, number(b, 1), number(b, 1)}, types().tensor));
    for (Value* v : left) turn->addResult(v);

    b.setPoint(graph_.returnNode());
    Value* all = b.call(isRow ? aten::stack : aten::cat, {rows, number(b, 1)}, types().tensor);
    while (graph_.outputs().size() > 0) graph_.returnNode()->removeInput(graph_.outputs().size() - 1);
    graph_.addOutput(all);
    for (size_t i = body.size(); i-- > 0;) body[i]->destroy();
    for (Node* cache : kept_) cache->destroy();
  }

  // [1], in the form of the input.
  Value* placeLike(Value* place, Builder& b) const {
    const TensorFacts& f = places_->type()->tensor();
    if (f.sizes.empty()) place = b.call(aten::select, {place, number(b, 0), number(b, 0)}, types().tensor);
    for (size_t i = 1; i < f.sizes.size(); ++i)
      place = b.call(aten::unsqueeze, {place, number(b, 0)}, types().tensor);
    if (f.dtype == DType::Undefined || f.dtype == DType::Int64) return place;
    Value* no = b.constant(IValue(false));
    return b.call(aten::to, {place, number(b, static_cast<int64_t>(f.dtype)), no, no, none(b)}, types().tensor);
  }

  Graph& graph_;
  const OpRegistry& registry_;
  Value *ids_ = nullptr, *places_ = nullptr;
  std::vector<Value*> inputs_, given_;  // tensors; those that are written
  std::vector<Node*> attributes_;       // that are written
  std::vector<Node*> kept_;             // copies, which a call writes
};

}  // namespace

StaticCaches readWholeTexts(Graph& graph, const OpRegistry& registry) { return WholeTexts(graph, registry).run(); }

}  // namespace tscompile
