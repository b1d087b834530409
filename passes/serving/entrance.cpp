#include "passes/serving/entrance.h"

#include "ir/values/aten.h"
#include "ir/values/kind_set.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/formula.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/lookups.h"
#include "passes/serving/marked_ids.h"
#include "passes/serving/serving_passes.h"
#include "passes/serving/small_instance.h"
#include "passes/serving/text_length.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

namespace tscompile {
namespace {

constexpr const char* kLogits = "logits";

bool isCollection(const Node* n) {
  return n && (n->kind() == sym::TupleConstruct || n->kind() == sym::ListConstruct || n->kind() == sym::DictConstruct);
}

bool mayBeNone(const Value* v) {
  return v->type()->is(TypeKind::Optional) || v->type()->is(TypeKind::None) || GraphFacts::isNone(v);
}

// The first one that is not left out, as a loss may be.
Value* firstGiven(std::span<const Use> values) {
  const auto given = std::ranges::find_if_not(values, [](const Use& u) { return mayBeNone(u.value); });
  return given == values.end() ? nullptr : given->value;
}

Value* elementWithLogits(const Node* n) {
  const bool isNamed = n->kind() == sym::TupleConstruct && n->output()->type()->is(TypeKind::Tuple);
  const std::vector<std::string> fields = isNamed ? n->output()->type()->fields() : std::vector<std::string>();
  if (const auto at = std::ranges::find(fields, kLogits); at != fields.end())
    return n->input(static_cast<size_t>(at - fields.begin()));
  if (n->kind() != sym::DictConstruct) return firstGiven(n->inputs());
  Value* first = nullptr;
  for (size_t i = 0; i + 1 < n->inputCount(); i += 2) {
    const IValue* key = GraphFacts::constant(n->input(i));
    if (key && key->isString() && key->toString() == kLogits) return n->input(i + 1);
    if (!first && !mayBeNone(n->input(i + 1))) first = n->input(i + 1);
  }
  return first;
}

class Opening {
 public:
  Opening(Graph& graph, const OpRegistry& registry, Evaluator& evaluator, Diagnostics& diagnostics)
      : graph_(graph), context_(graph, registry, diagnostics) {
    context_.evaluator = &evaluator;
  }

  Result<Entrance> run() {
    writePlainly(graph_, context_);
    if (!takeInputs() || !takeLogits()) return Failed{};
    takePositions();
    context_.facts.refresh();
    removeDeadCode(graph_, context_);
    context_.facts.refresh();
    out_.positions = rowsForPositions();
    out_.words = rowsForIds();
    mark();
    return out_;
  }

 private:
  bool fail(SourceRange where, std::string message) {
    context_.diagnostics.error(where, std::move(message));
    return false;
  }

  // Ids that are told by what the graph says, and by what it computes of each.
  void mark() {
    constexpr size_t kMost = 96;
    out_.marked = markedIds(graph_, ids_, context_);
    for (int64_t id : toldIds(graph_, ids_, out_.words, context_))
      if (out_.marked.size() < kMost && std::ranges::find(out_.marked, id) == out_.marked.end())
        out_.marked.push_back(id);
  }

  bool takeInputs() {
    std::optional<std::vector<ServingInput>> roles = rolesOfInputs(graph_, context_);
    if (!roles) return false;
    std::vector<Value*> inputs(graph_.inputs().begin(), graph_.inputs().end());
    const TypePtr integers = tensorType([] {
      TensorFacts f;
      f.dtype = DType::Int64;
      f.hasRank = true;
      f.sizes = Dims{kUnknownSize, kUnknownSize};
      return f;
    }());
    Value* mask = nullptr;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ServingInput role = (*roles)[i];
      out_.inputs.push_back(role);
      out_.dtypes.push_back(inputs[i]->type()->tensor().dtype);
      out_.names.push_back(inputs[i]->name());
      out_.isNamed.push_back(roleByName(inputs[i]) == role);
      Value*& place = role == ServingInput::Ids ? ids_ : role == ServingInput::Positions ? positions_ : mask;
      place = inputs[i];
      if (place != mask) place->setType(integers);
    }
    if (mask) {
      DType dtype = mask->type()->tensor().dtype;
      if (dtype != DType::Undefined && dtype != DType::Bool && dtype != DType::Int64 && dtype != DType::Int32 &&
          dtype != DType::Float32)
        return fail(graph_.range, fmt::format("a mask of {} is not known", shortName(dtype)));
      dropMask(mask);
    }
    if (!positions_) positions_ = graph_.addInput(integers);
    if (graph_.input(0) != ids_) {
      // The order of what serves is ids, positions.
      Value* moved = graph_.addInput(integers);
      positions_->replaceAllUsesWith(moved);
      eraseInput(positions_);
      positions_ = moved;
    }
    ids_->setName("input_ids");
    positions_->setName("position_ids");
    return true;
  }

