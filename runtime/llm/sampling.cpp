// Sampling: checks of the parameters, the steps that change logits, the draw.
#include "runtime/llm/sampling.h"

#include "ir/values/random.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace tscompile {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Checks {
 public:
  explicit Checks(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void number(const char* name, double value, bool good, const char* expected) {
    if (!good) fail(fmt::format("{} is {}, expected {}", name, value, expected));
  }
  void integer(const char* name, int64_t value, int64_t low, int64_t high) {
    if (value < low)
      fail(fmt::format("{} is {}, expected at least {}", name, value, low));
    else if (value > high)
      fail(fmt::format("{} is {}, expected at most {}", name, value, high));
  }
  void token(const char* name, int64_t value, int64_t vocabulary) {
    if (value < 0 || (vocabulary > 0 && value >= vocabulary))
      fail(vocabulary > 0 ? fmt::format("{} has {}, which is no token: the vocabulary has {}", name, value, vocabulary)
                          : fmt::format("{} has {}, which is no token", name, value));
  }
  void words(const char* name, const std::vector<std::vector<TokenId>>& words, int64_t vocabulary) {
    for (const std::vector<TokenId>& word : words) {
      if (word.empty()) fail(fmt::format("{} has an empty sequence", name));
      for (TokenId t : word) token(name, t, vocabulary);
    }
  }
  void fail(std::string message) {
    diagnostics_.error(std::move(message), ErrorKind::Input);
    good_ = false;
  }
  bool good() const { return good_; }

 private:
  Diagnostics& diagnostics_;
  bool good_ = true;
};

bool inUnit(double value) { return value >= 0 && value <= 1; }
bool inUnitAboveZero(double value) { return value > 0 && value <= 1; }

double decayedTopP(const SamplingConfig& config, TokenSpan generated) {
  double p = config.topP;
  if (config.topPDecay == 1) return p;
  for (TokenId t : generated)
    p = t == config.topPResetIds ? config.topP : std::max(p * config.topPDecay, config.topPMin);
  return p;
}

bool endsWithWord(TokenSpan text, TokenSpan word) {
  return text.size() >= word.size() && std::equal(word.begin(), word.end(), text.end() - word.size());
}

class LogitSteps {
 public:
  LogitSteps(const SamplingConfig& config, TokenSpan history, size_t promptLength, std::span<double> logits)
      : config_(config), history_(history), promptLength_(promptLength), logits_(logits) {}

  void temperature() {
    if (config_.temperature == 0 || config_.temperature == 1) return;
    // Beyond all numbers, the greatest stays above the others.
    double greatest = logits_.empty() ? 0 : *std::max_element(logits_.begin(), logits_.end());
    if (std::isfinite(greatest) && !std::isfinite(greatest / config_.temperature))
      for (double& l : logits_) l -= greatest;
    for (double& l : logits_) l /= config_.temperature;
  }
  void repetition() {
    if (config_.repetitionPenalty == 1) return;
    for (auto [token, count] : counts(0)) {
      double& l = logits_[static_cast<size_t>(token)];
      l = l > 0 ? l / config_.repetitionPenalty : l * config_.repetitionPenalty;
    }
  }
  void presenceAndFrequency() {
    if (config_.presencePenalty == 0 && config_.frequencyPenalty == 0) return;
    size_t ignored = std::min(static_cast<size_t>(config_.promptIgnoreLength), promptLength_);
    for (auto [token, count] : counts(ignored)) {
      double& l = logits_[static_cast<size_t>(token)];
      l -= config_.presencePenalty;
      l -= config_.frequencyPenalty * static_cast<double>(count);
    }
  }
  void minLength() {
    if (static_cast<int64_t>(history_.size() - promptLength_) >= config_.minLength) return;
    if (config_.endId >= 0) ban(static_cast<TokenId>(config_.endId));
    for (TokenId t : config_.stopIds) ban(t);
  }
  void noRepeatNgram() {
    size_t n = static_cast<size_t>(std::max<int64_t>(config_.noRepeatNgramSize, 0));
    if (n == 0 || history_.size() < n) return;
    TokenSpan last = history_.last(n - 1);
    for (size_t i = 0; i + n <= history_.size(); ++i)
      if (std::equal(last.begin(), last.end(), history_.begin() + static_cast<ptrdiff_t>(i))) ban(history_[i + n - 1]);
  }
  void badWords() {
    for (const std::vector<TokenId>& word : config_.badWords)
      if (endsWithWord(history_, TokenSpan(word).first(word.size() - 1))) ban(word.back());
  }

