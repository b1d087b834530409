#include "runtime/llm/beam_search.h"

#include "ir/values/random.h"
#include "tests/support/json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace tscompile::test {
namespace {

using Logits = std::function<std::vector<float>(TokenSpan history)>;

std::vector<Hypothesis> search(const SamplingConfig& config, std::vector<TokenId> prompt, int64_t most,
                               const Logits& model) {
  BeamSearch beams(config, prompt, most);
  Diagnostics diagnostics;
  while (!beams.done()) {
    std::vector<float> rows;
    std::vector<std::vector<TokenId>> before;
    for (size_t b = 0; b < beams.live(); ++b) {
      before.emplace_back(beams.history(b).begin(), beams.history(b).end());
      std::vector<float> row = model(beams.history(b));
      rows.insert(rows.end(), row.begin(), row.end());
    }
    Result<BeamStep> step = beams.step(rows, diagnostics);
    EXPECT_TRUE(step);
    if (!step) break;
    EXPECT_EQ(step->parents.size(), beams.live());
    for (size_t b = 0; b < beams.live(); ++b) {  // parents and tokens say how histories grew
      std::vector<TokenId> grown = before[static_cast<size_t>(step->parents[b])];
      grown.push_back(step->tokens[b]);
      EXPECT_TRUE(std::equal(grown.begin(), grown.end(), beams.history(b).begin(), beams.history(b).end()));
    }
  }
  return beams.hypotheses();
}

// All texts of at most `most` tokens with their scores, best first.
std::vector<Hypothesis> allTexts(const SamplingConfig& config, std::vector<TokenId> prompt, int64_t most,
                                 const Logits& model) {
  std::vector<Hypothesis> out;
  Sampler sampler;
  std::function<void(std::vector<TokenId>&, double)> visit = [&](std::vector<TokenId>& history, double total) {
    Diagnostics diagnostics;
    auto row = sampler.process(config, model(history), history, prompt.size(), diagnostics);
    std::vector<double> l(row->begin(), row->end());
    double sum = 0;
    for (double x : l) sum += std::exp(x);
    for (size_t t = 0; t < l.size(); ++t) {
      if (std::isinf(l[t])) continue;
      double next = total + l[t] - std::log(sum);
      history.push_back(static_cast<TokenId>(t));
      size_t n = history.size() - prompt.size();
      bool ended = endsText(config, TokenSpan(history).subspan(prompt.size()));
      if (ended || static_cast<int64_t>(n) == most)
        out.push_back({{history.begin() + static_cast<ptrdiff_t>(prompt.size()), history.end()},
                       next,
                       next / std::pow(static_cast<double>(n), config.lengthPenalty),
                       ended});
      else
        visit(history, next);
      history.pop_back();
    }
  };
  std::vector<TokenId> history = prompt;
  visit(history, 0);
  std::sort(out.begin(), out.end(), [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  return out;
}

// Logits that depend on the whole history.
Logits hashModel(uint64_t seed, size_t vocabulary) {
  return [=](TokenSpan history) {
    uint64_t hash = seed;
    for (TokenId t : history) hash = random::bits(hash, static_cast<uint64_t>(t));
    std::vector<float> logits(vocabulary);
    for (size_t t = 0; t < vocabulary; ++t)
      logits[t] = static_cast<float>(random::normal(random::bits(hash, 1000 + t)));
    return logits;
  };
}

}  // namespace

// With room for every text the search is exact.
TEST(BeamSearch, WideBeamsFindWhatBruteForceFinds) {
  for (int64_t most = 1; most <= 5; ++most)
    for (double lengthPenalty : {0.0, 1.0, 2.0, -1.0})
      for (uint64_t seed = 0; seed < 5; ++seed) {
        SamplingConfig config;
        config.beamWidth = 600;
        config.endId = 0;
        config.lengthPenalty = lengthPenalty;
        config.earlyStopping = static_cast<int64_t>(seed % 3);
        if (seed == 0) config.stopIds = {1}, config.stopWords = {{2, 3}};
        if (seed == 1) config.repetitionPenalty = 1.4;
        if (seed == 2) config.frequencyPenalty = 0.7;
        if (seed == 3) config.minLength = 3;
        if (seed == 4) config.noRepeatNgramSize = 2, config.temperature = 0.6;
        Logits model = hashModel(seed * 31 + static_cast<uint64_t>(most), 4);
        std::vector<TokenId> prompt{2, 3};
        std::vector<Hypothesis> wanted = allTexts(config, prompt, most, model);
        std::vector<Hypothesis> found = search(config, prompt, most, model);
        ASSERT_EQ(found.size(), wanted.size());
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(found[i].tokens, wanted[i].tokens);
          EXPECT_NEAR(found[i].score, wanted[i].score, 1e-9);
          EXPECT_NEAR(found[i].logProb, wanted[i].logProb, 1e-9);
          EXPECT_EQ(found[i].ended, wanted[i].ended);
        }
      }
}

TEST(BeamSearch, FollowsItsDefinition) {
  Json cases = readJson(std::string(TSCOMPILE_TESTS_DIR) + "/data/llm/beams.json");
  ASSERT_EQ(cases.size(), 60u);
  for (const Json& c : cases.items) {
    const Json& json = c["config"];
    SamplingConfig config;
    config.beamWidth = static_cast<int64_t>(json["beamWidth"].number);
    config.endId = 0;
    config.lengthPenalty = json["lengthPenalty"].number;
    config.earlyStopping = static_cast<int64_t>(json["earlyStopping"].number);
    config.beamSearchDiversityRate = json["beamSearchDiversityRate"].number;
    if (json.has("repetitionPenalty")) config.repetitionPenalty = json["repetitionPenalty"].number;
    for (const Json& t : json["stopIds"].items) config.stopIds.push_back(static_cast<TokenId>(t.number));
    if (json.has("minLength")) config.minLength = static_cast<int64_t>(json["minLength"].number);
    size_t vocabulary = static_cast<size_t>(c["vocabulary"].number);
    std::vector<Hypothesis> found =
        search(config, {1, 2}, static_cast<int64_t>(c["most"].number), [&](TokenSpan history) {
          size_t last = history.size() - 1;
          size_t at =
              (static_cast<size_t>(history[last - 1]) * vocabulary + static_cast<size_t>(history[last])) * vocabulary;
          std::vector<float> row;
          for (size_t t = 0; t < vocabulary; ++t) row.push_back(static_cast<float>(c["table"][at + t].number));
          return row;
        });
    ASSERT_EQ(found.size(), c["texts"].size());
    for (size_t i = 0; i < found.size(); ++i) {
      std::vector<TokenId> text;
      for (const Json& t : c["texts"][i].items) text.push_back(static_cast<TokenId>(t.number));
      EXPECT_EQ(found[i].tokens, text);
      EXPECT_NEAR(found[i].score, c["scores"][i].number, 1e-9);
      EXPECT_EQ(found[i].ended, c["ended"][i].boolean);
    }
  }
}

TEST(BeamSearch, OneBeamIsGreedy) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Logits model = hashModel(seed, 6);
    SamplingConfig config;
    config.endId = 0;
    std::vector<TokenId> history{4}, greedy;
    Sampler sampler;
    Diagnostics diagnostics;
    while (greedy.size() < 12 && !endsText(config, greedy)) {
      greedy.push_back(sampler.sample(config, model(history), history, 1, diagnostics)->token);
      history.push_back(greedy.back());
    }
    EXPECT_EQ(search(config, {4}, 12, model).at(0).tokens, greedy);
  }
}

