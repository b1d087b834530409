// Attention straight from the formulas: one logit, one weight, one sum at a time, in double.
#include "runtime/trtllm/attention/plan.h"

#include <cmath>

namespace tscompile {
namespace {

using Matrix = std::vector<std::vector<double>>;

// The keys of a head that there are to see, with their numbers: tokens that a cyclic cache has lost are left out.
struct Seen {
  std::vector<int64_t> numbers;
  Matrix keys, values;
};

// Rotated keys lie in the cache; those of StreamingLLM are copied in order of their slots and rotated by their place.
Seen seenKeys(const AttentionPlan& plan, const AttentionRow& row, int64_t head) {
  Seen seen;
  std::vector<float> values(static_cast<size_t>(plan.size));
  const bool shifted = plan.shift && !row.context;
  const CacheSlots& slots = plan.cache.slots;
  const VisibleKeys window = visibleKeys(plan.maskOf(row), row.mask, 0);
  for (int64_t j = 0; j < row.keys; ++j) {
    if (j == slots.sinks && plan.readsCache(row, j) && slots.wraps(row.past)) j = row.past - slots.ring;
    if (shifted && j >= window.sinks && j < window.begin) continue;
    const int64_t place = shifted ? static_cast<int64_t>(seen.numbers.size()) : j;
    const float* rotation = plan.shift ? plan.shiftAngles + place * plan.rotaryDim : nullptr;
    plan.readsCache(row, j) ? plan.pastKey(row, j, head, rotation, values.data())
                            : plan.newKey(row, j, head, values.data());
    seen.keys.emplace_back(values.begin(), values.end());
    plan.readsCache(row, j) ? plan.pastValue(row, j, head, values.data()) : plan.newValue(row, j, head, values.data());
    seen.values.emplace_back(values.begin(), values.end());
    seen.numbers.push_back(j);
  }
  return seen;
}

double logit(const AttentionPlan& plan, const std::vector<float>& query, const std::vector<double>& key, int64_t head,
             int64_t position, int64_t number) {
  double sum = 0;
  for (size_t d = 0; d < key.size(); ++d) sum += query[d] * key[d];
  sum *= plan.scale;
  if (plan.softcap > 0) sum = plan.softcap * std::tanh(sum / plan.softcap);
  return sum + static_cast<double>(plan.biasFactor) * plan.positions.at(head, position, number);
}

void attendRow(const AttentionPlan& plan, const AttentionRow& row, int64_t i, int64_t head, const Seen& seen) {
  std::vector<float> query(static_cast<size_t>(plan.size)), result(static_cast<size_t>(plan.size));
  plan.query(row, i, head, query.data());
  std::vector<double> logits(seen.numbers.size(), -INFINITY);
  double largest = -INFINITY, sum = 0;
  for (size_t j = 0; j < logits.size(); ++j) {
    if (!isVisible(plan.maskOf(row), row.mask, head, i, seen.numbers[j])) continue;
    logits[j] = logit(plan, query, seen.keys[j], head, row.position(i), seen.numbers[j]);
    if (logits[j] > largest || std::isnan(logits[j])) largest = logits[j];
  }
  std::vector<double> out(static_cast<size_t>(plan.size), 0);
  if (largest > -INFINITY || std::isnan(largest)) {
    if (!plan.attentionSinks.empty()) {
      const double sink = plan.attentionSinks[static_cast<size_t>(head)];
      largest = std::max(largest, sink);
      sum += std::exp(sink - largest);
    }
    for (double& x : logits) sum += x = std::exp(x - largest);
    for (size_t j = 0; j < logits.size(); ++j)
      for (size_t d = 0; d < out.size() && logits[j] != 0; ++d) out[d] += logits[j] / sum * seen.values[j][d];
  }
  for (size_t d = 0; d < out.size(); ++d) result[d] = static_cast<float>(out[d]);
  storeValues(plan.output, result.data(), plan.size, plan.context.at(row.firstToken + i, head));
}

}  // namespace

void runAttentionReference(const AttentionPlan& plan) {
  for (int64_t t = 0; t < plan.tokens; ++t) plan.clear(t);
  if (plan.skip) return;
  std::vector<float> scratch(static_cast<size_t>(plan.size));
  for (const AttentionRow& row : plan.rows)
    for (int64_t kv = 0; kv < plan.kvHeads; ++kv) {
      const Seen seen = seenKeys(plan, row, kv);
      plan.store(row, kv, scratch.data());
      for (int64_t h = kv * plan.group; h < (kv + 1) * plan.group; ++h)
        for (int64_t i = 0; i < row.tokens; ++i) attendRow(plan, row, i, h, seen);
    }
}

}  // namespace tscompile
