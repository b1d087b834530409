#include "passes/serving/one_token.h"

#include "ir/graph/builder.h"
#include "ir/values/aten.h"
#include "passes/rewrite/rewrite.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/lookups.h"
#include "passes/serving/moved_dim.h"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace tscompile {
namespace {

class Widening {
 public:
  Widening(Graph& graph, const OpRegistry& registry) : graph_(graph), facts_(graph, registry) {}

  bool run() {
    if (!takeInputs()) return false;
    std::vector<Node*> nodes;
    for (Node* n : graph_.block()->nodes()) nodes.push_back(n);
    for (Node* n : nodes)
      if (n->hasBlocks() || !visit(n)) return false;
    for (Value* v : graph_.inputs()) openSize(v);
    for (Node* n : nodes)
      for (Value* v : n->outputs()) openSize(v);
    return true;
  }

 private:
  bool takeInputs() {
    for (Value* v : graph_.inputs()) {
      const Dims* sizes = sizesOf(v);
      if (!sizes || !std::ranges::all_of(*sizes, [](int64_t s) { return s == 1; })) continue;
      const std::optional<ServingInput> role = roleByName(v);
      if (sizes->size() == 2 && !ids_ && (!role || role == ServingInput::Ids)) dims_[ids_ = v] = 1;
      if (role == ServingInput::Positions && !sizes->empty()) dims_[v] = sizes->size() - 1;
    }
    return ids_ != nullptr;
  }

  void openSize(Value* v) const {
    const std::optional<size_t> dim = dimOf(v);
    if (!dim) return;
    TensorFacts facts = v->type()->tensor();
    facts.sizes[*dim] = kUnknownSize;
    facts.strides = {};
    v->setType(tensorType(facts));
  }

  // For one token.
  static const Dims* sizesOf(const Value* v) {
    const TensorFacts* f = v->type()->isTensor() ? &v->type()->tensor() : nullptr;
    return f && f->hasRank && std::ranges::all_of(f->sizes, [](int64_t s) { return s >= 0; }) ? &f->sizes : nullptr;
  }
  std::optional<size_t> dimOf(const Value* v) const {
    auto found = dims_.find(v);
    return found == dims_.end() ? std::nullopt : std::optional(found->second);
  }
  size_t rank(const Value* v) const { return sizesOf(v) ? sizesOf(v)->size() : 0; }

  Value* tokens(Builder& b) { return b.call(aten::size, {ids_, b.constant(IValue(1))}, types().integer); }

  bool visit(Node* n) {
    const Symbol k = n->kind();
    if (k == aten::arange) return visitCount(n);
    if (k == sym::ListUnpack && listDims_.contains(n->input(0))) {
      for (Value* v : n->outputs()) dims_[v] = listDims_.at(n->input(0));
      return true;
    }
    const bool isOfTokens = std::ranges::any_of(
        n->inputs(), [&](const Use& u) { return dims_.contains(u.value) || listDims_.contains(u.value); });
    if (!isOfTokens || n->outputCount() == 0 || k == aten::size || k.name().starts_with("new_")) return true;
    if (k == sym::ListConstruct) return visitList(n);
    if (k == sym::TupleConstruct || k == sym::DictConstruct) return true;
    if (!n->output(0)->type()->isTensor()) return visitParts(n);
    if (!sizesOf(n->output(0))) return false;
    if (isWrite(k) && !dimOf(n->input(0))) return true;
    if (k == kIndex || k == aten::index_select || k == kEmbedding) return visitRows(n);
    if (k == aten::view || k == aten::reshape) return visitView(n);
    if (k == aten::expand) return visitExpand(n);
    if (k == aten::select || k == aten::slice) return visitPart(n);
    if (k == aten::cat) return put(n->output(), listDims_.at(n->input(0)));
    if (const std::optional<size_t> dim = dimOf(n->input(0)))
      if (const std::optional<size_t> to = movedDim(n, *dim, rank(n->input(0)), rank(n->output()), facts_))
        return put(n->output(), *to);
    return visitAligned(n);
  }

  bool put(const Value* v, size_t dim) {
    const Dims* sizes = sizesOf(v);
    if (!sizes || dim >= sizes->size() || (*sizes)[dim] != 1) return false;
    dims_[v] = dim;
    return true;
  }

  // Tensors that are written have places for tokens, or none.
  static bool isWrite(Symbol kind) {
    return isOrWrites(kind, kIndexCopy) || isOrWrites(kind, kIndexPut) || kind == aten::copy_;
  }

