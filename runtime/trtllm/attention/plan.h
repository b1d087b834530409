// One call of attention, checked and resolved: what the reference and the fast kernel both run. After planning no
// index that a kernel forms can lie outside of its tensor.
#pragma once

#include "ir/values/memory.h"
#include "runtime/trtllm/attention/gpt_attention.h"
#include "runtime/trtllm/attention/kv_cache.h"
#include "runtime/trtllm/attention/masks.h"
#include "runtime/trtllm/attention/position_bias.h"
#include "runtime/trtllm/attention/token_rows.h"

#include <memory>
#include <vector>

namespace tscompile {

// One row of the batch: a context request, or a beam of a generation request.
struct AttentionRow {
  bool context = true;
  int64_t firstToken = 0;  // in the projections
  int64_t tokens = 0;      // new
  int64_t past = 0;        // tokens before them
  int64_t keys = 0;        // that there are to see: past + tokens, or those of the encoder
  int64_t firstKey = 0;    // cross attention: the first token in crossKv
  KvSource source;
  MaskPass mask;

  // Logits and masks take the new token i to be at this position of its keys.
  int64_t position(int64_t i) const { return i + keys - tokens; }
};

struct AttentionPlan {
  int64_t heads = 0, kvHeads = 0, group = 0, size = 0;
  float scale = 1, softcap = 0;
  TokenRows q, k, v;  // k, v: of new tokens, or of the encoder in cross attention
  TokenRows context;
  ValueFormat output;
  const float* qBias = nullptr;  // of head 0
  const float* kBias = nullptr;
  const float* vBias = nullptr;
  std::vector<float> bias, attentionSinks, logn;  // empty: there are none; logn: of each new token

  std::vector<AttentionRow> rows;
  int64_t tokens = 0;  // of the projections, padding included
  bool packed = false;
  bool skip = false;
  bool cross = false;
  MaskRule contextMask, generationMask;
  const MaskRule& maskOf(const AttentionRow& row) const { return row.context ? contextMask : generationMask; }
  PositionBias positions;
  float biasFactor = 1;  // of positions
  KvCache cache;

  // Rotary: (cos, sin) pairs of each new token; null without.
  int64_t rotaryDim = 0;
  bool neox = false;
  std::vector<const float*> angles;
  // StreamingLLM: keys in the cache are not rotated; of key number i of those seen, or of token i in a context row.
  bool shift = false;
  const float* shiftAngles = nullptr;
  std::vector<float> computedAngles, computedShiftAngles;
  std::unique_ptr<MemoryCharge> computedBytes;
  // What was checked: the input itself may lie in the memory that new keys are written to.
  std::vector<int32_t> beams;

  // The others are among the projections.
  bool readsCache(const AttentionRow& row, int64_t key) const { return cross ? !row.context : key < row.past; }
  int64_t newToken(const AttentionRow& row, int64_t key) const;
  // A new key or value as the cache gives it back.
  void newKey(const AttentionRow& row, int64_t key, int64_t head, float* to) const;
  void newValue(const AttentionRow& row, int64_t key, int64_t head, float* to) const;
  // `rotation`: angles of a key that is cached without rotary, or null.
  void pastKey(const AttentionRow& row, int64_t key, int64_t head, const float* rotation, float* to) const;
  void pastValue(const AttentionRow& row, int64_t key, int64_t head, float* to) const;
  void rotateKey(float* values, const float* rotation) const;
  // With its bias, rotated and scaled by logn.
  void query(const AttentionRow& row, int64_t i, int64_t head, float* to) const;
  // Zeros instead of the context of a token that is padding, or of all.
  void clear(int64_t token) const;
  // Writes the new keys and values of a head that the cache keeps. `scratch`: one row.
  void store(const AttentionRow& row, int64_t head, float* scratch) const;

 private:
  void storeRun(const AttentionRow& row, int64_t head, int64_t key, int64_t count, float* scratch) const;
};

// Throws ExecutionError: what is wrong, or not implemented.
void checkAttentionParams(const GptAttentionParams& params);
AttentionPlan planAttention(const GptAttentionParams& params, const GptAttentionInputs& inputs, const Tensor& context);

void runAttentionReference(const AttentionPlan& plan);
void runAttention(const AttentionPlan& plan, int threads);

}  // namespace tscompile
