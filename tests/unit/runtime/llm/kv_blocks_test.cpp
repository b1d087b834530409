#include "runtime/llm/kv_blocks.h"

#include "ir/values/memory.h"
#include "ir/values/random.h"

#include <gtest/gtest.h>

#include <map>

namespace tscompile::test {
namespace {

KvCacheConfig small(int64_t blocks, int64_t tokensPerBlock) {
  KvCacheConfig c;
  c.blocks = blocks;
  c.tokensPerBlock = tokensPerBlock;
  c.headSize = 2;
  return c;
}

std::vector<int64_t> slots(KvCacheConfig c, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t t = 0; t < count; ++t) out.push_back(c.slot(t));
  return out;
}

std::vector<TokenId> tokensFrom(TokenId first, size_t count) {
  std::vector<TokenId> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = first + static_cast<TokenId>(i);
  return out;
}

std::vector<int32_t> tableOf(const KvBlocks& blocks, SequenceId id, int64_t beam = 0) {
  std::span<const int32_t> t = blocks.table(id, beam);
  return {t.begin(), t.end()};
}

// Adds a sequence and claims to have computed it.
int64_t add(KvBlocks& blocks, SequenceId id, const std::vector<TokenId>& tokens) {
  Diagnostics diagnostics;
  Result<int64_t> reused = blocks.addSequence(id, tokens, diagnostics);
  EXPECT_TRUE(reused);
  if (!reused) return -1;
  TokenSpan rest = TokenSpan(tokens).subspan(static_cast<size_t>(*reused));
  EXPECT_TRUE(blocks.prepare(id, static_cast<int64_t>(rest.size()), diagnostics));
  blocks.written(id, rest);
  return *reused;
}

// Sequences whose every token is looked for through the tables after every step. The cache holds the number of the
// write that put a token there, so a block that somebody else overwrote is noticed.
class CacheGame {
 public:
  CacheGame(const KvCacheConfig& config, uint64_t seed)
      : config_(config),
        blocks_(config),
        cells_(static_cast<size_t>(config.blocks * config.tokensPerBlock), -1),
        seed_(seed) {}

  void play(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      switch (draw(8)) {
        case 0:
          add();
          break;
        case 1:
          remove();
          break;
        case 2:
          fork();
          break;
        default:
          grow();
      }
      ASSERT_EQ(blocks_.inconsistency(), "");
      check();
    }
    while (!games_.empty()) drop(games_.begin()->first);
    EXPECT_EQ(blocks_.usedBlocks(), 0);
    EXPECT_EQ(blocks_.inconsistency(), "");
  }
  const KvCacheCounters& counters() const { return blocks_.counters(); }

 private:
  struct Token {
    TokenId token;
    int64_t write;  // what its cell must hold
  };
  using History = std::vector<Token>;

  size_t draw(size_t n) { return random::bits(seed_, ++drawn_) % n; }
  int64_t& cell(std::span<const int32_t> table, int64_t token) {
    int64_t slot = config_.slot(token), block = table[static_cast<size_t>(slot / config_.tokensPerBlock)];
    return cells_[static_cast<size_t>(block * config_.tokensPerBlock + slot % config_.tokensPerBlock)];
  }
  void copy(std::span<const BlockCopy> copies) {
    size_t n = static_cast<size_t>(config_.tokensPerBlock);
    for (BlockCopy c : copies)
      std::copy_n(cells_.begin() + c.from * config_.tokensPerBlock, n, cells_.begin() + c.to * config_.tokensPerBlock);
  }
  SequenceId anyone() {
    auto it = games_.begin();
    std::advance(it, static_cast<ptrdiff_t>(draw(games_.size())));
    return it->first;
  }

  void add() {
    SequenceId id = ++lastId_;
    std::vector<TokenId> prompt;
    size_t kind = draw(3), length = 1 + draw(30);
    for (size_t i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>(i < 20 ? kind : draw(2)));
    Diagnostics diagnostics;
    int64_t wanted = blocks_.blocksWanted(prompt);
    Result<int64_t> reused = blocks_.addSequence(id, prompt, diagnostics);
    ASSERT_EQ(reused.ok(), wanted <= freeBefore_);
    if (!reused) return;
    ASSERT_LT(*reused, static_cast<int64_t>(length));
    History history;
    for (int64_t t = 0; t < *reused; ++t)  // what is found must be these very tokens after these very tokens
      history.push_back({prompt[static_cast<size_t>(t)], cell(blocks_.table(id, 0), t)});
    for (int64_t t = 0; t < *reused; ++t) {
      auto written = tokenOf_.find(history[static_cast<size_t>(t)].write);
      ASSERT_TRUE(written != tokenOf_.end());
      std::vector<TokenId> before(prompt.begin(), prompt.begin() + t + 1);
      ASSERT_EQ(written->second, before);
    }
    games_[id] = {history};
    prompts_[id] = prompt;
  }

