#include "passes/serving/one_token.h"

#include "ir/graph/builder.h"
#include "ir/values/aten.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/rewrite.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/lookups.h"
#include "passes/serving/moved_dim.h"
#include "passes/serving/several_texts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace tscompile {
namespace {

const Symbol kAsReal = Symbol::of("aten::view_as_real"), kAsComplex = Symbol::of("aten::view_as_complex");

// Follows the tokens, or the texts, of a graph that is for one number of them, and makes it one for another number.
class Resizing {
 public:
  // `texts`: that the graph is for, which become one; 0: its one token becomes any number of them.
  Resizing(Graph& graph, const OpRegistry& registry, int64_t texts)
      : graph_(graph), facts_(graph, registry), texts_(texts), from_(texts ? texts : 1) {}

  bool run() {
    if (!takeInputs()) return false;
    std::vector<Node*> nodes;
    for (Node* n : graph_.block()->nodes()) nodes.push_back(n);
    for (Node* n : nodes)
      if (n->hasBlocks() || !visit(n)) return stop(n);
    for (Value* v : graph_.inputs()) openSize(v);
    for (Node* n : nodes)
      for (Value* v : n->outputs()) openSize(v);
    for (Value* v : first_) openSize(v);
    return true;
  }

  // Where it ended, if it did.
  const Node* stopped() const { return stopped_; }

 private:
  bool stop(const Node* n) {
    stopped_ = n;
    return false;
  }

  bool takeInputs() {
    for (Value* v : graph_.inputs()) {
      const Dims* sizes = sizesOf(v);
      const std::optional<ServingInput> role = roleByName(v);
      if (texts_ && sizes && !sizes->empty() && sizes->front() == texts_) {
        dims_[v] = 0;
        if (sizes->size() == 2 && !ids_ && (!role || role == ServingInput::Ids)) ids_ = v;
      }
      if (texts_ || !sizes || !std::ranges::all_of(*sizes, [](int64_t s) { return s == 1; })) continue;
      if (sizes->size() == 2 && !ids_ && (!role || role == ServingInput::Ids)) dims_[ids_ = v] = 1;
      if (role == ServingInput::Positions && !sizes->empty()) dims_[v] = sizes->size() - 1;
    }
    return ids_ != nullptr;
  }

  void openSize(Value* v) const {
    const std::optional<size_t> dim = dimOf(v);
    if (!dim) return;
    TensorFacts facts = v->type()->tensor();
    if (auto keys = keys_.find(v); keys != keys_.end()) facts.sizes[keys->second] = kUnknownSize;
    int64_t& size = facts.sizes[*dim];
    size = texts_ && size > 0 ? size / texts_ : kUnknownSize;
    facts.strides = {};
    v->setType(tensorType(facts));
  }

  static const Dims* sizesOf(const Value* v) {
    const TensorFacts* f = v->type()->isTensor() ? &v->type()->tensor() : nullptr;
    return f && f->hasRank ? &f->sizes : nullptr;
  }
  std::optional<size_t> dimOf(const Value* v) const {
    auto found = dims_.find(v);
    return found == dims_.end() ? std::nullopt : std::optional(found->second);
  }
  size_t rank(const Value* v) const { return sizesOf(v) ? sizesOf(v)->size() : 0; }

  // How many there are then in place of so many.
  Value* count(Builder& b, int64_t before = 0) {
    if (texts_) return b.constant(IValue(before < 0 ? -1 : std::max<int64_t>(before / texts_, 1)));
    Value* tokens = b.call(aten::size, {ids_, b.constant(IValue(1))}, types().integer);
    return before > 1 ? b.call(aten::mul, {tokens, b.constant(IValue(before))}, types().integer) : tokens;
  }

