#include "passes/serving/bends.h"

#include "ir/values/aten.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace tscompile {
namespace {

// No text has so many tokens: what is larger hides, or is the end of everything.
constexpr double kNoPlace = 1e9;
// Larger tensors are no thresholds.
constexpr int64_t kMostNumbers = 4096;

// Numbers beside it move a bend by a factor.
bool isQuotient(Symbol kind) {
  static const Symbol kFloorDivide = Symbol::of("aten::floor_divide");
  return kind == aten::div || kind == kFloorDivide;
}
bool isProduct(Symbol kind) { return kind == aten::mul || isQuotient(kind); }

bool isSum(Symbol kind) { return kind == aten::add || kind == aten::sub; }

// How far from the first token a value can tell tokens apart.
struct Reach {
  bool ofTokens = false, isCurved = false;
  double sum = 0, factor = 1;
};

class BendFinder {
 public:
  BendFinder(const Value* positions, std::span<const SmallInstance* const> instances, RewriteContext& context)
      : positions_(positions), instances_(instances), context_(context) {}

  Bends run(const std::vector<Node*>& nodes) {
    for (const Node* n : nodes) visit(n);
    return out_;
  }

 private:
  void visit(const Node* n) {
    if (n->kind() == sym::Constant) return noteTable(n);
    Reach r;
    r.ofTokens = isTold(n);
    const bool chooses = isChoice(n);
    for (const Use& u : n->inputs()) merge(r, u.value, chooses);
    if (r.ofTokens) {
      for (const Use& u : n->inputs()) count(r, u.value, n, chooses);
      if (isBend(n) && !chooses) note(r);
      r.isCurved = r.isCurved || isCurve(n) || dividesByTokens(n);
    }
    reaches_[n] = r;
  }

  bool has(const Node* n, Trait trait) {
    const Operator* op = context_.facts.resolve(n);
    return op && op->has(trait);
  }

  // What it makes of places has no bend, but a threshold behind it may lie anywhere.
  bool isCurve(const Node* n) {
    const Operator* op = context_.facts.resolve(n);
    return op && op->has(Trait::Elementwise) && (op->def().cost == Cost::Function || n->kind() == aten::sqrt);
  }

  // What it chooses from bends, and what it chooses by: the furthest counts.
  bool isChoice(const Node* n) {
    if (n->kind() == aten::where || n->kind() == aten::masked_fill) return true;
    return n->outputCount() == 1 && n->output()->type()->isTensor() && has(n, Trait::Elementwise) &&
           std::ranges::all_of(n->inputs(), [&](const Use& u) {
             return !u.value->type()->isTensor() || instances_.front()->dtype(u.value) == DType::Bool;
           });
  }

  void noteTable(const Node* n) {
    const IValue* value = n->attributeValue(sym::value);
    if (!value || !value->isTensor() || !value->toTensor().defined() || value->toTensor().rank() < 2) return;
    out_.tableRows = std::max(out_.tableRows, value->toTensor().size(value->toTensor().rank() - 1));
  }

  // Whether it tells how many tokens there are.
  bool isTold(const Node* n) {
    const Operator* op = context_.facts.resolve(n);
    return op && op->has(Trait::ReadsSizes) && !(n->outputCount() == 1 && isSame(n->output()));
  }

  bool isSame(const Value* v) {
    std::optional<double> first;
    for (const SmallInstance* instance : instances_) {
      std::optional<SmallInstance::Elements> e = instance->compute(v);
      if (!e || e->values.size() != 1 || (first && *first != e->values[0])) return false;
      first = e->values[0];
    }
    return first.has_value();
  }

  const Reach* reachOf(const Value* v) const {
    auto found = v->node() ? reaches_.find(v->node()) : reaches_.end();
    return found != reaches_.end() && found->second.ofTokens ? &found->second : nullptr;
  }

  void merge(Reach& r, const Value* v, bool chooses) {
    r.ofTokens = r.ofTokens || v == positions_;
    const Reach* from = reachOf(v);
    if (!from) return;
    r.ofTokens = true;
    r.isCurved = r.isCurved || from->isCurved;
    r.sum = chooses ? std::max(r.sum, from->sum) : std::min(r.sum + from->sum, 2 * kNoPlace);
    r.factor = std::max(r.factor, from->factor);
  }

  // The numbers of an operand that is the same for all texts.
  void count(Reach& r, const Value* v, const Node* n, bool chooses) {
    if (v == positions_ || reachOf(v) || !isOperand(v) || GraphFacts::isStructural(n->kind())) return;
    if (context_.facts.movesElements(n) || context_.facts.keepsElements(n)) return;
    if (v->node() && !GraphFacts::constant(v) && !reaches_.contains(v->node())) return;
    double largest = 0, factor = 1;
    for (double x : numbersOf(v)) {
      const double size = std::abs(x);
      if (!(size < kNoPlace)) continue;
      if (!isProduct(n->kind()))
        largest = std::max(largest, size);
      else if (size > 0)
        factor = std::max({factor, size, 1 / size});
    }
    r.sum = chooses ? std::max(r.sum, largest) : r.sum + largest;
    r.factor = std::min(r.factor * factor, kNoPlace);
  }

  static bool isOperand(const Value* v) {
    return v->type()->isTensor() || v->type()->is(TypeKind::Int) || v->type()->is(TypeKind::Float) ||
           v->type()->is(TypeKind::Number);
  }

  std::vector<double> numbersOf(const Value* v) const {
    const IValue* c = GraphFacts::constant(v);
    if (c && c->isTensor() && c->toTensor().defined() && c->toTensor().numel() > kMostNumbers) return {};
    std::optional<SmallInstance::Elements> e = instances_.front()->compute(v);
    return e && static_cast<int64_t>(e->values.size()) <= kMostNumbers ? e->values : std::vector<double>{};
  }

  bool dividesByTokens(const Node* n) const {
    return isQuotient(n->kind()) && n->inputCount() > 1 && (n->input(1) == positions_ || reachOf(n->input(1)));
  }

  bool isBend(const Node* n) {
    const Symbol kind = n->kind();
    if (kind == aten::div) return n->inputCount() > 2;
    if (isSum(kind) || kind == aten::mul || kind == aten::neg) return false;
    if (GraphFacts::isStructural(kind) || context_.facts.movesElements(n) || context_.facts.keepsElements(n))
      return false;
    if (has(n, Trait::Elementwise)) return !isCurve(n);
    return !reachIsCurved(n);
  }

  bool reachIsCurved(const Node* n) const {
    return std::ranges::any_of(n->inputs(), [&](const Use& u) {
      const Reach* r = reachOf(u.value);
      return r && r->isCurved;
    });
  }

  void note(const Reach& r) {
    const double at = (r.sum + 2) * r.factor + 2;
    out_.tokens =
        r.isCurved || at >= kNoPlace ? Bends::kAnywhere : std::max(out_.tokens, static_cast<int64_t>(std::ceil(at)));
  }

  const Value* positions_;
  std::span<const SmallInstance* const> instances_;
  RewriteContext& context_;
  std::unordered_map<const Node*, Reach> reaches_;
  Bends out_;
};

}  // namespace

std::optional<Bends> bendsOf(const Value* value, const Value* positions, const std::vector<const Value*>& given,
                             std::span<const SmallInstance* const> instances, RewriteContext& context) {
  std::vector<const Value*> ends = given;
  if (positions) ends.push_back(positions);
  std::optional<std::vector<Node*>> nodes = nodesBehind(value, ends, context);
  if (!nodes) return std::nullopt;
  return BendFinder(positions, instances, context).run(*nodes);
}

}  // namespace tscompile
