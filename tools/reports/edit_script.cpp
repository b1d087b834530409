#include "tools/reports/edit_script.h"

#include <algorithm>

namespace tscompile {
namespace {

using Equal = std::function<bool(size_t, size_t)>;

// Myers, "An O(ND) difference algorithm and its variations" (1986), section 4: how far each diagonal (i - j) is reached
// with `edits` edits; kept for each number of edits, to find the way back.
class Search {
 public:
  Search(ptrdiff_t a, ptrdiff_t b, const Equal& equal) : a_(a), b_(b), equal_(equal) {}

  // False if it takes more edits than that.
  bool run(ptrdiff_t mostEdits) {
    for (ptrdiff_t d = 0; d <= std::min(mostEdits, a_ + b_); ++d) {
      reached_.emplace_back(2 * static_cast<size_t>(d) + 1);
      for (ptrdiff_t k = -d; k <= d; k += 2) {
        ptrdiff_t i = d == 0 ? 0 : start(d, k);
        while (i < a_ && i - k < b_ && equal_(static_cast<size_t>(i), static_cast<size_t>(i - k))) ++i;
        at(d, k) = i;
        if (i >= a_ && i - k >= b_) return true;
      }
    }
    return false;
  }

  std::vector<std::pair<size_t, size_t>> pairs() {
    std::vector<std::pair<size_t, size_t>> out;
    ptrdiff_t i = a_, k = a_ - b_;
    for (auto d = static_cast<ptrdiff_t>(reached_.size()) - 1; d >= 0; --d) {
      ptrdiff_t from = d == 0 ? 0 : start(d, k);
      for (; i > from; --i) out.emplace_back(i - 1, i - 1 - k);
      if (d == 0) break;
      bool isInsertion = comesFromAbove(d, k);
      i = isInsertion ? from : from - 1;
      k += isInsertion ? 1 : -1;
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

 private:
  ptrdiff_t& at(ptrdiff_t d, ptrdiff_t k) { return reached_[static_cast<size_t>(d)][static_cast<size_t>(k + d)]; }
  // Whether diagonal k is best reached by an item of b (from k + 1), not of a (from k - 1).
  bool comesFromAbove(ptrdiff_t d, ptrdiff_t k) { return k == -d || (k != d && at(d - 1, k - 1) < at(d - 1, k + 1)); }
  ptrdiff_t start(ptrdiff_t d, ptrdiff_t k) {
    ptrdiff_t i = comesFromAbove(d, k) ? at(d - 1, k + 1) : at(d - 1, k - 1) + 1;
    return std::min(i, a_);
  }

  ptrdiff_t a_, b_;
  const Equal& equal_;
  std::vector<std::vector<ptrdiff_t>> reached_;
};

}  // namespace

std::vector<std::pair<size_t, size_t>> commonItems(size_t a, size_t b, const Equal& equal, size_t mostEdits) {
  size_t front = 0, back = 0;
  while (front < std::min(a, b) && equal(front, front)) ++front;
  while (back < std::min(a, b) - front && equal(a - 1 - back, b - 1 - back)) ++back;
  std::vector<std::pair<size_t, size_t>> out;
  for (size_t i = 0; i < front; ++i) out.emplace_back(i, i);
  const Equal inner = [&](size_t i, size_t j) { return equal(front + i, front + j); };
  Search search(static_cast<ptrdiff_t>(a - front - back), static_cast<ptrdiff_t>(b - front - back), inner);
  if (search.run(static_cast<ptrdiff_t>(mostEdits)))
    for (auto [i, j] : search.pairs()) out.emplace_back(front + i, front + j);
  for (size_t i = back; i-- > 0;) out.emplace_back(a - 1 - i, b - 1 - i);
  return out;
}

}  // namespace tscompile
