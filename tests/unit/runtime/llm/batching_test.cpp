#include "runtime/llm/batching.h"

#include "ir/values/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <set>
#include <stdexcept>

namespace tscompile::test {
namespace {

constexpr int64_t kVocabulary = 11;
constexpr TokenId kEnd = 0;

// A model whose every key depends on all tokens that its position sees, as those of upper layers do: hashes instead of
// sums. Keys are 64 bits, values are the keys turned round.
struct HashModel {
  static uint64_t key(TokenId token, int64_t position, std::span<const uint64_t> seen) {
    uint64_t hash = random::bits(static_cast<uint64_t>(token), static_cast<uint64_t>(position));
    for (uint64_t s : seen) hash = random::bits(hash, s);
    return hash;
  }
  static std::vector<float> logits(uint64_t key) {
    std::vector<float> row(kVocabulary);
    for (size_t t = 0; t < row.size(); ++t) row[t] = static_cast<float>(1.5 * random::normal(random::bits(key, t)));
    row[kEnd] -= 2;
    return row;
  }
  // Positions that position `p` sees before itself.
  static std::vector<int64_t> visible(const KvCacheConfig& c, int64_t p) {
    std::vector<int64_t> seen;
    for (int64_t t = 0; t < p; ++t)
      if (c.window == 0 || p < c.window || t < c.sinks || p - t < c.window - c.sinks) seen.push_back(t);
    return seen;
  }
  // After the last of the tokens, without any cache.
  static std::vector<float> alone(const KvCacheConfig& c, TokenSpan tokens) {
    std::vector<uint64_t> keys;
    for (size_t p = 0; p < tokens.size(); ++p) {
      std::vector<uint64_t> seen;
      for (int64_t t : visible(c, static_cast<int64_t>(p))) seen.push_back(keys[static_cast<size_t>(t)]);
      keys.push_back(key(tokens[p], static_cast<int64_t>(p), seen));
    }
    return logits(keys.back());
  }
};

// The same model, which knows of the past only what the block tables lead to.
class PagedModel : public StepModel {
 public:
  explicit PagedModel(const KvCacheConfig& config)
      : config_(config),
        unit_(static_cast<size_t>(config.tokensPerBlock)),
        cells_(static_cast<size_t>(config.blocks * config.layers * 2) * unit_) {}

  int64_t vocabularySize() const override { return kVocabulary; }

  Result<Tensor> step(const StepBatch& b, Diagnostics& diagnostics) override {
    checkBatch(b);
    bool fails = ++steps_ == failAt;
    for (TokenSpan text : b.texts) fails |= failsWith && failsWith(text);
    size_t block = static_cast<size_t>(config_.layers * 2) * unit_;
    for (BlockCopy c : b.copies)
      std::copy_n(cells_.begin() + c.from * static_cast<ptrdiff_t>(block), block,
                  cells_.begin() + c.to * static_cast<ptrdiff_t>(block));
    Tensor out = Tensor::empty(DType::Float32, Dims{b.rows(), kVocabulary});
    writers_.clear();
    std::vector<size_t> order(static_cast<size_t>(b.rows()));
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),  // rows know nothing of each other, so any order will do
              [&](size_t x, size_t y) { return random::bits(steps_, x) < random::bits(steps_, y); });
    for (size_t row : order) {
      std::vector<float> logits = runRow(b, row);
      if (hasNoLogits && hasNoLogits(b.texts[row])) logits[1] = NAN;
      std::copy(logits.begin(), logits.end(), out.data<float>() + static_cast<int64_t>(row) * kVocabulary);
    }
    if (!fails) return out;
    for (auto [cell, row] : writers_) cells_[cell] = 13;  // what it has written is worth nothing
    diagnostics.error("the model broke", ErrorKind::Model);
    return Failed{};
  }

  uint64_t failAt = 0;  // step
  // Of a text with which a step fails, and of one whose logits are no numbers.
  std::function<bool(TokenSpan)> failsWith, hasNoLogits;

