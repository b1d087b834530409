#include "passes/serving/small_instance.h"

#include "ir/graph/clone.h"
#include "ir/graph/evaluator.h"
#include "ir/values/aten.h"
#include "ir/values/kind_set.h"

#include <algorithm>
#include <numeric>

namespace tscompile {
namespace {

constexpr size_t kMostNodes = 1000;
constexpr int64_t kMostElements = int64_t{1} << 25;

// Of an input [texts, tokens] the texts may be told alone.
std::optional<int64_t> textsOf(const TensorFacts& facts) {
  const bool isOpen = facts.hasRank && facts.sizes.size() == 2 && facts.sizes[0] > 0 && facts.sizes[1] < 0;
  return isOpen ? std::optional(facts.sizes[0]) : std::nullopt;
}

int64_t textsOf(const Graph& graph, int64_t otherwise) {
  for (const Value* input : graph.inputs())
    if (std::optional<int64_t> texts = input->type()->isTensor() ? textsOf(input->type()->tensor()) : std::nullopt)
      return *texts;
  return otherwise;
}

// Of attributes, whose sizes only types tell.
std::optional<SymbolicValue> toldByType(const Value* v) {
  if (!v->node() || v->node()->kind() != sym::GetAttr || !v->type()->isTensor()) return std::nullopt;
  const TensorFacts& facts = v->type()->tensor();
  const bool isKnown = facts.hasRank && facts.dtype != DType::Undefined &&
                       std::ranges::all_of(facts.sizes, [](int64_t s) { return s >= 0; });
  return isKnown ? std::optional(symbolicTensor(facts.dtype, facts.sizes)) : std::nullopt;
}

ShapeOptions sizesFor(const Graph& graph, int64_t batch, int64_t tokens) {
  ShapeOptions options;
  options.known = toldByType;
  for (const Value* input : graph.inputs()) {
    std::optional<SymbolicValue>& known = options.inputs.emplace_back();
    if (!input->type()->isTensor()) continue;
    const TensorFacts& facts = input->type()->tensor();
    if (!facts.hasRank) {
      known = symbolicTensor(DType::Int64, Dims{batch, tokens});
      continue;
    }
    Dims sizes = facts.sizes;
    int open = textsOf(facts) ? 1 : 0;
    for (int64_t& s : sizes)
      if (s < 0 && open < 2) s = open++ ? tokens : batch;
    known = symbolicTensor(facts.dtype == DType::Undefined ? DType::Float32 : facts.dtype, sizes);
  }
  return options;
}

std::optional<SmallInstance::Elements> elementsOf(const IValue& v) {
  if (v.isInt()) return SmallInstance::Elements{{}, {static_cast<double>(v.toInt())}};
  if (v.isBool()) return SmallInstance::Elements{{}, {v.toBool() ? 1.0 : 0.0}};
  if (v.isFloat()) return SmallInstance::Elements{{}, {v.toFloat()}};
  if (!v.isTensor() || !v.toTensor().defined()) return std::nullopt;
  Tensor t = v.toTensor();
  if (t.dtype() != DType::Float64 || !t.isContiguous()) return std::nullopt;
  const double* first = t.data<double>();
  return SmallInstance::Elements{Dims(t.sizes().begin(), t.sizes().end()), {first, first + t.numel()}};
}

}  // namespace

void returnAsDoubles(Graph& graph, Value* value) {
  Builder b(graph);
  Value *no = b.constant(IValue(false)), *none = b.constant(IValue());
  Value* type = b.constant(IValue(static_cast<int64_t>(DType::Float64)));
  Value* dense = b.call(aten::contiguous, {value, b.constant(IValue(0))}, types().tensor);
  graph.addOutput(b.call(aten::to, {dense, type, no, no, none}, types().tensor));
}

std::optional<size_t> slotOfForm(const Node* n, GraphFacts& facts) {
  const Operator* op = facts.resolve(n);
  if (op && op->has(Trait::LendsFirstForm)) return 0;
  if (op && op->has(Trait::LendsSecondForm)) return 1;
  return std::nullopt;
}

bool isSizeQuestion(const Node* n, GraphFacts& facts) {
  const Operator* op = facts.resolve(n);
  return n->kind() == aten::len || (op && (op->has(Trait::ReadsSizes) || op->has(Trait::ReadsOptions)));
}

bool SmallInstance::Elements::broadcast(const Dims& to) {
  if (sizes == to) return true;
  const int64_t count = checkedNumel(to).value_or(kMostElements + 1);
  if (sizes.size() > to.size() || count > kMostElements) return false;
  // How far apart elements are along each dimension of the result.
  Dims steps(to.size(), 0);
  int64_t step = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t from = sizes.size() - 1 - i, at = to.size() - 1 - i;
    if (sizes[from] != to[at] && sizes[from] != 1) return false;
    steps[at] = sizes[from] == 1 ? 0 : step;
    step *= sizes[from];
  }
  std::vector<double> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, place = 0;
    for (size_t d = to.size(); d-- > 0; rest /= to[d]) place += rest % to[d] * steps[d];
    out[static_cast<size_t>(i)] = values[static_cast<size_t>(place)];
  }
  sizes = to;
  values = std::move(out);
  return true;
}

Tensor counted(DimSpan sizes) {
  std::vector<int64_t> values(static_cast<size_t>(checkedNumel(sizes).value_or(0)));
  std::iota(values.begin(), values.end(), 0);
  return Tensor::of<int64_t>(sizes, values);
}

Node* quietNode(const Value* value, RewriteContext& context, Symbol kind) {
  Node* n = value->node();
  if (!n || (!kind.empty() && n->kind() != kind) || n->block() != context.graph.block()) return nullptr;
  return context.facts.isPure(n) && context.facts.isUndisturbed(n) ? n : nullptr;
}

