#include "passes/serving/marked_ids.h"

#include "ir/graph/builder.h"
#include "ir/graph/clone.h"
#include "ir/graph/evaluator.h"
#include "ir/values/aten.h"
#include "passes/serving/lookups.h"
#include "passes/serving/small_instance.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
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

// How many ids have a row, and the first of them.
struct KindOfIds {
  int64_t count = 0;
  std::vector<int64_t> first;
};
using KindsOfIds = std::map<std::string, KindOfIds>;

// Values that follow from one id alone, of all ids.
class Told {
 public:
  Told(const Graph& graph, const Value* ids, int64_t words, RewriteContext& context)
      : graph_(graph), ids_(ids), words_(words), context_(context) {}

  std::vector<int64_t> run() {
    follow();
    std::vector<int64_t> out;
    for (const Value* v : wanted_)
      for (int64_t id : idsToldBy(v))
        if (std::ranges::find(out, id) == out.end()) out.push_back(id);
    return out;
  }

 private:
  // What is known of a value for one id.
  enum class From : uint8_t { Nothing, Others, Id };  // what is no constant and no id; constants and sizes; the id

  void follow() {
    for (const Value* v : graph_.inputs()) from_[v] = v == ids_ ? From::Id : From::Nothing;
    for (Node* n : graph_.block()->nodes()) {
      const From from = fromOf(n);
      for (const Value* v : n->outputs()) {
        from_[v] = from;
        if (from == From::Id && wanted_.size() < kMostValues && mayTell(v)) wanted_.push_back(v);
      }
    }
  }

  From fromOf(const Node* n) const {
    if (n->kind() == sym::Constant) return From::Others;
    if (n->hasBlocks() || !context_.facts.isPure(n) || !context_.facts.isUndisturbed(n)) return From::Nothing;
    bool isOfId = false;
    for (const Use& u : n->inputs()) {
      const From from = from_.at(u.value);
      if (from == From::Nothing) return From::Nothing;
      isOfId = isOfId || from == From::Id;
    }
    const Operator* op = context_.registry.resolve(*n);
    if (op && (op->has(Trait::ReadsGeometry) || op->has(Trait::ReadsSizes))) return From::Others;
    if (!isOfId) return From::Others;
    return isProduct(n, op) || isWide(n) ? From::Nothing : From::Id;
  }

  // Of many ids it would take much memory, and time.
  bool isWide(const Node* n) const {
    return std::ranges::any_of(n->outputs(), [this](const Value* v) {
      if (!v->type()->isTensor()) return false;
      return std::ranges::any_of(context_.facts.tensor(v).sizes, [](int64_t s) { return s > kMostWide; });
    });
  }

  // Tables that rows are taken of come first among the arguments; a matrix behind what follows from ids is a weight.
  bool isProduct(const Node* n, const Operator* op) const {
    if (op && op->has(Trait::Elementwise)) return false;
    for (size_t i = 1; i < n->inputCount(); ++i) {
      if (from_.at(n->input(i)) != From::Others || !n->input(i)->type()->isTensor()) continue;
      const TensorFacts& f = context_.facts.tensor(n->input(i));
      if (!f.hasRank || std::ranges::count_if(f.sizes, [](int64_t s) { return s != 1; }) > 1) return true;
    }
    return false;
  }

  // Flags, numbers of classes, and one number for each token; vectors of words tell all ids apart.
  bool mayTell(const Value* v) const {
    if (!v->type()->isTensor()) return false;
    if (context_.facts.movesElements(v->node()) || context_.facts.keepsElements(v->node())) return false;
    const TensorFacts& f = context_.facts.tensor(v);
    if (f.dtype != DType::Undefined && !isFloating(f.dtype)) return true;
    return !f.hasRank || f.sizes.size() <= 2;
  }

