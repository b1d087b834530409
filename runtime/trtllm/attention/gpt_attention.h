// Attention of language models over packed or padded batches with a cache of keys and values: the mathematics of
// tensorrt_llm::GPTAttention. One reference straight from the formulas, one fast kernel; both run the same checks.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/values/tensor.h"
#include "runtime/trtllm/attention/params.h"

#include <optional>
#include <string>
#include <vector>

namespace tscompile {

// Undefined where absent. Lengths, window sizes, types, offsets and cache indirection are int32; B counts rows: context
// requests, then beams of generation requests.
struct GptAttentionInputs {
  // [B, S, (H + 2 Hkv) D], or [tokens, (H + 2 Hkv) D] packed. With `k` and `v`: [.., H D], [.., Hkv D], [.., Hkv D], or
  // each with heads and their size as two dimensions. Any strides, but the last dimension is contiguous. f32, f16,
  // bf16.
  Tensor qkv, k, v;
  Tensor qkvBias;  // [(H + 2 Hkv) D]

  Tensor hostRequestTypes;             // [B]: 0 context, 1 generation; absent: all context
  Tensor contextLengths;               // [B]: new tokens of a context row; the prompt's length of a generation row
  Tensor hostContextLengths;           // [B]: the same
  Tensor sequenceLength;               // [B]: tokens including the new ones; absent: there are none before
  Tensor hostPastKeyValueLengths;      // [B]: of generation rows
  Tensor hostMaxAttentionWindowSizes;  // [layers]; absent: no window
  Tensor hostSinkTokenLength;          // [1]; absent: 0
  Tensor cacheIndirection;  // [generation requests, beams, capacity]: the beam that a past token is read from

  Tensor pastKeyValue;            // [rows, 2, Hkv, capacity, D]; rows: those of B, or beams times the requests
  Tensor kvCachePool;             // any number of blocks [Hkv, tokensPerBlock, D]
  Tensor kvCacheBlockOffsets;     // [B, 2, blocks] or [pools, B, 2, blocks]; 2: keys, values
  Tensor hostKvCachePoolMapping;  // [layers, 2]: pool, layer inside the pool; absent: 0, layerIdxInCachePool
  Tensor kvCacheQuantizationScale, kvCacheDequantizationScale;  // f32 [1]

  Tensor attentionMask;        // bool [tokens, columns]: rows as the tokens of qkv, columns are keys of a sequence
  Tensor attentionPackedMask;  // int32 [tokens, words]: bit c % 32 of word c / 32

  Tensor rotaryInvFreq, rotaryCosSin;                  // f32 [dim / 2]; f32 [positions, dim], pairs of cos and sin
  Tensor longRopeRotaryInvFreq, longRopeRotaryCosSin;  // for sequences beyond the original length
  Tensor mropeRotaryCosSin;                            // f32 [B, positions, dim]: of context rows
  Tensor mropePositionDeltas;                          // [B]: added to positions of generation rows
  Tensor alibiSlopes;                                  // f32 [H]; absent: computed
  Tensor relativeAttentionBias;                        // [H, queries, keys], or [H, buckets] with maxDistance > 0
  Tensor lognScaling;                                  // f32 [positions]
  Tensor attentionSinks;                               // f32 [H]: a learnt logit that takes weight from the keys

  Tensor crossKv;                           // [B, keys, 2 Hkv D] or packed: read by context rows
  Tensor encoderInputLengths;               // [B]
  Tensor attentionOutputQuantizationScale;  // f32 [1]: the result is fp8 (uint8 tensor)
  Tensor skipAttention;                     // bool [1]: the result is zeros, the cache stays
};

struct GptAttentionProblem {
  ErrorKind kind = ErrorKind::Input;  // Unsupported: a feature that is not implemented, by name
  std::string message;
};

// What is wrong with the fields, whatever the inputs are.
std::optional<GptAttentionProblem> gptAttentionProblem(const GptAttentionParams& params);
// What is wrong with a call. No values in the tensors make a call without a problem leave their memory.
std::optional<GptAttentionProblem> gptAttentionProblem(const GptAttentionParams& params,
                                                       const GptAttentionInputs& inputs, const Tensor& context);

// context: [B, S, H D] or [tokens, H D] (or with heads apart), rows of padding become zeros; the caches among the
// inputs are written in place. Nothing is written if there is a problem. The result has the same bits for every number
// of threads.
std::optional<GptAttentionProblem> gptAttention(const GptAttentionParams& params, const GptAttentionInputs& inputs,
                                                const Tensor& context, int threads);
// The same from the formulas, in double and without regard to speed.
std::optional<GptAttentionProblem> gptAttentionReference(const GptAttentionParams& params,
                                                         const GptAttentionInputs& inputs, const Tensor& context);

}  // namespace tscompile