  bool visit(Node* n) {
    const Symbol k = n->kind();
    if (k == aten::arange) return visitCount(n);
    if (isEnd(n->outputCount() == 1 ? n->output() : nullptr)) return visitEnd(n);
    if (k == aten::slice && isStart(n->input(2)) && isEnd(n->input(3))) return visitPlaces(n);
    if (k == sym::ListUnpack && listDims_.contains(n->input(0))) {
      for (Value* v : n->outputs()) dims_[v] = listDims_.at(n->input(0));
      return true;
    }
    const bool isOfTokens = std::ranges::any_of(
        n->inputs(), [&](const Use& u) { return dims_.contains(u.value) || listDims_.contains(u.value); });
    if (!isOfTokens || n->outputCount() == 0 || k == aten::size || k.name().starts_with("new_")) return visitMade(n);
    if (k == sym::ListConstruct) return visitList(n);
    if (k == sym::TupleConstruct || k == sym::DictConstruct) return true;
    if (!n->output(0)->type()->isTensor()) return visitParts(n);
    if (!sizesOf(n->output(0))) return k == aten::copy_ && !n->output()->hasUses();
    if (isWrite(k) && !dimOf(n->input(0))) return !texts_ || keepFirst(n);
    if (isOrWrites(k, kIndexPut) && !texts_) countRows(n->input(2));
    if (k == kIndex || k == aten::index_select || k == kEmbedding) return visitRows(n);
    if (k == aten::view || k == aten::reshape) return visitView(n);
    if (k == aten::expand) return visitExpand(n);
    if (k == aten::select || k == aten::slice) return visitPart(n);
    if (k == aten::cat) return put(n->output(), listDims_.at(n->input(0)));
    if (k == aten::stack) return visitStack(n);
    // Pairs of numbers are the last dimension of the one, and none of the other.
    if (k == kAsReal || k == kAsComplex) return dimOf(n->input(0)) && put(n->output(), *dimOf(n->input(0)));
    if (isOverKeys(n)) return put(n->output(), *dimOf(n->input(0)));
    if (const std::optional<size_t> dim = dimOf(n->input(0)))
      if (const std::optional<size_t> to = movedDim(n, *dim, rank(n->input(0)), rank(n->output()), facts_))
        return put(n->output(), *to) && moveKeys(n);
    return !texts_ && isProduct(k) && dimOf(n->input(1)) ? visitScores(n) : visitAligned(n);
  }

  bool put(const Value* v, size_t dim) {
    const Dims* sizes = sizesOf(v);
    if (!sizes || dim >= sizes->size() || !isOurs((*sizes)[dim])) return false;
    dims_[v] = dim;
    return true;
  }

  // Texts may be one dimension with what comes after them: heads of all texts, say, or their tokens.
  bool isOurs(int64_t size) const {
    return texts_ ? size < 0 || (size > 0 && size % texts_ == 0) : size == 1 || rowsOfEach_.contains(size);
  }
  // Rows of one token, of which there are several where each goes to several experts.
  int64_t rowsOf(const Value* v) const { return texts_ ? 1 : std::max<int64_t>((*sizesOf(v))[*dimOf(v)], 1); }

  // Of a tensor that all texts are written to, what is the first one's. A copy of an attribute becomes one of its part.
  bool keepFirst(Node* n) {
    const Dims* sizes = sizesOf(n->output());
    const auto dim = sizes ? static_cast<size_t>(std::ranges::find(*sizes, texts_) - sizes->begin()) : 0;
    if (!sizes || dim == sizes->size()) return false;
    Value* all = n->input(0);
    std::vector<const Value*> views;
    for (; isWholeSlice(all->node(), facts_); all = all->node()->input(0)) views.push_back(all);
    Node* copy = all->node() && all->node()->kind() == aten::clone ? all->node() : nullptr;
    Builder b(graph_, copy ? copy : all->node() ? all->node()->next() : graph_.block()->first());
    Value* first = firstOf(copy ? copy->input(0) : all, dim, b);
    Value* written = copy ? all : first;
    if (copy) copy->replaceInput(0, first);
    if (!copy && all->node() && all->node()->kind() == sym::GetAttr)
      written = b.call(aten::clone, {first, b.constant(IValue())}, types().tensor);
    written->setType(n->output()->type());
    if (!copy) all->replaceAllUsesWith(written);
    if (!copy) first->node()->replaceInput(0, all);
    first_.push_back(written);
    for (const Value* v : views)
      if (!put(v, dim)) return false;
    return put(written, dim) && put(n->output(), dim);
  }
  static Value* firstOf(Value* all, size_t dim, Builder& b) {
    const auto d = static_cast<int64_t>(dim);
    Value *zero = b.constant(IValue(0)), *one = b.constant(IValue(1));
    TensorFacts facts = all->type()->tensor();
    if (dim < facts.sizes.size()) facts.sizes[dim] = 1;
    facts.strides = {};
    return b.call(aten::slice, {all, b.constant(IValue(d)), zero, one, one}, tensorType(facts));
  }

