// Which keys a query sees. Every kernel asks here.
#pragma once

#include "runtime/trtllm/attention/params.h"

#include <cstdint>
#include <limits>

namespace tscompile {

inline constexpr int64_t kNoWindow = std::numeric_limits<int64_t>::max();

// Bits of a custom mask: of row r and column c either bytes[r * rowStride + c] or bit c % 32 of words[r * rowStride +
// c / 32].
struct CustomMask {
  const uint8_t* bytes = nullptr;
  const uint32_t* words = nullptr;
  int64_t rowStride = 0;
  bool at(int64_t row, int64_t column) const {
    return bytes ? bytes[row * rowStride + column] != 0
                 : (words[row * rowStride + column / 32] >> (column % 32) & 1) != 0;
  }
};

struct MaskRule {
  AttentionMask type = AttentionMask::Causal;
  int64_t heads = 1;
  int64_t window = kNoWindow, sinks = 0;  // with itself a token sees `sinks` first tokens and the last window - sinks
  bool windowed = false;                  // whether the window binds
  int64_t blockSize = 64, localBlocks = 16, verticalStride = 8;
  bool homoHeads = false;
  CustomMask custom;
};

// One pass over a sequence: its queries are the last of its keys (cross attention: they are apart).
struct MaskPass {
  int64_t queries = 0, keys = 0;
  int64_t firstRow = 0;  // of the custom mask
};

// Whether query `row` of the pass sees key `column`.
bool isVisible(const MaskRule& rule, const MaskPass& pass, int64_t head, int64_t row, int64_t column);

// Keys outside of [0, sinks) and [begin, end) are not visible; inside, all are if `exact`.
struct VisibleKeys {
  int64_t sinks, begin, end;
  bool exact;
};
VisibleKeys visibleKeys(const MaskRule& rule, const MaskPass& pass, int64_t row);

}  // namespace tscompile
