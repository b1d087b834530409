#include "api/serving/one_by_one.h"

#include "api/serving/longest_text.h"
#include "api/serving/own_loop.h"
#include "ir/graph/clone.h"
#include "passes/serving/fixed_caches.h"
#include "passes/serving/static_caches.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tscompile {
namespace {

constexpr int64_t kShort = 3, kMostTokens = 512;
// What a text behind an end may have: a ring of 4096 places goes round.
constexpr int64_t kLongest = 4104;
// Tokens times weights of texts that are tried anyway, of those that alone can tell, and of one that a bound hangs on.
constexpr int64_t kLittleWork = int64_t{1} << 31, kMostWork = int64_t{1} << 35, kWorkForBound = int64_t{1} << 37;

class Trial {
 public:
  explicit Trial(const OneCall& one) : one_(one), single_(cloneGraph(one.calls)) {
    isMade_ = readWholeTexts(*single_, one.registry, nullptr, true) == StaticCaches::OneByOne;
    if (!isMade_) return;
    entrance_ = entranceByNames(*single_, false);
    whole_ = one.runOf(one.whole), each_ = one.runOf(*single_);
  }

  // Short texts have the same logits both ways.
  bool begins() { return isMade_ && areOther(kShort) == false; }

  bool forgets() {
    // Behind the end of a ring a call writes some places twice. Tables may end soon behind it.
    const int64_t ring = longestRing(one_.calls);
    for (const auto& [end, work] : {std::pair(ring, kMostWork), std::pair(one_.places, kLittleWork)})
      for (const int64_t behind : {8, 3, 1})
        if (end > 0 && end + behind <= std::min(kLongest, work / one_.weights) && areOther(end + behind) == true)
          return true;
    for (int64_t tokens = usual(); tokens > kShort; tokens /= 2)
      if (const std::optional<bool> other = areOther(tokens)) return *other;
    return false;
  }

  // The longest texts that cost little, else of one token more than `most`; of a model that is too large even for that
  // a call runs, whose operators are those of a shorter one.
  bool isTheSameBeyond(int64_t most) {
    for (int64_t tokens = usual(); tokens > most; tokens /= 2)
      if (const std::optional<bool> other = areOther(tokens)) return !*other;
    const int64_t tokens = most + 1;
    if (tokens <= kWorkForBound / one_.weights) return areOther(tokens) == false;
    return logitsOf(whole_, tokens, false).defined();
  }

  std::unique_ptr<Graph> single() { return std::move(single_); }

 private:
  int64_t usual() const { return std::min({one_.places, kMostTokens, kLittleWork / one_.weights}); }

  Tensor logitsOf(const RunModel& model, int64_t tokens, bool isReversed) const {
    constexpr int64_t kWords = 3;
    std::vector<TokenId> ids = longText(tokens, kWords, {}).plain;
    if (isReversed) std::ranges::reverse(ids);
    Diagnostics ignored;
    const Result<std::vector<IValue>> out = model(inputsOfText(entrance_, ids), ignored);
    return out ? tscompile::logitsOf(*out) : Tensor();
  }
  // Whether both say other things; nothing if they do not run. Of a model that chooses by numbers some are nearly
  // equal, in one text hardly as in another.
  std::optional<bool> areOther(int64_t tokens) {
    const auto [found, isNew] = tried_.try_emplace(tokens);
    if (isNew) found->second = compare(tokens);
    return found->second;
  }
  std::optional<bool> compare(int64_t tokens) const {
    constexpr double kTolerance = 2e-2;
    for (const bool isReversed : {false, true}) {
      const Tensor all = logitsOf(whole_, tokens, isReversed);
      const Tensor each = all.defined() ? logitsOf(each_, tokens, isReversed) : Tensor();
      if (!each.defined()) return std::nullopt;
      if (!areOtherLogits(all, each, kTolerance)) return false;
    }
    return true;
  }

  const OneCall& one_;
  std::unique_ptr<Graph> single_;
  bool isMade_ = false;
  Entrance entrance_;
  RunModel whole_, each_;
  std::map<int64_t, std::optional<bool>> tried_;  // by tokens
};

}  // namespace

OneByOne tryOneByOne(const OneCall& one, int64_t most) {
  Trial trial(one);
  if (!trial.begins()) return {};
  if (trial.forgets()) return {trial.single(), false};
  return {nullptr, most < one.places && trial.isTheSameBeyond(most)};
}

}  // namespace tscompile
