#include "runtime/engine/layers/attention_layer.h"

#include "runtime/engine/layers/operands.h"
#include "runtime/reference/views.h"

#include <cmath>

namespace tscompile {

void AttentionLayer::run(Frame& frame) const {
  auto matrix = [&](size_t i, const Side& s) {
    return BatchedMatrix{frame.data<float>(inputs[i]), s.outer, s.inner, s.row, s.column};
  };
  ScoreMask m;
  m.hides = hides;
  m.hidden = hidden;
  m.flagsLast = flagsLast;
  m.flagsAt = flags.strides;
  if (flags.input != kNoInput) m.flags = frame.data<bool>(inputs[flags.input]);
  for (int i = 0; i < ScoreMask::kMostAdded; ++i) {
    if (added[i].input != kNoInput) m.added[i] = frame.data<float>(inputs[added[i].input]);
    m.addedAt[i] = added[i].strides;
  }
  attention(shape, matrix(0, q), matrix(1, k), matrix(2, v), m, frame.data<float>(outputs[0]), out.outer, out.inner,
            out.row, frame.threads());
}

KnownMask meaningOf(const Tensor& mask, int64_t queries, int64_t keys) {
  const int rank = mask.rank();
  const bool isOne = mask.numel() == queries * keys;  // the same for all pairs
  if (rank < 2 || !isOne || mask.size(rank - 2) != queries || mask.size(rank - 1) != keys) return KnownMask::Other;
  bool all = true, causal = true;
  for (int64_t q = 0; q < queries && (all || causal); ++q)
    for (int64_t k = 0; k < keys; ++k) {
      const int64_t at = q * mask.stride(rank - 2) + k * mask.stride(rank - 1);
      bool seen, hidden;
      if (mask.dtype() == DType::Bool) {
        seen = mask.data<bool>()[at];
        hidden = !seen;
      } else {
        const float added = mask.data<float>()[at];
        seen = added == 0;
        hidden = std::isinf(added) && added < 0;
      }
      all &= seen;
      causal &= k <= q ? seen : hidden;
    }
  return all ? KnownMask::SeesAll : causal ? KnownMask::Causal : KnownMask::Other;
}

namespace {

// An operand as matrices of `rows` x `columns` under two batch dimensions.
struct Operand {
  TensorId id;
  AttentionLayer::Side side;
};
Operand operandOf(ConvertCall& call, const Tensor& t, DimSpan batch, int64_t rows, int64_t columns) {
  Dims sizes(batch);
  sizes.push_back(rows);
  sizes.push_back(columns);
  Tensor whole = expandedTo(t, sizes);
  const int64_t inner = batch.empty() ? 1 : batch.back(), outer = checkedNumel(batch).value_or(0) / inner;
  const Dims pairs{outer, inner, rows, columns};
  std::optional<Dims> strides = viewStrides(whole, pairs);
  if (!strides) {
    whole = call.compute("aten::clone", {whole, int64_t{0}}).toTensor();
    strides = contiguousStrides(pairs);
  }
  auto stride = [&](size_t d) { return pairs[d] == 1 ? 0 : (*strides)[d]; };
  // A single column is contiguous however far the next would be.
  const int64_t column = columns == 1 ? 1 : stride(3);
  return {call.idOf(whole), {stride(0), stride(1), stride(2), column}};
}

bool broadcastsTo(DimSpan from, DimSpan to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 0; i < from.size(); ++i)
    if (int64_t size = from[i]; size != 1 && size != to[to.size() - from.size() + i]) return false;
  return true;
}

// Adds the mask; false if it is none that scores can have.
bool addMask(ConvertCall& call, const Tensor& mask, DimSpan batch, AttentionLayer& layer) {
  const AttentionShape& s = layer.shape;
  Dims scores(batch);
  scores.push_back(s.queries);
  scores.push_back(s.keys);
  if ((mask.dtype() != DType::Bool && !isF32(mask)) || !broadcastsTo(mask.sizes(), scores)) return false;
  KnownMask meaning = call.isNetworkTensor(3) ? KnownMask::Other : meaningOf(mask, s.queries, s.keys);
  if (meaning == KnownMask::Causal) layer.shape.causal = true;
  if (meaning != KnownMask::Other) return true;
  Operand m = operandOf(call, mask, batch, s.queries, s.keys);
  AttentionLayer::Mask& place = isF32(mask) ? layer.added[0] : layer.flags;
  place = {layer.inputs.size(), {m.side.outer, m.side.inner, m.side.row, m.side.column}};
  layer.inputs.push_back(m.id);
  return true;
}

}  // namespace

void convertAttention(ConvertCall& call) {
  Tensor q = call.tensor(0), k = call.tensor(1), v = call.tensor(2);
  if (!isF32(q)) return convertToKernel(call, kNotF32);
  const Dims& sizes = call.spec().sizes;
  if (checkedNumel(sizes) == 0 || k.numel() == 0 || q.numel() == 0) return convertToKernel(call, kEmpty);
  if (call.number(4) != 0) return convertToKernel(call, "weights are dropped");
  const bool grouped = call.size() > 7 && call.flag(7);
  Dims batch(DimSpan(sizes.data(), sizes.size() - 2)), keyBatch = batch;
  auto last = [](const Tensor& t, int back) { return t.size(t.rank() - back); };
  auto layer = std::make_unique<AttentionLayer>(call.node());
  AttentionShape& s = layer->shape;
  s.inner = batch.empty() ? 1 : batch.back();
  s.outer = *checkedNumel(batch) / s.inner;
  s.queries = last(q, 2);
  s.keys = last(k, 2);
  s.depth = last(q, 1);
  s.valueDepth = last(v, 1);
  s.scale = static_cast<float>(call.size() > 6 && !call.isNone(6) ? call.number(6)
                                                                  : 1 / std::sqrt(static_cast<double>(s.depth)));
  s.causal = call.flag(5);
  s.hiddenGivesZero = call.size() > 7;  // so from PyTorch 2.5 on, as are grouped heads
  if (grouped) {
    const int64_t heads = q.rank() < 3 || k.rank() != q.rank() || v.rank() != q.rank() ? 0 : last(k, 3);
    if (heads == 0 || last(v, 3) != heads || s.inner % heads != 0)
      return convertToKernel(call, "the heads are not grouped evenly");
    keyBatch.back() = heads;
    s.headsPerKey = s.inner / heads;
    if (!broadcastsTo(k.sizes().first(static_cast<size_t>(k.rank() - 2)), keyBatch) ||
        !broadcastsTo(v.sizes().first(static_cast<size_t>(v.rank() - 2)), keyBatch))
      return convertToKernel(call, "the heads are not grouped evenly");
  }
  Operand queries = operandOf(call, q, batch, s.queries, s.depth);
  Operand keys = operandOf(call, k, keyBatch, s.keys, s.depth);
  Operand values = operandOf(call, v, keyBatch, s.keys, s.valueDepth);
  layer->q = queries.side;
  layer->k = keys.side;
  layer->v = values.side;
  layer->out = {s.inner * s.queries * s.valueDepth, s.queries * s.valueDepth, s.valueDepth, 1};
  layer->inputs = {queries.id, keys.id, values.id};
  if (!call.isNone(3) && !addMask(call, call.tensor(3), batch, *layer))
    return convertToKernel(call, "the mask is neither bool nor float32, or not of the scores' sizes");
  layer->outputs = {call.makeResult()};
  call.network().layers.push_back(std::move(layer));
}

}  // namespace tscompile
