#include "passes/serving/fixed_caches.h"

#include "ir/values/aten.h"
#include "ir/values/kind_set.h"
#include "passes/rewrite/formula.h"
#include "passes/serving/lookups.h"
#include "passes/serving/moved_dim.h"
#include "passes/serving/score_map.h"
#include "passes/serving/small_instance.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>
#include <vector>

namespace tscompile {
namespace {

bool isWrite(Symbol kind) { return kind == kIndexCopy || kind == kIndexPut || kind == kSliceScatter; }

class NewTokens {
 public:
  NewTokens(RewriteContext& context, Value* ids, const Value* positions)
      : c_(context),
        ids_(ids),
        small_{SmallInstance(context, 2, 5, positions), SmallInstance(context, 3, 7, positions)} {}

  Result<int64_t> run() {
    if (!small_[0].fits() || !small_[1].fits()) return int64_t{0};  // told where attention is looked for
    for (Node* n : c_.graph.block()->nodes()) {
      if (isWholeWrite(n) || isWriteOfTexts(n) || takeWrite(n) || !readsPlaces(n) || visit(n)) continue;
      c_.diagnostics.error(n->range, fmt::format("places of a cache of a fixed length are read here{}",
                                                 why_.empty() ? ", which is not known" : ": " + why_));
      return Failed{};
    }
    for (const std::function<void()>& edit : edits_) edit();
    for (Value* v : reread_) v->setType(types().tensor);
    if (!edits_.empty()) c_.facts.refresh();
    return places_;
  }

 private:
  bool fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  // ---- what is written ----

  // One that writes all of a tensor anew, which is then what was written.
  bool isWholeWrite(Node* n) {
    if (n->kind() != kSliceScatter || !dimOf(n->input(1)) || !quietNode(n->output(), c_)) return false;
    auto isSame = [&](const SmallInstance& s) {
      return s.sizes(n->output()) && s.sizes(n->output()) == s.sizes(n->input(1));
    };
    if (!std::ranges::all_of(small_, isSame)) return false;
    put(n->output(), *dimOf(n->input(1)));
    edits_.emplace_back([n] { n->output()->replaceAllUsesWith(n->input(1)); });
    return true;
  }

  // One that writes the texts of a call into a tensor that has room for more, of which these alone are read.
  bool isWriteOfTexts(Node* n) {
    const size_t* places = n->kind() == kSliceScatter ? dimOf(n->input(1)) : nullptr;
    if (!places || dimOf(n->input(0)) || !quietNode(n->output(), c_)) return false;
    const std::optional<size_t> dim = namedDim(n->input(2), rank(n->output()));
    if (!dim || dim == *places || !isFromFirst(n->input(3)) || c_.facts.integer(n->input(5)) != 1) return false;
    auto isReadSo = [&](const Use& u) {
      const Node* r = u.user;
      return r->kind() == aten::slice && u.index() == 0 && namedDim(r->input(1), rank(n->output())) == dim &&
             isFromFirst(r->input(2)) && c_.facts.integer(r->input(4)) == 1 && isAsLong(r->output(), n->input(1), *dim);
    };
    for (const Use& u : n->output()->uses())
      if (!isReadSo(u)) return fail("more texts than a call has");
    put(n->output(), *places);
    edits_.emplace_back([n] { n->output()->replaceAllUsesWith(n->input(1)); });
    return true;
  }
  bool isAsLong(const Value* a, const Value* b, size_t dim) const {
    return std::ranges::all_of(small_, [&](const SmallInstance& s) {
      const std::optional<Dims> one = s.sizes(a), other = s.sizes(b);
      return one && other && dim < one->size() && dim < other->size() && (*one)[dim] == (*other)[dim];
    });
  }
  bool isFromFirst(const Value* begin) const { return GraphFacts::isNone(begin) || isNumber(begin, 0); }

