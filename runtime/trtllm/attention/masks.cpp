#include "runtime/trtllm/attention/masks.h"

#include <algorithm>

namespace tscompile {
namespace {

// Everything while the window is not full; afterwards the sinks and the last tokens, itself included.
bool insideWindow(const MaskRule& rule, int64_t position, int64_t key) {
  return key > position || position < rule.window || key < rule.sinks || key > position - (rule.window - rule.sinks);
}

bool isBlockVisible(const MaskRule& rule, int64_t head, int64_t position, int64_t key) {
  const int64_t row = position / rule.blockSize, column = key / rule.blockSize;
  const int64_t step = rule.homoHeads ? 0 : std::max<int64_t>(1, rule.verticalStride / rule.heads);
  return row - column < rule.localBlocks || (column + head * step + 1) % rule.verticalStride == 0;
}

}  // namespace

bool isVisible(const MaskRule& rule, const MaskPass& pass, int64_t head, int64_t row, int64_t column) {
  if (row >= pass.queries || column >= pass.keys) return false;
  const int64_t position = row + pass.keys - pass.queries;
  if (rule.windowed && !insideWindow(rule, position, column)) return false;
  switch (rule.type) {
    case AttentionMask::Padding:
      return true;
    case AttentionMask::Causal:
    case AttentionMask::SlidingWindowCausal:
      return column <= position;
    case AttentionMask::Bidirectional:
    case AttentionMask::BidirectionalGlm:
      return column < pass.keys - 1 || row == pass.queries - 1;
    case AttentionMask::BlockSparse:
      return column <= position && isBlockVisible(rule, head, position, column);
    case AttentionMask::Custom:
      return rule.custom.at(pass.firstRow + row, column);
  }
  return false;
}

VisibleKeys visibleKeys(const MaskRule& rule, const MaskPass& pass, int64_t row) {
  const int64_t position = row + pass.keys - pass.queries;
  VisibleKeys seen{0, 0, pass.keys, true};
  if (rule.windowed && position >= rule.window) {
    seen.sinks = rule.sinks;
    seen.begin = position - (rule.window - rule.sinks) + 1;
  }
  switch (rule.type) {
    case AttentionMask::Padding:
      break;
    case AttentionMask::Causal:
    case AttentionMask::SlidingWindowCausal:
      seen.end = position + 1;
      break;
    case AttentionMask::Bidirectional:
    case AttentionMask::BidirectionalGlm:
      if (row != pass.queries - 1) seen.end = pass.keys - 1;
      break;
    case AttentionMask::BlockSparse:
      seen.end = position + 1;
      seen.exact = false;
      break;
    case AttentionMask::Custom:
      seen.exact = false;
      break;
  }
  return seen;
}

}  // namespace tscompile