  // Tensors that are written have places for tokens, or none.
  static bool isWrite(Symbol kind) {
    return isOrWrites(kind, kIndexCopy) || isOrWrites(kind, kIndexPut) || kind == kSliceScatter || kind == aten::copy_;
  }

  std::optional<int64_t> number(const Value* v) const {
    // Sums with constants, along one chain.
    int64_t sum = 0;
    for (;;) {
      if (const std::optional<int64_t> last = facts_.integer(v)) {
        return __builtin_add_overflow(sum, *last, &sum) ? std::nullopt : std::optional(sum);
      }
      const Node* n = v->node();
      if (!n || n->kind() != aten::add || !v->type()->is(TypeKind::Int)) return std::nullopt;
      const std::optional<int64_t> a = facts_.integer(n->input(0)), b = facts_.integer(n->input(1));
      if ((!a && !b) || __builtin_add_overflow(sum, a ? *a : *b, &sum)) return std::nullopt;
      v = n->input(a ? 1 : 0);
    }
  }

  // The place of the token, and the one behind it.
  bool isStart(const Value* v) const {
    if (!texts_ && v->node() && makesNumber(v->node()->kind())) v = v->node()->input(0);
    return !texts_ && std::ranges::find(graph_.inputs(), v) != graph_.inputs().end() && isFirstPlace(v);
  }
  bool isEnd(const Value* v) const {
    const Node* n = v && v->type()->is(TypeKind::Int) ? v->node() : nullptr;
    return n && n->kind() == aten::add && !texts_ && (ends_.contains(n) || oneBehindStart(n));
  }
  // Which input of start + 1 is the 1; of caches that are dropped the start is 0.
  std::optional<size_t> oneBehindStart(const Node* n) const {
    for (size_t one : {size_t{1}, size_t{0}}) {
      const Value* start = n->input(1 - one);
      if (facts_.integer(n->input(one)) == 1 && (isStart(start) || facts_.integer(start) == 0)) return one;
    }
    return std::nullopt;
  }
  bool visitEnd(Node* n) {
    if (ends_.contains(n)) return true;
    Builder b(graph_, n);
    n->replaceInput(*oneBehindStart(n), count(b));
    ends_.insert(n);
    return true;
  }
  // ones(start + 1), with one for each token
  bool visitMade(Node* n) {
    if (n->outputCount() != 1 || !sizesOf(n->output())) return true;
    for (const Use& u : n->inputs()) {
      const Node* list = u.value->node();
      if (!list || list->kind() != sym::ListConstruct || list->inputCount() != rank(n->output())) continue;
      std::vector<size_t> dims;
      for (size_t i = 0; i < list->inputCount(); ++i)
        if (isEnd(list->input(i))) dims.push_back(i);
      if (dims.size() == 1) return put(n->output(), dims[0]);
      if (dims.size() == 2) return put(n->output(), dims[0]) && putKeys(n->output(), dims[1]);
    }
    return true;
  }
  // x[start:end], of a table, or of a cache that is written there
  bool visitPlaces(Node* n) {
    const std::optional<size_t> dim = dimNamed(n->input(1), rank(n->output()), facts_);
    return dim && !dimOf(n->input(0)) && put(n->output(), *dim);
  }

  // arange(1), arange(0, 1)
  bool visitCount(Node* n) {
    const Dims* sizes = sizesOf(n->output());
    if (!sizes || *sizes != Dims{from_}) return true;
    const bool hasStart = n->inputCount() > 5;
    if (hasStart && number(n->input(0)) != 0) return true;
    const size_t end = hasStart ? 1 : 0;
    if (number(n->input(end)) != from_) return true;
    Builder b(graph_, n);
    n->replaceInput(end, count(b));
    return put(n->output(), 0);
  }

  // Tensors that are joined, or places of a tensor.
  bool visitList(Node* n) {
    std::optional<size_t> dim;
    bool isMixed = false;
    for (const Use& u : n->inputs()) {
      const std::optional<size_t> own = dimOf(u.value);
      isMixed |= !own && !GraphFacts::isNone(u.value);
      if (own && dim && own != dim) return false;
      if (own) dim = own;
    }
    if (isMixed) return true;  // results; what joins them finds no dimension
    listDims_[n->output()] = *dim;
    return true;
  }