  // A tensor that holds what is written at places 0, 1, .. of one of its dimensions, one for each token.
  bool takeWrite(Node* n) {
    const Symbol k = n->kind();
    if (!isWrite(k) || !quietNode(n->output(), c_)) return false;
    std::optional<Dims> all = small_[0].sizes(n->output());
    if (!all || all->empty() || small_[1].sizes(n->output()) != all) return false;
    std::optional<int64_t> dim;
    Value* fresh = nullptr;
    if (k == kIndexPut) {
      const Node* list = n->input(1)->node();
      if (!list || list->kind() != sym::ListConstruct || c_.facts.boolean(n->input(3)) != false) return false;
      const Value* places = nullptr;
      for (size_t i = 0; i < list->inputCount(); ++i) {
        if (GraphFacts::isNone(list->input(i))) continue;
        if (places) return false;
        places = list->input(i), dim = static_cast<int64_t>(i);
      }
      if (!places || !countTokens(places)) return false;
      fresh = n->input(2);
    } else if (k == kIndexCopy) {
      dim = c_.facts.integer(n->input(1)), fresh = n->input(3);
      if (!countTokens(n->input(2))) return false;
    } else {
      dim = c_.facts.integer(n->input(2)), fresh = n->input(1);
      if (!isFromFirst(n->input(3)) || c_.facts.integer(n->input(5)) != 1) return false;
    }
    if (!dim) return false;
    const auto d = static_cast<size_t>(*dim < 0 ? *dim + static_cast<int64_t>(all->size()) : *dim);
    if (d >= all->size() || (*all)[d] <= small_[1].tokens) return false;
    Value* source = inForm(fresh, n->output(), d);
    if (!source) return false;
    places_ = places_ ? std::min(places_, (*all)[d]) : (*all)[d];
    put(n->output(), d);
    edits_.emplace_back([this, n, source] { n->output()->replaceAllUsesWith(expanded(source, n)); });
    return true;
  }

  bool isNumber(const Value* v, int64_t number) const {
    return std::ranges::all_of(small_, [&](const SmallInstance& s) {
      std::optional<SmallInstance::Elements> e = s.compute(v);
      return e && e->values.size() == 1 && e->values[0] == static_cast<double>(number);
    });
  }
  // 0, 1, .. of one dimension.
  bool countTokens(const Value* v) const {
    return std::ranges::all_of(small_, [&](const SmallInstance& s) {
      std::optional<SmallInstance::Elements> e = s.compute(v);
      if (!e || e->sizes != Dims{s.tokens}) return false;
      for (size_t i = 0; i < e->values.size(); ++i)
        if (e->values[i] != static_cast<double>(i)) return false;
      return true;
    });
  }

  static Dims withTokens(Dims sizes, size_t dim, int64_t tokens) {
    sizes[dim] = tokens;
    return sizes;
  }
  bool hasTokensAt(const Value* v, const Value* cache, size_t dim) const {
    return std::ranges::all_of(small_, [&](const SmallInstance& s) {
      std::optional<Dims> sizes = s.sizes(v);
      return sizes && *sizes == withTokens(*s.sizes(cache), dim, s.tokens);
    });
  }
  bool hasOneType(const Value* a, const Value* b) const {
    return small_[0].dtype(a) != DType::Undefined && small_[0].dtype(a) == small_[0].dtype(b);
  }
  // What has the sizes of the tokens' part of a cache: what is written, without a view or with less dimensions before
  // it; null if it has others.
  Value* inForm(Value* fresh, const Value* cache, size_t dim) {
    for (Node* copy = quietNode(fresh, c_, aten::copy); copy; copy = quietNode(fresh, c_, aten::copy)) {
      if (!hasTokensAt(copy->input(1), cache, dim) || !hasOneType(copy->input(1), fresh)) break;
      fresh = copy->input(1);
    }
    if (hasTokensAt(fresh, cache, dim)) return fresh;
    Node* view = quietNode(fresh, c_);
    const bool isView = view && (view->kind() == aten::view || view->kind() == aten::reshape);
    if (isView && hasTokensAt(view->input(0), cache, dim)) return view->input(0);
    std::optional<Dims> all = small_[0].sizes(cache), own = small_[0].sizes(fresh);
    if (!all || !own || own->size() > all->size()) return nullptr;
    const size_t lead = all->size() - own->size();
    const Dims part = withTokens(*all, dim, small_[0].tokens);
    return lead > 0 && dim >= lead && std::equal(own->begin(), own->end(), part.begin() + static_cast<long>(lead)) &&
                   std::all_of(part.begin(), part.begin() + static_cast<long>(lead), [](int64_t s) { return s == 1; })
               ? fresh
               : nullptr;
  }
  Value* expanded(Value* source, Node* write) {
    const size_t rank = small_[0].sizes(write->output())->size();
    Formula f(write, c_);
    for (size_t own = small_[0].sizes(source)->size(); own < rank; ++own)
      source = f.op(aten::unsqueeze, {source, f.integer(0)});
    return source;
  }

