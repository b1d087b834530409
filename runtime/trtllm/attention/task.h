// How the fast kernel divides its work.
#pragma once

#include "runtime/trtllm/attention/plan.h"

#include <limits>

namespace tscompile {

inline constexpr int64_t kKeyTile = 512;    // keys and values of 64 floats fill a quarter of a megabyte
inline constexpr int64_t kDecodeTile = 64;  // keys that the heads of a group share while they are in cache
inline constexpr float kNothing = -std::numeric_limits<float>::infinity();

// Work of one thread: query rows [begin, end) of a sequence on one head of keys, or keys [begin, end) in order of
// sight.
struct AttentionTask {
  const AttentionRow* row;
  int64_t head;
  int64_t begin, end;
  bool single;     // one query
  bool last;       // writes new keys and values to the cache
  float* partial;  // of each head of the group: the largest logit, the sum of weights, the weighted values; or null
};

// Where one head of the group, one query stands.
struct RowState {
  float largest, sum;
};

}  // namespace tscompile
