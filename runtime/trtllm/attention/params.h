// What an attention layer is, apart from the tensors of a call: the fields of tensorrt_llm::GPTAttention with their
// defaults. Enumerations are read by name: their numbers differ between releases of the original.
#pragma once

#include "ir/values/dtype.h"

#include <cstdint>

namespace tscompile {

enum class AttentionMask : uint8_t {
  Padding,
  Causal,
  SlidingWindowCausal,
  Bidirectional,
  BidirectionalGlm,
  BlockSparse,
  Custom
};
enum class PositionEmbedding : uint8_t {
  LearnedAbsolute,
  RopeGptJ,
  RopeGptNeox,
  LongRope,
  Alibi,
  AlibiWithScale,
  Relative,
  ChatGlm,
  Yarn,
  Mrope
};
enum class RotaryScaling : uint8_t { None, Linear, Dynamic, LongRope, Llama3, Yarn, Mrope };

// Bits of kv_cache_quant_mode that say how the cache is stored; the others are about weights.
inline constexpr int64_t kInt8KvCache = 64, kFp8KvCache = 128, kFp4KvCache = 1 << 13;

struct GptAttentionParams {
  // Geometry. Heads are those of this rank.
  int64_t layerIdx = 0, layerIdxInCachePool = 0;
  int64_t numHeads = 0, numKvHeads = 0, headSize = 0;
  int64_t numKvHeadsOrigin = -1;  // -1: numKvHeads
  int64_t visionStart = -1, visionLength = -1;

  double qScaling = 1, softcap = 0;  // softcap 0: none
  bool useLognScaling = false;
  int64_t attentionWindow = 0;  // tokens that one sees with itself, of those in the cache; 0: all
  bool unidirectional = true;   // of implicit relative biases

  PositionEmbedding positionEmbedding = PositionEmbedding::LearnedAbsolute;
  int64_t rotaryDim = 0;
  double rotaryBase = 10000;
  RotaryScaling rotaryScaling = RotaryScaling::None;
  double rotaryScale = 1;
  double rotaryShortMScale = 0, rotaryLongMScale = 0;  // 0: from the two lengths below
  int64_t rotaryMaxPositions = 1024, rotaryOriginalMaxPositions = 1024;
  double llama3LowFactor = 1, llama3HighFactor = 4;
  double yarnMScale = 1, yarnMScaleAll = 0;
  int64_t maxDistance = 0;  // 0: relative biases are explicit

  AttentionMask mask = AttentionMask::Causal;
  int64_t blockSparseBlockSize = 64, blockSparseLocalBlocks = 16, blockSparseVerticalStride = 8;
  bool blockSparseHomoHeads = false;
  bool fullAttentionMask = false;  // there is a mask among the inputs; `mask` is Custom then

  bool unfuseQkvGemm = false, qkvBiasEnabled = false, removeInputPadding = false, crossAttention = false;
  DType type = DType::Float32;

  bool useCache = false;
  int64_t kvCacheQuantMode = 0;
  bool pagedKvCache = false;
  int64_t tokensPerBlock = 64;
  bool oneMoreBlock = false;  // the ring of a paged cyclic cache is one block longer than the window

  bool posShift = false;      // StreamingLLM: keys are cached without rotary, positions are those in the cache
  bool denseContext = false;  // the cyclic window does not bind context requests
  bool skipAttention = false;
  int64_t tpSize = 1, tpRank = 0;

  // Not implemented: asking for one is refused by name.
  bool fuseFp4Quant = false, isMedusa = false, isSpecDecoding = false, isMla = false;
  int64_t cpSize = 1;

  int64_t groupSize() const { return numHeads / numKvHeads; }
  // The last extent of qkv: (H + 2 Hkv) D.
  int64_t qkvWidth() const { return (numHeads + 2 * numKvHeads) * headSize; }
  bool usesRotary() const;
  RotaryScaling effectiveScaling() const;  // long_rope, yarn and mrope as types imply their scaling
  bool isAlibi() const {
    return positionEmbedding == PositionEmbedding::Alibi || positionEmbedding == PositionEmbedding::AlibiWithScale;
  }
};

}  // namespace tscompile