  // ---- who reads it ----

  const size_t* dimOf(const Value* v) const {
    auto found = dims_.find(v);
    return found == dims_.end() ? nullptr : &found->second;
  }
  void put(Value* v, size_t dim) {
    dims_[v] = dim;
    reread_.push_back(v);
  }
  bool readsPlaces(const Node* n) const {
    return std::ranges::any_of(n->inputs(), [&](const Use& u) { return dimOf(u.value); });
  }
  size_t rank(const Value* v) const { return small_[0].sizes(v) ? small_[0].sizes(v)->size() : 0; }
  std::optional<size_t> namedDim(const Value* number, size_t rank) const { return dimNamed(number, rank, c_.facts); }

  // Goes on to what is made of it.
  bool hand(const Node* n, size_t dim) { return hand(n->input(0), n, dim); }
  bool hand(const Value* from, const Node* n, size_t dim) {
    const Value* to = n->output(0);
    put(n->output(0), dim);
    if (auto p = products_.find(from); p != products_.end()) products_[to] = p->second;
    if (weights_.contains(from)) weights_[to] = true;
    return true;
  }

  bool visit(Node* n) {
    static const KindSet kViews{aten::view, aten::reshape};
    const Symbol k = n->kind();
    if (k == aten::size) return visitSize(n);
    if (n->outputCount() != 1 || !quietNode(n->output(), c_)) return false;
    if (k.name().ends_with("scaled_dot_product_attention")) return visitAttention(n);
    if (k == aten::matmul || k == aten::bmm) return visitProduct(n);
    const size_t* placed = dimOf(n->input(0));
    if (placed && k == aten::slice) return visitSlice(n, *placed);
    if (placed && k == aten::softmax) return visitSoftmax(n, *placed);
    if (placed && k == kAny && n->inputCount() == 3) return visitAny(n, *placed);
    if (k == aten::where && hidesRows(n)) return hand(n->input(2), n, *dimOf(n->input(2)));
    if (placed && kViews.contains(k)) return visitView(n, *placed);
    if (placed && k == aten::expand) {
      const size_t to = rank(n->output()) - rank(n->input(0)) + *placed;
      return takeList(n, to) && hand(n, to);
    }
    if (placed)
      if (std::optional<size_t> to = movedDim(n, *placed, rank(n->input(0)), rank(n->output()), c_.facts))
        return hand(n, *to);
    return visitElements(n);
  }

  // Its number is that of the cache.
  bool visitSize(Node* n) {
    if (n->inputCount() != 2) return false;
    std::optional<SmallInstance::Elements> size = small_[0].compute(n->output()),
                                           other = small_[1].compute(n->output());
    if (!size || !other || size->values != other->values) return true;
    edits_.emplace_back([this, n, number = static_cast<int64_t>(size->values[0])] {
      Formula f(n, c_);
      n->output()->replaceAllUsesWith(f.integer(number));
    });
    return true;
  }

