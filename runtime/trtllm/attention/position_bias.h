// What is added to logits for the distance of two tokens, and the scaling of long queries.
#pragma once

#include "runtime/trtllm/attention/params.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tscompile {

// The slopes of this rank's heads: a slice of the list for all numHeads * tpSize heads.
std::vector<float> alibiSlopes(int64_t numHeads, int64_t tpSize, int64_t tpRank);
// T5's bucket of a query `distance` = p - j tokens after its key.
int64_t relativeBucket(int64_t distance, int64_t buckets, int64_t maxDistance, bool unidirectional);
// Qwen's log scaling of the query at position i >= 1 of a model trained on `trained` tokens.
double lognScaling(int64_t position, int64_t trained);

struct PositionBias {
  enum class Kind : uint8_t { None, Alibi, Explicit, Buckets };
  Kind kind = Kind::None;
  std::vector<float> slopes;  // Alibi: of each head
  std::vector<float> table;   // Explicit: [heads][rows][columns]; Buckets: [heads][columns]
  int64_t rows = 0, columns = 0;
  std::vector<int32_t> buckets;  // of distance i - longest, those further away as the last
  int64_t longest = 0;

  // Of query position p and key j.
  float at(int64_t head, int64_t p, int64_t j) const {
    switch (kind) {
      case Kind::None:
        return 0;
      case Kind::Alibi:
        return slopes[static_cast<size_t>(head)] * static_cast<float>(j - p);
      case Kind::Explicit:
        return table[static_cast<size_t>((head * rows + p) * columns + j)];
      case Kind::Buckets:
        return table[static_cast<size_t>(head * columns +
                                         buckets[static_cast<size_t>(std::clamp(p - j, -longest, longest) + longest)])];
    }
    return 0;
  }
};

}  // namespace tscompile
