#include "api/serving/longest_text.h"

#include "ir/values/random.h"
#include "passes/serving/marked_ids.h"

namespace tscompile {

LongText longText(int64_t tokens, int64_t vocabulary, const std::vector<int64_t>& marked) {
  LongText out;
  for (uint64_t i = 0; i < static_cast<uint64_t>(tokens); ++i) {
    const size_t at = placeOfId(random::bits(1, i), i, vocabulary);
    out.any.push_back(at < i ? out.any[at] : drawnId(random::bits(1, i), vocabulary, marked));
    out.plain.push_back(plainId(random::bits(1, i), vocabulary, marked));
  }
  return out;
}

int64_t longestThatRuns(int64_t most, int64_t likely, bool isAsked, const std::function<bool(int64_t)>& runs) {
  constexpr int64_t kShortest = 16;
  int64_t fails = most, longest = 0;
  if (!isAsked && likely > 0 && likely < fails && !runs(likely + 1)) fails = likely;
  if (runs(fails)) return fails;
  while (!isAsked && fails > kShortest && longest == 0) (runs(fails / 2) ? longest : fails) = fails / 2;
  while (longest != 0 && fails - longest > 1) {
    const int64_t middle = longest + (fails - longest) / 2;
    (runs(middle) ? longest : fails) = middle;
  }
  return longest;
}

}  // namespace tscompile