  // arange(1), arange(0, 1)
  bool visitCount(Node* n) {
    const Dims* sizes = sizesOf(n->output());
    if (!sizes || *sizes != Dims{1}) return true;
    const bool hasStart = n->inputCount() > 5;
    if (hasStart && facts_.integer(n->input(0)) != 0) return true;
    const size_t end = hasStart ? 1 : 0;
    if (facts_.integer(n->input(end)) != 1) return true;
    Builder b(graph_, n);
    n->replaceInput(end, tokens(b));
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
    if (dimOf(n->input(0)) || !list || !listDims_.contains(n->input(1))) return false;
    for (size_t i = 0; i < list->inputCount(); ++i)
      if (const std::optional<size_t> dim = dimOf(list->input(i))) return put(n->output(), i + *dim);
    return false;
  }

  // Of several dimensions of 1 between the same others tokens are the one that they were.
  bool visitView(Node* n) {
    const Dims *from = sizesOf(n->input(0)), *to = sizesOf(n->output());
    const std::optional<size_t> dim = dimOf(n->input(0));
    if (!from || !dim) return false;
    auto run = [](const Dims& sizes, int64_t before) {
      std::vector<size_t> ones;
      int64_t seen = 1;
      for (size_t i = 0; i < sizes.size(); seen *= sizes[i++])
        if (seen == before && sizes[i] == 1) ones.push_back(i);
      return ones;
    };
    int64_t before = 1;
    for (size_t i = 0; i < *dim; ++i) before *= (*from)[i];
    const std::vector<size_t> own = run(*from, before), there = run(*to, before);
    if (there.empty()) return keepSize(n, *dim);
    size_t at = static_cast<size_t>(std::find(own.begin(), own.end(), *dim) - own.begin());
    if (*dim == 0 && there.size() > own.size()) at = 1;  // behind the text, which gets a dimension again
    const size_t chosen = there[std::min(at, there.size() - 1)];
    return setSize(n, chosen, false) && put(n->output(), chosen);
  }

  // What left out the token and all before it has a dimension of tokens in front.
  bool keepSize(Node* n, size_t dim) {
    const Dims from = *sizesOf(n->input(0)), to = *sizesOf(n->output());
    if (!std::ranges::equal(std::span(from).subspan(dim + 1), std::span(to))) return false;
    Builder b(graph_, n);
    std::vector<Value*> sizes{tokens(b)};
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
    const size_t to = rank(n->output()) - rank(n->input(0)) + *dim;
    return setSize(n, to, true) && put(n->output(), to);
  }

  // The list of sizes has that of tokens there, or -1 where that stands for what is there.
  bool setSize(Node* n, size_t dim, bool mayStay) {
    const std::optional<Dims> known = facts_.integers(n->input(1));
    if (!known || dim >= known->size()) return false;
    if ((*known)[dim] == -1) return true;
    Builder b(graph_, n);
    std::vector<Value*> sizes;
    for (size_t i = 0; i < known->size(); ++i)
      sizes.push_back(i != dim  ? b.constant(IValue((*known)[i]))
                      : mayStay ? b.constant(IValue(int64_t{-1}))
                                : tokens(b));
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
    const bool toEnd = GraphFacts::isNone(n->input(3)) || (end && *end > 1);
    return own == *dim && !(isAll && toEnd) ? true : put(n->output(), *dim);
  }

  // What is computed for each token by itself: dimensions are the same, counted from the last one, or from the first
  // one where the last ones are summed.
  bool visitAligned(Node* n) {
    std::optional<size_t> dim;
    const size_t rank = this->rank(n->output());
    for (const Use& u : n->inputs()) {
      const std::optional<size_t> own = dimOf(u.value);
      if (!own) continue;
      const bool isOfKeys = (n->kind() == aten::matmul || n->kind() == aten::bmm) && u.index() == 1;
      const bool isCache =
          n->kind().name().ends_with("scaled_dot_product_attention") && (u.index() == 1 || u.index() == 2);
      if (isOfKeys || isCache) return false;
      const size_t from = this->rank(u.value);
      const size_t to = from > rank ? *own : rank - from + *own;
      if (dim && dim != to) return false;
      dim = to;
    }
    return dim && put(n->output(), *dim);
  }

  Graph& graph_;
  GraphFacts facts_;
  Value* ids_ = nullptr;
  std::unordered_map<const Value*, size_t> listDims_;  // of what lists hold
  std::unordered_map<const Value*, size_t> dims_;      // which dimension tokens are
};

}  // namespace

bool widenToTexts(Graph& graph, const OpRegistry& registry) { return Widening(graph, registry).run(); }

}  // namespace tscompile
