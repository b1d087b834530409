#include "runtime/llm/sampling.h"

#include "ir/support/diagnostic_printer.h"
#include "ir/values/random.h"
#include "tests/support/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace tscompile::test {
namespace {

std::vector<TokenId> tokens(const Json& list) {
  std::vector<TokenId> out;
  for (const Json& t : list.items) out.push_back(static_cast<TokenId>(t.number));
  return out;
}

SamplingConfig configOf(const Json& json) {
  SamplingConfig c;
  auto real = [&](const char* name, double& value) {
    if (json.has(name)) value = json[name].number;
  };
  auto whole = [&](const char* name, int64_t& value) {
    if (json.has(name)) value = static_cast<int64_t>(json[name].number);
  };
  real("topP", c.topP), real("minP", c.minP), real("temperature", c.temperature);
  real("repetitionPenalty", c.repetitionPenalty), real("presencePenalty", c.presencePenalty);
  real("frequencyPenalty", c.frequencyPenalty), real("topPDecay", c.topPDecay), real("topPMin", c.topPMin);
  whole("topK", c.topK), whole("minLength", c.minLength), whole("promptIgnoreLength", c.promptIgnoreLength);
  whole("noRepeatNgramSize", c.noRepeatNgramSize), whole("topPResetIds", c.topPResetIds), whole("endId", c.endId);
  if (json.has("stopIds")) c.stopIds = tokens(json["stopIds"]);
  if (json.has("badWords"))
    for (const Json& word : json["badWords"].items) c.badWords.push_back(tokens(word));
  return c;
}

struct Row {
  SamplingConfig config;
  std::vector<float> logits;
  std::vector<TokenId> history;
  size_t prompt;
};

Row rowOf(const Json& c) {
  Row row{configOf(c["config"]), {}, tokens(c["history"]), static_cast<size_t>(c["prompt"].number)};
  for (const Json& l : c["logits"].items) row.logits.push_back(static_cast<float>(l.number));
  return row;
}

Json goldens() { return readJson(std::string(TSCOMPILE_TESTS_DIR) + "/data/llm/sampling.json"); }

const std::vector<float> kLogits = {0.5f, 2.0f, -1.0f, 1.5f, 0.0f};

std::string messages(const SamplingConfig& config, int64_t vocabulary) {
  Diagnostics diagnostics(0);
  EXPECT_FALSE(validateSampling(config, vocabulary, diagnostics));
  std::string out;
  for (const Diagnostic& d : diagnostics.list()) out += d.message + "\n";
  return out;
}

}  // namespace

