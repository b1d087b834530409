// Attention: softmax(query @ key^T) @ value, alone and with the projections around it.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/attention_layer.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/matmul.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tscompile {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// ---- scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, ...) ----

struct AttentionSizes {
  Dims batch;
  int64_t queries, keys, features;
};

// The batch of keys or values, with a head for each of the query's if several of those share one.
Dims batchBeside(const TensorInfo& query, const TensorInfo& t, bool grouped) {
  Dims out(t.sizes);
  if (grouped && query.rank() >= 3 && t.rank() >= 3) out[t.rank() - 3] = query.sizes[query.rank() - 3];
  return out;
}

AttentionSizes attentionSizes(const InferCall& call, bool grouped) {
  TensorInfo q = call.rankedTensor(0), k = call.rankedTensor(1), v = call.rankedTensor(2);
  for (const TensorInfo& t : {q, k, v})
    call.require(t.rank() >= 2, "the query, key and value must have at least 2 dimensions, got sizes {}",
                 dimsText(t.sizes));
  for (const TensorInfo& t : {k, v}) requireSameDType(call, q, t);
  auto last = [](const TensorInfo& t, size_t back) { return t.sizes[t.rank() - back]; };
  call.require(!differ(last(q, 1), last(k, 1)), "the query and key have {} and {} features", last(q, 1), last(k, 1));
  call.require(!differ(last(k, 2), last(v, 2)), "there are {} keys, but {} values", last(k, 2), last(v, 2));
  Dims keyBatch = broadcastBatches(q.sizes, batchBeside(q, k, grouped));
  Dims sizes = withMatrix(keyBatch, last(q, 2), last(k, 2));
  Dims batch = broadcastBatches(sizes, batchBeside(q, v, grouped));
  return {batch, last(q, 2), last(k, 2), last(v, 1)};
}

// What PyTorch 2 asks of a mask: where its fused kernel is to run, it has queries and keys.
void requireMask(const InferCall& call) {
  const TensorInfo q = call.rankedTensor(0), mask = call.tensor(3);
  const bool isOther = q.dtype != DType::Undefined && mask.dtype != q.dtype && mask.dtype != DType::Undefined;
  call.require(!isOther || mask.dtype == DType::Bool || mask.dtype == DType::Float32,
               "expected attn_mask dtype to be bool or float or to match query dtype, but got {} for a query of {}",
               pythonName(mask.dtype), pythonName(q.dtype));
  auto hasBatch = [&](const TensorInfo& t) {
    return t.rank() == 4 && isKnownSize(q.sizes[0]) && t.sizes[0] == q.sizes[0];
  };
  if (q.rank() != 4 || !hasBatch(call.rankedTensor(1)) || !hasBatch(call.rankedTensor(2)) || !mask.hasRank) return;
  call.require(mask.rank() != 1, "Dimension out of range (expected to be in range of [-1, 0], but got -2)");
  call.require(mask.rank() != 0, "Dimension specified as -2 but tensor has no dimensions");
}

