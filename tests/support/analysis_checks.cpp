#include "tests/support/analysis_checks.h"

#include "ir/analysis/alias.h"
#include "ir/values/size_symbols.h"
#include "passes/rewrite/memory_order.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace tscompile::test {

namespace {

// What in a value can be written, at any depth: memory of tensors that have elements, lists, dicts.
void collectWritable(const IValue& v, std::vector<const void*>& out) {
  if (v.isTensor() && v.toTensor().defined() && v.toTensor().numel()) out.push_back(v.toTensor().storage().get());
  if (v.isList()) {
    out.push_back(&v.toList());
    for (const IValue& i : v.toList().items) collectWritable(i, out);
  }
  if (v.isTuple())
    for (const IValue& i : v.toTuple().items) collectWritable(i, out);
  if (v.isDict()) {
    out.push_back(&v.toDict());
    v.toDict().forEach([&](const IValue&, const IValue& value) { collectWritable(value, out); });
  }
}

struct Held {
  const Value* value;
  std::vector<const void*> writable;
};

bool share(const Held& x, const Held& y) {
  return std::any_of(x.writable.begin(), x.writable.end(), [&](const void* p) {
    return std::find(y.writable.begin(), y.writable.end(), p) != y.writable.end();
  });
}

bool liesInRows(const IValue& v) {
  if (v.isTensor()) return !v.tensorImpl() || v.tensorImpl()->isContiguous();
  return !v.isList() || std::ranges::all_of(v.toList().items, liesInRows);
}

// The same down to dimensions of one element, whose strides decide between others that are equal: PyTorch multiplies a
// 4x1 tensor by one of [1, 1, 1, 2] with the strides (1, 1, 1, 1) to (4, 1, 1, 4).
bool liesInRowsOfPlainStrides(const IValue& v) {
  if (v.isTensor())
    return !v.tensorImpl() || contiguousStrides(v.tensorImpl()->sizes()) == Dims(v.tensorImpl()->strides());
  return !v.isList() || std::ranges::all_of(v.toList().items, liesInRowsOfPlainStrides);
}

}  // namespace

std::string unpredictedSharing(const Graph& graph, const OpRegistry& registry, std::span<const IValue> inputs,
                               std::span<const IValue> results) {
  AliasAnalysis alias(graph, registry);
  std::vector<Held> held;
  size_t unbound = graph.inputs().size() - inputs.size();
  for (size_t i = 0; i < inputs.size(); ++i)
    collectWritable(inputs[i], held.emplace_back(Held{graph.input(unbound + i), {}}).writable);
  for (size_t i = 0; i < results.size(); ++i)
    collectWritable(results[i], held.emplace_back(Held{graph.output(i), {}}).writable);
  for (size_t i = 0; i < held.size(); ++i)
    for (size_t j = i + 1; j < held.size(); ++j)
      if (share(held[i], held[j]) && !alias.mayShareMemory(held[i].value, held[j].value))
        return "%" + held[i].value->name() + " and %" + held[j].value->name() + " share memory";
  return {};
}

std::string wrongOrder(const Graph& graph, const OpRegistry& registry, std::span<const IValue> inputs,
                       std::span<const IValue> results) {
  if (!std::ranges::all_of(inputs, liesInRowsOfPlainStrides)) return {};
  GraphFacts facts(graph, registry);
  for (size_t i = 0; i < results.size(); ++i)
    if (!liesInRows(results[i]) && liesInOrder(graph.output(i), facts))
      return "%" + graph.output(i)->name() + " does not lie in rows";
  return {};
}

void returnEverything(Graph& graph) {
  for (Node* n : graph.block()->nodes())
    for (Value* v : n->outputs())
      if (v->type()->isTensor() || v->type()->is(TypeKind::Int) || v->type()->is(TypeKind::Bool) ||
          v->type()->isListOf(TypeKind::Int))
        graph.addOutput(v);
}

