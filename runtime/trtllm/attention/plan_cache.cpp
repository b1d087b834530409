// Which window, which caches and which beams a call has.
#include "runtime/trtllm/attention/planner.h"

#include <algorithm>

namespace tscompile {
namespace {

DType cacheStorage(int64_t quantMode, DType type) {
  if (quantMode & kInt8KvCache) return DType::Int8;
  if (quantMode & kFp8KvCache) return DType::Float8E4M3FN;
  return type;
}

// Of the tensor that holds such values.
DType carrierOf(DType storage) { return storage == DType::Float8E4M3FN ? DType::UInt8 : storage; }

// Calls f(first, end) for the runs of tokens [begin, end) that a sequence of this length keeps.
template <class F>
void forKept(const CacheSlots& slots, int64_t begin, int64_t end, F f) {
  if (!slots.wraps(end)) return f(begin, end);
  if (begin < slots.sinks) f(begin, std::min(end, slots.sinks));
  f(std::max({begin, slots.sinks, end - slots.ring}), end);
}

}  // namespace

void AttentionPlanner::planWindow() {
  if (inputs_.hostMaxAttentionWindowSizes.defined() && !plan_.cross) {
    std::vector<int64_t> windows = integers("host_max_attention_window_sizes", inputs_.hostMaxAttentionWindowSizes, -1);
    if (params_.layerIdx >= static_cast<int64_t>(windows.size()))
      fail("host_max_attention_window_sizes has {} values, but layer_idx is {}", windows.size(), params_.layerIdx);
    window_ = windows[static_cast<size_t>(params_.layerIdx)];
    if (window_ < 1) fail("host_max_attention_window_sizes[{}] is {}, expected at least 1", params_.layerIdx, window_);
  }
  if (inputs_.hostSinkTokenLength.defined()) {
    sinks_ = integers("host_sink_token_length", inputs_.hostSinkTokenLength, 1)[0];
    if (sinks_ < 0 || sinks_ >= window_)
      fail("host_sink_token_length is {}, expected less than the window {}", sinks_, window_);
  }
}

void AttentionPlanner::planBeams() {
  const int64_t generations = static_cast<int64_t>(plan_.rows.size()) - contexts_;
  if (!inputs_.cacheIndirection.defined()) return;
  Dims shape = expectShape("cache_indirection", inputs_.cacheIndirection, 3);
  beams_ = shape[1];
  if (beams_ < 1) fail("cache_indirection is {}, expected at least one beam", dimsText(shape));
  if (beams_ == 1 || generations == 0) return;
  if (generations % beams_ != 0) fail("{} generation rows are not a multiple of {} beams", generations, beams_);
  if (shape[0] != generations / beams_)
    fail("cache_indirection is {}, expected {} generation requests", dimsText(shape), generations / beams_);
  if (inputs_.cacheIndirection.dtype() != DType::Int32 || !inputs_.cacheIndirection.isContiguous())
    fail("cache_indirection is not contiguous int32");
  plan_.beams.assign(inputs_.cacheIndirection.data<int32_t>(),
                     inputs_.cacheIndirection.data<int32_t>() + inputs_.cacheIndirection.numel());
  for (int64_t g = 0; g < generations; ++g) {
    AttentionRow& row = plan_.rows[static_cast<size_t>(contexts_ + g)];
    row.source.beams = plan_.beams.data() + g * shape[2];
    row.source.firstBeam = contexts_ + g - g % beams_;
    const AttentionRow& first = plan_.rows[static_cast<size_t>(row.source.firstBeam)];
    if (plan_.cross) {
      if (row.keys != first.keys)
        fail("row {} has an encoder input of {}, but the first beam of its request has {}", contexts_ + g, row.keys,
             first.keys);
      continue;
    }
    if (lengths_.empty()) fail("context_lengths is missing, which {} beams need", beams_);
    row.source.shared = lengths_[static_cast<size_t>(contexts_ + g)];
    if (row.source.shared < 0 || row.source.shared > row.past)
      fail("context_lengths[{}] is {}, but the row has {} past tokens", contexts_ + g, row.source.shared, row.past);
    if (row.past > shape[2])
      fail("cache_indirection is {}, but row {} has {} past tokens", dimsText(shape), contexts_ + g, row.past);
    if (row.past != first.past || row.source.shared != first.source.shared)
      fail("row {} has {} past tokens and a prompt of {}, but the first beam of its request has {} and {}",
           contexts_ + g, row.past, row.source.shared, first.past, first.source.shared);
    for (int64_t t = row.source.shared; t < row.past; ++t)
      if (row.source.beams[t] < 0 || row.source.beams[t] >= beams_)
        fail("cache_indirection[{}, {}, {}] is {}, expected less than {} beams", g / beams_, g % beams_, t,
             row.source.beams[t], beams_);
  }
}

void AttentionPlanner::planCache() {
  if (!params_.useCache) return;
  KvCache& cache = plan_.cache;
  cache.heads = plan_.kvHeads;
  cache.size = plan_.size;
  cache.format.storage = cacheStorage(params_.kvCacheQuantMode, inputs_.qkv.dtype());
  if (cache.format.storage == DType::Int8 || cache.format.storage == DType::Float8E4M3FN) {
    cache.format.quantize = scaleOf("kv_cache_quantization_scale", inputs_.kvCacheQuantizationScale);
    cache.format.dequantize = scaleOf("kv_cache_dequantization_scale", inputs_.kvCacheDequantizationScale);
  }
  cache.slots =
      CacheSlots::of(window_, sinks_, params_.pagedKvCache ? params_.tokensPerBlock : 0, params_.oneMoreBlock);
  params_.pagedKvCache ? planPaged() : planContiguous();
  checkCapacity();
  for (const AttentionRow& row : plan_.rows)
    if (row.source.beams && cache.slots.wraps(row.keys)) refuse("a cyclic cache that wraps with several beams");
  if (params_.pagedKvCache) checkBlockSharing();
}

void AttentionPlanner::planContiguous() {
  const Tensor& t = inputs_.pastKeyValue;
  Dims shape = expectShape("past_key_value", t, 5);
  if (shape[1] != 2 || shape[2] != plan_.kvHeads || shape[4] != plan_.size)
    fail("past_key_value is {}, expected [rows, 2, {}, capacity, {}]", dimsText(shape), plan_.kvHeads, plan_.size);
  if (!t.isContiguous() || t.storage()->readOnly()) fail("past_key_value cannot be written to");
  if (t.dtype() != carrierOf(plan_.cache.format.storage))
    fail("past_key_value is {}, expected {}", pythonName(t.dtype()), pythonName(carrierOf(plan_.cache.format.storage)));
  plan_.cache.data = t.raw();
  plan_.cache.capacity = shape[3];
  const int64_t count = static_cast<int64_t>(plan_.rows.size());
  const int64_t apart = contexts_ * beams_ + count - contexts_;  // room for all beams of every request
  if (shape[0] != count && shape[0] != apart) fail("past_key_value is {}, expected {} rows", dimsText(shape), apart);
  const int64_t step = shape[0] == count ? 1 : beams_;
  for (int64_t i = 0; i < count; ++i) {
    KvSource& source = plan_.rows[static_cast<size_t>(i)].source;
    auto rowOf = [&](int64_t index) { return index < contexts_ ? index * step : contexts_ * step + index - contexts_; };
    source.row = rowOf(i);
    source.firstBeam = source.beams ? rowOf(source.firstBeam) : source.row;
  }
}

void AttentionPlanner::planPaged() {
  const Tensor& t = inputs_.kvCachePool;
  if (!t.defined()) fail("the pool of cache blocks is missing");
  requireElements(t);
  if (!t.isContiguous() || t.storage()->readOnly()) fail("the pool of cache blocks cannot be written to");
  if (t.dtype() != carrierOf(plan_.cache.format.storage))
    fail("the pool of cache blocks is {}, expected {}", pythonName(t.dtype()),
         pythonName(carrierOf(plan_.cache.format.storage)));
  const int64_t blockValues = plan_.kvHeads * params_.tokensPerBlock * plan_.size;
  if (t.numel() % blockValues != 0)
    fail("the pool of cache blocks is {}, expected blocks of {}*{}*{}", dimsText(t.sizes()), plan_.kvHeads,
         params_.tokensPerBlock, plan_.size);
  int64_t pool = 0, layer = params_.layerIdxInCachePool;
  if (inputs_.hostKvCachePoolMapping.defined()) {
    std::vector<int64_t> mapping = integers("host_kv_cache_pool_mapping", inputs_.hostKvCachePoolMapping, -1);
    if (params_.layerIdx >= static_cast<int64_t>(mapping.size()) / 2)
      fail("host_kv_cache_pool_mapping is {}, but layer_idx is {}", dimsText(inputs_.hostKvCachePoolMapping.sizes()),
           params_.layerIdx);
    pool = mapping[static_cast<size_t>(2 * params_.layerIdx)];
    layer = mapping[static_cast<size_t>(2 * params_.layerIdx + 1)];
    if (layer < 0) fail("host_kv_cache_pool_mapping names layer {}", layer);
  }
  plan_.cache.data = t.raw();
  plan_.cache.tokensPerBlock = params_.tokensPerBlock;
  planBlocks(inputs_.kvCacheBlockOffsets, pool, layer, t.numel() / blockValues);
}

// Offsets count blocks of keys or of values; a layer's begin 2 * layer blocks into the pool.
void AttentionPlanner::planBlocks(const Tensor& offsets, int64_t pool, int64_t layer, int64_t blockCount) {
  const int64_t count = static_cast<int64_t>(plan_.rows.size());
  if (!offsets.defined()) fail("kv_cache_block_offsets is missing");
  requireElements(offsets);
  const int rank = offsets.rank();
  if (rank < 3 || rank > 4 || offsets.dtype() != DType::Int32 || !offsets.isContiguous() ||
      offsets.size(rank - 2) != 2 || offsets.size(rank - 3) != count)
    fail("kv_cache_block_offsets is {} {}, expected contiguous int32 [{}, 2, blocks]", pythonName(offsets.dtype()),
         dimsText(offsets.sizes()), count);
  if (pool < 0 || pool >= (rank == 4 ? offsets.size(0) : 1)) fail("kv_cache_block_offsets has no pool {}", pool);
  KvCache& cache = plan_.cache;
  cache.blocksPerRow = offsets.size(rank - 1);
  cache.capacity = cache.blocksPerRow * cache.tokensPerBlock;
  const int32_t* values =
      offsets.numel() == 0 ? nullptr : offsets.data<int32_t>() + pool * count * 2 * cache.blocksPerRow;
  cache.blocks.assign(static_cast<size_t>(count * 2 * cache.blocksPerRow), -1);
  firstCacheLayer_ = 2 * layer;
  for (int64_t i = 0; i < count; ++i) {
    KvSource& source = plan_.rows[static_cast<size_t>(i)].source;
    source.row = i;
    if (!source.beams) source.firstBeam = i;
  }
  for (int64_t i = 0; i < count; ++i) {
    const AttentionRow& row = plan_.rows[static_cast<size_t>(i)];
    // Beams after the first need no blocks for the prompt.
    const bool later = row.source.beams && row.source.row != row.source.firstBeam;
    const int64_t first = later && !cache.slots.wraps(row.keys) && row.source.shared < row.keys
                              ? cache.slots.at(row.source.shared) / cache.tokensPerBlock
                          : later ? cache.blocksPerRow
                                  : 0;
    const int64_t end =
        std::min(cache.blocksPerRow, (cache.slots.used(row.keys) + cache.tokensPerBlock - 1) / cache.tokensPerBlock);
    for (int64_t kv = 0; kv < 2; ++kv)
      for (int64_t b = first; b < end; ++b) {
        const int64_t index = (i * 2 + kv) * cache.blocksPerRow + b, block = values[index] + firstCacheLayer_;
        if (values[index] < 0 || block >= blockCount)
          fail("kv_cache_block_offsets[{}, {}, {}] is {}, but the pool has {} blocks from layer {} on", i, kv, b,
               values[index], std::max<int64_t>(0, blockCount - firstCacheLayer_), layer);
        cache.blocks[static_cast<size_t>(index)] = block;
      }
  }
}

void AttentionPlanner::checkCapacity() const {
  const KvCache& cache = plan_.cache;
  for (size_t i = 0; i < plan_.rows.size(); ++i) {
    const AttentionRow& row = plan_.rows[i];
    if (cache.slots.used(row.keys) > cache.capacity)
      fail("row {} has {} tokens and needs {} slots, but the cache has {}", i, row.keys, cache.slots.used(row.keys),
           cache.capacity);
  }
}

// A block that is written stands in one place of the table alone.
void AttentionPlanner::checkBlockSharing() const {
  const KvCache& cache = plan_.cache;
  struct Written {
    int64_t block, place;
    auto operator<=>(const Written&) const = default;
  };
  std::vector<Written> written;
  for (const AttentionRow& row : plan_.rows) {
    if (plan_.cross && !row.context) continue;
    forKept(cache.slots, row.past, row.keys, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; t += cache.run(t, end))
        for (int64_t kv = 0; kv < 2; ++kv) {
          const int64_t place =
              (row.source.row * 2 + kv) * cache.blocksPerRow + cache.slots.at(t) / cache.tokensPerBlock;
          written.push_back({cache.blocks[static_cast<size_t>(place)], place});
        }
    });
  }
  std::sort(written.begin(), written.end());
  const int64_t placesPerRow = 2 * cache.blocksPerRow;
  for (int64_t place = 0; place < static_cast<int64_t>(cache.blocks.size()); ++place) {
    const int64_t block = cache.blocks[static_cast<size_t>(place)];
    if (block < 0) continue;
    auto found = std::lower_bound(written.begin(), written.end(), Written{block, -1});
    for (; found != written.end() && found->block == block; ++found)
      if (found->place != place)
        fail("block {} of the pool is written for row {} and used by row {}", block - firstCacheLayer_,
             found->place / placesPerRow, place / placesPerRow);
  }
}

}  // namespace tscompile
