// Operators on halves that PyTorch computes as floats and rounds once: said so, for the entries that unpack them.
//   op(x) -> to(op(to(x, float)), half)
#include "ir/values/aten.h"
#include "passes/rewrite/formula.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

// Whether it is told a dtype for its result: softmax converts to that first, and another entry says so.
bool isToldDType(const Node* n, const Operator& op) {
  std::optional<size_t> i = op.schema().argumentIndex("dtype");
  return i && *i < n->inputCount() && !GraphFacts::isNone(n->input(*i));
}

Value* converted(Value* x, DType dtype, Formula& f) {
  return f.op(aten::to, {x, f.dtype(dtype), f.flag(false), f.flag(false), f.none()});
}

Replacement rewrite(Node* n, RewriteContext& c) {
  if (n->inputCount() == 0 || n->outputCount() != 1) return {};
  DType dtype = n->input(0)->type()->isTensor() ? c.facts.dtype(n->input(0)) : DType::Undefined;
  if (dtype != DType::Float16 && dtype != DType::BFloat16) return {};
  const Operator* op = c.facts.resolve(n);
  if (!op || !op->has(Trait::RoundsOnce) || op->isInPlaceVariant() || op->outCount() > 0) return {};
  if (isToldDType(n, *op) || !c.facts.isUndisturbed(n)) return {};
  for (const Use& u : n->inputs())
    if (u.value->type()->isTensor() && c.facts.dtype(u.value) != dtype) return {};
  Formula f(n, c);
  std::vector<Value*> inputs;
  for (const Use& u : n->inputs())
    inputs.push_back(u.value->type()->isTensor() ? converted(u.value, DType::Float32, f) : u.value);
  Node* wide = f.builder().insert(n->kind(), inputs);
  setOutputTypes(wide, nullptr, c);
  return converted(wide->output(), dtype, f);
}

}  // namespace

NodeRewrite computeInFloat() { return {"compute_in_float", {Symbol::of("aten::*")}, rewrite}; }

}  // namespace tscompile