  std::vector<int64_t> idsToldBy(const Value* v) const {
    Graph part;
    if (!makePart(v, part)) return {};
    for (bool areTexts : {true, false}) {
      KindsOfIds kinds;
      if (!count(part, areTexts, kinds)) continue;
      return rareOf(kinds);
    }
    return {};
  }

  // graph(ids) -> the value
  bool makePart(const Value* v, Graph& part) const {
    ValueMap copies;
    copies[ids_] = part.addInput(ids_->type());
    size_t count = 0;
    if (!take(v, part, copies, count)) return false;
    returnAsDoubles(part, copies.at(v));
    return true;
  }
  bool take(const Value* v, Graph& part, ValueMap& copies, size_t& count) const {
    if (copies.contains(v)) return true;
    Node* n = v->node();
    if (!n || ++count > kMostBehind) return false;
    for (const Use& u : n->inputs())
      if (!take(u.value, part, copies, count)) return false;
    if (!copies.contains(v)) part.block()->append(cloneNode(*n, part, copies));
    return true;
  }

  // Each id is a text, or all are one text. False if the graph does not run so, or tells too many apart.
  bool count(const Graph& part, bool areTexts, KindsOfIds& kinds) const {
    for (int64_t begin = 0; begin < words_; begin += kChunk) {
      const int64_t n = std::min(kChunk, words_ - begin);
      std::vector<int64_t> some(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) some[static_cast<size_t>(i)] = begin + i;
      const std::vector<IValue> inputs{Tensor::of<int64_t>(areTexts ? Dims{n, 1} : Dims{1, n}, some)};
      const std::optional<std::vector<IValue>> out = context_.evaluator->run(part, inputs);
      if (!out || out->size() != 1 || !(*out)[0].isTensor()) return false;
      const Tensor rows = (*out)[0].toTensor();
      const int dim = areTexts ? 0 : 1;
      if (!rows.isContiguous() || rows.rank() <= dim || rows.size(dim) != n || (dim == 1 && rows.size(0) != 1))
        return false;
      const int64_t width = rows.numel() / n;
      if (width == 0 || width > kMostInRow) return false;
      for (int64_t i = 0; i < n; ++i) {
        KindOfIds& kind = kinds[std::string(reinterpret_cast<const char*>(rows.data<double>() + i * width),
                                            static_cast<size_t>(width) * sizeof(double))];
        ++kind.count;
        if (kind.first.size() < kOfAKind) kind.first.push_back(begin + i);
      }
      if (kinds.size() > kMostKindsOfIds) return false;
    }
    return static_cast<int64_t>(2 * kinds.size()) <= words_;
  }

  static std::vector<int64_t> rareOf(const KindsOfIds& kinds) {
    std::vector<const KindOfIds*> byCount;
    for (const auto& [row, kind] : kinds) byCount.push_back(&kind);
    std::ranges::stable_sort(byCount, {}, &KindOfIds::count);
    std::vector<int64_t> out;
    for (size_t i = 0; i + 1 < byCount.size(); ++i)
      out.insert(out.end(), byCount[i]->first.begin(), byCount[i]->first.end());
    return out;
  }

  static constexpr size_t kMostValues = 32, kMostKindsOfIds = 32, kMostBehind = 64, kOfAKind = 2;
  static constexpr int64_t kChunk = 512, kMostInRow = 64, kMostWide = 8192;

  const Graph& graph_;
  const Value* ids_;
  const int64_t words_;
  RewriteContext& context_;
  std::unordered_map<const Value*, From> from_;
  std::vector<const Value*> wanted_;
};

}  // namespace

std::vector<int64_t> markedIds(const Graph& graph, const Value* ids, RewriteContext& context) {
  return Marks(ids, context).run(graph);
}

std::vector<int64_t> toldIds(const Graph& graph, const Value* ids, int64_t words, RewriteContext& context) {
  return context.evaluator && words > 0 ? Told(graph, ids, words, context).run() : std::vector<int64_t>();
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