 private:
  void checkBatch(const StepBatch& b) {
    size_t rows = static_cast<size_t>(b.rows());
    ASSERT_EQ(b.pastLengths.size(), rows);
    ASSERT_EQ(b.contextLengths.size(), rows);
    ASSERT_EQ(b.sequenceLengths.size(), rows);
    ASSERT_EQ(b.lastTokenIds.size(), rows);
    ASSERT_EQ(b.texts.size(), rows);
    ASSERT_EQ(b.blockTable.size(), rows * 2 * static_cast<size_t>(b.maxBlocks));
    ASSERT_TRUE(std::is_sorted(b.requestTypes.begin(), b.requestTypes.end()));
    ASSERT_EQ(b.tokens.size(), static_cast<size_t>(b.lastTokenIds.back()));
    int32_t last = 0;
    for (size_t i = 0; i < rows; ++i) {
      int32_t count = b.lastTokenIds[i] - last;
      ASSERT_EQ(count, b.sequenceLengths[i] - b.pastLengths[i]);
      if (b.requestTypes[i] == 0)
        ASSERT_EQ(count, b.contextLengths[i]);
      else
        ASSERT_EQ(count, 1);
      ASSERT_EQ(static_cast<int32_t>(b.texts[i].size()), b.sequenceLengths[i]);
      for (int32_t t = 0; t < count; ++t)
        ASSERT_EQ(b.tokens[static_cast<size_t>(last + t)], b.texts[i][static_cast<size_t>(b.pastLengths[i] + t)]);
      for (int32_t t = 0; t < count; ++t) ASSERT_EQ(b.positions[static_cast<size_t>(last + t)], b.pastLengths[i] + t);
      last = b.lastTokenIds[i];
    }
  }

  size_t cell(const StepBatch& b, size_t row, int64_t token, int64_t layer, bool value) const {
    int64_t slot = config_.slot(token), most = b.maxBlocks, entry = slot / config_.tokensPerBlock;
    TS_CHECK(entry < most);
    int64_t offset =
        b.blockTable[row * 2 * static_cast<size_t>(most) + static_cast<size_t>((value ? most : 0) + entry)];
    TS_CHECK(offset >= 0);
    return static_cast<size_t>(offset + 2 * layer) * unit_ + static_cast<size_t>(slot % config_.tokensPerBlock);
  }

  std::vector<float> runRow(const StepBatch& b, size_t row) {
    int64_t first = row == 0 ? 0 : b.lastTokenIds[row - 1];
    uint64_t key = 0;
    for (int64_t i = first; i < b.lastTokenIds[row]; ++i) {
      int64_t p = b.positions[static_cast<size_t>(i)];
      std::vector<uint64_t> seen;
      for (int64_t t : HashModel::visible(config_, p)) {
        int64_t layer = t % config_.layers;
        uint64_t k = cells_[cell(b, row, t, layer, false)];
        EXPECT_EQ(cells_[cell(b, row, t, layer, true)], ~k);
        seen.push_back(k);
      }
      key = HashModel::key(static_cast<TokenId>(b.tokens[static_cast<size_t>(i)]), p, seen);
      for (int64_t layer = 0; layer < config_.layers; ++layer) {
        size_t at = cell(b, row, p, layer, false);
        EXPECT_TRUE(writers_.emplace(at, row).first->second == row) << "two rows write to one place";
        cells_[at] = key;
        cells_[cell(b, row, p, layer, true)] = ~key;
      }
    }
    return HashModel::logits(key);
  }

  KvCacheConfig config_;
  size_t unit_;
  std::vector<uint64_t> cells_;
  std::map<size_t, size_t> writers_;
  uint64_t steps_ = 0;
};

struct Wanted {
  std::vector<TokenId> tokens;
  std::vector<Hypothesis> hypotheses;
  FinishReason reason;
};

