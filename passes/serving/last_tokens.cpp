#include "passes/serving/last_tokens.h"

#include "ir/graph/clone.h"
#include "ir/values/aten.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile {
namespace {

bool isOfTokens(const Dims& sizes, const SmallInstance& small) {
  return sizes.size() == 3 && sizes[0] == small.batch && sizes[1] == small.tokens;
}

// Computes of all tokens what is computed of the last ones.
class AllTokens {
 public:
  AllTokens(RewriteContext& context, const SmallInstance& small) : context_(context), small_(small) {}

  // Null: the output is made of other things than last tokens and what is the same for every text.
  Value* run() {
    const Node* giver = context_.graph.returnNode();
    if (!findPath(giver) || made_.empty()) return nullptr;
    std::ranges::sort(path_, [](const Node* a, const Node* b) { return a->isBefore(b); });
    for (Node* n : path_) {
      if (std::ranges::none_of(n->inputs(), [&](const Use& u) { return made_.contains(u.value); })) continue;
      if (!handOn(n) && !multiply(n)) copy(n);
    }
    auto made = made_.find(giver->input(0));
    return made == made_.end() ? nullptr : made->second;
  }

  void undo() {
    for (; !added_.empty(); added_.pop_back()) added_.back()->destroy();
  }

 private:
  // The nodes between the places where last tokens are chosen and the output.
  bool findPath(const Node* giver) {
    std::unordered_set<const Node*> seen;
    for (size_t i = 0; i <= path_.size(); ++i)
      for (const Use& u : (i == 0 ? giver : path_[i - 1])->inputs()) {
        Value* v = u.value;
        if (!v->type()->isTensor() || GraphFacts::constant(v) || small_.compute(v)) continue;
        const std::optional<Dims> sizes = small_.sizes(v);
        if (!sizes || isOfTokens(*sizes, small_)) return false;
        if (Value* all = withAllTokens(v, small_, context_.facts)) {
          made_[v] = all;
          continue;
        }
        Node* maker = v->node();
        if (!maker || maker->hasBlocks() || !context_.facts.isPure(maker)) return false;
        if (seen.insert(maker).second) path_.push_back(maker);
      }
    return true;
  }

  Value* madeOf(Value* v) const {
    auto made = made_.find(v);
    return made == made_.end() ? v : made->second;
  }

  // One row for each text, with a dimension for its one token or without.
  std::optional<int64_t> widthOfRows(const Value* v) const {
    const std::optional<Dims> sizes = small_.sizes(v);
    if (!sizes || sizes->empty()) return std::nullopt;
    const int64_t width = sizes->back();
    return sizes == Dims{small_.batch, width} || sizes == Dims{small_.batch, 1, width} ? std::optional(width)
                                                                                       : std::nullopt;
  }
  bool handOn(const Node* n) {
    if (!context_.facts.movesElements(n) || !made_.contains(n->input(0))) return false;
    const std::optional<int64_t> width = widthOfRows(n->output());
    if (!width || width != widthOfRows(n->input(0))) return false;
    const std::optional<SmallInstance::Elements> places = small_.places(n->output(), n->input(0));
    for (size_t i = 0; places && i < places->values.size(); ++i)
      if (places->values[i] != static_cast<double>(i)) return false;
    if (places) made_[n->output()] = madeOf(n->input(0));
    return places.has_value();
  }

  // A product of rows alone becomes a layer, which takes more dimensions.
  bool multiply(Node* n) {
    const bool hasBias = n->kind() == aten::addmm;
    if (n->kind() != aten::mm && !hasBias) return false;
    const size_t at = hasBias ? 1 : 0;
    const std::optional<Dims> matrix = small_.sizes(n->input(at + 1));
    if (made_.contains(n->input(at + 1)) || !matrix || (hasBias && !isBias(n, matrix->back()))) return false;
    Builder b(context_.graph, n);
    b.setPlaceOf(n);
    Value* weight = b.call(aten::t, {n->input(at + 1)}, types().tensor);
    Value* bias = hasBias ? n->input(0) : b.constant(IValue());
    Value* layer = b.call(aten::linear, {madeOf(n->input(at)), weight, bias}, types().tensor);
    for (const Value* v : {weight, layer}) added_.push_back(v->node());
    made_[n->output()] = layer;
    return true;
  }
  bool isBias(const Node* addmm, int64_t width) const {
    return context_.facts.number(addmm->input(3)) == 1.0 && context_.facts.number(addmm->input(4)) == 1.0 &&
           !made_.contains(addmm->input(0)) && small_.sizes(addmm->input(0)) == Dims{width};
  }

  void copy(Node* n) {
    Node* made = cloneNode(*n, context_.graph, made_);
    for (Value* v : made->outputs())
      if (v->type()->isTensor()) v->setType(types().tensor);  // sizes are others
    made->insertBefore(n);
    added_.push_back(made);
  }

  RewriteContext& context_;
  const SmallInstance& small_;
  std::vector<Node*> path_;
  ValueMap made_;  // of all tokens, for what is of the last ones
  std::vector<Node*> added_;
};

}  // namespace

Value* withAllTokens(Value* v, const SmallInstance& small, GraphFacts& facts) {
  Value* from = v;
  for (int steps = 0; steps < 4; ++steps) {
    Node* n = from->node();
    if (!n || !facts.movesElements(n) || n->outputCount() != 1) return nullptr;
    from = n->input(0);
    std::optional<Dims> sizes = small.sizes(from);
    if (!sizes || !isOfTokens(*sizes, small)) continue;
    std::optional<SmallInstance::Elements> places = small.places(v, from);
    if (!places) return nullptr;
    int64_t width = sizes->back(), count = static_cast<int64_t>(places->values.size());
    bool all = count == small.batch * small.tokens * width, last = count == small.batch * width;
    for (int64_t i = 0; i < count; ++i) {
      int64_t atLast = ((i / width + 1) * small.tokens - 1) * width + i % width;
      all = all && places->values[static_cast<size_t>(i)] == static_cast<double>(i);
      last = last && places->values[static_cast<size_t>(i)] == static_cast<double>(atLast);
    }
    if (all || last) return from;
  }
  return nullptr;
}

void makeOfAllTokens(RewriteContext& context, const Value* positions) {
  constexpr int64_t kBatch = 2, kTokens = 5;
  Node* giver = context.graph.returnNode();
  const SmallInstance before(context, kBatch, kTokens, positions);
  const std::optional<Dims> last = before.sizes(giver->input(0));
  if (!last || last->empty() || isOfTokens(*last, before)) return;
  AllTokens all(context, before);
  Value *chosen = giver->input(0), *made = all.run();
  if (made) giver->replaceInput(0, made);
  context.facts.refresh();
  if (!made) return all.undo();
  const SmallInstance after(context, kBatch, kTokens, positions);
  if (after.fits() && after.sizes(giver->input(0)) == Dims{after.batch, after.tokens, last->back()}) return;
  giver->replaceInput(0, chosen);
  all.undo();
  context.facts.refresh();
}

}  // namespace tscompile
