#include "passes/serving/attention_match.h"

#include "ir/values/aten.h"
#include "ir/values/kind_set.h"
#include "passes/serving/lookups.h"

#include <cmath>
#include <unordered_set>

namespace tscompile {
namespace {

// Batch and tokens, where the inputs say them.
std::optional<std::pair<int64_t, int64_t>> fixedSizes(const Graph& graph) {
  for (const Value* input : graph.inputs()) {
    const TensorFacts* facts = input->type()->isTensor() ? &input->type()->tensor() : nullptr;
    if (facts && facts->hasAllSizes() && facts->sizes.size() >= 2) return std::pair(facts->sizes[0], facts->sizes[1]);
  }
  return std::nullopt;
}

}  // namespace

AttentionMatcher::AttentionMatcher(RewriteContext& context, const Value* positions, int64_t longest)
    : context_(context), positions_(positions), longest_(longest) {
  if (!context.evaluator) return;
  // Two instances, so that sizes which happen to be the same are told apart; where sizes are fixed there is one only.
  std::optional<std::pair<int64_t, int64_t>> fixed = fixedSizes(context.graph);
  isFixed_ = fixed.has_value();
  for (std::pair<int64_t, int64_t> sizes : {std::pair<int64_t, int64_t>(2, 5), std::pair<int64_t, int64_t>(3, 7)})
    small_.emplace_back(context, fixed.value_or(sizes).first, fixed.value_or(sizes).second, positions);
  heads_.emplace(context, small_[0], small_[1]);
}

bool AttentionMatcher::works() const { return !small_.empty() && small_[0].fits() && small_[1].fits(); }

std::optional<ShapeConflict> AttentionMatcher::conflict() const {
  for (const SmallInstance& s : small_)
    if (s.conflict()) return *s.conflict();
  return std::nullopt;
}

std::optional<AttentionMatch> AttentionMatcher::miss(const Node* node, std::string reason) {
  misses_.push_back({node, std::move(reason)});
  return std::nullopt;
}

// Scores with other dimensions in front of the keys, such as [batch * heads, tokens, keys].
bool AttentionMatcher::keepsRows(const Node* n) {
  return std::ranges::all_of(instances(), [&](const SmallInstance* i) {
    std::optional<Dims> from = i->sizes(n->input(0)), to = i->sizes(n->output());
    return from && to && from->size() >= 2 && to->size() >= 2 && from->back() == to->back();
  });
}

// Whether it hands on its first input: in another precision, or through dropout outside of training.
bool AttentionMatcher::handsOn(const Node* n) {
  if (n->kind() == aten::dropout) return context_.facts.boolean(n->input(2)) == false;
  if (n->kind() == aten::view || n->kind() == aten::reshape) return keepsRows(n);
  if (!context_.facts.keepsElements(n)) return false;
  const DType from = small_[0].dtype(n->input(0)), to = small_[0].dtype(n->output());
  return context_.facts.movesElements(n) || (from != DType::Undefined && from == to) ||
         (isFloating(from) && isFloating(to));
}

// The number that a value has at any size, few tokens or many.
std::optional<double> AttentionMatcher::number(const Value* value) {
  std::optional<double> first;
  auto agrees = [&](const SmallInstance& s) {
    std::optional<SmallInstance::Elements> e = s.compute(value);
    if (!e || e->values.size() != 1 || (first && e->values[0] != *first)) return false;
    first = e->values[0];
    return true;
  };
  if (!agrees(small_[0]) || !agrees(small_[1])) return std::nullopt;
  if (!GraphFacts::constant(value) && longInstance().fits() && !agrees(longInstance())) return std::nullopt;
  return first;
}

bool AttentionMatcher::isFar(const Value* value) {
  std::optional<double> fill = number(value);
  return fill && *fill <= kFar;
}

Value* AttentionMatcher::withoutFactors(Value* value, double& scale) {
  while (Node* n = quiet(value)) {
    if (n->inputCount() != 2 || (n->kind() != aten::mul && n->kind() != aten::div)) break;
    if (std::optional<double> factor = number(n->input(1))) {
      scale *= n->kind() == aten::mul ? *factor : 1 / *factor;
      value = n->input(0);
    } else if (factor = number(n->input(0)); factor && n->kind() == aten::mul) {
      scale *= *factor;
      value = n->input(1);
    } else {
      break;
    }
  }
  return value;
}

// tanh(x / cap) * cap
bool AttentionMatcher::takeSoftcap(Scores& s, Node* n) {
  if (n->kind() != aten::mul || n->inputCount() != 2 || s.softcap != 0 || s.scale != 1) return false;
  for (size_t side : {0, 1}) {
    Node* tanh = quiet(n->input(side), aten::tanh);
    std::optional<double> cap = number(n->input(1 - side));
    if (!tanh || !cap || *cap <= 0) continue;
    double inside = 1;
    s.value = withoutFactors(tanh->input(0), inside);
    s.softcap = *cap;
    s.scale = inside * *cap;
    return true;
  }
  return false;
}

bool AttentionMatcher::takeMask(Scores& s, Node* n) {
  if (s.softcap != 0 || s.scale != 1) return false;  // what follows a mask would change it
  if (n->kind() == aten::masked_fill && n->inputCount() == 3 && isFar(n->input(2))) {
    s.fills.push_back(n->input(1));
    s.masked[n->input(1)] = n->output();
    s.value = n->input(0);
    return true;
  }
  if (n->kind() == aten::add && n->inputCount() == 3 && number(n->input(2)) == 1.0) {
    size_t mask = computable(n->input(1)) ? 1 : 0;
    if (!mask && !computable(n->input(0))) return false;
    s.additions.push_back(n->input(mask));
    s.masked[n->input(mask)] = n->output();
    s.value = n->input(1 - mask);
    return true;
  }
  if (n->kind() == aten::where && n->inputCount() == 3) {
    bool keeps = isFar(n->input(2));
    if (!keeps && !isFar(n->input(1))) return false;
    (keeps ? s.choices : s.fills).push_back(n->input(0));
    s.masked[n->input(0)] = n->output();
    s.value = n->input(keeps ? 1 : 2);
    return true;
  }
  return false;
}

// One step from the softmax towards the product of queries and keys.
bool AttentionMatcher::stepBack(Scores& s, Node* n) {
  if (handsOn(n)) {
    s.value = n->input(0);
    return true;
  }
  if (takeMask(s, n) || takeSoftcap(s, n)) return true;
  double scale = 1;
  Value* rest = withoutFactors(s.value, scale);
  if (rest == s.value) return false;
  s.value = rest;
  s.scale *= scale;
  return true;
}

// The one product of matrices that scores follow from, whatever is done to it.
Node* AttentionMatcher::productBehind(Value* scores) {
  Node* product = nullptr;
  std::unordered_set<const Value*> seen;
  std::vector<Value*> todo{scores};
  while (!todo.empty()) {
    Value* v = todo.back();
    todo.pop_back();
    if (!seen.insert(v).second || !v->type()->isTensor() || computable(v)) continue;
    Node* n = quiet(v);
    if (!n || seen.size() > 40) return nullptr;
    if (n->kind() == aten::matmul || n->kind() == aten::bmm) {
      if (product && product != n) return nullptr;
      product = n;
      continue;
    }
    for (const Use& u : n->inputs()) todo.push_back(u.value);
  }
  return product;
}

std::optional<std::vector<NamedSize>> AttentionMatcher::sizesOf(const Value* value) {
  std::optional<Dims> a = small_[0].sizes(value), b = small_[1].sizes(value);
  if (!a || !b || a->size() != b->size()) return std::nullopt;
  std::vector<NamedSize> out;
  for (size_t i = 0; i < a->size(); ++i) {
    auto factorOf = [&](const SmallInstance& in, int64_t size, const NamedSize& s) {
      const int64_t by = (s.ofBatch ? in.batch : 1) * (s.ofTokens ? in.tokens : 1);
      return size % by == 0 ? size / by : -1;
    };
    const size_t before = out.size();
    for (NamedSize s : {NamedSize{}, NamedSize{1, false, true}, NamedSize{1, true, false}, NamedSize{1, true, true}}) {
      s.factor = factorOf(small_[0], (*a)[i], s);
      if (out.size() == before && s.factor > 0 && s.factor == factorOf(small_[1], (*b)[i], s)) out.push_back(s);
    }
    if (out.size() == before) return std::nullopt;
  }
  return out;
}

std::optional<AttentionMatch> AttentionMatcher::complete(Value* q, Value* k, Value* v, const Node* product, Scores& s,
                                                         Node* node) {
  AttentionMatch m;
  m.result = node->output(0);
  m.scale = s.scale;
  m.softcap = s.softcap;
  q = withoutFactors(q, m.scale);
  k = withoutFactors(k, m.scale);
  const Value *scores = product ? product->output() : nullptr, *result = product ? m.result : nullptr;
  std::optional<HeadSource> sources[] = {heads_->source(q, false, scores), heads_->source(k, product, scores),
                                         heads_->source(v, false, result)};
  // Where keys are turned after they were repeated for groups, values are repeated as well.
  if (sources[1] && sources[2] && sources[1]->heads > sources[2]->heads)
    sources[2] = heads_->source(v, false, result, sources[1]->heads);
  std::optional<std::vector<NamedSize>> sizes = sizesOf(m.result);
  if (!sources[0] || !sources[1] || !sources[2] || !sizes)
    return miss(node, "queries, keys and values must have the form [batch, heads, tokens, size]");
  m.sizes = *sizes;
  m.q = *sources[0];
  m.k = *sources[1];
  m.v = *sources[2];
  std::string reason;
  if (!readMask(s, m.q.heads, reason)) return miss(node, reason);
  m.rule = s.rule;
  takeFactorsOfRows(m.q, m.scale);
  takeFactorsOfRows(m.k, m.scale);
  if (m.k.heads != m.v.heads || m.q.size != m.k.size || m.q.heads % m.k.heads)
    return miss(node, "queries, keys and values differ in number or size of their heads");
  m.sinks = s.sinks;
  if (!m.sinks.empty() && static_cast<int64_t>(m.sinks.size()) != m.q.heads)
    return miss(node, "what takes weight from its keys is not one number for each head");
  if (!(m.scale > 0) || !std::isfinite(m.scale)) return miss(node, "its scale is not positive");
  return m;
}

// cat(scores, sinks of each head) of which the softmax has all but the last column, with or without - max
bool AttentionMatcher::takeSinks(Scores& s) {
  static const KindSet kLargest{kMax, aten::amax};
  Node* n = quiet(s.value);
  while (n && (handsOn(n) || n->kind() == aten::sub)) {
    if (n->kind() == aten::sub) {
      Node* largest = quiet(n->input(1));
      if (!largest || !kLargest.contains(largest->kind()) || largest->input(0) != n->input(0)) return false;
    }
    n = quiet(n->input(0));
  }
  Node* both = n && n->kind() == aten::cat ? n->input(0)->node() : nullptr;
  if (!both || both->kind() != sym::ListConstruct || both->inputCount() != 2) return false;
  std::optional<Dims> sizes = small_[0].sizes(both->input(0)), all = small_[0].sizes(n->output());
  std::optional<SmallInstance::Elements> sinks = small_[0].compute(both->input(1));
  if (!sizes || !all || !sinks || sizes->size() != 4 || sinks->sizes.size() != 4) return false;
  Dims expected = *sizes;
  expected[3] = 1;
  if (sinks->sizes != expected || all->back() != sizes->back() + 1) return false;
  size_t heads = static_cast<size_t>(expected[1]), rows = static_cast<size_t>(expected[2]);
  for (size_t h = 0; h < heads; ++h) s.sinks.push_back(sinks->values[h * rows]);
  for (size_t i = 0; i < sinks->values.size(); ++i)
    if (sinks->values[i] != s.sinks[i / rows % heads]) return false;
  s.value = both->input(0);
  return true;
}

// Of where(every score of the row is hidden, 0, softmax) the softmax: no row of causal attention hides its own token.
Node* AttentionMatcher::withoutHiddenRows(Node* weights) {
  if (!weights || weights->kind() != aten::where || weights->inputCount() != 3) return weights;
  Node* softmax = quiet(weights->input(2), aten::softmax);
  Node* none = quiet(weights->input(0), aten::logical_not);
  Node* any = none ? quiet(none->input(0), kAny) : nullptr;
  Node* seen = any ? quiet(any->input(0), aten::logical_not) : nullptr;
  Node* hidden = seen ? quiet(seen->input(0), aten::eq) : nullptr;
  if (!softmax || !hidden || any->inputCount() != 3 || hidden->input(0) != softmax->input(0)) return weights;
  const bool isOfRow = context_.facts.integer(any->input(1)) == -1 && context_.facts.boolean(any->input(2)) == true;
  const std::optional<double> least = number(hidden->input(1));
  Node* zeros = quiet(weights->input(1), aten::full_like);
  const bool isZero = zeros && zeros->inputCount() > 1 && number(zeros->input(1)) == 0.0;
  return isOfRow && isZero && least && std::isinf(*least) && *least < 0 ? softmax : weights;
}

// softmax(scores, masked) @ v
std::optional<AttentionMatch> AttentionMatcher::matchProduct(Node* product) {
  if (product->inputCount() != 2 || product->outputCount() != 1 || !quiet(product->output())) return std::nullopt;
  Node* weights = quiet(product->input(0));
  while (weights && handsOn(weights)) weights = quiet(weights->input(0));
  Node* chosen = weights && weights->kind() == aten::slice ? weights : nullptr;
  if (chosen) weights = quiet(chosen->input(0));
  while (weights && handsOn(weights)) weights = quiet(weights->input(0));
  weights = withoutHiddenRows(weights);
  if (!weights || weights->kind() != aten::softmax || weights->inputCount() != 3) return std::nullopt;
  std::optional<int64_t> dim = context_.facts.integer(weights->input(1));
  std::optional<Dims> sizes = small_[0].sizes(product->output()), weightSizes = small_[0].sizes(weights->output());
  if (!sizes || !weightSizes || sizes->size() < 3 || sizes->size() > 5)
    return miss(product, "its heads are not a dimension of their own");
  if (dim != -1 && dim != static_cast<int64_t>(weightSizes->size()) - 1)
    return miss(product, "its softmax is not over the keys");
  Scores s;
  s.value = weights->input(0);
  if (chosen && !takeSinks(s)) return miss(chosen, "this is done to its weights");
  const Scores first = s;
  Node* n = quiet(s.value);
  size_t before = misses_.size();
  std::optional<AttentionMatch> found;
  while (n && n->kind() != aten::matmul && n->kind() != aten::bmm && stepBack(s, n)) n = quiet(s.value);
  if (!n)
    miss(product, "its scores are no product of queries and keys");
  else if (n->kind() != aten::matmul && n->kind() != aten::bmm)
    miss(n, "this is done to its scores");
  else
    found = complete(n->input(0), n->input(1), product->input(1), n, s, product);
  if (found) return found;
  // Whatever is done to them, what comes of it may be a factor and a mask.
  Scores computed = first;
  computed.whole = first.value;
  Node* scores = productBehind(computed.whole);
  if (!scores) return std::nullopt;
  computed.products = scores->output();
  if (!fitScale(computed)) return std::nullopt;
  found = complete(scores->input(0), scores->input(1), product->input(1), scores, computed, product);
  if (found) misses_.resize(before);
  return found;
}

// scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale, grouped), or with a flag in front of `causal`
std::optional<AttentionMatch> AttentionMatcher::matchOperator(Node* node) {
  bool older = node->kind() == aten::_scaled_dot_product_attention;
  size_t at = older ? 6 : 5;
  // Pure it is only where nothing is dropped, as is asked below.
  if (node->inputCount() <= at || node->outputCount() != (older ? 2 : 1) || !context_.facts.isUndisturbed(node))
    return std::nullopt;
  if (number(node->input(4)) != 0.0) return miss(node, "it drops some of its weights");
  if (older && node->output(1)->hasUses()) return miss(node, "its weights are used");
  std::optional<bool> causal = context_.facts.boolean(node->input(at));
  if (!causal) return miss(node, "whether it is causal is not known");
  std::optional<Dims> sizes = small_[0].sizes(node->input(0));
  if (!sizes || sizes->size() != 4) return miss(node, "its heads are not a dimension of their own");
  Scores s;
  s.scale = 1 / std::sqrt(static_cast<double>(sizes->back()));
  if (!older && node->inputCount() > 6 && !GraphFacts::isNone(node->input(6))) {
    std::optional<double> scale = number(node->input(6));
    if (!scale) return miss(node, "its scale is not known");
    s.scale = *scale;
  }
  Value* mask = node->input(3);
  if (!GraphFacts::isNone(mask)) {
    bool keeps = small_[0].dtype(mask) == DType::Bool;
    (keeps ? s.choices : s.additions).push_back(mask);
  }
  s.causal = *causal;
  if (s.causal && !GraphFacts::isNone(mask)) return miss(node, "it has a mask besides");
  return complete(node->input(0), node->input(1), node->input(2), nullptr, s, node);
}

std::optional<AttentionMatch> AttentionMatcher::match(Node* node) {
  if (node->block() != context_.graph.block()) return std::nullopt;
  if (node->kind() == aten::matmul || node->kind() == aten::bmm) return matchProduct(node);
  if (node->kind().name().ends_with("scaled_dot_product_attention")) return matchOperator(node);
  return std::nullopt;
}

// Factors of rows, before heads are made of them: with them the rows are no columns of a larger matrix yet.
void AttentionMatcher::takeFactorsOfRows(HeadSource& s, double& scale) {
  Value* before = withoutFactors(s.value, scale);
  if (before == s.value) return;
  s.value = before;
  heads_->widen(s);
}

Value* AttentionMatcher::resultInRows(const AttentionMatch& m) { return heads_->inRows(m.result, m.q.heads, m.v.size); }

}  // namespace tscompile
