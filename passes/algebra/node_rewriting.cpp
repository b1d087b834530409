#include "passes/algebra/node_rewriting.h"

#include "ir/values/aten.h"

#include <bit>

namespace tscompile {

// ---- looking ----

Node* Site::producer(const Value* value, Symbol kind) {
  Node* n = value->node();
  if (!n || n->block() != node->block() || n->outputCount() != 1 || n->hasBlocks()) return nullptr;
  if (!kind.empty() && n->kind() != kind) return nullptr;
  return n->kind() != sym::Constant && isQuiet(n) ? n : nullptr;
}

Node* Site::filling(const Value* value) {
  Node* n = producer(value);
  return n && (n->kind() == aten::full || n->kind() == aten::zeros || n->kind() == aten::ones) ? n : nullptr;
}

std::optional<double> Site::uniform(const Value* value) {
  if (std::optional<double> n = facts.number(value)) return n;
  const IValue* v = GraphFacts::constant(value);
  if (!v || !v->isTensor()) {
    const Node* n = filling(value);
    if (n && n->kind() == aten::zeros) return 0;
    if (n && n->kind() == aten::ones) return 1;
    // A whole number that every dtype holds.
    std::optional<int64_t> number = n ? facts.integer(n->input(1)) : std::nullopt;
    return number == 0 || number == 1 ? std::optional(static_cast<double>(*number)) : std::nullopt;
  }
  constexpr int64_t kMost = 4096;
  Tensor t = v->toTensor();
  if (t.numel() == 0 || t.numel() > kMost || !kRealAndBool.contains(t.dtype())) return std::nullopt;
  if (kFloatingTypes.contains(t.dtype())) {
    uint64_t bits = std::bit_cast<uint64_t>(t.real(0));
    for (int64_t i = 1; i < t.numel(); ++i)
      if (std::bit_cast<uint64_t>(t.real(i)) != bits) return std::nullopt;
    return t.real(0);
  }
  for (int64_t i = 1; i < t.numel(); ++i)
    if (t.integer(i) != t.integer(0)) return std::nullopt;
  return static_cast<double>(t.integer(0));
}

bool Site::sameSizes(const Value* a, const Value* b) {
  std::optional<Dims> x = facts.sizes(a), y = facts.sizes(b);
  return x && y && *x == *y;
}

std::optional<size_t> Site::dimension(const Value* value, std::optional<size_t> rank) const {
  std::optional<int64_t> d = facts.integer(value);
  if (!d || !rank) return std::nullopt;
  int64_t r = static_cast<int64_t>(*rank), at = *d < 0 ? *d + r : *d;
  return at >= 0 && at < r ? std::optional(static_cast<size_t>(at)) : std::nullopt;
}

// ---- making ----

Value* Site::make(Symbol kind, std::span<Value* const> inputs) {
  Node* made = context.before(node).insert(kind, inputs);
  setOutputTypes(made, nullptr, context);
  return made->output();
}

Value* Site::remake(const Node* like, std::vector<Value*> inputs) {
  Value* v = make(like->kind(), inputs);
  for (const Attribute& a : like->attributes())
    if (const IValue* value = a.value()) v->node()->setAttribute(a.name, *value);
  return v;
}

std::vector<Value*> Site::inputsOf(const Node* n) const {
  std::vector<Value*> inputs;
  for (const Use& u : n->inputs()) inputs.push_back(u.value);
  return inputs;
}

std::vector<size_t> Site::tensorInputs(const Node* n) const {
  std::vector<size_t> at;
  for (size_t i = 0; i < n->inputCount(); ++i)
    if (isTensor(n->input(i))) at.push_back(i);
  return at;
}

Value* Site::integers(DimSpan values) { return constant(intList(values), listType(types().integer)); }

bool Site::mayDivideByZero(const Node* n) {
  static const Symbol kRemainder = Symbol::of("aten::remainder"), kFmod = Symbol::of("aten::fmod");
  const bool rounds = n->kind() == aten::div && n->inputCount() == 3 && !GraphFacts::isNone(n->input(2));
  if (!rounds && n->kind() != aten::floor_divide && n->kind() != kRemainder && n->kind() != kFmod) return false;
  if (isFloating(n->output())) return false;
  std::optional<double> divisor = uniform(n->input(1));
  return !divisor || *divisor == 0;
}

bool isElementwise(const Node* n, GraphFacts& facts) {
  const Operator* op = facts.resolve(n);
  return op && op->has(Trait::Elementwise) && !op->isInPlaceVariant() && !op->outCount();
}

NodeRewrite elementwiseRewrite(std::string name, Replacement (*apply)(Site&)) {
  NodeRewrite rewrite = siteRewrite(std::move(name), kElementwiseKinds, apply);
  rewrite.apply = [quiet = std::move(rewrite.apply)](Node* n, RewriteContext& context) {
    return isElementwise(n, context.facts) ? quiet(n, context) : Replacement();
  };
  return rewrite;
}

NodeRewrite siteRewrite(std::string name, std::vector<Symbol> kinds, Replacement (*apply)(Site&)) {
  NodeRewrite rewrite;
  rewrite.name = std::move(name);
  rewrite.kinds = std::move(kinds);
  rewrite.apply = [apply](Node* n, RewriteContext& context) -> Replacement {
    Site site(n, context);
    if (n->outputCount() != 1 || !site.isQuiet(n)) return {};
    return apply(site);
  };
  return rewrite;
}

NodeRewrite siteRewrite(std::string name, std::initializer_list<const char*> kinds, Replacement (*apply)(Site&)) {
  std::vector<Symbol> symbols;
  for (const char* k : kinds) symbols.push_back(Symbol::of(k));
  return siteRewrite(std::move(name), std::move(symbols), apply);
}

}  // namespace tscompile
