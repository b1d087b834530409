#include "passes/serving/forms/returned_logits.h"

#include "ir/analysis/shape_propagation.h"
#include "ir/graph/builder.h"
#include "ir/values/aten.h"
#include "ir/values/kind_set.h"
#include "passes/rewrite/facts.h"
#include "passes/serving/entrance.h"
#include "passes/serving/forms/example_sizes.h"
#include "passes/serving/lookups.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

namespace tscompile {
namespace {

constexpr int kMostSteps = 8;  // behind a value

// Among what is returned, outermost first: a node, and the input of it.
struct Step {
  Node* node;
  size_t input;
};
using Path = std::vector<Step>;

bool isDict(const Node* n) { return n->kind() == sym::DictConstruct; }
bool isCollection(const Node* n) {
  return n && (n->kind() == sym::TupleConstruct || n->kind() == sym::ListConstruct || isDict(n));
}

void collect(Node* n, Path& path, std::vector<Path>& out) {
  for (size_t i = isDict(n) ? 1 : 0; i < n->inputCount(); i += isDict(n) ? 2 : 1) {
    path.push_back({n, i});
    Value* v = n->input(i);
    if (v->type()->isTensor())
      out.push_back(path);
    else if (isCollection(v->node()))
      collect(v->node(), path, out);
    path.pop_back();
  }
}

// The ways to all tensors that are returned.
std::vector<Path> returnedPaths(Graph& graph) {
  std::vector<Path> all;
  Path path;
  collect(graph.returnNode(), path, all);
  return all;
}
Value* valueAt(const Path& path) { return path.back().node->input(path.back().input); }

class Returned {
 public:
  Returned(Graph& graph, const OpRegistry& registry)
      : ids_(withRank(graph)), graph_(graph), registry_(registry), facts_(graph, registry) {}
  ~Returned() {
    if (ids_.first) ids_.first->setType(ids_.second);
  }
  Returned(const Returned&) = delete;

  void takeLogarithm() {
    Value* given = logitsOf(graph_);
    if (!given || !given->node()) return;
    Builder b = builderAfter(given);
    constexpr double kLeast = 1.17549435e-38;  // the least normal float32: no logarithm is infinite
    Value* bounded = b.call(aten::add, {given, b.constant(IValue(kLeast)), b.constant(IValue(1))}, given->type());
    replaceReturned(graph_, given, b.call(aten::log, {bounded}, given->type()));
  }

  bool run(std::string& choice) {
    bool isMoved = moveForward();
    Value* logits = logitsOf(graph_);
    if (!logits) return isMoved;
    isMoved |= passOthers(logits);
    if (const Node* n = chooserOf(logits)) {
      choice = n->kind().text();
      replaceReturned(graph_, logits, n->input(0));
      logits = n->input(0);
      isMoved = true;
    }
    return takeRows(logits) || isMoved;
  }

 private:
  // Logits [batch, words, tokens], as losses want them, become [batch, tokens, words]; of those with learned rows
  // before the tokens (soft prompts) those of the tokens are left.
  bool takeRows(Value* logits) {
    constexpr int64_t kTexts = 2, kFew = 5, kMore = 7;
    const std::optional<Dims> few = sizesOf(logits, kTexts, kFew), more = sizesOf(logits, kTexts, kMore);
    if (!few || !more || few->size() != 3 || more->size() != 3 || (*few)[0] != kTexts || !logits->node()) return false;
    auto areRows = [&](size_t d) { return (*few)[d] >= kFew && (*few)[d] - kFew == (*more)[d] - kMore; };
    const bool isTurned = areRows(2);
    const int64_t learned = (*few)[isTurned ? 2 : 1] - kFew;
    if (areRows(1) == isTurned || (!isTurned && learned == 0)) return false;
    Builder b = builderAfter(logits);
    auto number = [&](int64_t n) { return b.constant(IValue(n)); };
    Value* rows = isTurned ? b.call(aten::transpose, {logits, number(1), number(2)}) : logits;
    if (learned > 0)
      rows = b.call(aten::slice, {rows, number(1), number(learned), b.constant(IValue()), number(1)}, types().tensor);
    replaceReturned(graph_, logits, rows);
    return true;
  }

