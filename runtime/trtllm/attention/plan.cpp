// Rows of a planned call: queries, keys and values as the formulas have them.
#include "runtime/trtllm/attention/plan.h"

#include "ir/values/error.h"
#include "runtime/trtllm/attention/rotary.h"

#include <algorithm>
#include <cstring>

namespace tscompile {
namespace {

void loadRow(const TokenRows& rows, int64_t token, int64_t head, int64_t size, const float* bias, float* to) {
  loadValues({rows.storage}, rows.at(token, head), size, to);
  if (!bias) return;
  bias += head * size;
  for (int64_t i = 0; i < size; ++i) to[i] += bias[i];
}

// What storing and loading leaves of values.
void roundTrip(const ValueFormat& format, float* values, int64_t count) {
  if (format.storage == DType::Float32) return;
  alignas(16) std::byte stored[256];
  for (int64_t i = 0; i < count; i += 128) {
    const int64_t some = std::min<int64_t>(128, count - i);
    storeValues(format, values + i, some, stored);
    loadValues(format, stored, some, values + i);
  }
}

}  // namespace

int64_t AttentionPlan::newToken(const AttentionRow& row, int64_t key) const {
  return cross ? row.firstKey + key : row.firstToken + key - row.past;
}

void AttentionPlan::newKey(const AttentionRow& row, int64_t key, int64_t head, float* to) const {
  const int64_t token = newToken(row, key);
  loadRow(k, token, head, size, kBias, to);
  if (rotaryDim != 0 && !shift) rotate(to, angles[static_cast<size_t>(token)], rotaryDim, neox);
  if (cache.data) roundTrip(cache.format, to, size);
  if (shift) rotate(to, angles[static_cast<size_t>(token)], rotaryDim, neox);
}

void AttentionPlan::newValue(const AttentionRow& row, int64_t key, int64_t head, float* to) const {
  loadRow(v, newToken(row, key), head, size, vBias, to);
  if (cache.data) roundTrip(cache.format, to, size);
}

void AttentionPlan::query(const AttentionRow& row, int64_t i, int64_t head, float* to) const {
  const int64_t token = row.firstToken + i;
  loadRow(q, token, head, size, qBias, to);
  if (rotaryDim != 0) rotate(to, angles[static_cast<size_t>(token)], rotaryDim, neox);
  if (logn.empty()) return;
  const float factor = logn[static_cast<size_t>(token)];
  for (int64_t d = 0; d < size; ++d) to[d] *= factor;
}

void AttentionPlan::pastKey(const AttentionRow& row, int64_t key, int64_t head, const float* rotation,
                            float* to) const {
  loadValues(cache.format, cache.at(row.source.rowOf(key), false, head, cache.slots.at(key)), size, to);
  if (rotation) rotate(to, rotation, rotaryDim, neox);
}

void AttentionPlan::pastValue(const AttentionRow& row, int64_t key, int64_t head, float* to) const {
  loadValues(cache.format, cache.at(row.source.rowOf(key), true, head, cache.slots.at(key)), size, to);
}

void AttentionPlan::rotateKey(float* values, const float* rotation) const { rotate(values, rotation, rotaryDim, neox); }

void AttentionPlan::clear(int64_t token) const {
  for (int64_t h = 0; h < heads; ++h)
    std::memset(context.at(token, h), 0, static_cast<size_t>(size * static_cast<int64_t>(itemSize(context.storage))));
}

void AttentionPlan::storeRun(const AttentionRow& row, int64_t head, int64_t key, int64_t count, float* scratch) const {
  const bool floats = k.storage == DType::Float32 && cache.format.storage == DType::Float32;
  const bool rotated = rotaryDim != 0 && !shift;
  const int64_t bytes = size * cache.format.itemBytes(), slot = cache.slots.at(key);
  std::byte* keys = cache.at(row.source.row, false, head, slot);
  std::byte* values = cache.at(row.source.row, true, head, slot);
  for (int64_t i = 0; i < count; ++i, keys += bytes, values += bytes) {
    const int64_t token = newToken(row, key + i);
    if (floats && !kBias && !rotated) {
      std::memcpy(keys, k.at(token, head), static_cast<size_t>(bytes));
    } else {
      loadRow(k, token, head, size, kBias, scratch);
      if (rotated) rotateKey(scratch, angles[static_cast<size_t>(token)]);
      storeValues(cache.format, scratch, size, keys);
    }
    if (floats && !vBias) {
      std::memcpy(values, v.at(token, head), static_cast<size_t>(bytes));
    } else {
      loadRow(v, token, head, size, vBias, scratch);
      storeValues(cache.format, scratch, size, values);
    }
  }
}

void AttentionPlan::store(const AttentionRow& row, int64_t head, float* scratch) const {
  if (!cache.data || (cross && !row.context)) return;
  const int64_t lost = row.keys - cache.slots.ring;
  for (int64_t key = row.past; key < row.keys;) {
    // Tokens that later ones would overwrite are left out.
    if (cache.slots.wraps(row.keys) && key >= cache.slots.sinks && key < lost) key = lost;
    const int64_t count = cache.run(key, row.keys);
    storeRun(row, head, key, count, scratch);
    key += count;
  }
}

namespace {

template <class Run>
std::optional<GptAttentionProblem> guarded(Run&& run) {
  try {
    run();
    return std::nullopt;
  } catch (const ExecutionError& e) {
    return GptAttentionProblem{e.kind(), e.message()};
  }
}

}  // namespace

std::optional<GptAttentionProblem> gptAttentionProblem(const GptAttentionParams& params) {
  return guarded([&] { checkAttentionParams(params); });
}

std::optional<GptAttentionProblem> gptAttentionProblem(const GptAttentionParams& params,
                                                       const GptAttentionInputs& inputs, const Tensor& context) {
  return guarded([&] { planAttention(params, inputs, context); });
}

std::optional<GptAttentionProblem> gptAttention(const GptAttentionParams& params, const GptAttentionInputs& inputs,
                                                const Tensor& context, int threads) {
  return guarded([&] { runAttention(planAttention(params, inputs, context), threads); });
}

std::optional<GptAttentionProblem> gptAttentionReference(const GptAttentionParams& params,
                                                         const GptAttentionInputs& inputs, const Tensor& context) {
  return guarded([&] { runAttentionReference(planAttention(params, inputs, context)); });
}

}  // namespace tscompile