// What a request gets if it is alone in the world and nothing is cached.
Wanted alone(const KvCacheConfig& cache, const Request& r, int64_t maxSequenceLength) {
  int64_t most = std::min(r.maxNewTokens, maxSequenceLength - static_cast<int64_t>(r.prompt.size()));
  Diagnostics diagnostics;
  Wanted out;
  if (r.sampling.beamWidth > 1) {
    BeamSearch search(r.sampling, r.prompt, most);
    while (!search.done()) {
      std::vector<float> rows;
      for (size_t b = 0; b < search.live(); ++b) {
        std::vector<float> row = HashModel::alone(cache, search.history(b));
        rows.insert(rows.end(), row.begin(), row.end());
      }
      EXPECT_TRUE(search.step(rows, diagnostics));
    }
    out.hypotheses = search.hypotheses();
    out.tokens = out.hypotheses.at(0).tokens;
    out.reason = out.hypotheses[0].ended ? FinishReason::EndToken : FinishReason::Length;
    return out;
  }
  Sampler sampler;
  std::vector<TokenId> history = r.prompt;
  while (true) {
    std::vector<float> logits = HashModel::alone(cache, history);
    out.tokens.push_back(sampler.sample(r.sampling, logits, history, r.prompt.size(), diagnostics)->token);
    history.push_back(out.tokens.back());
    out.reason = endsText(r.sampling, out.tokens)                  ? FinishReason::EndToken
                 : static_cast<int64_t>(out.tokens.size()) >= most ? FinishReason::Length
                                                                   : FinishReason::None;
    if (out.reason != FinishReason::None) return out;
  }
}

class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random::bits(seed_, ++drawn_) % static_cast<uint64_t>(high - low + 1));
  }
  bool oneIn(int64_t n) { return (*this)(1, n) == 1; }

 private:
  uint64_t seed_, drawn_ = 0;
};

Request randomRequest(Draws& draw, int64_t maxBeams) {
  Request r;
  int64_t common = draw(0, 2), length = draw(1, 24);
  for (int64_t i = 0; i < length; ++i)
    r.prompt.push_back(static_cast<TokenId>(i < 16 && common > 0 ? (i * common) % 7 + 1 : draw(1, kVocabulary - 1)));
  r.maxNewTokens = draw(1, 28);
  SamplingConfig& s = r.sampling;
  s.endId = kEnd;
  s.randomSeed = static_cast<uint64_t>(draw(0, 1000));
  if (maxBeams > 1 && draw.oneIn(4)) {
    s.beamWidth = draw(2, maxBeams);
    s.lengthPenalty = static_cast<double>(draw(0, 2));
    s.earlyStopping = draw(0, 2);
  } else if (!draw.oneIn(4)) {
    s.topP = 0.9;
    s.topK = draw(0, 6);
    s.topPDecay = 0.9;
  }
  if (draw.oneIn(3)) s.repetitionPenalty = 1.3;
  if (draw.oneIn(5)) s.noRepeatNgramSize = 3;
  if (draw.oneIn(5)) s.minLength = 4;
  return r;
}

KvCacheConfig cacheOf(int64_t blocks, int64_t tokensPerBlock) {
  KvCacheConfig c;
  c.layers = 2;
  c.headSize = 1;
  c.blocks = blocks;
  c.tokensPerBlock = tokensPerBlock;
  return c;
}

std::vector<TokenId> range(TokenId first, size_t count) {
  std::vector<TokenId> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = 1 + (first + static_cast<TokenId>(i)) % (kVocabulary - 1);
  return out;
}

Request simple(std::vector<TokenId> prompt, int64_t count) {
  Request r;
  r.prompt = std::move(prompt);
  r.maxNewTokens = count;
  return r;
}

std::string onlyMessage(const Diagnostics& diagnostics) {
  return diagnostics.list().size() == 1 ? diagnostics.list()[0].message : "(not one message)";
}

}  // namespace

