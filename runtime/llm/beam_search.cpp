// Beam search over logits that somebody else computes.
#include "runtime/llm/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tscompile {

BeamSearch::BeamSearch(const SamplingConfig& config, TokenSpan prompt, int64_t maxNewTokens)
    : config_(config), promptLength_(prompt.size()), maxNewTokens_(maxNewTokens), done_(maxNewTokens <= 0) {
  if (!done_) live_.push_back({{prompt.begin(), prompt.end()}, 0});
}

bool BeamSearch::below(const Candidate& a, const Candidate& b) {
  if (a.rank != b.rank) return a.rank < b.rank;
  return a.beam != b.beam ? a.beam > b.beam : a.token > b.token;
}

double BeamSearch::score(double logProb, size_t generated) const {
  if (config_.lengthPenalty == 0 || generated <= 1) return logProb;
  return logProb / std::pow(static_cast<double>(generated), config_.lengthPenalty);
}

bool BeamSearch::collect(size_t beam, std::span<const float> row, Diagnostics& diagnostics) {
  const Beam& b = live_[beam];
  std::optional<std::span<const double>> logits = sampler_.process(config_, row, b.history, promptLength_, diagnostics);
  if (!logits) return false;
  double maximum = *std::max_element(logits->begin(), logits->end()), sum = 0;
  for (double l : *logits) sum += std::exp(l - maximum);
  double normalizer = maximum + std::log(sum);
  auto candidate = [&](size_t t) {
    double logProb = b.logProb + ((*logits)[t] - normalizer);
    return Candidate{logProb, logProb, static_cast<int32_t>(beam), static_cast<TokenId>(t)};
  };
  if (config_.beamSearchDiversityRate == 0) {
    for (size_t t = 0; t < logits->size(); ++t) offer(candidate(t));
    return true;
  }
  std::vector<Candidate> siblings;
  for (size_t t = 0; t < logits->size(); ++t) siblings.push_back(candidate(t));
  std::sort(siblings.begin(), siblings.end(), [](const Candidate& a, const Candidate& b) { return below(b, a); });
  for (size_t i = 0; i < siblings.size(); ++i) {
    siblings[i].rank -= config_.beamSearchDiversityRate * static_cast<double>(i);
    offer(siblings[i]);
  }
  return true;
}

// The candidates are a heap with the worst on top once there are as many as can matter.
void BeamSearch::offer(const Candidate& c) {
  auto above = [](const Candidate& a, const Candidate& b) { return below(b, a); };
  if (c.logProb == -std::numeric_limits<double>::infinity()) return;
  if (candidates_.size() < mostCandidates_) {
    candidates_.push_back(c);
    if (candidates_.size() == mostCandidates_) std::make_heap(candidates_.begin(), candidates_.end(), above);
  } else if (below(candidates_.front(), c)) {
    std::pop_heap(candidates_.begin(), candidates_.end(), above);
    candidates_.back() = c;
    std::push_heap(candidates_.begin(), candidates_.end(), above);
  }
}

void BeamSearch::finish(const Beam& beam, bool ended) {
  size_t generated = beam.history.size() - promptLength_;
  Hypothesis h{{beam.history.begin() + static_cast<ptrdiff_t>(promptLength_), beam.history.end()},
               beam.logProb,
               score(beam.logProb, generated),
               ended};
  auto worse = std::find_if(finished_.begin(), finished_.end(), [&](const Hypothesis& f) { return f.score < h.score; });
  finished_.insert(worse, std::move(h));
  if (finished_.size() > static_cast<size_t>(config_.beamWidth)) finished_.pop_back();
}

bool BeamSearch::nothingBetter() const {
  if (live_.empty()) return true;
  if (finished_.size() < static_cast<size_t>(config_.beamWidth)) return false;
  if (config_.earlyStopping == 1) return true;
  size_t length = live_[0].history.size() - promptLength_;
  if (config_.earlyStopping != 0 && config_.lengthPenalty > 0) length = static_cast<size_t>(maxNewTokens_);
  double best = -std::numeric_limits<double>::infinity();
  for (const Beam& b : live_) best = std::max(best, score(b.logProb, length));
  return finished_.back().score >= best;
}

Result<BeamStep> BeamSearch::step(std::span<const float> logits, Diagnostics& diagnostics) {
  TS_CHECK(!done_ && logits.size() % live_.size() == 0);
  size_t vocabulary = logits.size() / live_.size();
  const size_t width = static_cast<size_t>(config_.beamWidth);
  candidates_.clear();
  // No more than this many continuations of a beam end its text.
  size_t ends = 1 + config_.stopIds.size() + config_.stopWords.size();
  mostCandidates_ = width + live_.size() * ends;
  for (size_t b = 0; b < live_.size(); ++b)
    if (!collect(b, logits.subspan(b * vocabulary, vocabulary), diagnostics)) return Failed{};
  std::make_heap(candidates_.begin(), candidates_.end(), below);

  BeamStep step;
  std::vector<Beam> next;
  for (size_t place = 0; !candidates_.empty() && next.size() < width; ++place) {
    std::pop_heap(candidates_.begin(), candidates_.end(), below);
    Candidate c = candidates_.back();
    candidates_.pop_back();
    Beam beam{live_[static_cast<size_t>(c.beam)].history, c.logProb};
    beam.history.push_back(c.token);
    if (endsText(config_, TokenSpan(beam.history).subspan(promptLength_))) {
      if (place < width) finish(beam, true);
      continue;
    }
    step.parents.push_back(c.beam);
    step.tokens.push_back(c.token);
    next.push_back(std::move(beam));
  }
  live_ = std::move(next);
  done_ = nothingBetter();
  if (!done_ && static_cast<int64_t>(live_[0].history.size() - promptLength_) >= maxNewTokens_) {
    for (const Beam& b : live_) finish(b, false);
    done_ = true;
  }
  if (done_) {
    live_.clear();
    return BeamStep{};
  }
  return step;
}

std::vector<Hypothesis> BeamSearch::hypotheses() const { return finished_; }

CacheIndirection::CacheIndirection(int64_t beams, int64_t capacity)
    : capacity_(capacity), table_(static_cast<size_t>(beams * capacity)), previous_(table_.size()) {}

void CacheIndirection::follow(std::span<const int32_t> parents, int64_t length) {
  TS_CHECK(length < capacity_ && parents.size() * static_cast<size_t>(capacity_) <= table_.size());
  previous_ = table_;
  for (size_t b = 0; b < parents.size(); ++b) {
    auto row = table_.begin() + static_cast<ptrdiff_t>(b) * capacity_;
    std::copy_n(previous_.begin() + parents[b] * capacity_, length, row);
    row[length] = static_cast<int32_t>(b);
  }
}

}  // namespace tscompile