  void eraseInput(const Value* input) {
    std::span<Value* const> inputs = graph_.inputs();
    graph_.block()->removeParameter(
        static_cast<size_t>(std::find(inputs.begin(), inputs.end(), input) - inputs.begin()));
  }

  void dropMask(Value* mask) {
    Builder b(graph_, graph_.block()->first() ? graph_.block()->first() : graph_.returnNode());
    DType dtype = mask->type()->tensor().dtype;
    Value* none = b.constant(IValue());
    Value* type = dtype == DType::Undefined ? none : b.constant(IValue(static_cast<int64_t>(dtype)));
    Value* ones = b.call(aten::ones_like, {ids_, type, none, none, none, none}, types().tensor);
    ones->setName(mask->name() + "_of_ones");
    mask->replaceAllUsesWith(ones);
    eraseInput(mask);
  }

  bool takeLogits() {
    if (graph_.outputs().size() == 0) return fail(graph_.range, "expected logits, found no output");
    Value* v = logitsOf(graph_);
    while (graph_.outputs().size() > 1) graph_.returnNode()->removeInput(graph_.outputs().size() - 1);
    if (!v) return fail(graph_.range, "logits are no tensor among what is returned");
    if (v != graph_.output(0)) {
      graph_.returnNode()->replaceInput(0, v);
      context_.facts.refresh();
      removeDeadCode(graph_, context_);
    }
    return true;
  }

  static bool isRowOfTokens(const std::optional<Dims>& sizes, const SmallInstance& s) {
    if (!sizes || sizes->empty() || sizes->size() > 2 || sizes->back() != s.tokens) return false;
    return sizes->size() == 1 || (*sizes)[0] == 1 || (*sizes)[0] == s.batch;
  }

  // The first of elements that count on from it.
  static std::optional<int64_t> firstOfCount(const SmallInstance::Elements& e, const SmallInstance& s) {
    if (e.values.empty()) return std::nullopt;
    int64_t begin = static_cast<int64_t>(e.values[0]);
    for (size_t i = 0; i < e.values.size(); ++i)
      if (e.values[i] != static_cast<double>(begin + static_cast<int64_t>(i) % s.tokens)) return std::nullopt;
    return begin;
  }

  // [tokens], [1, tokens] or [batch, tokens] whose elements are 0, 1, 2 … and `first` more, in long texts as well.
  std::optional<int64_t> firstPosition(const Value* v) {
    std::optional<int64_t> first;
    for (const SmallInstance& s : small_) {
      std::optional<SmallInstance::Elements> e;
      if (isRowOfTokens(s.sizes(v), s)) e = s.compute(v);
      std::optional<int64_t> begin = e ? firstOfCount(*e, s) : std::nullopt;
      if (!begin || (first && first != begin)) return std::nullopt;
      first = begin;
    }
    // Tables, which texts are not longer than, may have fewer rows.
    for (int64_t tokens : {1 << 16, 1 << 12, 1 << 10, 1 << 9, 1 << 7, 1 << 5}) {
      const SmallInstance& s = longInstance(tokens);
      if (!isRowOfTokens(s.sizes(v), s)) continue;
      if (std::optional<SmallInstance::Elements> e = s.compute(v))
        return firstOfCount(*e, s) == first ? first : std::nullopt;
    }
    return first;
  }

  const SmallInstance& longInstance(int64_t tokens) {
    auto [at, isNew] = long_.try_emplace(tokens, context_, 1, tokens);
    return at->second;
  }

  // The input, in the form of a value that counts positions by itself.
  Value* positionsLike(const Value* v, int64_t first) {
    Formula f(v->node(), context_);
    f.builder().setPointAfter(v->node());
    size_t rank = small_[0].sizes(v)->size();
    Value* out = positions_;
    if (rank == 1)
      out = f.op(aten::select, {out, f.integer(0), f.integer(0)});
    else if ((*small_[0].sizes(v))[0] == 1)
      out = f.op(aten::slice, {out, f.integer(0), f.integer(0), f.integer(1), f.integer(1)});
    if (first != 0) out = f.add(out, f.integer(first));
    DType dtype = small_[0].dtype(v);
    if (dtype != DType::Int64) out = f.op(aten::to, {out, f.dtype(dtype), f.flag(false), f.flag(false), f.none()});
    return out;
  }