// Sharing of beginnings, too few blocks, pieces of prompts, beams, windows, cancelling: what a request gets is what it
// gets alone.
TEST(Batching, CompositionChangesNothing) {
  int64_t restarts = 0, reused = 0, finished = 0, mostRows = 0;
  for (uint64_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Draws draw(seed);
    int64_t tokensPerBlock = int64_t{1} << draw(0, 3);
    KvCacheConfig cache = cacheOf((draw.oneIn(2) ? draw(44, 64) : draw(48, 140)) / tokensPerBlock, tokensPerBlock);
    if (draw.oneIn(3)) cache.window = draw(4, 20), cache.sinks = draw(0, 3), cache.oneMoreBlock = draw.oneIn(2);
    cache.reuse = !draw.oneIn(4);
    BatchLimits limits;
    limits.maxBatchSize = draw(2, 8);
    limits.maxNumTokens = limits.maxBatchSize + draw(0, 20);
    limits.maxSequenceLength = draw(28, 44);
    PagedModel model(cache);
    Diagnostics diagnostics;
    std::unique_ptr<Batcher> batcher = Batcher::make(model, cache, limits, diagnostics);
    ASSERT_TRUE(batcher);

    std::map<RequestId, Request> requests;
    std::map<RequestId, std::vector<TokenId>> heard;
    std::set<RequestId> cancelled;
    int64_t toAdd = draw(5, 25);
    while (toAdd > 0 || !batcher->idle()) {
      for (; toAdd > 0 && draw.oneIn(2); --toAdd) {
        Request r = randomRequest(draw, limits.maxBatchSize);
        Request kept = r;
        r.onToken = [&](const TokenEvent& e) {
          EXPECT_EQ(e.index, static_cast<int64_t>(heard[e.request].size()));
          heard[e.request].push_back(e.token);
          return true;
        };
        Diagnostics refused;
        Result<RequestId> id = batcher->add(std::move(r), refused);
        if (id)
          requests[*id] = kept;
        else
          EXPECT_EQ(refused.firstErrorKind(), ErrorKind::Limit);
      }
      if (!requests.empty() && draw.oneIn(25)) {
        RequestId id = std::next(requests.begin(), draw(0, static_cast<int64_t>(requests.size()) - 1))->first;
        if (batcher->cancel(id)) cancelled.insert(id);
      }
      batcher->step(diagnostics);
      ASSERT_EQ(batcher->cache().inconsistency(), "");
      ASSERT_LT(batcher->counters().steps, 5000);
    }
    EXPECT_EQ(batcher->cache().usedBlocks(), 0);
    EXPECT_EQ(batcher->cache().sequenceCount(), 0u);
    EXPECT_FALSE(diagnostics.hasErrors());
    for (const auto& [id, request] : requests) {
      SCOPED_TRACE(id);
      std::optional<RequestResult> result = batcher->take(id);
      ASSERT_TRUE(result);
      Wanted wanted = alone(cache, request, limits.maxSequenceLength);
      if (cancelled.count(id)) {
        EXPECT_EQ(result->reason, FinishReason::Cancelled);
        if (request.sampling.beamWidth == 1) {
          ASSERT_LE(result->tokens.size(), wanted.tokens.size());
          wanted.tokens.resize(result->tokens.size());
          EXPECT_EQ(result->tokens, wanted.tokens);
        }
        continue;
      }
      EXPECT_EQ(finishReasonName(result->reason), finishReasonName(wanted.reason));
      EXPECT_EQ(result->tokens, wanted.tokens);
      ASSERT_EQ(result->hypotheses.size(), wanted.hypotheses.size());
      for (size_t i = 0; i < wanted.hypotheses.size(); ++i) {
        EXPECT_EQ(result->hypotheses[i].tokens, wanted.hypotheses[i].tokens);
        EXPECT_EQ(result->hypotheses[i].score, wanted.hypotheses[i].score);
      }
      if (request.sampling.beamWidth == 1) {
        EXPECT_EQ(heard[id], wanted.tokens);
      }
      restarts += result->restarts;
      reused += result->reusedTokens;
      ++finished;
    }
    mostRows = std::max(mostRows, batcher->counters().mostRows);
  }
  // The cases really come up.
  EXPECT_GT(finished, 2000);
  EXPECT_GT(restarts, 200);
  EXPECT_GT(reused, 2000);
  EXPECT_EQ(mostRows, 8);
}

