// Where keys and values of past tokens lie.
#pragma once

#include "runtime/trtllm/attention/value_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tscompile {

// Which slot of a sequence's cache a token has. Once the window is full, tokens after the sinks go round in a ring.
struct CacheSlots {
  int64_t sinks = 0, ringStart = 0, ring = std::numeric_limits<int64_t>::max();

  // Without a ring the slot of a token is its number. `tokensPerBlock` 0: not paged; paged rings start at a block
  // boundary. There is a ring if window is less than kNoWindow.
  static CacheSlots of(int64_t window, int64_t sinks, int64_t tokensPerBlock, bool oneMoreBlock);

  int64_t at(int64_t token) const { return token < sinks ? token : ringStart + (token - sinks) % ring; }
  // So many slots are in use once a sequence has this length.
  int64_t used(int64_t length) const {
    if (length <= sinks) return length;
    return ringStart + std::min(length - sinks, ring);
  }
  // Whether a sequence of this length has lost tokens.
  bool wraps(int64_t length) const { return length > sinks && length - sinks > ring; }
};

// Rows [row][keys, values][head][slot][size]: contiguous, or in blocks [head][tokensPerBlock][size] of a pool.
struct KvCache {
  ValueFormat format;
  std::byte* data = nullptr;  // null: there is none
  CacheSlots slots;
  int64_t heads = 0, size = 0;
  int64_t capacity = 0;         // slots of a row
  int64_t tokensPerBlock = 0;   // 0: contiguous
  std::vector<int64_t> blocks;  // paged: [row][2][blocksPerRow], in blocks from `data`
  int64_t blocksPerRow = 0;

  std::byte* at(int64_t row, bool value, int64_t head, int64_t slot) const;
  // Tokens from `token` on, less than `end`, whose values follow one another in memory.
  int64_t run(int64_t token, int64_t end) const;
};

// The tokens that one sequence reads.
struct KvSource {
  int64_t row = 0;                 // of the cache: what it writes, too
  int64_t firstBeam = 0;           // the row of beam 0 of its request
  int64_t shared = 0;              // tokens before this one are read from beam 0
  const int32_t* beams = nullptr;  // of later tokens; null: they are its own
  int64_t past = 0;                // from here on tokens are its own

  int64_t rowOf(int64_t token) const {
    if (!beams || token >= past) return row;
    return token < shared ? firstBeam : firstBeam + beams[token];
  }
  // As KvCache::run, and read from one row.
  int64_t run(const KvCache& cache, int64_t token, int64_t end) const;
};

}  // namespace tscompile
