#include "ir/analysis/constant_numbers.h"

#include "ir/graph/builder.h"
#include "ir/operators/schema.h"

#include <algorithm>

namespace tscompile {
namespace {

// The number that a value is as an argument; None: it is none.
IValue constantNumber(const Value* v) {
  const Node* n = v->node();
  const IValue* value = n && n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
  if (!value) return {};
  const bool isExact = value->isLiteral() && value->toLiteral().kind == LiteralValue::Kind::ExactTensor;
  Tensor t = isExact ? value->toLiteral().data : value->isTensor() ? value->toTensor() : Tensor();
  if (!t.defined()) return {};
  if (t.rank() == 0 && t.dtype() == DType::Float64) return t.real(0);
  if (t.rank() == 0 && t.dtype() == DType::Complex128) return t.complex(0);
  return {};
}

// Whether `other` takes what `op` does, but for a number as argument i.
bool takesNumberAt(const Schema& other, const Schema& op, size_t i) {
  const auto &a = op.arguments, &b = other.arguments;
  if (a.size() != b.size() || b[i].type != types().number) return false;
  for (size_t k = 0; k < a.size(); ++k)
    if (k != i && (a[k].type != b[k].type || a[k].isWritten() != b[k].isWritten())) return false;
  return true;
}

bool hasOverload(const Node& n, const Operator& op, size_t i, const OpRegistry& registry) {
  auto all = registry.overloads(n.kind());
  return std::any_of(all.begin(), all.end(),
                     [&](const Operator* other) { return takesNumberAt(other->schema(), op.schema(), i); });
}

void takeNumbers(Graph& graph, Node* n, const OpRegistry& registry) {
  if (n->inputCount() < 2) return;
  for (size_t i = 0; i < n->inputCount(); ++i) {
    const IValue constant = constantNumber(n->input(i));
    const Operator* op = constant.isNone() ? nullptr : registry.resolve(*n);
    if (!op || i >= op->schema().arguments.size() || !op->schema().arguments[i].type->isTensor()) continue;
    if (i == 0 && n->inputCount() == 2 && op->has(Trait::Commutative) && constantNumber(n->input(1)).isNone()) {
      Value *first = n->input(0), *second = n->input(1);
      n->replaceInput(0, second);
      n->replaceInput(1, first);
      i = 1;
    }
    if (!hasOverload(*n, *op, i, registry)) continue;
    Builder builder(graph, n);
    builder.setPlaceOf(n);
    n->replaceInput(i, builder.constant(constant));
  }
}

void takeNumbers(Graph* graph, const OpRegistry& registry) {
  if (!graph) return;
  std::vector<Node*> nodes;
  forEachNode(*graph, [&](Node* n) { nodes.push_back(n); });
  for (Node* n : nodes) takeNumbers(*graph, n, registry);
}

}  // namespace

void takeConstantsAsNumbers(const ParsedText& text, const OpRegistry& registry) {
  for (const auto& graph : text.graphs) takeNumbers(graph.get(), registry);
  if (!text.module) return;
  for (const DumpedModule& m : text.module->modules)
    for (const DumpedMethod& method : m.methods) takeNumbers(method.graph.get(), registry);
  for (const DumpedMethod& f : text.module->functions) takeNumbers(f.graph.get(), registry);
}

}  // namespace tscompile