  // arange(k), of the rows of one token
  void countRows(Value* v) {
    Node* n = v->node();
    const Dims* sizes = sizesOf(v);
    if (!n || n->kind() != aten::arange || dimOf(v) || !sizes || sizes->size() != 1) return;
    const int64_t rows = sizes->front();
    if (!rowsOfEach_.contains(rows) || number(n->input(0)) != rows) return;
    Builder b(graph_, n);
    n->replaceInput(0, count(b, rows));
    put(v, 0);
  }

  bool visitStack(Node* n) {
    const std::optional<size_t> along = dimNamed(n->input(1), rank(n->output()), facts_);
    const size_t own = listDims_.at(n->input(0));
    return along && put(n->output(), own + (*along <= own));
  }

  // split(x, ..), unbind(x, ..)
  bool visitParts(Node* n) {
    std::optional<size_t> dim = dimOf(n->input(0));
    const bool isList = n->output(0)->type()->is(TypeKind::List);
    if (dim && n->kind() == aten::unbind) {
      const std::optional<size_t> taken = dimNamed(n->input(1), rank(n->input(0)), facts_);
      if (!taken || *taken == *dim) return false;
      dim = *dim - (*taken < *dim);
    }
    if (dim && isList && facts_.movesElements(n)) listDims_[n->output(0)] = *dim;
    return !isList || listDims_.contains(n->output(0));
  }

  // Rows of a table for each token.
  bool visitRows(Node* n) {
    if (n->kind() == kEmbedding) return dimOf(n->input(1)) && put(n->output(), *dimOf(n->input(1)));
    if (n->kind() == aten::index_select) {
      const std::optional<int64_t> d = facts_.integer(n->input(1));
      return !dimOf(n->input(0)) && d && *d >= 0 && put(n->output(), static_cast<size_t>(*d));
    }
    const Node* list = n->input(1)->node();
    if (list && dimOf(n->input(0)) && !listDims_.contains(n->input(1))) return visitPicked(n, list);
    if (list && dimOf(n->input(0)) && !texts_) return visitChosen(n, list);
    if (dimOf(n->input(0)) || !list || !listDims_.contains(n->input(1))) return false;
    for (size_t i = 0; i < list->inputCount(); ++i)
      if (const std::optional<size_t> dim = dimOf(list->input(i))) return put(n->output(), i + *dim);
    return false;
  }

  // Rows of tokens, by places that follow from tokens.
  bool visitChosen(Node* n, const Node* list) {
    const size_t dim = *dimOf(n->input(0));
    for (size_t i = 0; i < list->inputCount(); ++i)
      if (!GraphFacts::isNone(list->input(i)) && i != dim) return false;
    const std::optional<size_t> own = dim < list->inputCount() ? dimOf(list->input(dim)) : std::nullopt;
    return own && put(n->output(), dim + *own);
  }

  // Places that are the same for all tokens, of another dimension.
  bool visitPicked(Node* n, const Node* list) {
    std::optional<size_t> at;
    for (size_t i = 0; i < list->inputCount(); ++i) {
      if (GraphFacts::isNone(list->input(i))) continue;
      if (at) return false;
      at = i;
    }
    const size_t dim = *dimOf(n->input(0));
    if (!at || *at == dim || !sizesOf(list->input(*at))) return false;
    return put(n->output(), dim < *at ? dim : dim - 1 + rank(list->input(*at)));
  }

