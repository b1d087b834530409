// The KV cache's blocks: which sequence holds which, and nothing of what is in them.
//
// A block has room for the keys and values of `tokensPerBlock` tokens in all layers. Sequences hold blocks by tables,
// several tables for a sequence with beams; a block counts the tables that hold it, and one that nobody holds waits in
// a first-in first-out list until it is needed. Full blocks of a prompt can be found again by their tokens and those
// before them, also while they wait, so sequences with the same beginning share them. Before a sequence writes to a
// block that others hold it gets a copy, which the caller makes.
//
// With a window, a sequence keeps the first `sinks` tokens and a ring of the last ones. Token t lies in row slot(t) %
// tokensPerBlock of block slot(t) / tokensPerBlock of its table:
//     no window   slot(t) = t
//     t < sinks   slot(t) = t
//     otherwise   slot(t) = sinks + bubble + (t - sinks) % ring
// ring = window - sinks, and tokensPerBlock more with oneMoreBlock; bubble = what aligns the ring to a block.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/result.h"
#include "ir/values/tensor.h"
#include "runtime/llm/tokens.h"

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile {

struct KvCacheConfig {
  int64_t layers = 1;
  int64_t kvHeads = 1;
  int64_t headSize = 64;
  int64_t tokensPerBlock = 64;   // a power of two
  int64_t blocks = 1;            // in the pool
  DType dtype = DType::Float32;  // float32, float16, bfloat16, int8 or float8_e4m3fn
  int64_t window = 0;            // tokens that a sequence keeps, the current one included; 0: all
  int64_t sinks = 0;             // first tokens that are kept for ever; less than the window
  bool oneMoreBlock = false;     // the ring is a block longer than the window asks for
  bool reuse = true;             // look for blocks with the same tokens; off where sinks end inside a block

  int64_t ring() const { return window - sinks + (oneMoreBlock ? tokensPerBlock : 0); }
  int64_t bubble() const { return (tokensPerBlock - sinks % tokensPerBlock) % tokensPerBlock; }
  int64_t slot(int64_t token) const {
    return window == 0 || token < sinks ? token : sinks + bubble() + (token - sinks) % ring();
  }
  // Blocks of a table for this many tokens.
  int64_t blocksFor(int64_t tokens) const;
  // 2 * layers * kvHeads * tokensPerBlock * headSize * bytes of an element: K and V.
  int64_t bytesPerBlock() const;
};
// Reports everything that is wrong.
bool validateKvCache(const KvCacheConfig& config, Diagnostics& diagnostics);

// [blocks, layers, 2, kvHeads, tokensPerBlock, headSize], zeros; one-byte dtypes are kept as int8. Throws
// ExecutionError if the memory is not there. A page of it becomes resident when a block in it is written.
Tensor makeKvPool(const KvCacheConfig& config);

struct BlockCopy {
  int32_t from = 0, to = 0;
  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};
// In the order given: a later copy may overwrite what an earlier one read.
void copyBlocks(const KvCacheConfig& config, const Tensor& pool, std::span<const BlockCopy> copies);

using SequenceId = int64_t;

// What happened so far.
struct KvCacheCounters {
  int64_t allocated = 0;  // blocks taken from the free list to be filled
  int64_t released = 0;   // blocks that nobody holds any more
  int64_t copied = 0;     // of the allocated ones
  int64_t stored = 0;     // blocks that can be found by their tokens
  int64_t reused = 0;     // blocks that were
  int64_t removed = 0;    // stored blocks that were overwritten
  int64_t peakUsed = 0;   // most blocks held at a time
};

class KvBlocks {
 public:
  // The configuration must be valid.
  explicit KvBlocks(const KvCacheConfig& config);

  // A sequence with one table and blocks for all of `tokens`. Gives the number of first tokens whose keys and values
  // are there already: always fewer than there are tokens, since the last one's logits are wanted. Reports missing
  // blocks as a Limit and then changes nothing.
  Result<int64_t> addSequence(SequenceId id, TokenSpan tokens, Diagnostics& diagnostics);
  // Blocks that addSequence would take now, without the shared ones.
  int64_t blocksWanted(TokenSpan tokens) const;
  // Makes the places of the next `count` tokens of every beam writable; the caller makes the copies, then writes.
  // Reports missing blocks as a Limit and then changes nothing.
  Result<std::vector<BlockCopy>> prepare(SequenceId id, int64_t count, Diagnostics& diagnostics);
  // The keys and values of these next tokens are in the cache now: full blocks can be shared from here on.
  void written(SequenceId id, TokenSpan tokens);
  // The same where every beam has its own token, and what they are does not matter: nothing more is shared.
  void written(SequenceId id, int64_t count);
  // Beam i goes on from what was beam parents[i]; there may be more or fewer beams than before.
  void fork(SequenceId id, std::span<const int32_t> parents);
  // Gives the blocks back. Stored ones can be found until they are needed for something else.
  void remove(SequenceId id);

  bool has(SequenceId id) const { return sequences_.count(id) != 0; }
  size_t sequenceCount() const { return sequences_.size(); }
  int64_t length(SequenceId id) const { return at(id).length; }
  int64_t beams(SequenceId id) const { return static_cast<int64_t>(at(id).tables.size()); }
  std::span<const int32_t> table(SequenceId id, int64_t beam) const { return at(id).tables[beam]; }

  // Table export. An entry is the offset of a block's keys or values of layer 0 in units of kvHeads * tokensPerBlock *
  // headSize elements: block * layers * 2, and one more for V; layer n lies 2 * n further. Unused entries are -1.
  // `row` has 2 * maxBlocks entries: K's, then V's.
  void exportTable(SequenceId id, int64_t beam, std::span<int32_t> row) const;

  const KvCacheConfig& config() const { return config_; }
  int64_t freeBlocks() const { return free_; }
  int64_t usedBlocks() const { return config_.blocks - free_; }
  const KvCacheCounters& counters() const { return counters_; }
  // Recounts everything. What does not agree, or "".
  std::string inconsistency() const;

 private:
  static constexpr int32_t kNone = -1;
  struct Block {
    int32_t holders = 0;
    int32_t previous = kNone, next = kNone;  // in the free list, if nobody holds it
    uint64_t serial = 0;                     // names the tokens up to its end; 0: not stored
    uint64_t before = 0;                     // serial of the tokens before it; 0: it is the first
    uint64_t hash = 0;                       // of all tokens up to its end
    std::vector<TokenId> tokens;             // if stored
  };
  struct Sequence {
    std::vector<std::vector<int32_t>> tables;
    int64_t length = 0;           // tokens written
    bool sharing = false;         // more blocks may be stored
    std::vector<TokenId> tokens;  // written, while sharing
    uint64_t serial = 0;          // of its last block that is stored
    uint64_t hash = 0;
    int64_t stored = 0;  // first blocks that are
  };

  const Sequence& at(SequenceId id) const;
  Sequence& at(SequenceId id) { return const_cast<Sequence&>(std::as_const(*this).at(id)); }
  Block& block(int32_t b) { return blocks_[static_cast<size_t>(b)]; }
  const Block& block(int32_t b) const { return blocks_[static_cast<size_t>(b)]; }
  int32_t find(uint64_t before, uint64_t hash, TokenSpan tokens) const;
  std::vector<int32_t> matching(TokenSpan tokens) const;
  std::vector<int64_t> touched(const Sequence& s, int64_t count) const;
  int64_t blocksToPrepare(const Sequence& s, std::span<const int64_t> touched) const;
  bool haveFree(int64_t wanted, Diagnostics& diagnostics) const;
  int32_t allocate();
  void hold(int32_t b);
  void release(int32_t b);
  void unlink(int32_t b);
  void append(int32_t b);
  void store(int32_t b, uint64_t before, uint64_t hash, TokenSpan tokens);
  void forget(int32_t b);
  void storeFullBlocks(Sequence& s);

  KvCacheConfig config_;
  std::vector<Block> blocks_;
  int32_t firstFree_ = kNone, lastFree_ = kNone;
  int64_t free_ = 0;
  std::map<SequenceId, Sequence> sequences_;
  std::unordered_multimap<uint64_t, int32_t> stored_;  // by hash
  uint64_t lastSerial_ = 0;
  KvCacheCounters counters_;
};

}  // namespace tscompile
