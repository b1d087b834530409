#include "passes/serving/attention_match.h"

#include "ir/values/aten.h"
#include "ir/values/kind_set.h"

#include <array>
#include <cmath>
#include <limits>
#include <unordered_set>

namespace tscompile {
namespace {

// Masks are compared up to this size.
constexpr int64_t kMostTokens = 4100;
// Products that are computed to look at a mask.
constexpr int64_t kMostProducts = int64_t{1} << 23;

const Symbol kUnpack = sym::ListUnpack;

// Batch and tokens, where the inputs say them.
std::optional<std::pair<int64_t, int64_t>> fixedSizes(const Graph& graph) {
  for (const Value* input : graph.inputs()) {
    const TensorFacts* facts = input->type()->isTensor() ? &input->type()->tensor() : nullptr;
    if (facts && facts->hasAllSizes() && facts->sizes.size() >= 2) return std::pair(facts->sizes[0], facts->sizes[1]);
  }
  return std::nullopt;
}

constexpr float kHidden = -std::numeric_limits<float>::infinity();
float hiddenWhereSet(double v) { return v != 0 ? kHidden : 0; }
float hiddenWhereClear(double v) { return v == 0 ? kHidden : 0; }
float asItIs(double v) { return static_cast<float>(v); }

// A mask of scores that have groups of heads, or several heads in their rows, as [batch, heads, tokens, tokens].
bool nameHeads(SmallInstance::Elements& mask, const Dims& scores, int64_t heads, const SmallInstance& i) {
  const size_t rank = scores.size();
  if (rank < 3 || scores.back() != i.tokens) return rank < 3;
  const bool hasRows = scores[rank - 2] == i.tokens;
  if (hasRows && (rank == 3 || (rank == 4 && scores[1] == heads))) return true;
  while (mask.sizes.size() > 1 && mask.sizes.front() == 1) mask.sizes.erase(0);
  if (hasRows && mask.sizes.size() <= 2) return true;
  if (!mask.broadcast(scores) || checkedNumel(scores) != i.batch * heads * i.tokens * i.tokens) return false;
  mask.sizes = Dims{i.batch, heads, i.tokens, i.tokens};
  return true;
}

// Numbers between 0.5 and 1.5 without a pattern.
Tensor scattered(const Dims& sizes) {
  std::vector<float> values(static_cast<size_t>(checkedNumel(sizes).value_or(0)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(1 + 0.5 * std::sin(static_cast<double>(i) * 12.9898));
  return Tensor::of<float>(sizes, values);
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

// Whether it hands on its first input: as another type that is the same, or through dropout outside of training.
bool AttentionMatcher::handsOn(const Node* n) {
  if (n->kind() == aten::dropout) return context_.facts.boolean(n->input(2)) == false;
  if (n->kind() == aten::view || n->kind() == aten::reshape) return keepsRows(n);
  if (!context_.facts.keepsElements(n)) return false;
  const DType from = small_[0].dtype(n->input(0));
  return context_.facts.movesElements(n) || (from != DType::Undefined && from == small_[0].dtype(n->output()));
}

// The number that a value has at any size.
std::optional<double> AttentionMatcher::number(const Value* value) {
  std::optional<double> first;
  for (const SmallInstance& s : small_) {
    std::optional<SmallInstance::Elements> e = s.compute(value);
    if (!e || e->values.size() != 1 || (first && e->values[0] != *first)) return std::nullopt;
    first = e->values[0];
  }
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

// Nothing if it is not known, or differs in rows of a batch.
std::optional<ScoreMap> AttentionMatcher::mapOf(const Scores& s, int64_t heads, const SmallInstance& instance) {
  ScoreMap map(instance.batch, heads, instance.tokens);
  auto add = [&](const std::vector<Value*>& masks, auto score) {
    return std::all_of(masks.begin(), masks.end(), [&](const Value* mask) {
      std::optional<SmallInstance::Elements> elements = instance.compute(mask);
      auto at = s.masked.find(mask);
      std::optional<Dims> scores = at == s.masked.end() ? std::nullopt : instance.sizes(at->second);
      return elements && (!scores || nameHeads(*elements, *scores, heads, instance)) && map.add(*elements, score);
    });
  };
  if (!add(s.fills, hiddenWhereSet) || !add(s.additions, asItIs) || !add(s.choices, hiddenWhereClear))
    return std::nullopt;
  if (!s.whole) return map;
  std::optional<Dims> sizes = instance.sizes(s.products);
  if (!sizes || checkedNumel(*sizes).value_or(kMostProducts + 1) > kMostProducts) return std::nullopt;
  std::optional<SmallInstance::Elements> e =
      instance.compute(s.whole, {{s.products, Tensor::zeros(DType::Float32, *sizes)}});
  if (!e || !nameHeads(*e, Dims(e->sizes), heads, instance) || !map.add(*e, asItIs)) return std::nullopt;
  return map;
}

// Whether `whole` is scale * products + what mapOf() tells.
bool AttentionMatcher::fitScale(Scores& s) {
  std::optional<double> scale;
  for (const SmallInstance* instance : instances()) {
    std::optional<Dims> sizes = instance->sizes(s.products);
    if (!sizes || instance->dtype(s.products) != DType::Float32) return false;
    Tensor some = scattered(*sizes);
    std::optional<SmallInstance::Elements> at0 =
        instance->compute(s.whole, {{s.products, Tensor::zeros(DType::Float32, *sizes)}});
    std::optional<SmallInstance::Elements> at1 = instance->compute(s.whole, {{s.products, some}});
    if (!at0 || !at1 || static_cast<int64_t>(at0->values.size()) != some.numel() ||
        at1->values.size() != at0->values.size())
      return false;
    for (size_t i = 0; i < at0->values.size(); ++i) {
      double from = at0->values[i], to = at1->values[i], x = some.real(static_cast<int64_t>(i));
      if (from <= kFar) {
        if (!(to <= kFar / 2)) return false;
        continue;
      }
      if (!scale) scale = (to - from) / x;
      if (!(std::abs(to - from - *scale * x) <= 1e-5 * (std::abs(*scale) + std::abs(from)))) return false;
    }
  }
  s.scale = scale.value_or(0);
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

// A window in the mask shows only if there are more tokens than it is wide: enough for all numbers that the mask is
// made with, or all that a stored mask has; nothing if that is too many.
std::optional<int64_t> AttentionMatcher::tokensToTry(const Scores& s) {
  int64_t most = 0;
  std::vector<const Value*> given;
  if (positions_) given.push_back(positions_);
  if (s.products) given.push_back(s.products);
  const std::vector<Value*> whole(s.whole ? 1 : 0, s.whole);
  for (const std::vector<Value*>* masks : {&s.fills, &s.additions, &s.choices, &whole})
    for (const Value* mask : *masks) {
      std::optional<std::vector<Node*>> nodes = nodesBehind(mask, given, context_);
      if (!nodes) return std::nullopt;
      int64_t stored = 0;
      for (const Node* n : *nodes) {
        const IValue* value = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
        if (!value) continue;
        if (value->isTensor() && value->toTensor().defined() && value->toTensor().rank() >= 2)
          stored = std::max(stored, value->toTensor().size(value->toTensor().rank() - 1));
        else if (value->isInt() && std::abs(value->toInt()) < INT32_MAX)
          most = std::max(most, std::abs(value->toInt()) + 2);
      }
      if (stored) most = std::max(most, stored);
    }
  if (longest_) most = std::min(most, longest_);
  return most <= kMostTokens ? std::optional<int64_t>(most) : std::nullopt;
}

bool AttentionMatcher::readMask(Scores& s, int64_t heads, std::string& reason) {
  if (s.causal) return true;
  if (s.fills.empty() && s.additions.empty() && s.choices.empty() && !s.whole) {
    reason = "nothing hides the tokens that come later";
    return false;
  }
  std::optional<int64_t> tokens = tokensToTry(s);
  if (!tokens) {
    reason = "its mask depends on more than the number of tokens, or is too large to be looked at";
    return false;
  }
  reason = "its mask is not causal";
  std::array<std::vector<Value*>, 3> masks{s.fills, s.additions, s.choices};
  auto known = rules_.find({masks, heads});
  if (s.whole || known == rules_.end()) {
    std::optional<ScoreRule> rule = ruleOf(s, heads, *tokens);
    known = rules_.insert_or_assign({masks, heads}, rule).first;
  }
  if (known->second) s.rule = *known->second;
  return known->second.has_value();
}

// The rule that holds with as many tokens as are worth a look, and with few.
std::optional<ScoreRule> AttentionMatcher::ruleOf(const Scores& s, int64_t heads, int64_t tokens) {
  // The largest first.
  std::vector<const SmallInstance*> instances{&small_[1], &small_[0]};
  if (!isFixed_ && tokens > small_[1].tokens) {
    auto made = std::find_if(small_.begin() + 2, small_.end(), [&](auto& i) { return i.tokens == tokens; });
    if (made == small_.end()) {
      small_.emplace_back(context_, 1, tokens, positions_);
      made = small_.end() - 1;
    }
    instances.insert(instances.begin(), &*made);
  }
  std::optional<ScoreRule> rule;
  for (const SmallInstance* instance : instances) {
    std::optional<ScoreMap> map = mapOf(s, heads, *instance);
    if (map && !rule) rule = map->guess();
    if (!map || !map->follows(*rule)) return std::nullopt;
  }
  return rule;
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
  static const KindSet kLargest{Symbol::of("aten::max"), aten::amax};
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

// softmax(scores, masked) @ v
std::optional<AttentionMatch> AttentionMatcher::matchProduct(Node* product) {
  if (product->inputCount() != 2 || product->outputCount() != 1 || !quiet(product->output())) return std::nullopt;
  Node* weights = quiet(product->input(0));
  while (weights && handsOn(weights)) weights = quiet(weights->input(0));
  Node* chosen = weights && weights->kind() == aten::slice ? weights : nullptr;
  if (chosen) weights = quiet(chosen->input(0));
  while (weights && handsOn(weights)) weights = quiet(weights->input(0));
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
