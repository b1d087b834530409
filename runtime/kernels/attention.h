// Attention without its matrix of scores in memory.
#pragma once

#include "runtime/kernels/batched_gemm.h"

#include <cstdint>
#include <limits>

namespace tscompile {

struct AttentionShape {
  int64_t outer = 1, inner = 1;  // batch, heads of the queries
  int64_t queries = 0, keys = 0;
  int64_t depth = 0, valueDepth = 0;  // of a query and key; of a value
  float scale = 1;
  bool causal = false;           // query i sees keys 0 .. i (top left, as PyTorch's is_causal)
  bool hiddenGivesZero = false;  // a query that sees no key has the result 0 instead of NaN
  bool rounds = false;           // products may be of bf16, where that is faster
  int64_t headsPerKey = 1;       // so many heads of queries in a row share a head of keys and values
};

// Where element [i, j] of the mask of pair (outer, inner) lies; elements, 0 repeats.
struct MaskStrides {
  int64_t outer = 0, inner = 0, row = 0, column = 0;

  int64_t at(int64_t o, int64_t in) const { return o * outer + in * inner; }
};

struct ScoreMask {
  // Scaled scores become `hidden` where the flags are `hides`; null: nowhere.
  const bool* flags = nullptr;
  bool hides = false;
  float hidden = -std::numeric_limits<float>::infinity();
  MaskStrides flagsAt = {};
  bool flagsLast = false;  // they hide sums, not scores
  // These are added, as far as they are not null.
  static constexpr int kMostAdded = 2;
  const float* added[kMostAdded] = {};
  MaskStrides addedAt[kMostAdded] = {};
};

// out = softmax(Q K^T * scale + mask) V. The matrices are [queries][depth], [keys][depth], [keys][valueDepth]; out's
// column stride is 1.
void attention(const AttentionShape& shape, const BatchedMatrix& q, const BatchedMatrix& k, const BatchedMatrix& v,
               const ScoreMask& mask, float* out, int64_t outOuter, int64_t outInner, int64_t outRow, int threads);

}  // namespace tscompile