 private:
  std::unordered_map<TokenId, int64_t> counts(size_t first) const {
    std::unordered_map<TokenId, int64_t> counts;
    for (TokenId t : history_.subspan(first))
      if (inVocabulary(t)) ++counts[t];
    return counts;
  }
  bool inVocabulary(TokenId token) const { return token >= 0 && static_cast<size_t>(token) < logits_.size(); }
  void ban(TokenId token) {
    if (inVocabulary(token)) logits_[static_cast<size_t>(token)] = -kInfinity;
  }

  const SamplingConfig& config_;
  TokenSpan history_;
  size_t promptLength_;
  std::span<double> logits_;
};

bool checkLogits(std::span<const float> logits, Diagnostics& diagnostics) {
  for (size_t i = 0; i < logits.size(); ++i)
    if (!(logits[i] < std::numeric_limits<float>::infinity())) {
      diagnostics.error(fmt::format("the model's logit of token {} is {}", i, logits[i]), ErrorKind::Model);
      return false;
    }
  return true;
}

double logSum(std::span<const float> logits, double& maximum) {
  maximum = -kInfinity;
  for (float l : logits) maximum = std::max(maximum, static_cast<double>(l));
  double sum = 0;
  for (float l : logits) sum += std::exp(static_cast<double>(l) - maximum);
  return std::log(sum);
}

TokenId argmax(std::span<const double> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

bool validateSampling(const SamplingConfig& c, int64_t vocabulary, Diagnostics& diagnostics) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  Checks check(diagnostics);
  check.integer("top_k", c.topK, 0, kMax);
  check.number("top_p", c.topP, inUnit(c.topP), "a number from 0 to 1");
  check.number("min_p", c.minP, inUnit(c.minP), "a number from 0 to 1");
  check.number("temperature", c.temperature, c.temperature >= 0 && c.temperature < kInfinity,
               "a finite number that is not negative");
  check.integer("min_new_tokens", c.minLength, 0, kMax);
  check.number("repetition_penalty", c.repetitionPenalty, c.repetitionPenalty > 0 && c.repetitionPenalty < kInfinity,
               "a finite number above 0");
  check.number("presence_penalty", c.presencePenalty, std::isfinite(c.presencePenalty), "a finite number");
  check.number("frequency_penalty", c.frequencyPenalty, std::isfinite(c.frequencyPenalty), "a finite number");
  check.integer("prompt_ignore_length", c.promptIgnoreLength, 0, kMax);
  check.integer("no_repeat_ngram_size", c.noRepeatNgramSize, 0, kMax);
  check.number("top_p_decay", c.topPDecay, inUnitAboveZero(c.topPDecay), "a number above 0 and at most 1");
  check.number("top_p_min", c.topPMin, inUnitAboveZero(c.topPMin), "a number above 0 and at most 1");
  if (c.topPResetIds != -1) check.token("top_p_reset_ids", c.topPResetIds, vocabulary);
  if (c.endId != -1) check.token("end_id", c.endId, vocabulary);
  for (TokenId t : c.stopIds) check.token("stop_ids", t, vocabulary);
  check.words("stop_words", c.stopWords, vocabulary);
  check.words("bad_words", c.badWords, vocabulary);
  check.integer("beam_width", c.beamWidth, 1, kMaxBeamWidth);
  check.number("beam_search_diversity_rate", c.beamSearchDiversityRate,
               c.beamSearchDiversityRate >= 0 && c.beamSearchDiversityRate < kInfinity,
               "a finite number that is not negative");
  check.number("length_penalty", c.lengthPenalty, std::isfinite(c.lengthPenalty), "a finite number");
  if (c.beamWidth > 1 && isRandom(c)) check.fail("beam search is not random: it takes no top_k, top_p or min_p");
  return check.good();
}

bool isRandom(const SamplingConfig& config) {
  return config.temperature != 0 && (config.topK > 0 || config.topP > 0 || config.minP > 0);
}

bool endsText(const SamplingConfig& config, TokenSpan generated) {
  if (generated.empty()) return false;
  TokenId last = generated.back();
  if (last == config.endId || std::find(config.stopIds.begin(), config.stopIds.end(), last) != config.stopIds.end())
    return true;
  return static_cast<int64_t>(generated.size()) >= config.minLength &&
         std::any_of(config.stopWords.begin(), config.stopWords.end(),
                     [&](const std::vector<TokenId>& word) { return endsWithWord(generated, word); });
}