  // Of several dimensions of 1 between the same others tokens are the one that they were.
  bool visitView(Node* n) {
    const Dims *from = sizesOf(n->input(0)), *to = sizesOf(n->output());
    const std::optional<size_t> dim = dimOf(n->input(0));
    if (!from || !dim) return false;
    if (auto keys = keys_.find(n->input(0)); keys != keys_.end()) {
      // Tables stay the last dimensions.
      const size_t own = from->size(), all = to->size();
      return all >= 2 && *dim + 2 == own && keys->second + 1 == own && setSize(n, all - 2, false) &&
             setSize(n, all - 1, false) && put(n->output(), all - 2) && putKeys(n->output(), all - 1);
    }
    auto run = [this](const Dims& sizes, int64_t before) {
      std::vector<size_t> ones;
      int64_t seen = 1;
      for (size_t i = 0; i < sizes.size(); seen *= sizes[i++])
        if (seen == before && (texts_ ? isOurs(sizes[i]) : sizes[i] == 1)) ones.push_back(i);
      return ones;
    };
    int64_t before = 1;
    for (size_t i = 0; i < *dim; ++i) before *= (*from)[i];
    if (rowsOf(n->input(0)) > 1) return visitRowsOfEach(n, before);
    const std::vector<size_t> own = run(*from, before), there = run(*to, before);
    if (there.empty()) return !texts_ && (isSorted(n->output()) ? joinRows(n, *dim) : keepSize(n, *dim));
    size_t at = static_cast<size_t>(std::find(own.begin(), own.end(), *dim) - own.begin());
    // Behind the text, which gets a dimension again, unless what is left is in front.
    if (!texts_ && *dim == 0 && there.size() > own.size()) at = isRest(n->input(1), there.front()) ? 0 : 1;
    const size_t chosen = there[std::min(at, there.size() - 1)];
    return setSize(n, chosen, false) && put(n->output(), chosen);
  }

  // view(x, -1, ..)
  bool isRest(const Value* sizes, size_t at) const {
    const std::optional<Dims> known = facts_.integers(sizes);
    const Node* list = sizes->node();
    if (list && list->kind() == sym::ListConstruct)
      return at < list->inputCount() && facts_.integer(list->input(at)) == -1;
    return known && at < known->size() && (*known)[at] == -1;
  }

  // Whether rows are put in another order, as those of experts are.
  static bool isSorted(const Value* v) {
    static const Symbol kSort = Symbol::of("aten::sort");
    for (const Use& u : v->uses())
      if (u.user->kind() == kSort || u.user->kind() == kIndex) return true;
    return false;
  }
  // [1, k] of a token becomes [k]
  bool joinRows(Node* n, size_t dim) {
    const Dims from = *sizesOf(n->input(0)), to = *sizesOf(n->output());
    if (dim + 1 >= from.size() || dim >= to.size() || from[dim + 1] < 2 || to[dim] != from[dim + 1]) return false;
    rowsOfEach_.insert(to[dim]);
    return setSize(n, dim, false) && put(n->output(), dim);
  }
  // And [k] stays so, or becomes [1, k] again.
  bool visitRowsOfEach(Node* n, int64_t before) {
    const Dims& to = *sizesOf(n->output());
    const int64_t rows = rowsOf(n->input(0));
    int64_t seen = 1;
    for (size_t i = 0; i < to.size() && seen <= before; seen *= to[i++]) {
      if (seen != before) continue;
      const bool isSplit = to[i] == 1 && i + 1 < to.size() && to[i + 1] == rows;
      if (isSplit || to[i] == rows) return setSize(n, i, false) && put(n->output(), i);
    }
    return false;
  }

  // What left out the token and all before it has a dimension of tokens in front.
  bool keepSize(Node* n, size_t dim) {
    const Dims from = *sizesOf(n->input(0)), to = *sizesOf(n->output());
    if (!std::ranges::equal(std::span(from).subspan(dim + 1), std::span(to))) return false;
    Builder b(graph_, n);
    std::vector<Value*> sizes{count(b)};
    TensorFacts facts = n->output()->type()->tensor();
    facts.sizes = Dims{1};
    facts.strides = {};
    for (int64_t size : to) {
      sizes.push_back(b.constant(IValue(size)));
      facts.sizes.push_back(size);
    }
    n->replaceInput(1, b.list(sizes, types().integer));
    n->output()->setType(tensorType(facts));
    return put(n->output(), 0);
  }

  bool visitExpand(Node* n) {
    const std::optional<size_t> dim = dimOf(n->input(0));
    if (!dim) return false;
    const size_t more = rank(n->output()) - rank(n->input(0)), to = more + *dim;
    if (!setSize(n, to, true) || !put(n->output(), to)) return false;
    auto keys = keys_.find(n->input(0));
    return keys == keys_.end() || (setSize(n, more + keys->second, true) && putKeys(n->output(), more + keys->second));
  }