// Reading keys by the table gives each beam its own history.
TEST(BeamSearch, CacheIndirectionFollowsParents) {
  constexpr int64_t kBeams = 3, kCapacity = 40;
  CacheIndirection indirection(kBeams, kCapacity);
  std::vector<std::vector<int>> histories(kBeams), cache(kBeams, std::vector<int>(kCapacity));
  uint64_t drawn = 0;
  for (int64_t length = 0; length < kCapacity; ++length) {
    std::vector<int32_t> parents;
    std::vector<std::vector<int>> next;
    for (int b = 0; b < kBeams; ++b) {
      parents.push_back(static_cast<int32_t>(random::bits(3, ++drawn) % kBeams));
      next.push_back(histories[static_cast<size_t>(parents.back())]);
      next.back().push_back(static_cast<int>(length * 10 + b));
      cache[static_cast<size_t>(b)][static_cast<size_t>(length)] = static_cast<int>(length * 10 + b);
    }
    histories = next;
    indirection.follow(parents, length);
    for (size_t b = 0; b < kBeams; ++b)
      for (size_t t = 0; t <= static_cast<size_t>(length); ++t)
        ASSERT_EQ(cache[static_cast<size_t>(indirection.table()[b * kCapacity + t])][t], histories[b][t]);
  }
}

}  // namespace tscompile::test