std::optional<std::span<const double>> Sampler::process(const SamplingConfig& config, std::span<const float> logits,
                                                        TokenSpan history, size_t promptLength,
                                                        Diagnostics& diagnostics) {
  TS_CHECK(promptLength <= history.size());
  if (!checkLogits(logits, diagnostics)) return std::nullopt;
  logits_.assign(logits.begin(), logits.end());
  LogitSteps steps(config, history, promptLength, logits_);
  steps.temperature();
  steps.repetition();
  steps.presenceAndFrequency();
  steps.minLength();
  steps.noRepeatNgram();
  steps.badWords();
  if (std::all_of(logits_.begin(), logits_.end(), [](double l) { return l == -kInfinity; })) {
    diagnostics.error(fmt::format("no token may follow: all {} are banned or have the logit -inf", logits_.size()),
                      ErrorKind::Model);
    return std::nullopt;
  }
  return std::span<const double>(logits_);
}

bool Sampler::below(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit < b.logit : a.token > b.token;
}

Sampler::Candidate Sampler::nextBest() {
  std::pop_heap(heap_.begin(), heap_.end(), below);
  Candidate best = heap_.back();
  heap_.pop_back();
  return best;
}

// Fills the heap with the `count` best tokens that are possible.
void Sampler::collectBest(std::span<const double> logits, size_t count) {
  auto above = [](const Candidate& a, const Candidate& b) { return below(b, a); };  // the worst is on top
  heap_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    Candidate c{logits[i], static_cast<TokenId>(i)};
    if (c.logit == -kInfinity) continue;
    if (heap_.size() < count) {
      heap_.push_back(c);
      if (heap_.size() == count) std::make_heap(heap_.begin(), heap_.end(), above);
    } else if (below(heap_.front(), c)) {
      std::pop_heap(heap_.begin(), heap_.end(), above);
      heap_.back() = c;
      std::push_heap(heap_.begin(), heap_.end(), above);
    }
  }
  std::make_heap(heap_.begin(), heap_.end(), below);
}

// Fills kept_ with a beginning of the order by falling logit, and weights that are not scaled yet.
void Sampler::keepBeginning(const SamplingConfig& config, double topP, std::span<const double> logits) {
  collectBest(logits, config.topK > 0 ? static_cast<size_t>(config.topK) : logits.size() + 1);
  double maximum = heap_.front().logit, total = 0;
  auto weight = [&](const Candidate& c) { return std::exp(c.logit - maximum); };
  for (const Candidate& c : heap_) total += weight(c);

  kept_.clear();
  double mass = 0;
  while (!heap_.empty() && (mass <= topP * total || topP >= 1)) {
    Candidate c = nextBest();
    double w = weight(c);
    if (w < config.minP) break;
    kept_.push_back({c.token, w});
    mass += w;
  }
}

void Sampler::keepAll(std::span<const double> logits) {
  double maximum = *std::max_element(logits.begin(), logits.end());
  kept_.clear();
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] != -kInfinity) kept_.push_back({static_cast<TokenId>(i), std::exp(logits[i] - maximum)});
}

Result<std::vector<TokenProbability>> Sampler::distribution(const SamplingConfig& config, std::span<const float> logits,
                                                            TokenSpan history, size_t promptLength,
                                                            Diagnostics& diagnostics) {
  std::optional<std::span<const double>> processed = process(config, logits, history, promptLength, diagnostics);
  if (!processed) return Failed{};
  if (!isRandom(config)) return std::vector<TokenProbability>{{argmax(*processed), 1.0}};
  double topP = config.topP == 0 ? 1 : decayedTopP(config, history.subspan(promptLength));
  if (config.topK == 0 && topP >= 1 && config.minP == 0)
    keepAll(*processed);
  else
    keepBeginning(config, topP, *processed);
  double total = 0;
  for (const TokenProbability& k : kept_) total += k.probability;
  for (TokenProbability& k : kept_) k.probability /= total;
  return kept_;
}

Result<Sampled> Sampler::sample(const SamplingConfig& config, std::span<const float> logits, TokenSpan history,
                                size_t promptLength, Diagnostics& diagnostics) {
  Result<std::vector<TokenProbability>> from = distribution(config, logits, history, promptLength, diagnostics);
  if (!from) return Failed{};
  uint64_t drawn = random::bits(random::bits(config.randomSeed, 0), history.size() - promptLength);
  double u = random::uniform(drawn), sum = 0;
  Sampled sampled{from->back().token, 0};  // should rounding keep the sum of all below u
  for (const TokenProbability& p : *from)
    if ((sum += p.probability) > u) {
      sampled.token = p.token;
      break;
    }
  if (config.logProbs) sampled.logProb = logProbability(logits, sampled.token);
  return sampled;
}

double logProbability(std::span<const float> logits, TokenId token) {
  double maximum, sum = logSum(logits, maximum);
  return static_cast<double>(logits[static_cast<size_t>(token)]) - maximum - sum;
}

}  // namespace tscompile
