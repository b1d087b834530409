// Beam search: the texts of highest probability, several at a time.
//
// A beam's logits go through steps 1 to 7 of sampling.h, with its own history, and log softmax in f64. The candidates
// of a step are all continuations of all live beams by one token, best first by
//     (sum of log-probabilities) - beamSearchDiversityRate * rank
// where rank (0, 1, ...) is the place among the continuations of the same beam (Li, Monroe, Jurafsky 2016); the rate
// takes part in this choice alone. They are looked at in that order until beamWidth go on: one that ends its text
// becomes a finished hypothesis if it is among the first beamWidth, any other becomes a live beam. Hypotheses compare
// by
//     score = (sum of log-probabilities) / (generated tokens, the end token included) ^ lengthPenalty
// and the best beamWidth are kept. With beamWidth finished ones the search ends
//     earlyStopping 1      at once
//     earlyStopping 0      when no live beam is better than the worst of them at its present length
//     any other number     when none can become better: as 0 for lengthPenalty <= 0, otherwise by the score that a live
//                          beam would have with its present sum at the greatest length
// and it ends at maxNewTokens, where live beams count as hypotheses too. Among equals the lower beam, then the lower
// token comes first.
#pragma once

#include "runtime/llm/sampling.h"

namespace tscompile {

struct Hypothesis {
  std::vector<TokenId> tokens;  // the generated ones, the end token included
  double logProb = 0;           // sum over the tokens, after steps 1 to 7
  double score = 0;
  bool ended = false;  // by an end token or stop word, not by the greatest length
};

// How the live beams follow from those before the step: new beam i continues old beam parents[i] by tokens[i].
struct BeamStep {
  std::vector<int32_t> parents;
  std::vector<TokenId> tokens;
};

class BeamSearch {
 public:
  // The configuration must be valid. At first one beam lives; it stands for the prompt.
  BeamSearch(const SamplingConfig& config, TokenSpan prompt, int64_t maxNewTokens);

  // Beams that want logits: 1, then up to beamWidth.
  size_t live() const { return live_.size(); }
  bool done() const { return done_; }
  // Prompt and generated tokens of a live beam.
  TokenSpan history(size_t beam) const { return live_[beam].history; }
  // Takes logits [live, vocabulary], one row after the other. Afterwards live() is the number of new beams; 0 if done.
  Result<BeamStep> step(std::span<const float> logits, Diagnostics& diagnostics);
  // At most beamWidth, best first. Before done(): the finished ones.
  std::vector<Hypothesis> hypotheses() const;

 private:
  struct Beam {
    std::vector<TokenId> history;
    double logProb = 0;
  };
  struct Candidate {
    double rank;  // what candidates are ordered by
    double logProb;
    int32_t beam;
    TokenId token;
  };
  static bool below(const Candidate& a, const Candidate& b);
  bool collect(size_t beam, std::span<const float> logits, Diagnostics& diagnostics);
  void offer(const Candidate& candidate);
  double score(double logProb, size_t generated) const;
  void finish(const Beam& beam, bool ended);
  bool nothingBetter() const;

  const SamplingConfig config_;
  size_t promptLength_;
  int64_t maxNewTokens_;
  bool done_ = false;
  std::vector<Beam> live_;
  std::vector<Hypothesis> finished_;  // best first
  std::vector<Candidate> candidates_;
  size_t mostCandidates_ = 0;
  Sampler sampler_;
};

// For caches in which every beam writes to its own rows: which beam's row holds key t of beam b. [beams, capacity].
class CacheIndirection {
 public:
  CacheIndirection(int64_t beams, int64_t capacity);
  // Beam b goes on from beam parents[b]; its next key, number `length`, is its own.
  void follow(std::span<const int32_t> parents, int64_t length);
  std::span<const int32_t> table() const { return table_; }

 private:
  int64_t capacity_;
  std::vector<int32_t> table_, previous_;
};

}  // namespace tscompile