  void grow() {
    if (games_.empty()) return;
    SequenceId id = anyone();
    std::vector<History>& beams = games_[id];
    int64_t missing = static_cast<int64_t>(prompts_[id].size()) - static_cast<int64_t>(beams[0].size());
    int64_t count = missing > 0 ? 1 + static_cast<int64_t>(draw(static_cast<size_t>(missing))) : 1;
    Diagnostics diagnostics;
    Result<std::vector<BlockCopy>> copies = blocks_.prepare(id, count, diagnostics);
    if (!copies) {
      EXPECT_EQ(diagnostics.firstErrorKind(), ErrorKind::Limit);
      return drop(id);
    }
    copy(*copies);
    std::vector<TokenId> tokens;
    for (size_t b = 0; b < beams.size(); ++b)
      for (int64_t i = 0; i < count; ++i) {
        size_t at = beams[b].size();
        TokenId token = at < prompts_[id].size() ? prompts_[id][at] : static_cast<TokenId>(draw(2));
        if (b == 0) tokens.push_back(token);
        cell(blocks_.table(id, static_cast<int64_t>(b)), static_cast<int64_t>(at)) = ++writes_;
        beams[b].push_back({token, writes_});
        std::vector<TokenId> all;
        for (const Token& t : beams[b]) all.push_back(t.token);
        tokenOf_[writes_] = std::move(all);
      }
    if (beams.size() == 1)
      blocks_.written(id, tokens);
    else
      blocks_.written(id, count);
  }

  void fork() {
    if (games_.empty()) return;
    SequenceId id = anyone();
    std::vector<History>& beams = games_[id];
    if (beams[0].size() < prompts_[id].size()) return;
    std::vector<int32_t> parents(1 + draw(4));
    std::vector<History> next;
    for (int32_t& p : parents) next.push_back(beams[static_cast<size_t>(p = static_cast<int32_t>(draw(beams.size())))]);
    blocks_.fork(id, parents);
    beams = next;
  }

  void remove() {
    if (!games_.empty()) drop(anyone());
  }
  void drop(SequenceId id) {
    blocks_.remove(id);
    games_.erase(id);
    prompts_.erase(id);
  }

  void check() {
    freeBefore_ = blocks_.freeBlocks();
    for (auto& [id, beams] : games_) {
      ASSERT_EQ(blocks_.beams(id), static_cast<int64_t>(beams.size()));
      for (size_t b = 0; b < beams.size(); ++b) {
        int64_t length = static_cast<int64_t>(beams[b].size());
        ASSERT_EQ(blocks_.length(id), length);
        for (int64_t t = 0; t < length; ++t) {
          if (config_.window > 0 && t >= config_.sinks && length - t > config_.ring()) continue;  // overwritten
          ASSERT_EQ(cell(blocks_.table(id, static_cast<int64_t>(b)), t), beams[b][static_cast<size_t>(t)].write);
        }
      }
    }
  }

  KvCacheConfig config_;
  KvBlocks blocks_;
  std::vector<int64_t> cells_;
  uint64_t seed_, drawn_ = 0;
  int64_t writes_ = 0, freeBefore_ = config_.blocks;
  SequenceId lastId_ = 0;
  std::map<SequenceId, std::vector<History>> games_;
  std::map<SequenceId, std::vector<TokenId>> prompts_;
  std::map<int64_t, std::vector<TokenId>> tokenOf_;  // by write: the tokens up to it
};

}  // namespace