  bool visitSlice(Node* n, size_t dim) {
    std::optional<size_t> d = namedDim(n->input(1), rank(n->input(0)));
    if (d && *d != dim) return hand(n, dim);
    if (!d || !isFromFirst(n->input(2)) || c_.facts.integer(n->input(4)) != 1) return false;
    auto sizeIn = [&](const SmallInstance& s) { return (*s.sizes(n->output()))[dim]; };
    const bool isAll =
        sizeIn(small_[0]) == sizeIn(small_[1]) && sizeIn(small_[0]) == (*small_[0].sizes(n->input(0)))[dim];
    const bool isText = sizeIn(small_[0]) == small_[0].tokens && sizeIn(small_[1]) == small_[1].tokens;
    if (!isAll && !isText) return false;
    if (isAll) hand(n, dim);
    edits_.emplace_back([n] { n->output()->replaceAllUsesWith(n->input(0)); });
    return true;
  }

  // [.., heads, places, size] -> [.., heads * groups, places, size] and the like
  bool visitView(Node* n, size_t dim) {
    std::optional<Dims> from = small_[0].sizes(n->input(0)), to = small_[0].sizes(n->output());
    if (!from || !to) return false;
    int64_t before = 1, seen = 1;
    for (size_t i = 0; i < dim; ++i) before *= (*from)[i];
    for (size_t i = 0; i < to->size(); seen *= (*to)[i++])
      if (seen == before && (*to)[i] == (*from)[dim]) return takeList(n, i) && hand(n, i);
    return false;
  }

  // Sizes that a node is given have the number of tokens there.
  bool takeList(Node* n, size_t dim) {
    std::optional<Dims> known = c_.facts.integers(n->input(1));
    const Node* list = n->input(1)->node();
    const bool isList = list && list->kind() == sym::ListConstruct && dim < list->inputCount();
    if (!isList && (!known || dim >= known->size())) return false;
    edits_.emplace_back([this, n, dim, known, list, isList] {
      Formula f(n, c_);
      std::vector<Value*> sizes;
      const size_t count = isList ? list->inputCount() : known->size();
      for (size_t i = 0; i < count; ++i)
        sizes.push_back(i == dim ? tokens(f) : isList ? list->input(i) : f.integer((*known)[i]));
      n->replaceInput(1, f.builder().list(sizes, types().integer));
    });
    return true;
  }
  Value* tokens(Formula& f) { return f.op(aten::size, {ids_, f.integer(1)}); }

  // Of what has something for each place, what it has for tokens.
  void cut(Node* n, size_t slot, size_t dim) {
    edits_.emplace_back([this, n, slot, dim] {
      Formula f(n, c_);
      Value* v = n->input(slot);
      n->replaceInput(
          slot, f.op(aten::slice, {v, f.integer(static_cast<int64_t>(dim)), f.integer(0), tokens(f), f.integer(1)}));
    });
  }

  bool visitElements(Node* n) {
    const Operator* op = c_.facts.resolve(n);
    const bool keeps = c_.facts.keepsElements(n) || n->kind() == aten::dropout;
    const bool lends = slotOfForm(n, c_.facts).has_value();
    const bool isMask = n->kind() == aten::where || n->kind() == aten::masked_fill;
    if (!keeps && !lends && !isMask && !(op && op->has(Trait::Elementwise))) return false;
    const size_t rank = this->rank(n->output());
    std::optional<size_t> fromEnd;
    const Value* product = nullptr;
    for (const Use& u : n->inputs()) {
      const size_t* d = dimOf(u.value);
      if (!d) continue;
      if (fromEnd && *fromEnd != this->rank(u.value) - *d) return false;
      fromEnd = this->rank(u.value) - *d;
      if (weights_.contains(u.value) && !keeps && !lends) return fail("weights of its keys are changed");
      auto p = products_.find(u.value);
      if (p == products_.end() || lends) continue;
      if (product && product != p->second) return false;
      product = p->second;
    }
    if (!fromEnd || *fromEnd > rank) return false;
    const size_t dim = rank - *fromEnd;
    const int64_t places = (*small_[0].sizes(n->output()))[dim];
    for (const Use& u : n->inputs()) {
      if (!u.value->type()->isTensor() || dimOf(u.value)) continue;
      std::optional<Dims> sizes = small_[0].sizes(u.value);
      if (!sizes) return false;
      if (sizes->size() >= *fromEnd && (*sizes)[sizes->size() - *fromEnd] == places)
        cut(n, u.index(), sizes->size() - *fromEnd);
    }
    put(n->output(), dim);
    if (product) products_[n->output()] = product;
    if (weights_.contains(n->input(0)) && !lends) weights_[n->output()] = true;
    return true;
  }