// Where the flags stand depends on the version: positions of is_causal, scale and enable_gqa, 0 if there is none.
template <bool kWithWeights, size_t kCausal, size_t kScale, size_t kGrouped>
void inferAttention(InferCall& call) {
  bool grouped = kGrouped && call.flag(kGrouped);
  AttentionSizes sizes = attentionSizes(call, grouped);
  call.require(call.isNone(3) || !call.flag(kCausal),
               "attention: an explicit attn_mask should not be set when is_causal=True");
  if (kGrouped && !call.isNone(3)) requireMask(call);
  double p = call.number(4);
  call.require(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got {}", p);
  DType dtype = call.tensor(0).dtype;
  call.result(dtype, withMatrix(sizes.batch, sizes.queries, sizes.features));
  if (kWithWeights) {
    Dims batch = broadcastBatches(call.tensor(0).sizes, call.tensor(1).sizes);
    call.result(dtype, withMatrix(batch, sizes.queries, sizes.keys));
  }
}

// A masked score is -inf where the mask is false; other masks are added.
void maskScores(const KernelCall& call, const Tensor& scores, const Tensor& mask) {
  Dims sizes(scores.sizes());
  call.require(broadcastInto(sizes, mask.sizes()) &&
                   std::equal(sizes.begin(), sizes.end(), scores.sizes().begin(), scores.sizes().end()),
               "a mask of sizes {} cannot be broadcast to the scores' sizes {}", dimsText(mask.sizes()),
               dimsText(scores.sizes()));
  if (mask.dtype() == DType::Bool)
    mapTensors<kFloats>(
        scores.dtype(), [](auto s, auto m) { return m != 0 ? s : decltype(s)(kNever); }, scores, scores, mask);
  else
    mapTensors<kFloats>(
        scores.dtype(), [](auto s, auto m) { return s + m; }, scores, scores, mask);
}

// PyTorch 2 computes without a batch as with one of 1, which the mask may have.
Tensor maskBeside(const Tensor& query, const Tensor& mask) {
  const bool hasBatch = query.rank() == 3 && mask.rank() == 4 && mask.size(0) == 1;
  return hasBatch ? selected(mask, 0, 0) : mask;
}

void maskFuture(const Tensor& scores) {
  int64_t queries = scores.size(scores.rank() - 2), keys = scores.size(scores.rank() - 1);
  for (int64_t i = 0; i < queries && i + 1 < keys; ++i) {
    Tensor row = selected(scores, scores.rank() - 2, i);
    fillTensor(narrowed(row, row.rank() - 1, i + 1, keys - i - 1), kNever);
  }
}

Tensor softmaxOf(const KernelCall& call, const Tensor& scores) {
  return invokeTensor(call, "aten::softmax.int", {scores, scores.rank() - 1, IValue()});
}

// Queries that see no key have weights of zero, as from PyTorch 2.5 on; before, NaN.
void zeroHidden(const Tensor& scores, const Tensor& weights) {
  const int64_t keys = scores.size(scores.rank() - 1);
  auto zero = [&](auto one) {
    using T = decltype(one);
    for (int64_t row = 0; row < scores.numel(); row += keys) {
      const T* s = scores.data<T>() + row;
      if (std::all_of(s, s + keys, [](T x) { return x == static_cast<T>(kNever); }))
        std::fill_n(weights.data<T>() + row, keys, T(0));
    }
  };
  if (keys > 0) scores.dtype() == DType::Float64 ? zero(0.0) : zero(0.0f);
}

// Keys and values whose heads are each for several heads of the query.
Tensor repeatedHeads(const KernelCall& call, const Tensor& t, const Tensor& query) {
  call.require(t.rank() >= 3 && query.rank() == t.rank(), "grouped attention needs tensors with heads, got sizes {}",
               dimsText(t.sizes()));
  int64_t heads = t.size(t.rank() - 3), wanted = query.size(query.rank() - 3);
  call.require(heads > 0 && wanted % heads == 0,
               "the query has {} heads, which is no multiple of the {} heads of the keys and values", wanted, heads);
  Tensor split = unsqueezed(t, t.rank() - 2);
  Dims sizes(split.sizes());
  sizes[sizes.size() - 3] = wanted / heads;
  Dims joined(t.sizes());
  joined[joined.size() - 3] = wanted;
  return reshaped(expandedTo(split, sizes), joined);
}

// PyTorch's fused kernels lay their result out as the query is, so that later views of joined heads need no copy.
Tensor inLayoutOf(const Tensor& query, const Tensor& result) {
  bool same = result.rank() >= 3 && result.rank() <= 4 && Dims(query.sizes()) == Dims(result.sizes()) &&
              query.strides()[query.rank() - 1] == 1;
  if (!same) return result;
  Tensor out = emptyLike(query, result.dtype());
  copyTensor(out, result);
  return out;
}

template <bool kWithWeights, size_t kCausal, size_t kScale, size_t kGrouped>
void attentionKernel(KernelCall& call) {
  Tensor query = call.tensor(0), key = call.tensor(1), value = call.tensor(2);
  if (kGrouped && call.flag(kGrouped)) key = repeatedHeads(call, key, query), value = repeatedHeads(call, value, query);
  DType stored = query.dtype(), dtype = stored == DType::Float64 ? stored : DType::Float32;
  query = convertTensor(query, dtype), key = convertTensor(key, dtype), value = convertTensor(value, dtype);
  auto features = static_cast<double>(query.size(query.rank() - 1));
  double scale = kScale && !call.isNone(kScale) ? call.number(kScale) : 1 / std::sqrt(features);
  Dims batch(batchOf(query.sizes()));
  call.require(broadcastInto(batch, batchOf(key.sizes())), "the batches of query and key cannot be broadcast together");
  Tensor scores = Tensor::empty(dtype, withMatrix(batch, query.size(query.rank() - 2), key.size(key.rank() - 2)));
  multiplyBatches(scores, invokeTensor(call, "aten::mul.Scalar", {query, scale}),
                  transposed(key, key.rank() - 2, key.rank() - 1));
  if (!call.isNone(3)) maskScores(call, scores, kGrouped ? maskBeside(query, call.tensor(3)) : call.tensor(3));
  if (call.flag(kCausal)) maskFuture(scores);
  Tensor weights = softmaxOf(call, scores);
  if (kGrouped) zeroHidden(scores, weights);
  if (call.number(4) > 0) weights = invokeTensor(call, "aten::dropout", {weights, call.argument(4), true});
  Tensor out = Tensor::empty(dtype, call.spec().sizes);
  multiplyBatches(out, weights, value);
  out = convertTensor(out, stored);
  bool isFused = !kWithWeights && call.number(4) == 0 && !call.tensor(0).isContiguous();
  call.setResult(0, isFused ? inLayoutOf(call.tensor(0), out) : out);
  if (kWithWeights) call.setResult(1, convertTensor(weights, stored));
}

// ---- projections ----

// (qkv [batch, time, 3 * features], bias, heads) -> query, key, value, each [batch, heads, time, features / heads]; the
// query is scaled.
void inferSplitHeads(InferCall& call) {
  TensorInfo qkv = call.rankedTensor(0), bias = call.rankedTensor(1);
  int64_t heads = call.integer(2);
  requireSameScalarType(call, qkv, bias);
  call.require(qkv.rank() == 3, "expected a tensor of 3 dimensions, got {}", qkv.rank());
  call.require(bias.rank() == 1 && !differ(bias.sizes[0], qkv.sizes[2]),
               "expected a bias for each of {} features, got sizes {}", qkv.sizes[2], dimsText(bias.sizes));
  int64_t features = qkv.sizes[2];
  call.require(heads > 0, "expected one head at least, got {}", heads);
  int64_t each = floorDiv(SizeExpression::ofSize(features), 3 * heads).size();
  if (isKnownSize(features)) {
    call.require(features % 3 == 0 && features / 3 % heads == 0,
                 "{} features cannot be divided among query, key and value of {} heads", features, heads);
    each = features / 3 / heads;
  }
  for (int i = 0; i < 3; ++i) call.result(qkv.dtype, Dims{qkv.sizes[0], heads, qkv.sizes[1], each});
}

// The same as views where it can be: [batch, time, heads * n] -> [batch, heads, time, n].
Tensor splitHeads(const Tensor& t, int64_t heads) {
  return transposed(reshaped(t, Dims{t.size(0), t.size(1), heads, t.size(2) / heads}), 1, 2);
}

void splitHeadsKernel(KernelCall& call) {
  Tensor sum = invokeTensor(call, "aten::add.Tensor", {call.tensor(0), call.tensor(1), 1});
  int64_t features = sum.size(2) / 3, heads = call.integer(2);
  for (int64_t i = 0; i < 3; ++i) {
    Tensor part = splitHeads(contiguous(narrowed(sum, 2, i * features, features)), heads);
    if (i == 0)
      part = invokeTensor(call, "aten::mul.Scalar", {part, 1 / std::sqrt(static_cast<double>(features / heads))});
    call.setResult(static_cast<size_t>(i), contiguous(part));
  }
}

// What the layer and the attention alone have in common.
struct Projections {
  Tensor qkvWeight, qkvBias, weight, bias;
};

struct Attended {
  Tensor out, weights;
};

// Masks are true where a key is not looked at. Type 0: [queries, keys]; type 1: [batch, keys]; 2: [batch, heads,
// queries, keys].
void hideScores(const KernelCall& call, const Tensor& scores, Tensor mask, const IValue& type) {
  call.require(type.isInt() && type.toInt() >= 0 && type.toInt() <= 2, "a mask needs a mask type of 0, 1 or 2");
  if (type.toInt() == 1 && mask.rank() == 2) mask = unsqueezed(unsqueezed(mask, 1), 1);
  Tensor seen = invokeTensor(call, "aten::logical_not", {mask});
  maskScores(call, scores, seen);
}

void requireSizes(const KernelCall& call, const char* name, const Tensor& t, Dims sizes) {
  call.require(std::equal(sizes.begin(), sizes.end(), t.sizes().begin(), t.sizes().end()),
               "expected {} of sizes {}, got {}", name, dimsText(sizes), dimsText(t.sizes()));
}

Attended attend(const KernelCall& call, const Tensor& query, const Tensor& key, const Tensor& value,
                const Projections& p, int64_t features, int64_t heads, const Tensor& mask, const IValue& maskType) {
  call.require(query.rank() == 3, "expected 3-D `query`, got {}-D tensor", query.rank());
  call.require(features >= 0 && query.size(2) == features, "the query has {} features, embed_dim is {}", query.size(2),
               features);
  call.require(heads > 0 && features % heads == 0, "`embed_dim` must divide evenly by `num_heads`, got {} and {}",
               features, heads);
  for (const Tensor& t : {key, value}) requireSizes(call, "`key` and `value`", t, Dims(query.sizes()));
  requireSizes(call, "a weight for query, key and value", p.qkvWeight, Dims{3 * features, features});
  requireSizes(call, "a bias for query, key and value", p.qkvBias, Dims{3 * features});
  auto project = [&](const Tensor& t, int64_t i) {
    auto part = [&](const Tensor& w) { return narrowed(w, 0, i * features, features); };
    return splitHeads(invokeTensor(call, "aten::linear", {t, part(p.qkvWeight), part(p.qkvBias)}), heads);
  };
  double scale = 1 / std::sqrt(static_cast<double>(features / heads));
  Tensor q = invokeTensor(call, "aten::mul.Scalar", {project(query, 0), scale}), k = project(key, 1),
         v = project(value, 2);
  Tensor scores = Tensor::empty(q.dtype(), Dims{q.size(0), heads, q.size(2), k.size(2)});
  multiplyBatches(scores, q, transposed(k, 2, 3));
  if (mask.defined()) hideScores(call, scores, mask, maskType);
  Tensor weights = softmaxOf(call, scores), out = Tensor::empty(q.dtype(), q.sizes());
  multiplyBatches(out, weights, v);
  Tensor joined = reshaped(transposed(out, 1, 2), query.sizes());
  return {invokeTensor(call, "aten::linear", {joined, p.weight, p.bias}), weights};
}

// (query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, need_weights,
// average_attn_weights, mask_type). Weights that nobody needs are an undefined tensor.
void inferMultiHead(InferCall& call) {
  TensorInfo query = call.tensor(0), key = call.tensor(1);
  call.require(!query.hasRank || query.rank() == 3, "expected 3-D `query`, got {}-D tensor", query.rank());
  call.result(query);
  if (!call.flag(10)) return call.isRun() ? call.resultUndefined() : call.resultUnknown();
  if (!query.hasRank || !key.hasRank) return call.resultOfUnknownRank(query.dtype);
  call.require(key.rank() == 3, "expected 3-D `key`, got {}-D tensor", key.rank());
  Dims sizes{query.sizes[0]};
  if (!call.flag(11)) sizes.push_back(call.integer(4));
  sizes.push_back(query.sizes[1]);
  sizes.push_back(key.sizes[1]);
  call.result(query.dtype, sizes);
}
void multiHeadKernel(KernelCall& call) {
  Projections p{call.tensor(5), call.tensor(6), call.tensor(7), call.tensor(8)};
  Attended a = attend(call, call.tensor(0), call.tensor(1), call.tensor(2), p, call.integer(3), call.integer(4),
                      call.tensor(9), call.argument(12));
  if (call.flag(11)) a.weights = invokeTensor(call, "aten::mean.dim", {a.weights, intList(Dims{1}), false, IValue()});
  call.setResult(0, a.out);
  call.setResult(1, call.flag(10) ? a.weights : Tensor());
}

// (src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1,
// norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask, mask_type)
void inferEncoderLayer(InferCall& call) { call.result(call.tensor(0)); }
void encoderLayerKernel(KernelCall& call) {
  bool normFirst = call.flag(8);
  auto add = [&](const Tensor& a, const Tensor& b) { return invokeTensor(call, "aten::add.Tensor", {a, b, 1}); };
  auto norm = [&](const Tensor& t, size_t i) {
    IValue sizes = intList(Dims{call.integer(1)});
    return invokeTensor(call, "aten::layer_norm",
                        {t, sizes, call.argument(i), call.argument(i + 1), call.argument(9), true});
  };
  auto linear = [&](const Tensor& t, size_t i) {
    return invokeTensor(call, "aten::linear", {t, call.argument(i), call.argument(i + 1)});
  };
  Projections p{call.tensor(3), call.tensor(4), call.tensor(5), call.tensor(6)};
  Tensor x = call.tensor(0), in = normFirst ? norm(x, 10) : x;
  x = add(x, attend(call, in, in, in, p, call.integer(1), call.integer(2), call.tensor(18), call.argument(19)).out);
  if (!normFirst) x = norm(x, 10);
  Tensor inner = linear(normFirst ? norm(x, 12) : x, 14);
  inner = call.flag(7) ? invokeTensor(call, "aten::gelu", {inner, "none"}) : invokeTensor(call, "aten::relu", {inner});
  x = add(x, linear(inner, 16));
  call.setResult(normFirst ? x : norm(x, 12));
}

// ---- the same as layers of an engine ----

// The part `from` of three that a weight or bias for query, key and value has.
IValue partOf(const ConvertCall& call, const IValue& weight, int64_t from, int64_t count, int64_t features) {
  return call.compute("aten::slice.Tensor", {weight, 0, from * features, (from + count) * features, 1});
}

// softmax(q k^T / sqrt(d)) v with its projections; `inputs` are query, key and value. Nothing for masks of another kind
// than [queries, keys], [batch, keys] and [batch, heads, queries, keys].
// `shares` becomes what the values are weighted by, if it is asked for.
IValue attended(const ConvertCall& call, const std::array<IValue, 3>& inputs, size_t weights, int64_t features,
                int64_t heads, const IValue& mask, const IValue& maskType, IValue* shares = nullptr) {
  auto split = [&](const IValue& t) {
    IValue parted = call.compute(
        "aten::view", {t, intList(Dims{t.toTensor().size(0), t.toTensor().size(1), heads, features / heads})});
    return call.compute("aten::transpose.int", {parted, 1, 2});
  };
  auto sameTensor = [&](size_t i) { return inputs[i].tensorImpl() == inputs[0].tensorImpl(); };
  std::array<IValue, 3> parts;
  if (sameTensor(1) && sameTensor(2)) {
    IValue all = call.compute("aten::linear", {inputs[0], call.argument(weights), call.argument(weights + 1)});
    for (int64_t i = 0; i < 3; ++i)
      parts[i] = split(call.compute("aten::slice.Tensor", {all, 2, i * features, (i + 1) * features, 1}));
  } else {
    for (int64_t i = 0; i < 3; ++i)
      parts[i] = split(call.compute("aten::linear", {inputs[i], partOf(call, call.argument(weights), i, 1, features),
                                                     partOf(call, call.argument(weights + 1), i, 1, features)}));
  }
  IValue seen;
  if (mask.isTensor()) {
    IValue hidden = mask;
    if (maskType.toInt() == 1 && mask.toTensor().rank() == 2)
      hidden = call.compute("aten::unsqueeze", {call.compute("aten::unsqueeze", {mask, 1}), 1});
    seen = call.compute("aten::logical_not", {hidden});
  }
  IValue out;
  if (shares) {
    const double scale = 1 / std::sqrt(static_cast<double>(features / heads));
    IValue scores = call.compute("aten::matmul", {call.compute("aten::mul.Scalar", {parts[0], scale}),
                                                  call.compute("aten::transpose.int", {parts[1], 2, 3})});
    if (mask.isTensor())
      scores = call.compute("aten::where.ScalarOther", {seen, scores, -std::numeric_limits<double>::infinity()});
    *shares = call.compute("aten::softmax.int", {scores, -1, IValue()});
    out = call.compute("aten::matmul", {*shares, parts[2]});
  } else {
    out = call.compute("aten::scaled_dot_product_attention", {parts[0], parts[1], parts[2], seen, 0.0, false});
  }
  IValue joined = call.compute("aten::transpose.int", {out, 1, 2});
  joined = call.compute("aten::reshape", {joined, intList(Dims(inputs[0].toTensor().sizes()))});
  return call.compute("aten::linear", {joined, call.argument(weights + 2), call.argument(weights + 3)});
}

// Whether a converter may write the attention down: the kernel tells what is wrong with arguments that do not fit.
bool fitsAttention(const ConvertCall& call, size_t weights, int64_t features, int64_t heads, const IValue& mask,
                   const IValue& maskType) {
  auto sized = [](const Tensor& t, Dims sizes) {
    return t.defined() && std::equal(sizes.begin(), sizes.end(), t.sizes().begin(), t.sizes().end());
  };
  const bool masked = mask.isTensor() && mask.tensorImpl();
  return features > 0 && heads > 0 && features % heads == 0 && sized(call.tensor(weights), {3 * features, features}) &&
         sized(call.tensor(weights + 1), {3 * features}) && sized(call.tensor(weights + 2), {features, features}) &&
         sized(call.tensor(weights + 3), {features}) &&
         (!masked || (maskType.isInt() && maskType.toInt() >= 0 && maskType.toInt() <= 2));
}

void convertMultiHead(ConvertCall& call) {
  const int64_t features = call.integer(3), heads = call.integer(4);
  std::array<IValue, 3> inputs{call.argument(0), call.argument(1), call.argument(2)};
  bool fits = std::all_of(inputs.begin(), inputs.end(), [&](const IValue& t) {
    return t.toTensor().rank() == 3 && t.toTensor().size(2) == features && isF32OrHalf(t.toTensor());
  });
  const Node* n = call.node();
  const bool isAsked = !n || n->kind() != call.op().kind() || n->output(1)->useCount() > 0;
  if (!fits || !fitsAttention(call, 5, features, heads, call.argument(9), call.argument(12)))
    return convertToKernel(call, "its sizes do not fit each other");
  IValue shares = Tensor();
  const bool isShown = call.flag(10) && isAsked;
  auto isLikeQuery = [&](const IValue& t) {
    return isF32(t.toTensor()) && Dims(t.toTensor().sizes()) == Dims(inputs[0].toTensor().sizes());
  };
  if (isShown && !std::all_of(inputs.begin(), inputs.end(), isLikeQuery))
    return convertToKernel(call, "its weights are asked for, in 16 bits or of keys of other sizes");
  call.setResult(
      0, attended(call, inputs, 5, features, heads, call.argument(9), call.argument(12), isShown ? &shares : nullptr));
  if (isShown && call.flag(11)) shares = call.compute("aten::mean.dim", {shares, intList(Dims{1}), false, IValue()});
  call.setResult(1, shares);
}

void convertEncoderLayer(ConvertCall& call) {
  const int64_t features = call.integer(1), heads = call.integer(2);
  const Tensor src = call.tensor(0);
  if (src.rank() != 3 || src.size(2) != features || !isF32OrHalf(src) ||
      !fitsAttention(call, 3, features, heads, call.argument(18), call.argument(19)))
    return convertToKernel(call, "its sizes do not fit each other");
  const bool normFirst = call.flag(8);
  auto add = [&](const IValue& a, const IValue& b) { return call.compute("aten::add.Tensor", {a, b, 1}); };
  auto norm = [&](const IValue& t, size_t i) {
    return call.compute("aten::layer_norm",
                        {t, intList(Dims{features}), call.argument(i), call.argument(i + 1), call.argument(9), true});
  };
  auto linear = [&](const IValue& t, size_t i) {
    return call.compute("aten::linear", {t, call.argument(i), call.argument(i + 1)});
  };
  IValue x = call.argument(0), in = normFirst ? norm(x, 10) : x;
  x = add(x, attended(call, {in, in, in}, 3, features, heads, call.argument(18), call.argument(19)));
  if (!normFirst) x = norm(x, 10);
  IValue inner = linear(normFirst ? norm(x, 12) : x, 14);
  inner = call.flag(7) ? call.compute("aten::gelu", {inner, "none"}) : call.compute("aten::relu", {inner});
  x = add(x, linear(inner, 16));
  call.setResult(0, normFirst ? x : norm(x, 12));
}

}  // namespace

void registerAttentionOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .dtypes = kFloatingTypes});
  };
  auto addRandom = [&](std::string_view schema, InferFunction infer, KernelFunction kernel,
                       ConvertFunction convert = nullptr) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kFloatingTypes,
             .traits = {Trait::Random, Trait::RoundsOnce},
             .cost = Cost::Attention});
  };
  for (std::string_view name : {"aten::_scaled_dot_product_attention", "aten::_scaled_dot_product_attention_math",
                                "aten::_scaled_dot_product_attention_forward"})
    addRandom(name, inferAttention<true, 6, 0, 0>, attentionKernel<true, 6, 0, 0>);
  // PyTorch 2.5, 2.1 and 2.0 have them under one name. Sources of archives mean the newest, graph texts tell by the
  // number of arguments.
  addRandom(
      "aten::scaled_dot_product_attention.gqa(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
      "float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
      inferAttention<false, 5, 6, 7>, attentionKernel<false, 5, 6, 7>, convertAttention);
  addRandom(
      "aten::scaled_dot_product_attention.scale(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
      "float dropout_p=0., bool is_causal=False, *, float? scale=None) -> Tensor",
      inferAttention<false, 5, 6, 0>, attentionKernel<false, 5, 6, 0>, convertAttention);
  addRandom(
      "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
      "float dropout_p=0., bool is_causal=False) -> Tensor",
      inferAttention<false, 5, 0, 0>, attentionKernel<false, 5, 0, 0>, convertAttention);
  add("aten::_transform_bias_rescale_qkv", inferSplitHeads, splitHeadsKernel);
  ops.add({.schema = "aten::_native_multi_head_attention",
           .infer = inferMultiHead,
           .kernel = multiHeadKernel,
           .convert = convertMultiHead,
           .dtypes = kFloatingTypes,
           .cost = Cost::Layers});
  ops.add({.schema = "aten::_transformer_encoder_layer_fwd",
           .infer = inferEncoderLayer,
           .kernel = encoderLayerKernel,
           .convert = convertEncoderLayer,
           .dtypes = kFloatingTypes,
           .cost = Cost::Layers});
}

}  // namespace tscompile
