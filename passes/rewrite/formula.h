// Makes the nodes of a formula, typed as their schemas say, in front of a node whose place they take.
#pragma once

#include "ir/values/aten.h"
#include "passes/rewrite/rewrite.h"

#include <initializer_list>

namespace tscompile {

class Formula {
 public:
  Formula(Node* at, RewriteContext& context) : builder_(context.before(at)), context_(context) {}

  Value* op(Symbol kind, std::initializer_list<Value*> inputs) {
    Node* made = builder_.insert(kind, inputs);
    setOutputTypes(made, nullptr, context_);
    return made->output();
  }
  Value* integer(int64_t v) { return builder_.constant(IValue(v)); }
  Value* number(double v) { return builder_.constant(IValue(v)); }
  Value* flag(bool v) { return builder_.constant(IValue(v)); }
  Value* dtype(DType d) { return integer(static_cast<int64_t>(d)); }
  Value* none() { return builder_.constant(IValue()); }
  Value* integers(DimSpan values) { return builder_.constant(intList(values)); }
  Value* listOf(std::initializer_list<Value*> values) {
    return builder_.list(std::span<Value* const>(values.begin(), values.size()), types().integer);
  }
  Builder& builder() { return builder_; }

  // ---- in short ----
  Value* add(Value* a, Value* b) { return op(aten::add, {a, b, integer(1)}); }
  Value* sub(Value* a, Value* b) { return op(aten::sub, {a, b, integer(1)}); }
  Value* mul(Value* a, Value* b) { return op(aten::mul, {a, b}); }
  Value* div(Value* a, Value* b) { return op(aten::div, {a, b}); }
  Value* mean(Value* x, Value* dims, Value* keep) { return op(aten::mean, {x, dims, keep, none()}); }

 private:
  Builder builder_;
  RewriteContext& context_;
};

// Whether values are tensors of one dtype, float or double; None is skipped.
inline bool areFloats(std::initializer_list<Value*> values, RewriteContext& c) {
  DType first = DType::Undefined;
  for (Value* v : values) {
    if (GraphFacts::isNone(v)) continue;
    DType d = v->type()->isTensor() ? c.facts.dtype(v) : DType::Undefined;
    if (first == DType::Undefined) first = d;
    if (d != first || (d != DType::Float32 && d != DType::Float64)) return false;
  }
  return first != DType::Undefined;
}

}  // namespace tscompile