  // Nothing if some are not known.
  std::optional<Dims> sizesOf(const Value* v, int64_t texts, int64_t tokens) const {
    ShapeOptions options;
    for (const Value* input : graph_.inputs()) {
      std::optional<SymbolicValue>& known = options.inputs.emplace_back();
      if (input->type()->isTensor()) known = symbolicTensor(DType::Int64, Dims{texts, tokens});
    }
    options.known = sizesOfAttribute;
    const ShapePropagation shapes(graph_, registry_, options);
    const SymbolicValue* known = shapes.conflicts().empty() ? shapes.find(v) : nullptr;
    if (!known || !known->type->isTensor() || !known->type->tensor().hasAllSizes()) return std::nullopt;
    return known->type->tensor().sizes;
  }

  // Ids that do not tell how many dimensions they have are taken for texts in the meantime.
  static std::pair<Value*, TypePtr> withRank(const Graph& graph) {
    for (const Node* n : graph.block()->nodes()) {
      Value* ids = n->kind() == kEmbedding && n->inputCount() > 1 ? n->input(1) : nullptr;
      if (!ids || ids->node() || !ids->type()->isTensor() || ids->type()->tensor().hasRank) continue;
      const TypePtr given = ids->type();
      ids->setType(symbolicTensor(DType::Int64, Dims{kUnknownSize, kUnknownSize}).type);
      return {ids, given};
    }
    return {nullptr, nullptr};
  }

  // What may be left out, as a loss, stands behind logits then, whether it is there in a run or not.
  bool passOthers(const Value* logits) {
    bool isMoved = false;
    const std::vector<Path> all = returnedPaths(graph_);
    const auto path = std::ranges::find(all, logits, valueAt);
    if (path == all.end()) return false;
    for (const Step& s : *path) {
      if (s.input == (isDict(s.node) ? 1 : 0)) continue;
      putFirst(s);
      isMoved = true;
    }
    return isMoved;
  }

  bool moveForward() {
    const std::vector<Path> all = returnedPaths(graph_);
    const int64_t words = rowsForIds();
    Value* first = logitsOf(graph_);
    auto isWide = [&](const Path& p) { return widthOf(valueAt(p)) == words; };
    if (words == 0 || all.size() < 2 || (first && (widthOf(first) == words || first != valueAt(all.front()))))
      return false;
    const auto wide = std::ranges::find_if(all, isWide);
    if (wide == all.end()) return false;
    for (const Step& s : *wide) putFirst(s);
    return true;
  }

  static void putFirst(const Step& step) {
    Node* n = step.node;
    std::vector<Value*> inputs;
    for (const Use& u : n->inputs()) inputs.push_back(u.value);
    const size_t from = isDict(n) ? step.input - 1 : step.input;
    std::rotate(inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(from),
                inputs.begin() + static_cast<ptrdiff_t>(step.input) + 1);
    for (size_t i = 0; i < inputs.size(); ++i) n->replaceInput(i, inputs[i]);
    if (n->kind() != sym::TupleConstruct) return;
    std::vector<TypePtr> types;
    for (const Value* v : inputs) types.push_back(v->type());
    n->output()->setType(tupleType(types));
  }

  // Rows of the first table that an input chooses from.
  int64_t rowsForIds() {
    for (const Node* n : graph_.block()->nodes()) {
      if (n->kind() != kEmbedding || n->inputCount() < 2) continue;
      const Value* at = n->input(1);
      while (at->node() && (facts_.keepsElements(at->node()) || facts_.movesElements(at->node())))
        at = at->node()->input(0);
      if (std::optional<int64_t> rows = sizeOf(n->input(0), 0); !at->node() && rows) return *rows;
    }
    return 0;
  }

  std::optional<int64_t> sizeOf(const Value* v, size_t dim) {
    const TensorFacts known = facts_.told(v);
    if (!known.hasRank || known.sizes.size() <= dim || known.sizes[dim] == kUnknownSize) return std::nullopt;
    return known.sizes[dim];
  }