TEST(Batching, PromptsComeInPiecesBesideGeneration) {
  KvCacheConfig cache = cacheOf(40, 4);
  PagedModel model(cache);
  Diagnostics diagnostics;
  std::unique_ptr<Batcher> batcher = Batcher::make(model, cache, {4, 10, 100, 10}, diagnostics);
  RequestId first = *batcher->add(simple(range(0, 3), 30), diagnostics);
  batcher->step(diagnostics);
  EXPECT_EQ(batcher->result(first)->tokens.size(), 1u);
  RequestId second = *batcher->add(simple(range(5, 20), 5), diagnostics);
  for (size_t step = 2; step < 5; ++step) {  // 9, 9 and 2 tokens of the prompt
    EXPECT_TRUE(batcher->result(second)->tokens.empty());
    batcher->step(diagnostics);
    EXPECT_EQ(batcher->result(first)->tokens.size(), step);
  }
  EXPECT_EQ(batcher->result(second)->tokens.size(), 1u);
}

TEST(Batching, RequestsInFlightShareSteps) {
  KvCacheConfig cache = cacheOf(200, 4);
  PagedModel model(cache);
  Diagnostics diagnostics;
  std::unique_ptr<Batcher> batcher = Batcher::make(model, cache, {8, 512, 100, 100}, diagnostics);
  for (TokenId i = 0; i < 8; ++i) EXPECT_TRUE(batcher->add(simple(range(i, 10), 20), diagnostics));
  EXPECT_TRUE(batcher->run(diagnostics));
  EXPECT_EQ(batcher->counters().steps, 20);
  EXPECT_EQ(batcher->counters().contextTokens, 80);
  EXPECT_EQ(batcher->counters().generationTokens, 8 * 19);
}

TEST(Batching, RefusesWhatCannotBe) {
  KvCacheConfig cache = cacheOf(4, 4);
  PagedModel model(cache);
  Diagnostics setup;
  std::unique_ptr<Batcher> batcher = Batcher::make(model, cache, {3, 16, 64, 2}, setup);
  auto refusal = [&](Request r) {
    Diagnostics diagnostics;
    EXPECT_FALSE(batcher->add(std::move(r), diagnostics));
    return onlyMessage(diagnostics);
  };
  EXPECT_EQ(refusal(simple({}, 5)), "the prompt has no tokens");
  EXPECT_EQ(refusal(simple({1, 11}, 5)), "the prompt has 11, which is no token: the vocabulary has 11");
  EXPECT_EQ(refusal(simple({1}, 0)), "max_new_tokens is 0, expected at least 1");
  EXPECT_EQ(refusal(simple(range(0, 64), 1)),
            "the prompt has 64 tokens, which leaves none to generate: max_seq_len is 64");
  EXPECT_EQ(refusal(simple(range(0, 8), 10)),
            "can't allocate a new block for the KV cache: 8 prompt tokens and 10 new ones may need 5, 4 of 4 free");
  Request beams = simple({1}, 2);
  beams.sampling.beamWidth = 4;
  EXPECT_EQ(refusal(beams), "beamWidth is 4, but a step has at most 3 rows");
  beams.sampling.beamWidth = 3;
  EXPECT_EQ(refusal([&] {
              beams.maxNewTokens = 9;
              return beams;
            }()),
            "can't allocate a new block for the KV cache: 1 prompt token and 9 new ones may need 9, 4 of 4 free");
  Request several = simple({}, -1);
  several.sampling.topP = 3;
  Diagnostics diagnostics;
  EXPECT_FALSE(batcher->add(several, diagnostics));
  EXPECT_EQ(diagnostics.errorCount(), 3u);
  EXPECT_TRUE(batcher->add(simple(range(0, 8), 9), setup));  // 16 tokens are cached, the last new one is not
  EXPECT_TRUE(batcher->add(simple({1}, 1), setup));
  EXPECT_EQ(refusal(simple({1}, 1)), "2 requests wait already");
  EXPECT_TRUE(batcher->run(setup));
  EXPECT_EQ(batcher->cache().counters().peakUsed, 4);

  Diagnostics bad;
  EXPECT_FALSE(Batcher::make(model, cache, {0, 0, 1, 1}, bad));
  EXPECT_EQ(bad.errorCount(), 3u);
}

