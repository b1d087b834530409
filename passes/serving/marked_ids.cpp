#include "passes/serving/marked_ids.h"

#include "ir/values/aten.h"
#include "passes/serving/lookups.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>

namespace tscompile {
namespace {

constexpr size_t kMost = 64;
// Kinds of rows that a table tells ids apart by; a table of more holds vectors of words.
constexpr size_t kMostKinds = 32;

// Kinds of its rows, the rarest first, by the first row of each; and whether nothing but zeros is in it.
class RowKinds {
 public:
  explicit RowKinds(const Tensor& table) : bytes_(reinterpret_cast<const char*>(table.raw())), rows_(table.size(0)) {
    width_ = rows_ ? static_cast<size_t>(table.numel() / rows_) * itemSize(table.dtype()) : 0;
  }

  std::vector<int64_t> rare() const {
    std::map<std::string_view, std::pair<int64_t, int64_t>> kinds;  // count, first row
    for (int64_t row = 0; row < rows_ && kinds.size() <= kMostKinds; ++row) {
      auto [at, isNew] = kinds.try_emplace(bytesOf(row), 0, row);
      ++at->second.first;
    }
    std::vector<std::pair<int64_t, int64_t>> byCount;
    if (kinds.size() <= kMostKinds && static_cast<int64_t>(2 * kinds.size()) <= rows_)
      for (const auto& [bytes, kind] : kinds) byCount.push_back(kind);
    std::ranges::sort(byCount);
    std::vector<int64_t> out;
    for (size_t i = 0; i + 1 < byCount.size(); ++i) out.push_back(byCount[i].second);
    return out;
  }

  // The first row that is nothing but zeros.
  std::optional<int64_t> zeros() const {
    for (int64_t row = 0; row < rows_; ++row)
      if (width_ && std::ranges::all_of(bytesOf(row), [](char c) { return c == 0; })) return row;
    return std::nullopt;
  }

 private:
  std::string_view bytesOf(int64_t row) const { return {bytes_ + static_cast<size_t>(row) * width_, width_}; }

  const char* bytes_;
  int64_t rows_;
  size_t width_ = 0;
};

class Marks {
 public:
  Marks(const Value* ids, RewriteContext& context) : context_(context) { fromIds_.insert(ids); }

  // Twice, since what a branch or a loop gives is known after it.
  std::vector<int64_t> run(const Graph& graph) {
    for (int round = 0; round < 2; ++round) forEachNode(graph, [&](const Node* n) { visit(n); });
    return std::move(marks_);
  }

 private:
  void visit(const Node* n) {
    for (const Block* b : n->blocks()) {
      size_t offset = n->kind() == sym::Loop ? 1 : 0;
      for (size_t i = 0; offset && i + 2 < n->inputCount(); ++i) passOn(n->input(i + 2), b->parameter(i + 1));
      for (size_t i = 0; i < n->outputCount(); ++i) passOn(b->result(i + offset), n->output(i));
    }
    if (mayCompare(n))
      for (size_t i : {0, 1})
        if (fromIds_.contains(n->input(i))) take(n->input(1 - i), hasSides(n));
    if (const Value* table = tableOfIds(n)) takeRows(table);
    if (isOfIds(n))
      for (const Value* v : n->outputs()) fromIds_.insert(v);
  }

  // What is computed of ids and numbers beside each other may compare them; what gives a bool most likely does.
  bool mayCompare(const Node* n) const {
    static const Symbol kIsIn = Symbol::of("aten::isin");
    if (n->inputCount() < 2 || n->outputCount() != 1) return false;
    const Operator* op = context_.registry.resolve(*n);
    return n->kind() == kIsIn || n->output()->type()->kind() == TypeKind::Bool || (op && op->has(Trait::Elementwise));
  }

  // Whether what it tells of ids may change beside a number, not at it alone.
  bool hasSides(const Node* n) const {
    const Operator* op = context_.registry.resolve(*n);
    return op && !op->has(Trait::Commutative);
  }

  void passOn(const Value* from, const Value* to) {
    if (fromIds_.contains(from)) fromIds_.insert(to);
  }

  // Views, copies and arithmetic of ids. Tables that they choose rows of come first among the arguments.
  bool isOfIds(const Node* n) const {
    const Operator* op = context_.registry.resolve(*n);
    if (op && (op->has(Trait::ReadsGeometry) || op->has(Trait::ReadsSizes))) return false;
    bool any = n->kind() == sym::ListConstruct || (op && op->has(Trait::Elementwise));
    size_t count = std::min<size_t>(n->inputCount(), any ? n->inputCount() : 1);
    for (size_t i = 0; i < count; ++i)
      if (fromIds_.contains(n->input(i))) return true;
    return false;
  }