  // The dimension of a table whose first rows, one for each token, are all that is taken of it.
  std::optional<int64_t> dimOfTable(const Node* n) {
    if (n->kind() != aten::slice || n->inputCount() != 5 || !GraphFacts::constant(n->input(0))) return std::nullopt;
    std::optional<int64_t> dim = context_.facts.integer(n->input(1)), step = context_.facts.integer(n->input(4));
    bool fromFirst = GraphFacts::isNone(n->input(2)) || context_.facts.integer(n->input(2)) == 0;
    if (!dim || step != 1 || !fromFirst) return std::nullopt;
    for (const SmallInstance& s : small_) {
      std::optional<Dims> table = s.sizes(n->input(0)), rows = s.sizes(n->output());
      if (!table || !rows || table->empty()) return std::nullopt;
      if (*dim < 0) dim = *dim + static_cast<int64_t>(table->size());
      size_t d = static_cast<size_t>(*dim);
      if (d >= table->size() || (*rows)[d] != s.tokens || (*table)[d] < s.tokens) return std::nullopt;
    }
    return dim;
  }

  bool fitsTexts() {
    context_.facts.refresh();
    small_.clear();
    for (auto [batch, tokens] : {std::pair<int64_t, int64_t>(2, 5), std::pair<int64_t, int64_t>(3, 7)})
      small_.emplace_back(context_, batch, tokens);
    return small_[0].fits() && small_[1].fits();
  }

  // A graph may have the number 1 of the texts of its example, and any number of tokens.
  void fitOneText() {
    const TypePtr any = ids_->type();
    auto setTypes = [&](TypePtr type) { ids_->setType(type), positions_->setType(type); };
    TensorFacts one = any->tensor();
    one.sizes = Dims{1, kUnknownSize};
    setTypes(tensorType(one));
    if (fitsTexts()) return;
    setTypes(any);
    fitsTexts();
  }

  void takePositions() {
    if (!fitsTexts()) fitOneText();
    if (!small_[0].fits() || !small_[1].fits()) {
      answerQuestions(context_, positions_, 0);
      fitsTexts();
    }
    if (!small_[0].fits() || !small_[1].fits()) return;  // told where attention is looked for
    std::vector<Node*> nodes;
    for (Node* n : graph_.block()->nodes()) nodes.push_back(n);
    // Asked of the graph as it is: what counts from where another value begins counts by itself as well.
    std::vector<std::pair<Value*, int64_t>> counts;
    for (Node* n : nodes) {
      if (n->kind() == sym::Constant || n->outputCount() != 1 || !n->output()->type()->isTensor()) continue;
      Value* v = n->output();
      if (!v->hasUses()) continue;
      if (std::optional<int64_t> dim = dimOfTable(n)) {
        Formula f(n, context_);
        Value* at = f.op(aten::select, {positions_, f.integer(0), f.integer(0)});
        v->replaceAllUsesWith(f.op(aten::index_select, {n->input(0), f.integer(*dim), at}));
        continue;
      }
      if (small_[0].dtype(v) == DType::Bool) continue;
      if (std::optional<int64_t> first = firstPosition(v)) counts.emplace_back(v, *first);
    }
    for (auto [v, first] : counts) v->replaceAllUsesWith(positionsLike(v, first));
  }

  // A loop over tokens looks them up inside.
  int64_t rowsForIds() {
    int64_t rows = 0;
    forEachNode(graph_, [&](const Node* n) {
      if (rows != 0 || n->kind() != kEmbedding || n->inputCount() < 2) return;
      const Value* at = n->input(1);
      while (at->node() && (context_.facts.keepsElements(at->node()) || context_.facts.movesElements(at->node())))
        at = at->node()->input(0);
      std::optional<Dims> table = context_.facts.sizes(n->input(0));
      if (at == ids_ && table && !table->empty()) rows = table->front();
    });
    return rows;
  }

  // Rows of the shortest table that is looked up by position alone.
  int64_t rowsForPositions() {
    SmallInstance small(context_, 1, 2, positions_);
    if (!small.fits()) return 0;
    int64_t rows = 0;
    for (const Node* n : graph_.block()->nodes()) {
      bool isEmbedding = n->kind() == kEmbedding && n->inputCount() > 1;
      bool isIndex = n->kind() == kIndex && n->inputCount() > 1;
      bool isSelect = n->kind() == aten::index_select && n->inputCount() > 2;
      if (!isEmbedding && !isIndex && !isSelect) continue;
      std::optional<Dims> table = small.sizes(n->input(0));
      if (!table || table->empty() || !small.compute(n->input(0))) continue;
      const Value* at = n->input(isSelect ? 2 : 1);
      size_t dim = 0;
      if (isSelect) {
        std::optional<int64_t> d = context_.facts.integer(n->input(1));
        if (!d || *d < 0) continue;
        dim = static_cast<size_t>(*d);
      }
      if (isIndex) {
        const Node* list = at->node();
        if (!list || list->kind() != sym::ListConstruct || list->inputCount() != 1) continue;
        at = list->input(0);
      }
      // A row for position 0, and the next for 1; distances of all tokens from each other are more values.
      std::optional<SmallInstance::Elements> e = small.compute(at);
      if (!e || e->values.size() != 2 || e->values[1] != e->values[0] + 1 || e->values[0] < 0) continue;
      int64_t left = (*table)[dim] - static_cast<int64_t>(e->values[0]);
      if (staysInTable(at, (*table)[dim], left + 1)) continue;
      rows = rows ? std::min(rows, left) : left;
    }
    return rows;
  }

