#include "runtime/trtllm/attention/kv_cache.h"

#include "runtime/trtllm/attention/masks.h"

namespace tscompile {

CacheSlots CacheSlots::of(int64_t window, int64_t sinks, int64_t tokensPerBlock, bool oneMoreBlock) {
  CacheSlots slots;
  if (window == kNoWindow) return slots;
  slots.sinks = slots.ringStart = sinks;
  slots.ring = window - sinks;
  if (tokensPerBlock == 0) return slots;
  slots.ringStart += (tokensPerBlock - sinks % tokensPerBlock) % tokensPerBlock;
  if (oneMoreBlock) slots.ring += tokensPerBlock;
  return slots;
}

std::byte* KvCache::at(int64_t row, bool value, int64_t head, int64_t slot) const {
  int64_t element;
  if (tokensPerBlock == 0) {
    element = (((row * 2 + value) * heads + head) * capacity + slot) * size;
  } else {
    const int64_t block = blocks[static_cast<size_t>((row * 2 + value) * blocksPerRow + slot / tokensPerBlock)];
    element = ((block * heads + head) * tokensPerBlock + slot % tokensPerBlock) * size;
  }
  return data + element * format.itemBytes();
}

int64_t KvCache::run(int64_t token, int64_t end) const {
  const int64_t slot = slots.at(token);
  int64_t length = end - token;
  if (token < slots.sinks)
    length = std::min(length, slots.sinks - token);
  else
    length = std::min(length, slots.ring - (token - slots.sinks) % slots.ring);
  if (tokensPerBlock != 0) length = std::min(length, tokensPerBlock - slot % tokensPerBlock);
  return length;
}

int64_t KvSource::run(const KvCache& cache, int64_t token, int64_t end) const {
  const int64_t length = cache.run(token, end);
  if (!beams) return length;
  int64_t same = 1;
  while (same < length && rowOf(token + same) == rowOf(token)) ++same;
  return same;
}

}  // namespace tscompile
