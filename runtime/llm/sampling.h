// From a row of logits to the next token. Everything is a pure function of the parameters, the logits and the tokens so
// far: no state survives a step, so a request that starts anew, alone or beside others, gets the same tokens.
//
// Let l be the logits of one position (one f32 for each token of the vocabulary), h the tokens so far, prompt included,
// g the generated ones among them. Computed in f64, in this order, which is that of TensorRT-LLM's penalty kernel:
//
//   1 temperature         l_t = l_t / temperature (left out for 0, which means greedy)
//   2 repetitionPenalty   t in h: l_t = l_t > 0 ? l_t / r : l_t * r      (Keskar et al. 2019, section 4.1)
//   3 presencePenalty     t in h': l_t = l_t - presence                  h' = h without its first promptIgnoreLength
//   4 frequencyPenalty    l_t = l_t - frequency * (how often t is in h')
//   5 minLength           |g| < minLength: l_t = -inf for endId and stopIds
//   6 noRepeatNgramSize   n > 0: l_t = -inf if the last n - 1 tokens of h followed by t are somewhere in h
//   7 badWords            l_t = -inf if h followed by t ends in a bad word
//   8 topK, topP, minP, temperature 0: if none asks for chance, the token is argmax l. Otherwise tokens are sorted by
//     falling l and only a beginning of that order is kept:
//       topK   the first topK
//       topP   p = softmax of l over what is left; tokens until their sum of p exceeds topP, that one included
//              (Holtzman et al. 2020)
//       minP   tokens with p >= minP * max p
//     The token is drawn from p over what is kept, scaled to 1: the first whose sum of p exceeds u in [0, 1). If
//     nothing is cut off the sum runs in the order of the vocabulary.
//   9 u = random::uniform(random::bits(random::bits(randomSeed, 0), |g|)), see ir/values/random.h
//
// Among equal logits the lower token comes first.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/result.h"
#include "runtime/llm/tokens.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tscompile {

// The defaults are greedy. Names are those of TensorRT-LLM's SamplingConfig.
struct SamplingConfig {
  int64_t topK = 0;                // 0: off
  double topP = 0;                 // 0 to 1; 0 and 1: off, but 1 asks for chance
  double minP = 0;                 // 0 to 1; 0: off
  double temperature = 1;          // 0: greedy
  int64_t minLength = 0;           // generated tokens before one may end the text
  double repetitionPenalty = 1;    // above 0
  double presencePenalty = 0;      // any finite number
  double frequencyPenalty = 0;     // any finite number
  int64_t promptIgnoreLength = 0;  // first tokens of the prompt that presence and frequency do not count
  int64_t noRepeatNgramSize = 0;   // 0: off
  uint64_t randomSeed = 0;

  // topP falls from token to token: topP_0 = topP, topP_{i+1} = max(topP_i * topPDecay, topPMin), and is topP again
  // after the token topPResetIds (Lee et al. 2022, factual nucleus sampling).
  double topPDecay = 1;       // above 0, at most 1
  double topPMin = 1e-6;      // above 0, at most 1
  int64_t topPResetIds = -1;  // -1: no token

  // What ends a text; the token or word is part of the result.
  int64_t endId = -1;  // -1: no token
  std::vector<TokenId> stopIds;
  std::vector<std::vector<TokenId>> stopWords;  // sequences of generated tokens
  std::vector<std::vector<TokenId>> badWords;   // sequences that must not come about

  // Beam search (beam_search.h), which takes no topK, topP, minP.
  int64_t beamWidth = 1;
  double beamSearchDiversityRate = 0;
  double lengthPenalty = 0;
  int64_t earlyStopping = 1;

  // Log-probabilities by the logits as the model gave them, before step 1.
  bool logProbs = false;
};

inline constexpr int64_t kMaxBeamWidth = 1024;

// Reports everything that is wrong with the parameters; `vocabulary` is the number of tokens, or 0 if it is not known.
bool validateSampling(const SamplingConfig& config, int64_t vocabulary, Diagnostics& diagnostics);

// Whether chance decides (step 8).
bool isRandom(const SamplingConfig& config);
// Whether the generated tokens so far end a text: by an end token or a stop word, not by their number.
bool endsText(const SamplingConfig& config, TokenSpan generated);

struct Sampled {
  TokenId token = 0;
  double logProb = 0;  // see SamplingConfig::logProbs; 0 if not asked for
};
struct TokenProbability {
  TokenId token = 0;
  double probability = 0;
};

// Keeps scratch memory between calls, nothing else. Not for several threads at once.
class Sampler {
 public:
  // Steps 1 to 7; the result is valid until the next call. Reports logits that are NaN or +inf, and a row in which no
  // token is possible, as failures of the model. `history` begins with `promptLength` tokens of the prompt.
  std::optional<std::span<const double>> process(const SamplingConfig& config, std::span<const float> logits,
                                                 TokenSpan history, size_t promptLength, Diagnostics& diagnostics);
  // The next token. The configuration must be valid.
  Result<Sampled> sample(const SamplingConfig& config, std::span<const float> logits, TokenSpan history,
                         size_t promptLength, Diagnostics& diagnostics);
  // What sample() draws from: tokens that are possible and their probabilities, in the order of the sum in step 8.
  Result<std::vector<TokenProbability>> distribution(const SamplingConfig& config, std::span<const float> logits,
                                                     TokenSpan history, size_t promptLength, Diagnostics& diagnostics);

 private:
  struct Candidate {
    double logit;
    TokenId token;
  };
  static bool below(const Candidate& a, const Candidate& b);
  Candidate nextBest();
  void collectBest(std::span<const double> logits, size_t count);
  void keepBeginning(const SamplingConfig& config, double topP, std::span<const double> logits);
  void keepAll(std::span<const double> logits);

  std::vector<double> logits_;
  std::vector<Candidate> heap_;
  std::vector<TokenProbability> kept_;
};

// log(softmax(logits)[token]), in f64.
double logProbability(std::span<const float> logits, TokenId token);

}  // namespace tscompile