TEST(Sampling, DistributionsAreTheFormulas) {
  Json cases = goldens();
  ASSERT_GT(cases.size(), 150u);
  Sampler sampler;
  for (const Json& c : cases.items) {
    Row row = rowOf(c);
    Diagnostics diagnostics;
    ASSERT_TRUE(validateSampling(row.config, 12, diagnostics));
    auto found = sampler.distribution(row.config, row.logits, row.history, row.prompt, diagnostics);
    ASSERT_TRUE(found);
    std::map<TokenId, double> wanted, got;
    for (size_t i = 0; i < c["tokens"].size(); ++i)
      wanted[static_cast<TokenId>(c["tokens"][i].number)] = c["probabilities"][i].number;
    double sum = 0;
    for (const TokenProbability& p : *found) sum += got[p.token] = p.probability;
    ASSERT_EQ(wanted.size(), got.size());
    for (auto [token, probability] : wanted) {
      ASSERT_TRUE(got.count(token));
      EXPECT_NEAR(got[token], probability, 1e-12);
    }
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

// Frequencies over seeds, by the chi-squared statistic.
TEST(Sampling, FrequenciesFollowProbabilities) {
  Json cases = goldens();
  Sampler sampler;
  constexpr int kSeeds = 4000;
  for (size_t i = 0; i < cases.size(); i += 5) {
    Row row = rowOf(cases[i]);
    Diagnostics diagnostics;
    auto wanted = sampler.distribution(row.config, row.logits, row.history, row.prompt, diagnostics);
    std::map<TokenId, int> drawn;
    for (int seed = 0; seed < kSeeds; ++seed) {
      row.config.randomSeed = static_cast<uint64_t>(seed);
      ++drawn[sampler.sample(row.config, row.logits, row.history, row.prompt, diagnostics)->token];
    }
    double chi = 0;
    for (const TokenProbability& p : *wanted) {
      double expected = p.probability * kSeeds, seen = drawn[p.token];
      if (expected >= 5) chi += (seen - expected) * (seen - expected) / expected;
    }
    EXPECT_EQ(drawn.size(), wanted->size()) << i;
    EXPECT_LT(chi, 45) << i;  // 11 degrees of freedom: exceeded once in 200,000
  }
}

TEST(Sampling, StepsOfOneSeedAreIndependent) {
  SamplingConfig config;
  config.topP = 1;
  std::vector<float> logits(2, 0.f);
  Sampler sampler;
  Diagnostics diagnostics;
  int ones = 0, changes = 0, last = 0;
  std::vector<TokenId> history{0};
  for (int i = 0; i < 4000; ++i) {
    TokenId t = sampler.sample(config, logits, history, 1, diagnostics)->token;
    ones += t;
    changes += t != last;
    last = t;
    history.push_back(t);
  }
  EXPECT_NEAR(ones, 2000, 130);
  EXPECT_NEAR(changes, 2000, 130);
}

TEST(Sampling, DrawsByTheDocumentedNumber) {
  SamplingConfig config;
  config.topP = 1;
  config.randomSeed = 42;
  Sampler sampler;
  Diagnostics diagnostics;
  std::vector<TokenId> history{1, 2, 3, 4};
  auto p = sampler.distribution(config, kLogits, history, 2, diagnostics);
  double u = random::uniform(random::bits(random::bits(42, 0), 2)), sum = 0;
  size_t i = 0;
  while ((sum += (*p)[i].probability) <= u) ++i;
  EXPECT_EQ(sampler.sample(config, kLogits, history, 2, diagnostics)->token, (*p)[i].token);
}

TEST(Sampling, GreedyTakesTheFirstOfEquals) {
  Sampler sampler;
  Diagnostics diagnostics;
  std::vector<float> logits{1, 3, 3, 2};
  EXPECT_EQ(sampler.sample({}, logits, {}, 0, diagnostics)->token, 1);
}

// Quotients that are no numbers: the greatest is left, as ever lower temperatures have it.
TEST(Sampling, TheLowestTemperaturesAreGreedy) {
  Sampler sampler;
  Diagnostics diagnostics;
  for (std::vector<float> logits : {std::vector<float>{1, 3, 2}, {-3, -1, -2}, {-1, 0, -2}}) {
    SamplingConfig config;
    config.temperature = 1e-320;
    config.topP = 0.9;
    auto p = sampler.distribution(config, logits, {}, 0, diagnostics);
    ASSERT_TRUE(p);
    ASSERT_EQ(p->size(), 1u);
    EXPECT_EQ((*p)[0].token, 1);
    EXPECT_EQ((*p)[0].probability, 1);
  }
}

TEST(Sampling, ThresholdsAreExceededNotMet) {
  Sampler sampler;
  Diagnostics diagnostics;
  std::vector<float> logits{1, 1, -100};
  auto kept = [&](double topP, double minP) {
    SamplingConfig config;
    config.topP = topP;
    config.minP = minP;
    return sampler.distribution(config, logits, {}, 0, diagnostics)->size();
  };
  EXPECT_EQ(kept(0.49, 0), 1u);
  EXPECT_EQ(kept(0.5, 0), 2u);  // the first token's 0.5 does not exceed it
  EXPECT_EQ(kept(0, 1), 2u);
  EXPECT_EQ(kept(0.9, 0.5), 2u);
}

TEST(Sampling, LogProbabilitiesAreTheModelsOwn) {
  SamplingConfig config;
  config.temperature = 0.1;
  config.topK = 1;
  config.logProbs = true;
  double sum = 0;
  for (float l : kLogits) sum += std::exp(static_cast<double>(l));
  Sampler sampler;
  Diagnostics diagnostics;
  Result<Sampled> s = sampler.sample(config, kLogits, {}, 0, diagnostics);
  EXPECT_EQ(s->token, 1);
  EXPECT_NEAR(s->logProb, 2 - std::log(sum), 1e-12);
}

TEST(Sampling, EndsTexts) {
  SamplingConfig config;
  config.endId = 9;
  config.stopIds = {7, 8};
  config.stopWords = {{1, 2}, {3}};
  auto ends = [&](std::vector<TokenId> generated) { return endsText(config, generated); };
  EXPECT_FALSE(ends({}));
  EXPECT_FALSE(ends({1}));
  EXPECT_FALSE(ends({1, 2, 1}));
  EXPECT_FALSE(ends({9, 1}));
  EXPECT_TRUE(ends({9}));
  EXPECT_TRUE(ends({5, 8}));
  EXPECT_TRUE(ends({5, 1, 2}));
  EXPECT_TRUE(ends({3}));
  config.minLength = 2;
  EXPECT_FALSE(ends({3}));
  EXPECT_TRUE(ends({4, 3}));
}

TEST(Sampling, ReportsAllProblemsAtOnce) {
  SamplingConfig c;
  c.topK = -1;
  c.topP = 1.5;
  c.minP = std::nan("");
  c.temperature = -1;
  c.minLength = -2;
  c.repetitionPenalty = 0;
  c.presencePenalty = std::numeric_limits<double>::infinity();
  c.noRepeatNgramSize = -1;
  c.topPDecay = 0;
  c.topPMin = 2;
  c.endId = 10;
  c.stopIds = {-3};
  c.badWords = {{}, {1, 99}};
  c.beamWidth = 0;
  c.lengthPenalty = std::nan("");
  EXPECT_EQ(messages(c, 10),
            "top_k is -1, expected at least 0\n"
            "top_p is 1.5, expected a number from 0 to 1\n"
            "min_p is nan, expected a number from 0 to 1\n"
            "temperature is -1, expected a finite number that is not negative\n"
            "min_new_tokens is -2, expected at least 0\n"
            "repetition_penalty is 0, expected a finite number above 0\n"
            "presence_penalty is inf, expected a finite number\n"
            "no_repeat_ngram_size is -1, expected at least 0\n"
            "top_p_decay is 0, expected a number above 0 and at most 1\n"
            "top_p_min is 2, expected a number above 0 and at most 1\n"
            "end_id has 10, which is no token: the vocabulary has 10\n"
            "stop_ids has -3, which is no token: the vocabulary has 10\n"
            "bad_words has an empty sequence\n"
            "bad_words has 99, which is no token: the vocabulary has 10\n"
            "beam_width is 0, expected at least 1\n"
            "length_penalty is nan, expected a finite number\n");
  SamplingConfig beams;
  beams.beamWidth = 2000;
  beams.topK = 3;
  EXPECT_EQ(messages(beams, 0),
            "beam_width is 2000, expected at most 1024\n"
            "beam search is not random: it takes no top_k, top_p or min_p\n");
}

TEST(Sampling, RefusesLogitsWithoutMeaning) {
  Sampler sampler;
  Diagnostics diagnostics;
  std::vector<float> bad{1, std::nanf(""), 2};
  EXPECT_FALSE(sampler.sample({}, bad, {}, 0, diagnostics));
  EXPECT_EQ(diagnostics.list().back().message, "the model's logit of token 1 is nan");
  EXPECT_EQ(diagnostics.firstErrorKind(), ErrorKind::Model);
  bad[1] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(sampler.sample({}, bad, {}, 0, diagnostics));
  SamplingConfig none;
  none.badWords = {{0}, {1}, {2}};
  std::vector<float> good{1, 2, 3};
  EXPECT_FALSE(sampler.sample(none, good, {}, 0, diagnostics));
  EXPECT_EQ(diagnostics.list().back().message, "no token may follow: all 3 are banned or have the logit -inf");
}

}  // namespace tscompile::test