ShapeOptions knownInputs(const Graph& graph, std::span<const IValue> inputs, Knowledge knowledge) {
  ShapeOptions options;
  options.inputs.resize(graph.inputs().size() - inputs.size());
  for (const IValue& v : inputs) {
    if (!v.isTensor() || !v.toTensor().defined()) {
      options.inputs.emplace_back(knowledge == Knowledge::All ? std::optional(symbolicOf(v)) : std::nullopt);
      continue;
    }
    Tensor t = v.toTensor();
    Dims sizes(t.sizes());
    if (knowledge == Knowledge::Ranks) std::fill(sizes.begin(), sizes.end(), kUnknownSize);
    options.inputs.emplace_back(knowledge == Knowledge::Types ? std::nullopt
                                                              : std::optional(symbolicTensor(t.dtype(), sizes)));
  }
  return options;
}

namespace {

// The values that a run gave to the symbols of its inputs.
class Symbols {
 public:
  void bind(const SymbolicValue& told, const IValue& is) {
    if (is.isInt() && told.integers) values_.bind(Dims{integerAsSize((*told.integers)[0])}, Dims{is.toInt()});
    if (is.isTensor() && is.toTensor().defined() && told.type->isTensor())
      values_.bind(told.type->tensor().sizes, is.toTensor().sizes());
  }
  // Whether an integer may have this value. Symbols with names are those of inputs.
  bool fits(int64_t told, int64_t is) const {
    std::optional<int64_t> value = values_.valueOf(told);
    return value ? *value == is : SizeExpression(told).isUnknown() || !SizeExpression(told).isNamed();
  }

 private:
  SizeSymbols values_;
};

std::string textOf(DimSpan sizes) {
  return join(sizes, "x", [](int64_t s) { return SizeExpression::ofSize(s).text(); });
}

std::string wrongTensor(const Tensor& t, const TensorFacts& facts, const Symbols& symbols) {
  if (facts.dtype != DType::Undefined && facts.dtype != t.dtype())
    return fmt::format("is {}, not {}", pythonName(t.dtype()), pythonName(facts.dtype));
  if (!facts.hasRank) return {};
  bool fits = facts.sizes.size() == t.sizes().size();
  for (size_t d = 0; fits && d < facts.sizes.size(); ++d)
    fits = symbols.fits(sizeAsInteger(facts.sizes[d]), t.sizes()[d]);
  return fits ? "" : fmt::format("has sizes {}, not {}", dimsText(t.sizes()), textOf(facts.sizes));
}

std::string wrongValue(const IValue& got, const SymbolicValue& told, const Symbols& symbols) {
  bool one = got.isInt() && told.integers && told.integers->size() == 1;
  if (one && !symbols.fits((*told.integers)[0], got.toInt()))
    return fmt::format("is {}, not {}", got.toInt(), SizeExpression((*told.integers)[0]).text());
  if (got.isBool() && told.constant && told.constant->isBool() && told.constant->toBool() != got.toBool())
    return fmt::format("is {}, not {}", got.toBool(), told.constant->toBool());
  if (got.isTensor() && got.toTensor().defined() && told.type->isTensor())
    return wrongTensor(got.toTensor(), told.type->tensor(), symbols);
  if (got.isList() && told.integers && got.toList().items.size() != told.integers->size())
    return fmt::format("has {} items, not {}", got.toList().items.size(), told.integers->size());
  for (size_t i = 0; got.isList() && told.integers && i < told.integers->size(); ++i)
    if (const IValue& item = got.toList().items[i]; item.isInt() && !symbols.fits((*told.integers)[i], item.toInt()))
      return fmt::format("has item {}, not {}", item.toInt(), SizeExpression((*told.integers)[i]).text());
  return {};
}

}  // namespace

std::string wrongShapes(const Graph& graph, const ShapePropagation& shapes, std::span<const IValue> inputs,
                        std::span<const IValue> results) {
  Symbols symbols;
  size_t unbound = graph.inputs().size() - inputs.size();
  for (size_t i = 0; i < inputs.size(); ++i) symbols.bind(shapes.of(graph.input(unbound + i)), inputs[i]);
  // Branches that were not taken may hold mistakes.
  bool isStraight = true;
  forEachNode(graph, [&](Node* n) { isStraight &= !n->hasBlocks(); });
  if (isStraight && !shapes.conflicts().empty()) return "runs, but shows a conflict: " + shapes.conflicts()[0].message;
  for (size_t i = 0; i < results.size(); ++i)
    if (std::string wrong = wrongValue(results[i], shapes.of(graph.output(i)), symbols); !wrong.empty())
      return "%" + graph.output(i)->name() + " " + wrong;
  return {};
}

}  // namespace tscompile::test