  bool visitProduct(Node* n) {
    const size_t *a = dimOf(n->input(0)), *b = dimOf(n->input(1));
    const size_t rankA = rank(n->input(0)), rankB = rank(n->input(1)), all = rank(n->output());
    const bool isOver = a && b && *a + 1 == rankA && *b + 2 == rankB;
    if (isOver) return weights_.contains(n->input(0)) || fail("its values are not weighed by a softmax");
    const bool isOfKeys = b && !a && *b + 1 == rankB, isOfRows = a && !b && *a + 2 == rankA;
    if (!isOfKeys && !isOfRows) return false;
    put(n->output(), isOfKeys ? all - 1 : all - 2);
    products_[n->output()] = n->output();
    return true;
  }

  // No place after those of the text is seen.
  bool visitSoftmax(Node* n, size_t dim) {
    std::optional<size_t> over = namedDim(n->input(1), rank(n->input(0)));
    auto product = products_.find(n->input(0));
    if (over != dim || product == products_.end()) return false;
    if (!isHiddenIn(n->input(0), dim, false)) return notHidden();
    put(n->output(), dim);
    weights_[n->output()] = true;
    return true;
  }
  // Of scores, whatever their products are.
  bool isHiddenIn(const Value* scores, size_t dim, bool isChoice) const {
    auto product = products_.find(scores);
    return product != products_.end() && std::ranges::all_of(small_, [&](const SmallInstance& s) {
             std::optional<Dims> sizes = s.sizes(product->second);
             const DType dtype = s.dtype(product->second);
             if (!sizes || dtype == DType::Undefined) return false;
             return hidesRest(s, s.compute(scores, {{product->second, Tensor::zeros(dtype, *sizes)}}), dim, isChoice);
           });
  }
  // Whether a row sees anything.
  bool visitAny(const Node* n, size_t dim) {
    const bool isOver = namedDim(n->input(1), rank(n->input(0))) == dim;
    return isOver && (isHiddenIn(n->input(0), dim, true) || notHidden());
  }
  // where(c, zeros, weights), c of rows
  bool hidesRows(const Node* n) const {
    return n->inputCount() == 3 && weights_.contains(n->input(2)) && dimOf(n->input(2)) && !dimOf(n->input(0)) &&
           std::ranges::all_of(small_, [&](const SmallInstance& s) {
             std::optional<SmallInstance::Elements> e = s.compute(n->input(1));
             return e && std::ranges::all_of(e->values, [](double v) { return v == 0; });
           });
  }
  bool notHidden() { return fail("its mask does not hide the places after the text"); }

  // `isChoice`: what is not 0 is seen.
  static bool hidesRest(const SmallInstance& s, const std::optional<SmallInstance::Elements>& e, size_t dim,
                        bool isChoice) {
    if (!e || dim >= e->sizes.size()) return false;
    int64_t inner = 1;
    for (size_t i = dim + 1; i < e->sizes.size(); ++i) inner *= e->sizes[i];
    const int64_t places = e->sizes[dim];
    for (size_t i = 0; i < e->values.size(); ++i) {
      const bool isRest = static_cast<int64_t>(i) / inner % places >= s.tokens;
      if (isRest && !(isChoice ? e->values[i] == 0 : e->values[i] <= kFar)) return false;
    }
    return places > s.tokens;
  }

  bool visitAttention(Node* n) {
    const size_t *k = dimOf(n->input(1)), *v = dimOf(n->input(2));
    if (n->inputCount() < 6 || dimOf(n->input(0)) || !k || !v || *k + 2 != rank(n->input(1)) ||
        *v + 2 != rank(n->input(2)))
      return false;
    Value* mask = n->input(3);
    const std::optional<bool> isCausal = c_.facts.boolean(n->input(5));
    if (GraphFacts::isNone(mask)) return isCausal == true || notHidden();
    const size_t keys = rank(mask) - 1;
    for (const SmallInstance& s : small_)
      if (!hidesRest(s, s.compute(mask), keys, s.dtype(mask) == DType::Bool)) return notHidden();
    cut(n, 3, keys);
    return true;
  }