  // The table that a node takes a row from for each id.
  const Value* tableOfIds(const Node* n) const {
    if (n->kind() == kEmbedding && n->inputCount() > 1) return fromIds_.contains(n->input(1)) ? n->input(0) : nullptr;
    if (n->kind() == aten::index_select && n->inputCount() > 2)
      return context_.facts.integer(n->input(1)) == 0 && fromIds_.contains(n->input(2)) ? n->input(0) : nullptr;
    const Node* list = n->kind() == kIndex && n->inputCount() > 1 ? n->input(1)->node() : nullptr;
    const bool hasIds = list && list->inputCount() > 0 && fromIds_.contains(list->input(0));
    return hasIds ? n->input(0) : nullptr;
  }

  // Flags of ids are tables, too, and rows of zeros are often told from others.
  void takeRows(const Value* table) {
    const IValue* known = GraphFacts::constant(table);
    if (!known || !known->isTensor() || !known->toTensor().defined()) return;
    const Tensor t = known->toTensor();
    if (t.rank() == 0 || !t.isContiguous() || !isSupported(t.dtype())) return;
    const RowKinds kinds(t);
    for (int64_t row : kinds.rare()) add(row);
    if (std::optional<int64_t> row = kinds.zeros()) add(*row);
  }

  // `areSidesOther`: ids next to a number may lie on another side of it.
  void take(const Value* v, bool areSidesOther) {
    const Node* n = v->node();
    if (n && n->kind() == sym::ListConstruct)
      for (const Use& u : n->inputs()) take(u.value, false);
    const IValue* known = GraphFacts::constant(v);
    if (!known) return;
    if (known->isInt()) return addNumber(known->toInt(), areSidesOther);
    if (known->isList())
      for (const IValue& item : known->toList().items)
        if (item.isInt()) add(item.toInt());
    if (!known->isTensor() || !known->toTensor().defined()) return;
    const Tensor t = known->toTensor();
    if (t.dtype() != DType::Int64 || !t.isContiguous() || t.numel() > static_cast<int64_t>(kMost)) return;
    if (t.rank() == 0) return addNumber(*t.data<int64_t>(), areSidesOther);
    for (int64_t i = 0; i < t.numel(); ++i) add(t.data<int64_t>()[i]);
  }

  void addNumber(int64_t id, bool areSidesOther) {
    add(id);
    constexpr int64_t kFar = int64_t{1} << 62;  // no table has as many rows
    if (areSidesOther && std::abs(id) < kFar) add(id - 1), add(id + 1);
  }
  void add(int64_t id) {
    if (marks_.size() < kMost && std::find(marks_.begin(), marks_.end(), id) == marks_.end()) marks_.push_back(id);
  }

  RewriteContext& context_;
  std::unordered_set<const Value*> fromIds_;
  std::vector<int64_t> marks_;
};

}  // namespace

std::vector<int64_t> markedIds(const Graph& graph, const Value* ids, RewriteContext& context) {
  return Marks(ids, context).run(graph);
}

int32_t drawnId(uint64_t bits, int64_t words, const std::vector<int64_t>& marked) {
  const auto count = static_cast<uint64_t>(words);
  if (!marked.empty() && bits % 3 == 0) {
    int64_t id = marked[bits / 3 % marked.size()];
    if (id >= 0 && id < words) return static_cast<int32_t>(id);
  }
  return static_cast<int32_t>(bits % count);
}

size_t placeOfId(uint64_t bits, size_t at, int64_t words) {
  constexpr int64_t kFewWords = 512;
  constexpr uint64_t kOneIn = 3;
  constexpr int kOthers = 20;  // bits that ids are drawn by
  const uint64_t own = bits >> kOthers;
  const bool isAgain = at > 0 && words > kFewWords && own % kOneIn == 0;
  return isAgain ? static_cast<size_t>(own / kOneIn % at) : at;
}

int32_t plainId(uint64_t bits, int64_t words, const std::vector<int64_t>& marked) {
  const auto count = static_cast<uint64_t>(words), first = bits % count;
  for (uint64_t i = 0; i < count; ++i) {
    const auto id = static_cast<int64_t>((first + i) % count);
    if (std::find(marked.begin(), marked.end(), id) == marked.end()) return static_cast<int32_t>(id);
  }
  return static_cast<int32_t>(first);
}

}  // namespace tscompile