TEST(Batching, ACallbackThatThrowsEndsItsRequestAndNoOther) {
  KvCacheConfig cache = cacheOf(40, 4);
  PagedModel model(cache);
  Diagnostics diagnostics;
  std::unique_ptr<Batcher> batcher = Batcher::make(model, cache, {4, 16, 64, 100}, diagnostics);
  std::vector<int64_t> heard;
  Request bad = simple(range(0, 5), 8), good = simple(range(3, 5), 8);
  bad.onToken = [](const TokenEvent& e) -> bool {
    if (e.index == 2) throw std::runtime_error("callback");
    return true;
  };
  good.onToken = [&](const TokenEvent& e) {
    heard.push_back(e.index);
    return true;
  };
  RequestId first = *batcher->add(std::move(bad), diagnostics), second = *batcher->add(std::move(good), diagnostics);
  EXPECT_FALSE(batcher->run(diagnostics));
  ASSERT_EQ(diagnostics.errorCount(), 1u);
  EXPECT_NE(diagnostics.list().at(0).message.find("onToken of a request has thrown: callback"), std::string::npos);
  EXPECT_EQ(batcher->result(first)->reason, FinishReason::Failed);
  EXPECT_EQ(batcher->result(first)->tokens.size(), 3u);
  EXPECT_EQ(batcher->result(second)->reason, FinishReason::Length);
  EXPECT_EQ(heard, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Batching, CallbacksMayAddAndCancel) {
  KvCacheConfig cache = cacheOf(40, 4);
  PagedModel model(cache);
  Diagnostics diagnostics;
  std::unique_ptr<Batcher> batcher = Batcher::make(model, cache, {4, 16, 64, 100}, diagnostics);
  RequestId other = *batcher->add(simple(range(3, 5), 30), diagnostics), added = 0;
  Request r = simple(range(0, 5), 30);
  r.onToken = [&](const TokenEvent& e) {
    if (e.index == 1) {
      added = *batcher->add(simple(range(7, 5), 3), diagnostics);
      EXPECT_TRUE(batcher->cancel(other));
    }
    return e.index < 4;
  };
  RequestId id = *batcher->add(std::move(r), diagnostics);
  EXPECT_TRUE(batcher->run(diagnostics));
  EXPECT_EQ(batcher->result(id)->reason, FinishReason::Cancelled);
  EXPECT_EQ(batcher->result(id)->tokens.size(), 5u);
  EXPECT_EQ(batcher->result(other)->reason, FinishReason::Cancelled);
  EXPECT_EQ(batcher->result(added)->reason, FinishReason::Length);
  EXPECT_FALSE(batcher->cancel(id));
  EXPECT_FALSE(batcher->cancel(999));
  EXPECT_FALSE(batcher->take(999));
  EXPECT_TRUE(batcher->take(id));
  EXPECT_EQ(batcher->result(id), nullptr);
  EXPECT_EQ(batcher->cache().usedBlocks(), 0);
}

TEST(Batching, GoesOnAfterAFailureOfTheModel) {
  KvCacheConfig cache = cacheOf(40, 4);
  PagedModel model(cache);
  Diagnostics diagnostics;
  std::unique_ptr<Batcher> batcher = Batcher::make(model, cache, {2, 16, 64, 100}, diagnostics);
  std::vector<RequestId> ids;
  for (TokenId i = 0; i < 3; ++i) ids.push_back(*batcher->add(simple(range(i, 6), 8), diagnostics));
  model.failAt = 3;
  EXPECT_TRUE(batcher->run(diagnostics)) << "each alone does not fail";
  EXPECT_EQ(batcher->result(ids[0])->restarts, 1);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(batcher->result(ids[i])->tokens, alone(cache, simple(range(static_cast<TokenId>(i), 6), 8), 64).tokens);
  EXPECT_EQ(batcher->cache().usedBlocks(), 0);
}

TEST(Batching, AnInterruptedStepEndsItsRequests) {
  struct Interrupted : PagedModel {
    using PagedModel::PagedModel;
    Result<Tensor> step(const StepBatch&, Diagnostics& diagnostics) override {
      diagnostics.error("the run was interrupted", ErrorKind::Interrupted);
      return Failed{};
    }
  };
  KvCacheConfig cache = cacheOf(40, 4);
  Interrupted model(cache);
  Diagnostics diagnostics;
  std::unique_ptr<Batcher> batcher = Batcher::make(model, cache, {4, 16, 64, 100}, diagnostics);
  std::vector<RequestId> ids;
  for (TokenId i = 0; i < 3; ++i) ids.push_back(*batcher->add(simple(range(i, 2), 8), diagnostics));
  EXPECT_TRUE(batcher->step(diagnostics));
  EXPECT_TRUE(batcher->idle());
  for (RequestId id : ids) EXPECT_EQ(batcher->result(id)->failure.value().message, "the run was interrupted");
}

// Of ten requests one is broken, in ten ways by turns. The others get what they get alone.
void serveBesideBroken(size_t count, const KvCacheConfig& cache) {
  constexpr TokenId kPoison = 9;  // what breaks the model begins with it twice
  enum Way {
    None,
    Empty,
    Foreign,
    TooLong,
    NoTokens,
    BadSetting,
    FailsAtOnce,
    FailsLater,
    Throws,
    Impossible,
    NoLogits
  };
  PagedModel model(cache);
  auto begins = [](TokenSpan text, TokenId second) {
    return text.size() >= 2 && text[0] == kPoison && text[1] == second;
  };
  model.failsWith = [&](TokenSpan text) { return begins(text, 9) || (begins(text, 8) && text.size() > 8); };
  model.hasNoLogits = [&](TokenSpan text) { return begins(text, 7); };
  Diagnostics diagnostics(0);
  std::unique_ptr<Batcher> batcher = Batcher::make(model, cache, {6, 12, 64, 1 << 16}, diagnostics);
  Draws draw(count);
  struct Sent {
    Request request;
    Way way;
    std::optional<RequestId> id;
  };
  std::vector<Sent> sent;
  for (size_t i = 0; i < count; ++i) {
    Sent s{randomRequest(draw, 3), i % 10 == 3 ? static_cast<Way>(i / 10 % 10 + 1) : None, {}};
    Request& r = s.request;
    for (TokenId& t : r.prompt) t = std::min<TokenId>(t, kPoison - 1);
    if (s.way >= FailsAtOnce) r.sampling = {}, r.maxNewTokens = 12;
    if (s.way == Empty) r.prompt.clear();
    if (s.way == Foreign) r.prompt.back() = kVocabulary;
    if (s.way == TooLong) r.prompt.assign(64, 1);
    if (s.way == NoTokens) r.maxNewTokens = 0;
    if (s.way == BadSetting) r.sampling = {}, r.sampling.topP = 2;
    if (s.way == FailsAtOnce) r.prompt = {kPoison, 9, 3};
    if (s.way == FailsLater) r.prompt = {kPoison, 8, 3};
    if (s.way == Throws)
      r.onToken = [](const TokenEvent& e) -> bool {
        if (e.index >= 2) throw std::runtime_error("no more");
        return true;
      };
    if (s.way == Impossible)
      for (TokenId t = 0; t < kVocabulary; ++t) r.sampling.badWords.push_back({t});
    if (s.way == NoLogits) r.prompt = {kPoison, 7, 3};
    size_t before = diagnostics.errorCount();
    Result<RequestId> id = batcher->add(r, diagnostics);
    ASSERT_EQ(id.ok(), s.way == None || s.way >= FailsAtOnce) << i;
    EXPECT_EQ(diagnostics.errorCount() - before, id ? 0u : 1u) << i;
    if (id) s.id = *id;
    sent.push_back(std::move(s));
    if (draw.oneIn(3)) batcher->step(diagnostics);
  }
  batcher->run(diagnostics);
  EXPECT_EQ(diagnostics.errorCount(), count / 10) << "a message for each";
  for (const Sent& s : sent) {
    if (!s.id) continue;
    std::optional<RequestResult> got = batcher->take(*s.id);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->reason == FinishReason::Failed, s.way != None);
    EXPECT_EQ(got->failure.has_value(), s.way != None);
    if (s.way == FailsLater) {
      EXPECT_EQ(got->tokens.size(), 6u);
    }
    if (s.way == Throws) {
      EXPECT_EQ(got->failure.value().message, "onToken of a request has thrown: no more");
    }
    if (s.way == None) {
      EXPECT_EQ(got->tokens, alone(cache, s.request, 64).tokens);
    }
  }
  EXPECT_TRUE(batcher->idle());
  EXPECT_EQ(batcher->cache().usedBlocks(), 0);
  EXPECT_EQ(batcher->cache().inconsistency(), "");
}

