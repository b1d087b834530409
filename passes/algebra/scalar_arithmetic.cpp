// Integers that were put into tensors to be added, multiplied, divided or negated stay integers:
//   op(NumToTensor(a), NumToTensor(b)) -> NumToTensor(op(a, b))
// and the same with a constant 0-dimensional tensor, or a plain integer, on one side. Both wrap around in 64 bits. Nor
// need what is repeated one number of times be told so by a tensor:
//   repeat_interleave(x, NumToTensor(n), ...) -> repeat_interleave(x, n, ...)
#include "ir/values/aten.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

const Symbol kRemainder = Symbol::of("aten::remainder"), kRsub = Symbol::of("aten::rsub");

bool isMadeFromNumber(const Value* v) {
  return v->node() && v->node()->kind() == sym::NumToTensor && v->node()->inputCount() == 1;
}

// The integer that a tensor was made from, ready in front of a node; null if there is none.
Value* integerOf(Value* v, Node* at, RewriteContext& c) {
  if (v->type()->is(TypeKind::Int)) return v;
  if (isMadeFromNumber(v) && v->node()->input(0)->type()->is(TypeKind::Int)) return v->node()->input(0);
  const IValue* k = GraphFacts::constant(v);
  if (!k || !k->isTensor() || !k->toTensor().defined()) return nullptr;
  const Tensor& t = k->toTensor();
  if (t.rank() != 0 || t.dtype() != DType::Int64) return nullptr;
  return c.before(at).constant(IValue(*reinterpret_cast<const int64_t*>(t.raw())));
}

// Whether an integer is a number of elements, or made of such.
bool isCount(const Value* v) {
  const Node* n = v->node();
  if (!n) return false;
  if (const IValue* k = GraphFacts::constant(v)) return k->isInt() && k->toInt() >= 0;
  if (n->kind() == aten::size || n->kind() == aten::len) return true;
  const bool isQuotient = n->kind() == aten::floordiv, isProduct = n->kind() == aten::mul;
  return (isProduct || isQuotient) && n->inputCount() == 2 && isCount(n->input(0)) && isCount(n->input(1));
}

// The operator on integers that means the same as this one on tensors of one integer each; empty if there is none.
Symbol scalarKind(const Node* n, RewriteContext& c) {
  if (n->kind() == aten::neg && n->inputCount() == 1) return aten::neg;
  if (n->kind() == aten::mul && n->inputCount() == 2) return aten::mul;
  if (n->kind() == aten::floor_divide && n->inputCount() == 2) return aten::floordiv;
  if (n->kind() == kRemainder && n->inputCount() == 2) return kRemainder;
  if (n->inputCount() != 3) return {};
  if (n->kind() == aten::add || n->kind() == aten::sub || n->kind() == kRsub)
    return c.facts.number(n->input(2)) != 1.0 ? Symbol() : n->kind() == kRsub ? aten::sub : n->kind();
  const IValue* mode = n->kind() == aten::div ? GraphFacts::constant(n->input(2)) : nullptr;
  if (!mode || !mode->isString()) return {};
  return mode->toString() == "floor" || mode->toString() == "trunc" ? aten::floordiv : Symbol();
}
// Quotients of which nothing is cut off but what is below them: those of counts.
bool isTruncated(const Node* n) {
  if (n->kind() != aten::div || n->inputCount() != 3) return false;
  const IValue* mode = GraphFacts::constant(n->input(2));
  return mode && mode->isString() && mode->toString() == "trunc";
}

// The number that a constant of one element is, whatever its rank.
std::optional<int64_t> soleInteger(const Value* v) {
  const IValue* k = GraphFacts::constant(v);
  if (!k || !k->isTensor() || !k->toTensor().defined()) return std::nullopt;
  const Tensor& t = k->toTensor();
  if (t.rank() > 1 || t.numel() != 1 || !kIntegerTypes.contains(t.dtype())) return std::nullopt;
  return t.integer(0);
}

Replacement repeatByNumber(Node* n, RewriteContext& c) {
  if (n->inputCount() < 2 || !n->input(1)->type()->isTensor() || !c.facts.isUndisturbed(n)) return {};
  std::optional<int64_t> known = soleInteger(n->input(1));
  Value* times = known ? c.before(n).constant(IValue(*known)) : integerOf(n->input(1), n, c);
  if (!times) return {};
  n->replaceInput(1, times);
  return Replacement::done();
}

}  // namespace

NodeRewrite scalarArithmetic() {
  NodeRewrite r;
  r.name = "scalar_arithmetic";
  for (const char* name : {"add", "sub", "rsub", "mul", "div", "floor_divide", "remainder", "neg", "repeat_interleave"})
    r.kinds.push_back(Symbol::of("aten::" + std::string(name)));
  r.apply = [](Node* n, RewriteContext& c) -> Replacement {
    if (n->kind() == aten::repeat_interleave) return repeatByNumber(n, c);
    Symbol kind = scalarKind(n, c);
    if (kind.empty() || n->outputCount() != 1 || !n->output()->type()->isTensor()) return {};
    const bool isUnary = n->inputCount() == 1;
    if (!isMadeFromNumber(n->input(0)) && (isUnary || !isMadeFromNumber(n->input(1)))) return {};
    if (!n->input(0)->type()->isTensor()) return {};
    if (!c.facts.isUndisturbed(n)) return {};
    Value* a = integerOf(n->input(0), n, c);
    if (!a || (isTruncated(n) && !isCount(a))) return {};
    if (isUnary)
      return c.before(n).call(sym::NumToTensor, {c.before(n).call(kind, {a}, types().integer)}, n->output()->type());
    Value* b = integerOf(n->input(1), n, c);
    if (!b || (isTruncated(n) && !isCount(b))) return {};
    Builder builder = c.before(n);
    const bool isReversed = n->kind() == kRsub;
    Value* number = builder.call(kind, {isReversed ? b : a, isReversed ? a : b}, types().integer);
    return builder.call(sym::NumToTensor, {number}, n->output()->type());
  };
  return r;
}

}  // namespace tscompile
