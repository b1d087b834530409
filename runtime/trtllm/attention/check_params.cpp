// What the fields of an attention layer may be, and which of their features are there.
#include "ir/values/error.h"
#include "runtime/trtllm/attention/plan.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>

namespace tscompile {
namespace {

constexpr int64_t kMostHeads = 1 << 16, kMostExtent = 1 << 30;

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw ExecutionError(ErrorKind::Input, fmt::format(text, std::forward<Args>(args)...));
}

void refuse(bool asked, const char* feature) {
  if (asked) throw ExecutionError(ErrorKind::Unsupported, fmt::format("{} is not supported", feature));
}

void checkRange(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) fail("{} is {}, expected {} to {}", name, value, least, most);
}

void checkPositive(const char* name, double value) {
  if (!(value > 0) || std::isinf(value)) fail("{} is {}, expected a positive number", name, value);
}

void checkFeatures(const GptAttentionParams& p) {
  refuse(p.isMla, "multi-head latent attention (is_mla_enabled)");
  refuse(p.fuseFp4Quant, "fp4 output (fuse_fp4_quant)");
  refuse((p.kvCacheQuantMode & kFp4KvCache) != 0, "an nvfp4 cache (kv_cache_quant_mode)");
  refuse(p.cpSize != 1, "context parallelism (cp_size)");
  refuse(p.isMedusa, "medusa decoding (is_medusa_enabled)");
  refuse(p.isSpecDecoding, "speculative decoding (is_spec_decoding_enabled)");
  refuse(p.crossAttention && (p.isAlibi() || p.positionEmbedding == PositionEmbedding::Relative),
         "a position bias in cross attention");
  refuse(p.fullAttentionMask && p.mask != AttentionMask::Custom,
         "has_full_attention_mask with a mask_type other than custom_mask");
  if (!p.posShift) return;
  const RotaryScaling scaling = p.effectiveScaling();
  refuse(p.visionLength > 0, "pos_shift_enabled with vision_length");
  refuse(scaling == RotaryScaling::Dynamic || scaling == RotaryScaling::LongRope || scaling == RotaryScaling::Mrope,
         "pos_shift_enabled with a rotary scaling that depends on the sequence");
  refuse(p.crossAttention, "pos_shift_enabled in cross attention");
}

void checkRotary(const GptAttentionParams& p) {
  checkRange("rotary_embedding_dim", p.rotaryDim, 2, p.headSize);
  if (p.rotaryDim % 2 != 0) fail("rotary_embedding_dim is {}, expected an even number", p.rotaryDim);
  checkPositive("rotary_embedding_base", p.rotaryBase);
  checkPositive("rotary_embedding_scale", p.rotaryScale);
  checkRange("rotary_embedding_max_positions", p.rotaryMaxPositions, 1, kMostExtent);
  checkRange("rotary_embedding_original_max_positions", p.rotaryOriginalMaxPositions, 1, kMostExtent);
  const RotaryScaling scaling = p.effectiveScaling();
  if (scaling == RotaryScaling::LongRope && p.rotaryOriginalMaxPositions < 2)
    fail("rotary_embedding_original_max_positions is 1, expected at least 2 with long_rope");
  if (scaling == RotaryScaling::Yarn && p.rotaryBase == 1) fail("rotary_embedding_base is 1, which yarn cannot scale");
  if (scaling == RotaryScaling::Llama3 && !(p.llama3LowFactor < p.llama3HighFactor && p.llama3LowFactor > 0))
    fail("the frequency factors of llama3 are {} and {}, expected the first to be less", p.llama3LowFactor,
         p.llama3HighFactor);
  if (p.visionLength > 0) checkRange("vision_start", p.visionStart, -1, kMostExtent);
  checkRange("vision_length", p.visionLength, -1, kMostExtent);
}

}  // namespace

void checkAttentionParams(const GptAttentionParams& p) {
  checkFeatures(p);
  checkRange("num_heads", p.numHeads, 1, kMostHeads);
  checkRange("num_kv_heads", p.numKvHeads, 1, kMostHeads);
  checkRange("head_size", p.headSize, 1, kMostHeads);
  if (p.numHeads % p.numKvHeads != 0)
    fail("num_heads is {}, expected a multiple of num_kv_heads {}", p.numHeads, p.numKvHeads);
  if (p.numHeads * p.headSize > kMostExtent) fail("{} heads of {} are too large", p.numHeads, p.headSize);
  checkRange("layer_idx", p.layerIdx, 0, kMostExtent);
  checkRange("layer_idx_in_cache_pool", p.layerIdxInCachePool, 0, kMostExtent);
  checkPositive("q_scaling", p.qScaling);
  if (!(p.softcap >= 0) || std::isinf(p.softcap))
    fail("attn_logit_softcapping_scale is {}, expected 0 or more", p.softcap);
  checkRange("tp_size", p.tpSize, 1, kMostHeads);
  checkRange("tp_rank", p.tpRank, 0, p.tpSize - 1);
  if (p.type != DType::Float32 && p.type != DType::Float16 && p.type != DType::BFloat16)
    fail("type_id is {}, expected float32, float16 or bfloat16", pythonName(p.type));
  if (p.usesRotary()) checkRotary(p);
  if (p.posShift && !p.useCache) fail("pos_shift_enabled needs use_cache");
  if (p.positionEmbedding == PositionEmbedding::Relative) checkRange("max_distance", p.maxDistance, 0, 1 << 20);
  if (p.mask == AttentionMask::BlockSparse) {
    checkRange("block_sparse_block_size", p.blockSparseBlockSize, 1, kMostExtent);
    checkRange("block_sparse_num_local_blocks", p.blockSparseLocalBlocks, 0, kMostExtent);
    checkRange("block_sparse_vertical_stride", p.blockSparseVerticalStride, 1, kMostExtent);
  }
  if (p.pagedKvCache) {
    if (!p.useCache) fail("paged_kv_cache needs use_cache");
    checkRange("tokens_per_block", p.tokensPerBlock, 1, kMostExtent);
    if (!std::has_single_bit(static_cast<uint64_t>(p.tokensPerBlock)))
      fail("tokens_per_block is {}, expected a power of two", p.tokensPerBlock);
  }
  if ((p.kvCacheQuantMode & kInt8KvCache) && (p.kvCacheQuantMode & kFp8KvCache))
    fail("kv_cache_quant_mode asks for int8 and fp8 at once");
}

}  // namespace tscompile