TEST(Batching, BrokenRequestsHurtNoOthers) {
  size_t count = std::getenv("TSCOMPILE_SOAK_MINUTES") ? 1000 : 200;
  serveBesideBroken(count, cacheOf(90, 4));
  serveBesideBroken(count, cacheOf(40, 4));  // some have to wait for others' blocks
  KvCacheConfig windows = cacheOf(60, 4);
  windows.window = 12;
  windows.sinks = 2;
  serveBesideBroken(count, windows);
}

TEST(Batching, ARequestWithoutPossibleTokensFailsAlone) {
  KvCacheConfig cache = cacheOf(40, 4);
  PagedModel model(cache);
  Diagnostics diagnostics;
  std::unique_ptr<Batcher> batcher = Batcher::make(model, cache, {4, 16, 64, 100}, diagnostics);
  Request bad = simple(range(0, 5), 8);
  for (TokenId t = 0; t < kVocabulary; ++t) bad.sampling.badWords.push_back({t});
  RequestId failed = *batcher->add(bad, diagnostics), good = *batcher->add(simple(range(1, 5), 8), diagnostics);
  EXPECT_FALSE(batcher->run(diagnostics));
  EXPECT_EQ(batcher->result(failed)->reason, FinishReason::Failed);
  EXPECT_EQ(batcher->result(good)->tokens.size(), 8u);
}

TEST(Batching, TheFirstToArriveIsNeverPutOff) {
  KvCacheConfig cache = cacheOf(10, 2);
  PagedModel model(cache);
  Diagnostics diagnostics;
  std::unique_ptr<Batcher> batcher = Batcher::make(model, cache, {4, 16, 64, 100}, diagnostics);
  std::vector<RequestId> ids;
  for (TokenId i = 0; i < 4; ++i) ids.push_back(*batcher->add(simple(range(i, 4), 16), diagnostics));
  EXPECT_TRUE(batcher->run(diagnostics));
  EXPECT_EQ(batcher->result(ids[0])->restarts, 0);
  EXPECT_GT(batcher->counters().restarts, 0);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(batcher->result(ids[i])->tokens, alone(cache, simple(range(static_cast<TokenId>(i), 4), 16), 64).tokens);
}

}  // namespace tscompile::test
