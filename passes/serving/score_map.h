// What is added to the products of queries and keys before their softmax, by head, query and key: masks, windows and
// biases show in its elements, however they are written down.
#pragma once

#include "passes/serving/small_instance.h"

#include <functional>
#include <optional>
#include <vector>

namespace tscompile {

// Keys with less than this are not seen.
inline constexpr double kFar = -1e4;

// What all maps of one attention, of several numbers of tokens, say.
struct ScoreRule {
  int64_t window = 0;          // tokens that one sees with itself; 0: all up to it
  std::vector<double> slopes;  // of each head: keys lose it for each token that they lie back; empty: none
  bool operator==(const ScoreRule&) const = default;
};

class ScoreMap {
 public:
  ScoreMap(int64_t batch, int64_t heads, int64_t tokens);

  // Adds score(element) for elements [.., batch or 1, heads or 1, tokens or 1, tokens or 1], batch and heads as one
  // dimension or two. False if they have another form, or differ between the rows of the batch.
  bool add(const SmallInstance::Elements& elements, const std::function<float(double)>& score);

  int64_t tokens() const { return tokens_; }
  bool isHidden(int64_t head, int64_t row, int64_t column) const { return at(head, row, column) <= kFar; }
  // The rule that the last row follows.
  ScoreRule guess() const;
  // Whether all rows do.
  bool follows(const ScoreRule& rule) const;

 private:
  float at(int64_t head, int64_t row, int64_t column) const {
    int64_t h = differs_ ? head : 0;
    return values_[static_cast<size_t>((h * tokens_ + row) * tokens_ + column)];
  }
  void tellHeadsApart();

  int64_t batch_, heads_, tokens_;
  bool differs_ = false;  // between heads; else there is one for all
  std::vector<float> values_;
};

}  // namespace tscompile