  // How many numbers a token has; 0: not known.
  int64_t widthOf(const Value* v) {
    for (int steps = 0; steps < kMostSteps; ++steps) {
      if (v->type()->isTensor() && facts_.told(v).hasRank)
        return facts_.told(v).sizes.empty() ? 0 : std::max<int64_t>(facts_.told(v).sizes.back(), 0);
      const Node* n = v->node();
      if (!n || n->inputCount() == 0) return 0;
      if (n->kind() == aten::linear) return sizeOf(n->input(1), 0).value_or(0);
      if (n->kind() == aten::matmul) return sizeOf(n->input(1), 1).value_or(0);
      if (n->kind() == kEmbedding) return sizeOf(n->input(0), 1).value_or(0);
      const Operator* op = facts_.resolve(n);
      const bool isDoneToEach = op && (op->has(Trait::Elementwise) || op->has(Trait::KeepsElements));
      if (!isDoneToEach && n->kind() != aten::softmax && !facts_.movesElements(n)) return 0;
      v = n->input(0);
    }
    return 0;
  }

  // Of logits [batch, tokens, words], or of the last token's [batch, words].
  bool isLast(const Value* dim, const Value* of) {
    const std::optional<int64_t> d = facts_.integer(dim);
    const std::optional<size_t> rank = facts_.rank(of);
    return d && (*d == -1 || (rank ? *d + 1 == static_cast<int64_t>(*rank) : *d > 0));
  }

  // The node that chose tokens along the last dimension; null if these are no tokens.
  Node* chooserOf(Value* v) {
    static const KindSet kDimSecond{"aten::argmax", "aten::max"}, kDimThird{"aten::topk"}, kDraws{"aten::multinomial"};
    for (int steps = 0; steps < kMostSteps; ++steps) {
      Node* n = v->node();
      if (!n || n->inputCount() == 0) return nullptr;
      if (kDraws.contains(n->kind())) return n;
      if (kDimSecond.contains(n->kind())) return n->inputCount() == 3 && isLast(n->input(1), n->input(0)) ? n : nullptr;
      if (kDimThird.contains(n->kind())) return n->inputCount() == 5 && isLast(n->input(2), n->input(0)) ? n : nullptr;
      if (!facts_.keepsElements(n) && !facts_.movesElements(n)) return nullptr;
      v = n->input(0);
    }
    return nullptr;
  }

  Builder builderAfter(const Value* v) const {
    Builder b(graph_, graph_.returnNode());
    b.setPointAfter(v->node());
    b.setPlaceOf(v->node());
    return b;
  }

  std::pair<Value*, TypePtr> ids_;  // with its own type
  Graph& graph_;
  const OpRegistry& registry_;
  GraphFacts facts_;
};

}  // namespace

void replaceReturned(Graph& graph, const Value* given, Value* made) {
  const std::vector<Path> all = returnedPaths(graph);
  const auto path = std::ranges::find(all, given, valueAt);
  if (path != all.end()) path->back().node->replaceInput(path->back().input, made);
}

bool returnLogits(Graph& graph, const OpRegistry& registry, std::string& choice) {
  return Returned(graph, registry).run(choice);
}

void returnLogarithms(Graph& graph, const OpRegistry& registry) { Returned(graph, registry).takeLogarithm(); }

const Node* randomNodeOfLogits(const Graph& graph, const OpRegistry& registry) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> todo;
  auto follow = [&](const Node* n) {
    if (n && seen.insert(n).second) todo.push_back(n);
  };
  if (const Value* logits = logitsOf(graph)) follow(logits->node());
  while (!todo.empty()) {
    const Node* n = todo.back();
    todo.pop_back();
    const Operator* op = registry.resolve(*n);
    if (op && op->isImplemented() && op->drawsRandom(*n)) return n;
    for (const Use& u : n->inputs()) follow(u.value->node());
    for (const Block* b : n->blocks()) {
      for (const Node* inner : b->nodes()) follow(inner);
      for (const Use& u : b->returnNode()->inputs()) follow(u.value->node());
    }
  }
  return nullptr;
}

}  // namespace tscompile
