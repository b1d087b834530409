#include "passes/serving/score_map.h"

#include <algorithm>
#include <cmath>

namespace tscompile {

ScoreMap::ScoreMap(int64_t batch, int64_t heads, int64_t tokens)
    : batch_(batch), heads_(heads), tokens_(tokens), values_(static_cast<size_t>(tokens * tokens)) {}

void ScoreMap::tellHeadsApart() {
  if (differs_) return;
  size_t size = values_.size();
  values_.resize(size * static_cast<size_t>(heads_));
  for (size_t h = 1; h < static_cast<size_t>(heads_); ++h)
    std::copy_n(values_.begin(), size, values_.begin() + static_cast<ptrdiff_t>(h * size));
  differs_ = true;
}

bool ScoreMap::add(const SmallInstance::Elements& e, const std::function<float(double)>& score) {
  size_t rank = e.sizes.size();
  int64_t columns = rank > 0 ? e.sizes[rank - 1] : 1, rows = rank > 1 ? e.sizes[rank - 2] : 1;
  if ((columns != 1 && columns != tokens_) || (rows != 1 && rows != tokens_) || e.values.empty()) return false;
  int64_t layers = static_cast<int64_t>(e.values.size()) / (rows * columns), heads = 1;
  if (rank >= 4)
    heads = e.sizes[rank - 3];
  else if (rank == 3)
    heads = layers == batch_ * heads_ || layers == heads_ ? heads_ : 1;
  if ((heads != 1 && heads != heads_) || (layers != heads && layers != batch_ * heads)) return false;
  auto layer = [&](int64_t l) { return e.values.begin() + l * rows * columns; };
  auto same = [&](int64_t a, int64_t b) { return std::equal(layer(a), layer(a) + rows * columns, layer(b)); };
  bool alike = true;
  for (int64_t l = 1; l < layers; ++l) {
    if (l >= heads && !same(l, l % heads)) return false;
    alike = alike && same(l, 0);
  }
  if (!alike) tellHeadsApart();
  float* out = values_.data();
  for (int64_t h = 0; h < (differs_ ? heads_ : 1); ++h)
    for (int64_t r = 0; r < tokens_; ++r)
      for (int64_t c = 0; c < tokens_; ++c)
        *out++ += score(layer(alike ? 0 : h)[(rows == 1 ? 0 : r) * columns + (columns == 1 ? 0 : c)]);
  return true;
}

ScoreRule ScoreMap::guess() const {
  ScoreRule rule;
  int64_t last = tokens_ - 1, first = 0;
  while (first < last && isHidden(0, last, first)) ++first;
  if (first) rule.window = tokens_ - first;
  if (!differs_ || first == last) return rule;
  for (int64_t h = 0; h < heads_; ++h)
    rule.slopes.push_back((static_cast<double>(at(h, last, last)) - at(h, last, first)) /
                          static_cast<double>(last - first));
  return rule;
}

bool ScoreMap::follows(const ScoreRule& rule) const {
  for (int64_t h = 0; h < (differs_ ? heads_ : 1); ++h)
    for (int64_t r = 0; r < tokens_; ++r)
      for (int64_t c = 0; c < tokens_; ++c) {
        bool isHidden = c > r || (rule.window && c <= r - rule.window);
        if (this->isHidden(h, r, c) != isHidden) return false;
        if (isHidden) continue;
        // What all keys of a row have in common changes nothing.
        double slope = rule.slopes.empty() ? 0 : rule.slopes[static_cast<size_t>(h)];
        double want = slope * static_cast<double>(c - r), is = static_cast<double>(at(h, r, c)) - at(h, r, r);
        if (!(std::abs(is - want) <= 1e-5 * (1 + std::abs(static_cast<double>(at(h, r, r))) + std::abs(want))))
          return false;
      }
  return true;
}

}  // namespace tscompile
