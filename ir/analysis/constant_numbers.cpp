#include "ir/analysis/constant_numbers.h"

#include "ir/graph/builder.h"
#include "ir/operators/schema.h"
#include "ir/values/rounded_number.h"

#include <algorithm>

namespace tscompile {
namespace {

// The number of a tensor; None: it is none.
IValue numberOf(const Tensor& t) {
  if (!t.defined() || t.rank() != 0) return {};
  if (t.dtype() == DType::Float64) return t.real(0);
  if (t.dtype() == DType::Complex128) return t.complex(0);
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

// The constants of one graph; their keys begin with `prefix`.
class ConstantNumbers {
 public:
  ConstantNumbers(Graph& graph, std::string prefix, const OpRegistry& registry, const DataOfConstant& dataOf)
      : graph_(graph), prefix_(std::move(prefix)), registry_(registry), dataOf_(dataOf) {}

  void take() {
    std::vector<Node*> nodes;
    forEachNode(graph_, [&](Node* n) { nodes.push_back(n); });
    for (Node* n : nodes) take(n);
  }

 private:
  // The number that a value is as an argument; None: it is none.
  IValue numberAt(const Value* v) const {
    const Node* n = v->node();
    const IValue* value = n && n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
    if (!value) return {};
    if (!value->isLiteral()) return value->isTensor() ? numberOf(value->toTensor()) : IValue();
    const LiteralValue& literal = value->toLiteral();
    if (literal.kind == LiteralValue::Kind::ExactTensor) return numberOf(literal.data);
    if (!v->type()->isTensor()) return {};
    const Tensor* given = dataOf_(prefix_ + v->name());
    return given ? numberOf(*given) : IValue();
  }

  // In place, a factor that is a number would be rounded to tensors of 16 bits, as this tensor is not.
  static bool isRounded(const Node& n, const Operator& op, const IValue& number) {
    const bool isFactor = op.isInPlaceVariant() && op.has(Trait::Commutative) && n.inputCount() == 2;
    if (!isFactor || number.isComplex()) return false;
    const TypePtr type = n.input(0)->type();
    const DType written = type->isTensor() ? type->tensor().dtype : DType::Undefined;
    if (written != DType::Undefined && !hasSixteenBits(written)) return false;
    const double x = number.toDouble();
    return roundedTo(DType::BFloat16, x) != x || roundedTo(DType::Float16, x) != x;
  }

  bool hasOverload(const Node& n, const Operator& op, size_t i) const {
    auto all = registry_.overloads(n.kind());
    return std::any_of(all.begin(), all.end(),
                       [&](const Operator* other) { return takesNumberAt(other->schema(), op.schema(), i); });
  }

  void take(Node* n) {
    if (n->inputCount() < 2) return;
    for (size_t i = 0; i < n->inputCount(); ++i) {
      const IValue constant = numberAt(n->input(i));
      const Operator* op = constant.isNone() ? nullptr : registry_.resolve(*n);
      if (!op || i >= op->schema().arguments.size() || !op->schema().arguments[i].type->isTensor()) continue;
      if (i == 0 && n->inputCount() == 2 && op->has(Trait::Commutative) && numberAt(n->input(1)).isNone()) {
        Value *first = n->input(0), *second = n->input(1);
        n->replaceInput(0, second);
        n->replaceInput(1, first);
        i = 1;
      }
      if (!hasOverload(*n, *op, i) || isRounded(*n, *op, constant)) continue;
      Builder builder(graph_, n);
      builder.setPlaceOf(n);
      n->replaceInput(i, builder.constant(constant));
    }
  }

  Graph& graph_;
  std::string prefix_;
  const OpRegistry& registry_;
  const DataOfConstant& dataOf_;
};

}  // namespace

void takeConstantsAsNumbers(const ParsedText& text, const OpRegistry& registry, const DataOfConstant& dataOf) {
  auto take = [&](const std::unique_ptr<Graph>& graph, const std::string& prefix) {
    if (graph) ConstantNumbers(*graph, prefix, registry, dataOf).take();
  };
  for (const auto& graph : text.graphs) take(graph, "");
  if (!text.module) return;
  for (const DumpedModule& m : text.module->modules)
    for (const DumpedMethod& method : m.methods) take(method.graph, m.className + "." + method.name + ":");
  for (const DumpedMethod& f : text.module->functions) take(f.graph, f.name + ":");
}

}  // namespace tscompile