  RewriteContext& c_;
  Value* ids_;
  const std::array<SmallInstance, 2> small_;
  int64_t places_ = 0;
  std::unordered_map<const Value*, size_t> dims_;            // where places are a dimension
  std::unordered_map<const Value*, const Value*> products_;  // the product that scores are made of
  std::unordered_map<const Value*, bool> weights_;           // of keys
  std::vector<std::function<void()>> edits_;                 // in the order of the graph
  std::vector<Value*> reread_;                               // whose sizes become others
  std::string why_;
};

}  // namespace

Result<int64_t> readNewTokens(RewriteContext& context, Value* ids, Value* positions) {
  bool isWritten = false;
  for (const Node* n : context.graph.block()->nodes()) isWritten |= isWrite(n->kind());
  if (!isWritten) return int64_t{0};
  // Such tensors have places for one text.
  for (Value* input : {ids, positions}) {
    TensorFacts one = input->type()->tensor();
    one.hasRank = true, one.sizes = Dims{1, kUnknownSize};
    input->setType(tensorType(one));
  }
  context.facts.refresh();
  return NewTokens(context, ids, positions).run();
}

int64_t placesInCaches(const Graph& graph) {
  int64_t most = 0;
  for (const Node* n : graph.block()->nodes()) {
    std::optional<int64_t> dim;
    // cache[:, :, start:end] = new
    const Node* part = isOrWrites(n->kind(), aten::copy) ? n->input(0)->node() : nullptr;
    if (part && (part->kind() == aten::slice || part->kind() == aten::narrow) &&
        !GraphFacts::constant(part->input(2)) && GraphFacts::constant(part->input(1))) {
      dim = GraphFacts::constant(part->input(1))->toInt();
      n = part;
    }
    const Value* whole = part && n == part ? n->input(0) : n->outputCount() == 1 ? n->output() : nullptr;
    const TensorFacts* f = whole && whole->type()->isTensor() ? &whole->type()->tensor() : nullptr;
    if (!f || !f->hasRank) continue;
    const Node* list = n->inputCount() > 1 ? n->input(1)->node() : nullptr;
    const IValue* number = n->inputCount() > 1 ? GraphFacts::constant(n->input(1)) : nullptr;
    const bool isAlong = isOrWrites(n->kind(), kIndexCopy) || isOrWrites(n->kind(), kScatter);
    if (isAlong && number && number->isInt()) dim = number->toInt();
    const bool isPut = n->kind() == kSliceScatter && !GraphFacts::constant(n->input(3));
    const IValue* along = isPut ? GraphFacts::constant(n->input(2)) : nullptr;
    if (along && along->isInt()) dim = along->toInt();
    if (isOrWrites(n->kind(), kIndexPut) && list && list->kind() == sym::ListConstruct)
      for (size_t i = 0; i < list->inputCount(); ++i)
        if (!GraphFacts::isNone(list->input(i))) dim = static_cast<int64_t>(i);
    if (dim && *dim < 0) dim = *dim + static_cast<int64_t>(f->sizes.size());
    if (dim && *dim >= 0 && static_cast<size_t>(*dim) < f->sizes.size())
      most = std::max(most, f->sizes[static_cast<size_t>(*dim)]);
  }
  return most;
}

int64_t longestRing(const Graph& graph) {
  int64_t longest = 0;
  forEachNode(graph, [&](const Node* n) {
    if (n->kind() != kRemainder || n->inputCount() < 2 || !n->input(1)->node()) return;
    const IValue* by = n->input(1)->node()->attributeValue(sym::value);
    if (by && by->isInt()) longest = std::max(longest, by->toInt());
  });
  return longest;
}

}  // namespace tscompile