TEST(KvBlocks, RingSlots) {
  KvCacheConfig c = small(8, 4);
  EXPECT_EQ(slots(c, 5), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  c.window = 8, c.sinks = 2;
  EXPECT_EQ(slots(c, 14), (std::vector<int64_t>{0, 1, 4, 5, 6, 7, 8, 9, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(c.blocksFor(2), 1);
  EXPECT_EQ(c.blocksFor(3), 2);
  EXPECT_EQ(c.blocksFor(1000), 3);
  c.oneMoreBlock = true;
  EXPECT_EQ(slots(c, 18), (std::vector<int64_t>{0, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(c.blocksFor(1000), 4);
  for (int64_t n = 1; n < 30; ++n) {  // as many blocks as the slots need
    int64_t last = 0;
    for (int64_t s : slots(c, n)) last = std::max(last, s);
    EXPECT_EQ(c.blocksFor(n), last / 4 + 1);
  }
}

TEST(KvBlocks, MemoryIsItsFormula) {
  KvCacheConfig c;
  c.layers = 12, c.kvHeads = 12, c.headSize = 64, c.tokensPerBlock = 32, c.blocks = 20;
  EXPECT_EQ(c.bytesPerBlock(), int64_t{2} * 12 * 12 * 32 * 64 * 4);
  for (auto [dtype, bytes] :
       {std::pair(DType::Float32, 4), {DType::BFloat16, 2}, {DType::Int8, 1}, {DType::Float8E4M3FN, 1}}) {
    c.dtype = dtype;
    auto budget = Ref<MemoryBudget>::adopt(new MemoryBudget(uint64_t{1} << 40));
    BudgetScope scope(budget.get());
    Tensor pool = makeKvPool(c);
    double formula = 20.0 * 2 * 12 * 12 * 32 * 64 * bytes;
    EXPECT_NEAR(static_cast<double>(budget->used()), formula, 0.02 * formula);
    EXPECT_EQ(dimsText(pool.sizes()), "[20, 12, 2, 12, 32, 64]");
  }
}

TEST(KvBlocks, TablesNameKeysAndValues) {
  KvCacheConfig c = small(10, 4);
  c.layers = 3;
  KvBlocks blocks(c);
  add(blocks, 7, tokensFrom(0, 6));
  add(blocks, 8, tokensFrom(50, 3));
  auto rowOf = [&](SequenceId id) {
    std::vector<int32_t> row(6);
    blocks.exportTable(id, 0, row);
    return row;
  };
  EXPECT_EQ(rowOf(8), (std::vector<int32_t>{12, -1, -1, 13, -1, -1}));  // block 2
  EXPECT_EQ(rowOf(7), (std::vector<int32_t>{0, 6, -1, 1, 7, -1}));
}

TEST(KvBlocks, BeginningsAreShared) {
  KvBlocks blocks(small(10, 4));
  EXPECT_EQ(add(blocks, 1, tokensFrom(0, 10)), 0);
  EXPECT_EQ(add(blocks, 2, tokensFrom(0, 10)), 8);
  EXPECT_EQ(tableOf(blocks, 1), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(tableOf(blocks, 2), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(add(blocks, 3, tokensFrom(0, 8)), 4);  // the last token is computed
  blocks.remove(1);
  blocks.remove(2);
  blocks.remove(3);
  EXPECT_EQ(blocks.usedBlocks(), 0);
  EXPECT_EQ(add(blocks, 4, tokensFrom(0, 10)), 8);  // also when nobody has them
  std::vector<TokenId> other = tokensFrom(0, 10);
  other[1] = 99;
  EXPECT_EQ(add(blocks, 5, other), 0);  // the second block has the same tokens, but not those before it
  EXPECT_EQ(blocks.inconsistency(), "");
  EXPECT_EQ(blocks.counters().reused, 5);
}

TEST(KvBlocks, NothingIsSharedBeforeItIsComputed) {
  KvBlocks blocks(small(10, 4));
  Diagnostics diagnostics;
  std::vector<TokenId> prompt = tokensFrom(0, 10);
  EXPECT_EQ(*blocks.addSequence(1, prompt, diagnostics), 0);
  EXPECT_EQ(*blocks.addSequence(2, prompt, diagnostics), 0);
  blocks.written(1, TokenSpan(prompt).first(5));
  EXPECT_EQ(*blocks.addSequence(3, prompt, diagnostics), 4);
}

TEST(KvBlocks, StoredBlocksMakeRoomInTheOrderOfTheirRelease) {
  KvBlocks blocks(small(4, 2));
  add(blocks, 1, tokensFrom(0, 5));  // 3 blocks
  blocks.remove(1);
  add(blocks, 2, tokensFrom(50, 4));  // the one that was never used, and the end of 1
  Diagnostics diagnostics;
  EXPECT_EQ(blocks.blocksWanted(tokensFrom(0, 5)), 3);  // two of them with the right tokens
  EXPECT_FALSE(blocks.addSequence(3, tokensFrom(0, 5), diagnostics));
  blocks.remove(2);
  EXPECT_EQ(add(blocks, 4, tokensFrom(0, 5)), 4);
}

TEST(KvBlocks, BeamsCopyWhatTheyWriteTo) {
  KvBlocks blocks(small(10, 4));
  Diagnostics diagnostics;
  add(blocks, 1, tokensFrom(0, 6));
  blocks.fork(1, std::vector<int32_t>{0, 0, 0});
  EXPECT_EQ(blocks.usedBlocks(), 2);
  Result<std::vector<BlockCopy>> copies = blocks.prepare(1, 1, diagnostics);
  EXPECT_EQ(*copies, (std::vector<BlockCopy>{{1, 2}, {1, 3}}));  // the last holder keeps the block
  EXPECT_EQ(tableOf(blocks, 1, 0), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(tableOf(blocks, 1, 2), (std::vector<int32_t>{0, 1}));
  blocks.written(1, int64_t{1});
  EXPECT_TRUE(blocks.prepare(1, 1, diagnostics)->empty());
  blocks.fork(1, std::vector<int32_t>{2});
  EXPECT_EQ(blocks.usedBlocks(), 2);
  EXPECT_EQ(blocks.inconsistency(), "");
}

TEST(KvBlocks, CopiesMoveWholeBlocks) {
  KvCacheConfig c = small(4, 2);
  c.layers = 2;
  Tensor pool = makeKvPool(c);
  int64_t block = pool.numel() / 4;
  for (int64_t i = 0; i < pool.numel(); ++i) pool.data<float>()[i] = static_cast<float>(i / block);
  copyBlocks(c, pool, std::vector<BlockCopy>{{1, 2}, {3, 1}});
  const float wanted[] = {0, 3, 1, 3};
  for (int64_t i = 0; i < pool.numel(); ++i) EXPECT_EQ(pool.data<float>()[i], wanted[i / block]);
}

TEST(KvBlocks, SaysHowManyBlocksAreMissing) {
  KvBlocks blocks(small(3, 4));
  Diagnostics diagnostics;
  add(blocks, 1, tokensFrom(0, 8));
  std::vector<TokenId> prompt = tokensFrom(20, 7);
  EXPECT_FALSE(blocks.addSequence(2, prompt, diagnostics));
  EXPECT_EQ(diagnostics.list().back().message, "can't allocate a new block for the KV cache: 2 needed, 1 of 3 free");
  EXPECT_EQ(diagnostics.firstErrorKind(), ErrorKind::Limit);
  blocks.fork(1, std::vector<int32_t>{0, 0});
  EXPECT_FALSE(blocks.prepare(1, 1, diagnostics));
  EXPECT_EQ(blocks.inconsistency(), "");
  EXPECT_EQ(blocks.usedBlocks(), 2);
}

TEST(KvBlocks, ReportsBadConfigurations) {
  KvCacheConfig c;
  c.layers = 0, c.tokensPerBlock = 48, c.dtype = DType::Float64, c.sinks = 4;
  Diagnostics diagnostics;
  EXPECT_FALSE(validateKvCache(c, diagnostics));
  std::vector<std::string> messages;
  for (const Diagnostic& d : diagnostics.list()) messages.push_back(d.message);
  EXPECT_EQ(messages, (std::vector<std::string>{
                          "layers is 0, expected 1 to 65536", "tokensPerBlock is 48, expected a power of two",
                          "the KV cache cannot hold float64", "sinks is 4, expected less than the window of 0"}));
  KvCacheConfig large;
  large.layers = 65536, large.blocks = 1 << 20, large.headSize = large.tokensPerBlock = 1;
  EXPECT_FALSE(validateKvCache(large, diagnostics));
  EXPECT_EQ(diagnostics.list().back().message, "1048576 blocks of 65536 layers are more than block tables can name");
}

TEST(KvBlocks, RandomUseLeaksAndMixesNothing) {
  int64_t reused = 0, copied = 0, removed = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    KvCacheConfig c = small(12 + static_cast<int64_t>(seed % 3) * 20, int64_t{1} << (seed % 4));
    if (seed % 4 == 1) c.window = 8, c.sinks = 2;
    if (seed % 4 == 2) c.window = 12, c.sinks = 4, c.oneMoreBlock = true;
    if (seed >= 12 && seed % 4 == 3) c.window = 16;
    SCOPED_TRACE(seed);
    CacheGame game(c, seed);
    game.play(3000);
    reused += game.counters().reused;
    copied += game.counters().copied;
    removed += game.counters().removed;
  }
  EXPECT_GT(reused, 1000);
  EXPECT_GT(copied, 1000);
  EXPECT_GT(removed, 1000);
}

}  // namespace tscompile::test