  // Whether texts of so many tokens choose no others than the rows that are there: positions that are cut off or count
  // anew bound nothing.
  bool staysInTable(const Value* at, int64_t rows, int64_t tokens) {
    std::optional<SmallInstance::Elements> e = SmallInstance(context_, 1, tokens, positions_).compute(at);
    return e && std::ranges::all_of(e->values, [&](double row) { return row >= 0 && row < static_cast<double>(rows); });
  }

  Graph& graph_;
  RewriteContext context_;
  Entrance out_;
  Value *ids_ = nullptr, *positions_ = nullptr;
  std::deque<SmallInstance> small_;
  std::map<int64_t, SmallInstance> long_;  // by tokens
};

}  // namespace

Value* logitsOf(const Graph& graph) {
  Value* v = firstGiven(graph.outputs());
  while (v && !v->type()->isTensor() && isCollection(v->node())) v = elementWithLogits(v->node());
  return v && v->type()->isTensor() ? v : nullptr;
}

Result<Entrance> openEntrance(Graph& graph, const OpRegistry& registry, Evaluator& evaluator,
                              Diagnostics& diagnostics) {
  return Opening(graph, registry, evaluator, diagnostics).run();
}

namespace {

constexpr std::string_view kInputNames[] = {"input_ids", "position_ids", "attention_mask"};  // as the enum has them

}  // namespace

std::string_view nameOf(ServingInput input) { return kInputNames[static_cast<size_t>(input)]; }

std::optional<ServingInput> servingInputNamed(std::string_view name) {
  for (ServingInput input : {ServingInput::Ids, ServingInput::Positions, ServingInput::Mask})
    if (name == nameOf(input)) return input;
  return std::nullopt;
}

Entrance entranceByNames(const Graph& graph, bool tokensFirst) {
  Entrance named;
  named.tokensFirst = tokensFirst;
  for (const Value* v : graph.inputs()) {
    if (!v->type()->isTensor()) continue;
    named.inputs.push_back(roleByName(v).value_or(ServingInput::Ids));
    named.dtypes.push_back(v->type()->tensor().dtype);
    named.names.push_back(v->name());
    named.isNamed.push_back(true);
  }
  return named;
}

Tensor inputOf(const Entrance& entrance, size_t input, const Dims& sizes, std::span<const int64_t> numbers) {
  const DType known = entrance.dtypes[input];
  Tensor t = Tensor::empty(known == DType::Undefined ? DType::Int64 : known, sizes);
  visitDType(t.dtype(), [&](auto sample) {
    using T = decltype(sample);
    if constexpr (std::is_arithmetic_v<T>)
      for (size_t i = 0; i < numbers.size(); ++i) t.data<T>()[i] = static_cast<T>(numbers[i]);
  });
  return t;
}

std::vector<IValue> inputsOfText(const Entrance& entrance, std::span<const int32_t> ids) {
  std::vector<IValue> out;
  int64_t count = static_cast<int64_t>(ids.size());
  Dims sizes = entrance.tokensFirst ? Dims{count, 1} : Dims{1, count};
  for (size_t i = 0; i < entrance.inputs.size(); ++i) {
    std::vector<int64_t> numbers(ids.size(), 1);
    if (entrance.inputs[i] == ServingInput::Ids) numbers.assign(ids.begin(), ids.end());
    if (entrance.inputs[i] == ServingInput::Positions) std::iota(numbers.begin(), numbers.end(), int64_t{0});
    out.emplace_back(inputOf(entrance, i, sizes, numbers));
  }
  return out;
}

Tensor logitsOf(const std::vector<IValue>& outputs) {
  if (outputs.empty()) return {};
  IValue v = outputs[0];
  while (!v.isTensor()) {
    std::optional<IValue> next;
    if (v.isTuple() && !v.toTuple().items.empty())
      next = v.toTuple().items[0];
    else if (v.isList() && !v.toList().items.empty())
      next = v.toList().items[0];
    else if (v.isDict()) {
      v.toDict().forEach([&](const IValue& key, const IValue& value) {
        if (!next || (key.isString() && key.toString() == kLogits)) next = value;
      });
    }
    if (!next) return {};
    v = *next;
  }
  return v.toTensor();
}

}  // namespace tscompile
