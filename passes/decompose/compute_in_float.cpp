// Operators on halves that PyTorch computes as floats and rounds once: said so, for the entries that unpack them.
//   op(x) -> to(op(to(x, float)), half)
#include "ir/values/aten.h"
#include "passes/rewrite/formula.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

constexpr const char* kOperators[] = {
    "hardswish",  "hardsigmoid", "silu",    "mish",    "softplus",    "log_sigmoid", "elu",      "selu",
    "leaky_relu", "gelu",        "rsqrt",   "softmax", "log_softmax", "var",         "std",      "layer_norm",
    "group_norm", "addmm",       "baddbmm", "addbmm",  "addmv",       "linear",      "threshold"};

Value* converted(Value* x, DType dtype, Formula& f) {
  return f.op(aten::to, {x, f.dtype(dtype), f.flag(false), f.flag(false), f.none()});
}

Replacement rewrite(Node* n, RewriteContext& c) {
  if (n->inputCount() == 0 || n->outputCount() != 1 || !c.facts.resolve(n) || !c.facts.isUndisturbed(n)) return {};
  DType dtype = n->input(0)->type()->isTensor() ? c.facts.dtype(n->input(0)) : DType::Undefined;
  if (dtype != DType::Float16 && dtype != DType::BFloat16) return {};
  for (const Use& u : n->inputs())
    if (u.value->type()->isTensor() && c.facts.dtype(u.value) != dtype) return {};
  // Softmax to another dtype converts first: another entry says so.
  bool isSoftmax = n->kind().name() == "softmax" || n->kind().name() == "log_softmax";
  if (isSoftmax && (n->inputCount() != 3 || !GraphFacts::isNone(n->input(2)))) return {};
  Formula f(n, c);
  std::vector<Value*> inputs;
  for (const Use& u : n->inputs())
    inputs.push_back(u.value->type()->isTensor() ? converted(u.value, DType::Float32, f) : u.value);
  Node* wide = f.builder().insert(n->kind(), inputs);
  setOutputTypes(wide, nullptr, c);
  return converted(wide->output(), dtype, f);
}

}  // namespace

NodeRewrite computeInFloat() {
  NodeRewrite r{"compute_in_float", {}, rewrite};
  for (const char* name : kOperators) r.kinds.push_back(Symbol::of("aten::" + std::string(name)));
  return r;
}

}  // namespace tscompile