  // The list of sizes has that number there, or -1 where that stands for what is there.
  bool setSize(Node* n, size_t dim, bool mayStay) {
    const std::optional<Dims> known = facts_.integers(n->input(1));
    const Node* list = n->input(1)->node();
    const bool isList = list && list->kind() == sym::ListConstruct;
    if (dim >= (isList ? list->inputCount() : known ? known->size() : 0)) return false;
    if (isList ? facts_.integer(list->input(dim)) == -1 : (*known)[dim] == -1) return true;
    Builder b(graph_, n);
    std::vector<Value*> sizes;
    for (size_t i = 0; i < (isList ? list->inputCount() : known->size()); ++i)
      sizes.push_back(i != dim  ? isList ? list->input(i) : b.constant(IValue((*known)[i]))
                       : mayStay ? b.constant(IValue(int64_t{-1}))
                                : count(b, (*sizesOf(n->output()))[dim]));
    n->replaceInput(1, b.list(sizes, types().integer));
    return true;
  }

  // The first or last token has none.
  bool visitPart(Node* n) {
    const std::optional<size_t> dim = dimOf(n->input(0));
    const std::optional<int64_t> named = facts_.integer(n->input(1));
    if (!dim || !named) return false;
    const size_t own = static_cast<size_t>(*named < 0 ? *named + static_cast<int64_t>(rank(n->input(0))) : *named);
    if (n->kind() == aten::select) return own == *dim || put(n->output(), *dim - (own < *dim));
    const bool isAll = GraphFacts::isNone(n->input(2)) || facts_.integer(n->input(2)) == 0;
    const std::optional<int64_t> end = facts_.integer(n->input(3));
    const bool toEnd = GraphFacts::isNone(n->input(3)) || (end && (texts_ ? *end >= texts_ : *end > 1));
    return own == *dim && !(isAll && toEnd) ? true : put(n->output(), *dim);
  }

  static bool isProduct(Symbol kind) { return kind == aten::matmul || kind == aten::bmm; }

  // Scores of all tokens for all tokens, and what these are weights of.
  bool visitScores(Node* n) {
    const size_t a = rank(n->input(0)), b = rank(n->input(1)), all = rank(n->output());
    const std::optional<size_t> rows = dimOf(n->input(0)), other = dimOf(n->input(1));
    if (!rows || *rows + 2 != a || a != all || b != all) return false;
    if (keys_.contains(n->input(0))) return *other + 2 == b && put(n->output(), all - 2);
    return *other + 1 == b && put(n->output(), all - 2) && putKeys(n->output(), all - 1);
  }
  bool putKeys(const Value* v, size_t dim) {
    const Dims* sizes = sizesOf(v);
    if (!sizes || dim >= sizes->size() || (*sizes)[dim] != 1 || dim == dims_.at(v)) return false;
    keys_[v] = dim;
    return true;
  }
  // Whether there is something in each row of a table, in a dimension that stays.
  bool isOverKeys(const Node* n) const {
    auto keys = keys_.find(n->input(0));
    if (keys == keys_.end() || n->kind() != kAny || n->inputCount() < 3) return false;
    const std::optional<Dims> dims = facts_.integers(n->input(1));
    const std::optional<int64_t> own =
        dims && dims->size() == 1 ? std::optional((*dims)[0]) : facts_.integer(n->input(1));
    const auto of = static_cast<int64_t>(rank(n->input(0)));
    return own && rank(n->output()) == rank(n->input(0)) &&
           static_cast<size_t>(*own < 0 ? *own + of : *own) == keys->second;
  }
  bool moveKeys(const Node* n) {
    auto from = keys_.find(n->input(0));
    if (from == keys_.end()) return true;
    const std::optional<size_t> to = movedDim(n, from->second, rank(n->input(0)), rank(n->output()), facts_);
    return to && putKeys(n->output(), *to);
  }