std::optional<std::vector<Node*>> nodesBehind(const Value* value, const std::vector<const Value*>& given,
                                              RewriteContext& context) {
  std::vector<Node*> order;
  std::unordered_set<const Node*> seen;
  std::vector<std::pair<Node*, size_t>> stack;
  bool possible = true;
  auto visit = [&](const Value* v) {
    if (std::find(given.begin(), given.end(), v) != given.end()) return;
    Node* n = v->node();
    if (!n) return void(possible = false);
    if (!seen.insert(n).second) return;
    if (isSizeQuestion(n, context.facts)) return order.push_back(n);
    bool isQuiet = n->kind() == sym::Constant || (context.facts.isPure(n) && context.facts.isUndisturbed(n));
    if (!isQuiet || n->hasBlocks() || seen.size() > kMostNodes) return void(possible = false);
    stack.emplace_back(n, 0);
  };
  visit(value);
  while (possible && !stack.empty()) {
    auto& [n, next] = stack.back();
    if (next < n->inputCount()) {
      size_t slot = next++;
      if (slotOfForm(n, context.facts) != slot) visit(n->input(slot));
      continue;
    }
    order.push_back(n);
    stack.pop_back();
  }
  if (!possible) return std::nullopt;
  return order;
}

SmallInstance::SmallInstance(RewriteContext& context, int64_t batch, int64_t tokens, const Value* positions)
    : batch(textsOf(context.graph, batch)),
      tokens(tokens),
      context_(context),
      positions_(positions),
      shapes_(context.graph, context.registry, sizesFor(context.graph, this->batch, tokens)),
      fits_(shapes_.conflicts().empty()) {}

std::optional<Dims> SmallInstance::sizes(const Value* value) const {
  const SymbolicValue* known = shapes_.find(value);
  if (!known || !known->type->isTensor()) return std::nullopt;
  const TensorFacts& facts = known->type->tensor();
  if (!facts.hasAllSizes()) return std::nullopt;
  return facts.sizes;
}

DType SmallInstance::dtype(const Value* value) const {
  const SymbolicValue* known = shapes_.find(value);
  return known && known->type->isTensor() ? known->type->tensor().dtype : DType::Undefined;
}

// Integers that follow from sizes, and constants of the analysis.
std::optional<IValue> SmallInstance::known(const Value* value) const {
  const SymbolicValue* v = shapes_.find(value);
  if (!v) return std::nullopt;
  if (v->constant && v->constant->isNumber()) return v->constant;
  if (!v->integers || std::any_of(v->integers->begin(), v->integers->end(), isUnknownInteger)) return std::nullopt;
  if (v->type->is(TypeKind::Int) && v->integers->size() == 1) return IValue((*v->integers)[0]);
  if (v->type->isListOf(TypeKind::Int)) return intList(*v->integers);
  return std::nullopt;
}

std::optional<SmallInstance::Elements> SmallInstance::places(const Value* value, const Value* from) const {
  std::optional<Dims> known = sizes(from);
  if (!known || checkedNumel(*known).value_or(kMostElements + 1) > kMostElements) return std::nullopt;
  return compute(value, {{from, counted(*known)}});
}

std::optional<SmallInstance::Elements> SmallInstance::compute(const Value* value, const Given& given) const {
  if (std::optional<IValue> number = known(value); number && number->isNumber()) return elementsOf(*number);
  Graph part;
  ValueMap copies;
  std::vector<IValue> arguments;
  std::vector<const Value*> ends;
  for (const auto& [end, tensor] : given) {
    copies[end] = part.addInput(types().tensor);
    arguments.emplace_back(tensor);
    ends.push_back(end);
  }
  if (positions_ && std::find(ends.begin(), ends.end(), positions_) == ends.end()) {
    std::vector<int64_t> places(static_cast<size_t>(batch * tokens));
    for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i) % tokens;
    copies[positions_] = part.addInput(types().tensor);
    arguments.emplace_back(Tensor::of<int64_t>(Dims{batch, tokens}, places));
    ends.push_back(positions_);
  }
  std::optional<std::vector<Node*>> nodes = nodesBehind(value, ends, context_);
  if (!nodes) return std::nullopt;
  Builder builder(part);
  for (Node* n : *nodes) {
    std::optional<IValue> number = n->outputCount() == 1 ? known(n->output()) : std::nullopt;
    if (number) {
      copies[n->output()] = builder.constant(*number, n->output()->type());
      continue;
    }
    if (isSizeQuestion(n, context_.facts)) return std::nullopt;
    for (const Value* output : n->outputs())
      if (std::optional<Dims> s = sizes(output); s && checkedNumel(*s).value_or(kMostElements + 1) > kMostElements)
        return std::nullopt;
    for (const Use& u : n->inputs()) {
      if (copies.count(u.value)) continue;
      std::optional<Dims> form = u.index() == slotOfForm(n, context_.facts) ? sizes(u.value) : std::nullopt;
      if (!form || dtype(u.value) == DType::Undefined) return std::nullopt;
      copies[u.value] = part.addInput(types().tensor);
      arguments.emplace_back(Tensor::zeros(dtype(u.value), *form));
    }
    part.block()->append(cloneNode(*n, part, copies));
  }
  auto copy = copies.find(value);
  if (copy == copies.end()) return std::nullopt;
  if (value->type()->isTensor())
    returnAsDoubles(part, copy->second);
  else
    part.addOutput(copy->second);
  std::optional<std::vector<IValue>> results = context_.evaluator->run(part, arguments);
  if (!results || results->size() != 1) return std::nullopt;
  return elementsOf((*results)[0]);
}

}  // namespace tscompile
