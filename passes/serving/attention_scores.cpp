// What is done to the products of queries and keys, of as many tokens as show all of it.
#include "ir/values/aten.h"
#include "passes/serving/attention_match.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tscompile {
namespace {

// Masks are compared up to this size.
constexpr int64_t kMostTokens = 4100;
// Products that are computed to look at a mask.
constexpr int64_t kMostProducts = int64_t{1} << 23;

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
  std::optional<Bends> bends = bendsOfMasks(s);
  std::vector<int64_t> tokens = bends ? tokensToTry(s, *bends) : std::vector<int64_t>{};
  if (tokens.empty()) return false;
  std::vector<const SmallInstance*> tried{&small_[0], &small_[1]};
  if (!isFixed_ && tokens.back() > small_[1].tokens) tried.push_back(&ofTokens(tokens.back()));
  std::optional<double> scale;
  for (const SmallInstance* instance : tried) {
    std::optional<Dims> sizes = instance->sizes(s.products);
    if (!sizes || instance->dtype(s.products) != DType::Float32 ||
        checkedNumel(*sizes).value_or(kMostProducts + 1) > kMostProducts)
      return false;
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

const SmallInstance& AttentionMatcher::ofTokens(int64_t tokens) {
  auto made = std::find_if(small_.begin() + 2, small_.end(), [&](auto& i) { return i.tokens == tokens; });
  if (made != small_.end()) return *made;
  return small_.emplace_back(context_, 1, tokens, positions_);
}

const SmallInstance& AttentionMatcher::longInstance() {
  constexpr int64_t kUsual = 1024;
  return isFixed_ ? small_[1] : ofTokens(longest_ ? longest_ : kUsual);
}

// What slices that leave nothing out are made of: layers share it.
Value* AttentionMatcher::uncut(Value* mask) {
  auto keepsAll = [&](const Node* n, const SmallInstance& i) {
    std::optional<Dims> from = i.sizes(n->input(0));
    return from && from == i.sizes(n->output());
  };
  for (Node* n = quiet(mask, aten::slice); n && longest_; n = quiet(mask, aten::slice)) {
    if (!keepsAll(n, small_[0]) || !keepsAll(n, small_[1]) || !keepsAll(n, longInstance())) break;
    mask = n->input(0);
  }
  return mask;
}

// Where the masks may bend, as far as numbers and stored tables say; nothing if they depend on more than tokens.
std::optional<Bends> AttentionMatcher::bendsOfMasks(const Scores& s) {
  std::vector<const Value*> given;
  if (s.products) given.push_back(s.products);
  Bends all;
  const std::vector<Value*> whole(s.whole ? 1 : 0, s.whole);
  for (const std::vector<Value*>* masks : {&s.fills, &s.additions, &s.choices, &whole})
    for (const Value* mask : *masks) {
      std::optional<Bends> bends = bendsOf(mask, positions_, given, instances(), context_);
      if (!bends) return std::nullopt;
      all.tokens = std::max(all.tokens, bends->tokens);
      all.tableRows = std::max(all.tableRows, bends->tableRows);
    }
  return all;
}

// How many tokens show all that a mask does, the best first: as many as there may be, or enough to be past all bends.
std::vector<int64_t> AttentionMatcher::tokensToTry(const Scores& s, const Bends& bends) const {
  constexpr int64_t kEnough = 1024;  // where not all can be tried
  std::vector<int64_t> out;
  int64_t told = std::max(bends.tokens, bends.tableRows);
  if (longest_) told = std::min(told, longest_);
  if (longest_ && !s.whole && told <= kMostTokens) out.push_back(std::max(told, std::min(longest_, kEnough)));
  if (told <= kMostTokens) out.push_back(told);
  return out;
}

bool AttentionMatcher::readMask(Scores& s, int64_t heads, std::string& reason) {
  if (s.causal) return true;
  if (s.fills.empty() && s.additions.empty() && s.choices.empty() && !s.whole) {
    reason = "nothing hides the tokens that come later";
    return false;
  }
  std::array<std::vector<Value*>, 3> masks{s.fills, s.additions, s.choices};
  for (std::vector<Value*>& list : masks)
    for (Value*& mask : list) mask = uncut(mask);
  auto known = rules_.find({masks, heads});
  if (s.whole || known == rules_.end()) {
    std::optional<ScoreRule> rule = ruleOf(s, heads, reason);
    known = rules_.insert_or_assign({masks, heads}, rule).first;
    reasons_[known->first] = reason;
  }
  reason = reasons_[known->first];
  if (known->second) s.rule = *known->second;
  return known->second.has_value();
}

// The rule that holds with as many tokens as are worth a look, and with few.
std::optional<ScoreRule> AttentionMatcher::ruleOf(const Scores& s, int64_t heads, std::string& reason) {
  reason = "its mask depends on more than the number of tokens";
  std::optional<Bends> bends = bendsOfMasks(s);
  if (!bends) return std::nullopt;
  std::optional<ScoreMap> large = isFixed_ ? mapOf(s, heads, small_[1]) : largestMap(s, heads, *bends);
  if (!large) {
    reason = "its mask may bend further from the first token than masks are looked at";
    return std::nullopt;
  }
  reason = "its mask hides others than the tokens that come later and those before a window";
  const ScoreRule rule = large->guess();
  if (!large->follows(rule)) return std::nullopt;
  for (const SmallInstance* instance : instances()) {
    std::optional<ScoreMap> map = mapOf(s, heads, *instance);
    if (!map || !map->follows(rule)) return std::nullopt;
  }
  return rule;
}

std::optional<ScoreMap> AttentionMatcher::largestMap(const Scores& s, int64_t heads, const Bends& bends) {
  for (int64_t tokens : tokensToTry(s, bends)) {
    const bool isFew = tokens <= small_[1].tokens;
    if (std::optional<ScoreMap> map = mapOf(s, heads, isFew ? small_[1] : ofTokens(tokens))) return map;
  }
  // No text is longer than the table.
  const int64_t rows = bends.tableRows;
  if (rows <= small_[1].tokens || rows > kMostTokens || mapOf(s, heads, ofTokens(rows + 1))) return std::nullopt;
  return mapOf(s, heads, ofTokens(rows));
}

}  // namespace tscompile