  // What is computed for each token by itself: dimensions are the same, counted from the last one, or from the first
  // one where the last ones are summed.
  bool visitAligned(Node* n) {
    std::optional<size_t> dim, keys;
    const size_t rank = this->rank(n->output());
    const bool isAttention = n->kind().name().ends_with("scaled_dot_product_attention");
    auto place = [&](const Value* v, size_t own) {
      const size_t from = this->rank(v);
      return from > rank ? own : rank - from + own;
    };
    for (const Use& u : n->inputs()) {
      const std::optional<size_t> own = dimOf(u.value);
      if (!own || (isAttention && u.index() == 3)) continue;
      const size_t to = place(u.value, *own);
      if (auto more = keys_.find(u.value); more != keys_.end()) {
        const size_t key = place(u.value, more->second);
        if (keys && key != *keys) return false;
        keys = key;
      }
      if (dim && dim != to) {
        // Rows of tokens beside columns of them: a mask.
        if (texts_ || isAttention || (keys && to != *keys && to != *dim)) return false;
        keys = std::max(*dim, to);
        dim = std::min(*dim, to);
      } else {
        dim = to;
      }
    }
    if (texts_ && dim) takeFirst(n, rank - *dim);
    if (dim && isSumOfRows(n, *dim)) return true;
    for (size_t i = 1; i < n->outputCount() && dim && !texts_; ++i)
      if (this->rank(n->output(i)) == rank) put(n->output(i), *dim);
    return dim && put(n->output(), *dim) && (!keys || putKeys(n->output(), *keys));
  }
  // How many rows go to each expert, say: a number of all tokens together.
  bool isSumOfRows(const Node* n, size_t dim) {
    const Dims* sizes = sizesOf(n->output());
    const Operator* op = facts_.resolve(n);
    const bool isOfRows = dimOf(n->input(0)) && rowsOf(n->input(0)) > 1;
    return isOfRows && op && !op->has(Trait::Elementwise) && (dim >= sizes->size() || !isOurs((*sizes)[dim]));
  }
  // What is the same for all texts (masks) is there for each.
  void takeFirst(Node* n, size_t fromEnd) {
    for (const Use& u : n->inputs()) {
      const Dims* sizes = dimOf(u.value) ? nullptr : sizesOf(u.value);
      if (!sizes || sizes->size() < fromEnd || (*sizes)[sizes->size() - fromEnd] != texts_) continue;
      Builder b(graph_, n);
      n->replaceInput(u.index(), firstOf(u.value, sizes->size() - fromEnd, b));
    }
  }

  Graph& graph_;
  GraphFacts facts_;
  const int64_t texts_, from_;
  Value* ids_ = nullptr;
  const Node* stopped_ = nullptr;
  std::set<int64_t> rowsOfEach_;                       // numbers of rows that a token may have
  std::set<const Node*> ends_;                         // sums that are the place behind the tokens
  std::vector<Value*> first_;                          // parts of tensors for the first text
  std::unordered_map<const Value*, size_t> listDims_;  // of what lists hold
  std::unordered_map<const Value*, size_t> keys_;      // and of a table of tokens by tokens, its columns
  std::unordered_map<const Value*, size_t> dims_;      // which dimension tokens, or texts, are
};

}  // namespace

bool keepLogitsAlone(Graph& graph, const OpRegistry& registry) {
  Value* logits = logitsOf(graph);
  if (!logits) return false;
  while (graph.outputs().size() > 0) graph.returnNode()->removeInput(graph.outputs().size() - 1);
  graph.addOutput(logits);
  Diagnostics ignored;
  RewriteContext context(graph, registry, ignored);
  removeDeadCode(graph, context);
  return true;
}

bool widenToTexts(Graph& graph, const OpRegistry& registry, SourceRange* lost) {
  if (!keepLogitsAlone(graph, registry)) return false;
  Resizing resizing(graph, registry, 0);
  const bool isWide = resizing.run();
  if (lost && resizing.stopped()) *lost = resizing.stopped()->range;
  return isWide;
}

void closeSizes(Graph& graph, const OpRegistry& registry) {
  auto close = [](Value* v, const std::optional<Dims>& known) {
    if (!v->type()->isTensor() || !v->type()->tensor().hasRank) return;
    TensorFacts facts = v->type()->tensor();
    if (known && known->size() == facts.sizes.size()) facts.sizes = *known;
    for (int64_t& s : facts.sizes)
      if (s < 0) s = 1;
    facts.strides = {};
    v->setType(tensorType(facts));
  };
  for (Value* v : graph.inputs()) close(v, std::nullopt);
  GraphFacts facts(graph, registry);  // products of open sizes follow from those of inputs
  for (Node* n : graph.block()->nodes())
    for (Value* v : n->outputs()) close(v, v->type()->isTensor() ? facts.sizes(v) : std::nullopt);
}

bool narrowToOneText(Graph& graph, const OpRegistry& registry) {
  const int64_t texts = fixedTexts(graph);
  return texts != 0 && Resizing(graph, registry, texts).run();
}

}  // namespace tscompile
