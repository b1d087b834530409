// Which tokens a call has, and where their projections lie.
#include "runtime/trtllm/attention/planner.h"

#include <cmath>

namespace tscompile {

namespace {

// Of queries, keys, values and tables of numbers.
bool isRowType(DType dtype) { return dtype == DType::Float32 || dtype == DType::Float16 || dtype == DType::BFloat16; }

}  // namespace

std::vector<int64_t> AttentionPlanner::integers(const char* name, const Tensor& tensor, int64_t count) {
  if (!tensor.defined()) fail("{} is missing", name);
  requireElements(tensor);
  if (!tensor.isContiguous() || (tensor.dtype() != DType::Int32 && tensor.dtype() != DType::Int64))
    fail("{} is {}, expected contiguous int32", name, pythonName(tensor.dtype()));
  if (count >= 0 && tensor.numel() != count) fail("{} has {} values, expected {}", name, tensor.numel(), count);
  std::vector<int64_t> values(static_cast<size_t>(tensor.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = tensor.dtype() == DType::Int32 ? tensor.data<int32_t>()[i] : tensor.data<int64_t>()[i];
    if (values[i] != static_cast<int32_t>(values[i])) fail("{}[{}] is {}, which is too large", name, i, values[i]);
  }
  return values;
}

const float* AttentionPlanner::floatTable(const char* name, const Tensor& tensor) {
  requireElements(tensor);
  if (!tensor.isContiguous() || tensor.dtype() != DType::Float32)
    fail("{} is {}, expected contiguous float32", name, pythonName(tensor.dtype()));
  return tensor.data<float>();
}

std::vector<float> AttentionPlanner::floats(const char* name, const Tensor& tensor, int64_t count) {
  requireElements(tensor);
  if (!tensor.isContiguous() || !isRowType(tensor.dtype()))
    fail("{} is {}, expected contiguous floating point", name, pythonName(tensor.dtype()));
  if (count >= 0 && tensor.numel() != count) fail("{} has {} values, expected {}", name, tensor.numel(), count);
  std::vector<float> values(static_cast<size_t>(tensor.numel()));
  if (!values.empty()) loadValues({tensor.dtype()}, tensor.raw(), tensor.numel(), values.data());
  return values;
}

float AttentionPlanner::scaleOf(const char* name, const Tensor& tensor) {
  if (!tensor.defined()) fail("{} is missing", name);
  const float value = floats(name, tensor, 1)[0];
  if (!(value > 0) || value > std::numeric_limits<float>::max())
    fail("{} is {}, expected a positive number", name, value);
  return value;
}

Dims AttentionPlanner::expectShape(const char* name, const Tensor& tensor, int rank) {
  if (!tensor.defined()) fail("{} is missing", name);
  requireElements(tensor);
  if (tensor.rank() != rank) fail("{} is {}, expected {} dimensions", name, dimsText(tensor.sizes()), rank);
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

// [.., heads * size], or with the two apart; packed [tokens, ..] or padded [B, S, ..].
TokenRows AttentionPlanner::rowsOf(const char* name, const Tensor& t, int64_t heads) const {
  if (!t.defined()) fail("{} is missing", name);
  requireElements(t);
  const int leading = plan_.packed ? 1 : 2;
  if (t.rank() != leading + 1 && t.rank() != leading + 2)
    fail("{} is {}, expected {} or {} dimensions of {} tokens", name, dimsText(t.sizes()), leading + 1, leading + 2,
         plan_.packed ? "packed" : "padded");
  const bool apart = t.rank() == leading + 2;
  if (apart && (t.size(leading) != heads || t.size(leading + 1) != plan_.size))
    fail("{} is {}, expected {} heads of {}", name, dimsText(t.sizes()), heads, plan_.size);
  if (!apart && t.size(leading) != heads * plan_.size)
    fail("the last extent of {} is {}, expected {} = {}*{}", name, t.size(leading), heads * plan_.size, heads,
         plan_.size);
  if (t.stride(t.rank() - 1) != 1 && t.size(t.rank() - 1) != 1)
    fail("the last dimension of {} is not contiguous", name);
  const int64_t tokens = plan_.packed ? t.size(0) : t.size(0) * t.size(1);
  if (tokens != plan_.tokens || (!plan_.packed && t.size(0) != batch_))
    fail("{} is {}, which are not the tokens of qkv", name, dimsText(t.sizes()));
  TokenRows rows;
  rows.data = t.raw();
  rows.storage = t.dtype();
  rows.perBatch = plan_.packed ? 0 : perBatch_;
  rows.batchStride = t.stride(0);
  rows.tokenStride = t.stride(plan_.packed ? 0 : 1);
  rows.headStride = apart ? t.stride(leading) : plan_.size;
  return rows;
}

void AttentionPlanner::splitJoint() {
  const Tensor& t = inputs_.qkv;
  const int last = t.rank() - 1;
  if (last != (plan_.packed ? 1 : 2))
    fail("qkv is {}, expected {}", dimsText(t.sizes()), plan_.packed ? "[tokens, (H+2*Hkv)*D]" : "[B, S, (H+2*Hkv)*D]");
  if (t.size(last) != params_.qkvWidth())
    fail("the last extent of qkv is {}, expected {} = ({}+2*{})*{}", t.size(last), params_.qkvWidth(), plan_.heads,
         plan_.kvHeads, plan_.size);
  plan_.q = rowsOf("qkv", t, plan_.heads + 2 * plan_.kvHeads);
  if (plan_.cross) return;
  const int64_t headBytes = plan_.size * static_cast<int64_t>(itemSize(plan_.q.storage));
  plan_.k = plan_.v = plan_.q;
  plan_.k.data += plan_.heads * headBytes;
  plan_.v.data += (plan_.heads + plan_.kvHeads) * headBytes;
}

void AttentionPlanner::planProjections() {
  const Tensor& t = inputs_.qkv;
  if (!t.defined()) fail("qkv is missing");
  if (!isRowType(t.dtype())) fail("qkv is {}, expected float32, float16 or bfloat16", pythonName(t.dtype()));
  plan_.packed = params_.removeInputPadding;
  if (t.rank() < (plan_.packed ? 2 : 3))
    fail("qkv is {}, expected {} tokens", dimsText(t.sizes()), plan_.packed ? "packed" : "padded");
  if (!plan_.packed) {
    batch_ = t.size(0);
    perBatch_ = t.size(1);
  }
  plan_.tokens = plan_.packed ? t.size(0) : batch_ * perBatch_;
  const bool apart = params_.unfuseQkvGemm || inputs_.k.defined() || inputs_.v.defined();
  const bool queriesOnly = plan_.cross && t.size(t.rank() - 1) != params_.qkvWidth();
  if (!apart && !queriesOnly) return splitJoint();
  plan_.q = rowsOf("q", t, plan_.heads);
  if (plan_.cross) return;
  plan_.k = rowsOf("k", inputs_.k, plan_.kvHeads);
  plan_.v = rowsOf("v", inputs_.v, plan_.kvHeads);
  if (inputs_.k.dtype() != t.dtype() || inputs_.v.dtype() != t.dtype())
    fail("q, k and v are {}, {} and {}, expected one type", pythonName(t.dtype()), pythonName(inputs_.k.dtype()),
         pythonName(inputs_.v.dtype()));
}

void AttentionPlanner::planBias() {
  if (!params_.qkvBiasEnabled && !inputs_.qkvBias.defined()) return;
  if (!inputs_.qkvBias.defined()) fail("qkv_bias is missing");
  plan_.bias = floats("qkv_bias", inputs_.qkvBias, params_.qkvWidth());
  plan_.qBias = plan_.bias.data();
  if (plan_.cross) return;
  plan_.kBias = plan_.qBias + plan_.heads * plan_.size;
  plan_.vBias = plan_.kBias + plan_.kvHeads * plan_.size;
}

void AttentionPlanner::planOutput() {
  if (!context_.defined()) fail("the context tensor is missing");
  plan_.context = rowsOf("the context", context_, plan_.heads);
  if (context_.storage()->readOnly() || repeatsElements(context_.sizes(), context_.strides()))
    fail("the context tensor cannot be written to");
  DType wanted = inputs_.qkv.dtype();
  if (inputs_.attentionOutputQuantizationScale.defined()) {
    wanted = DType::UInt8;
    plan_.output.quantize = scaleOf("attention_output_quantization_scale", inputs_.attentionOutputQuantizationScale);
    plan_.output.storage = DType::Float8E4M3FN;
    plan_.context.storage = DType::Float8E4M3FN;
  } else {
    plan_.output.storage = plan_.context.storage;
  }
  if (context_.dtype() != wanted)
    fail("the context is {}, expected {}", pythonName(context_.dtype()), pythonName(wanted));
}

int64_t AttentionPlanner::countRows() {
  for (const Tensor* t :
       {&inputs_.hostRequestTypes, &inputs_.contextLengths, &inputs_.hostContextLengths, &inputs_.sequenceLength})
    if (plan_.packed && t->defined()) return t->numel();
  return plan_.packed ? 1 : batch_;
}

void AttentionPlanner::planContextRow(AttentionRow& row, int64_t index) {
  row.tokens = lengths_.empty() ? (plan_.packed ? plan_.tokens : perBatch_) : lengths_[static_cast<size_t>(index)];
  const int64_t most = plan_.packed ? plan_.tokens - row.firstToken : perBatch_;
  if (row.tokens < 0 || row.tokens > most)
    fail("context_lengths[{}] is {}, but there are {} tokens", index, row.tokens, most);
}

void AttentionPlanner::planGenerationRow(AttentionRow& row, int64_t index) {
  if (!params_.useCache) fail("row {} is a generation request, which needs use_cache", index);
  row.tokens = 1;
  if (plan_.packed && row.firstToken >= plan_.tokens) fail("row {} is after the {} tokens", index, plan_.tokens);
  if (!plan_.packed && perBatch_ != 1)
    fail("qkv is {}, but generation requests have one token", dimsText(inputs_.qkv.sizes()));
}

// `total` and `past` are empty if they are absent.
void AttentionPlanner::planPast(AttentionRow& row, int64_t index, const std::vector<int64_t>& total,
                                const std::vector<int64_t>& past) const {
  const size_t at = static_cast<size_t>(index);
  if (!row.context && total.empty() && past.empty()) fail("host_past_key_value_lengths is missing");
  if (!total.empty()) row.past = total[at] - row.tokens;
  if (!row.context && !past.empty()) {
    if (past[at] < 0) fail("host_past_key_value_lengths[{}] is {}", index, past[at]);
    if (!total.empty() && row.past != past[at])
      fail("sequence_length[{}] is {}, expected {} = {} in the cache and {} new", index, total[at], past[at] + 1,
           past[at], row.tokens);
    row.past = past[at];
  }
  if (row.past < 0) fail("sequence_length[{}] is {}, less than its {} new tokens", index, total[at], row.tokens);
  if (row.past > 0 && !params_.useCache) fail("row {} has {} past tokens, which needs use_cache", index, row.past);
}

void AttentionPlanner::planRows() {
  const int64_t count = countRows();
  std::vector<int64_t> types(static_cast<size_t>(count), 0), total, past;
  if (inputs_.hostRequestTypes.defined()) types = integers("host_request_types", inputs_.hostRequestTypes, count);
  if (inputs_.contextLengths.defined()) lengths_ = integers("context_lengths", inputs_.contextLengths, count);
  if (inputs_.hostContextLengths.defined()) {
    std::vector<int64_t> host = integers("host_context_lengths", inputs_.hostContextLengths, count);
    if (!lengths_.empty() && host != lengths_) fail("context_lengths and host_context_lengths differ");
    lengths_ = std::move(host);
  }
  if (inputs_.sequenceLength.defined()) total = integers("sequence_length", inputs_.sequenceLength, count);
  if (inputs_.hostPastKeyValueLengths.defined())
    past = integers("host_past_key_value_lengths", inputs_.hostPastKeyValueLengths, count);
  int64_t token = 0;
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i);
    if (types[at] == 2) refuse("a request of type none");
    if (types[at] != 0 && types[at] != 1) fail("host_request_types[{}] is {}, expected 0 or 1", i, types[at]);
    AttentionRow row;
    row.context = types[at] == 0;
    row.firstToken = plan_.packed ? token : i * perBatch_;
    row.context ? planContextRow(row, i) : planGenerationRow(row, i);
    if (row.context && contexts_ != i) fail("row {} is a context request after a generation request", i);
    if (row.context) ++contexts_;
    if (!plan_.cross) planPast(row, i, total, past);
    row.keys = row.past + row.tokens;
    row.source.past = row.past;
    token += row.tokens;
    plan_.rows.push_back(row);
  }
  if (!plan_.packed && contexts_ != 0 && contexts_ != count)
    fail("context and generation requests in one batch need remove_input_padding");
  if (plan_.packed && token != plan_.tokens) fail("qkv has {} tokens, but the rows have {}", plan_.tokens, token);
}

// Where cross_kv has its keys and values.
void AttentionPlanner::planEncoder() {
  const Tensor& t = inputs_.crossKv;
  if (!t.defined()) fail("cross_kv is missing");
  requireElements(t);
  if (t.rank() != 2 && t.rank() != 3) fail("cross_kv is {}, expected 2 or 3 dimensions", dimsText(t.sizes()));
  const int64_t width = 2 * plan_.kvHeads * plan_.size, count = static_cast<int64_t>(plan_.rows.size());
  if (t.size(t.rank() - 1) != width)
    fail("the last extent of cross_kv is {}, expected {} = 2*{}*{}", t.size(t.rank() - 1), width, plan_.kvHeads,
         plan_.size);
  if (t.dtype() != inputs_.qkv.dtype() || t.stride(t.rank() - 1) != 1)
    fail("cross_kv is not of the type of qkv, or its last dimension is not contiguous");
  if (t.rank() == 3 && t.size(0) != count && t.size(0) != contexts_)
    fail("cross_kv is {}, expected {} rows", dimsText(t.sizes()), contexts_);
  const int64_t perEntry = t.rank() == 3 ? t.size(1) : 0;
  plan_.k = {t.raw(), t.dtype(), perEntry, t.stride(0), t.stride(t.rank() - 2), plan_.size};
  plan_.v = plan_.k;
  plan_.v.data += plan_.kvHeads * plan_.size * static_cast<int64_t>(itemSize(plan_.k.storage));
}

// Keys and values of the encoder: given to context rows, in the cache afterwards.
void AttentionPlanner::planCrossAttention() {
  if (!plan_.cross) return;
  const int64_t count = static_cast<int64_t>(plan_.rows.size());
  std::vector<int64_t> lengths = integers("encoder_input_lengths", inputs_.encoderInputLengths, count);
  if (contexts_ > 0) planEncoder();
  const Tensor& t = inputs_.crossKv;
  const bool padded = contexts_ > 0 && t.rank() == 3;
  int64_t first = 0;
  for (int64_t i = 0; i < count; ++i) {
    AttentionRow& row = plan_.rows[static_cast<size_t>(i)];
    row.keys = lengths[static_cast<size_t>(i)];
    if (row.keys < 0) fail("encoder_input_lengths[{}] is {}", i, row.keys);
    row.source.past = row.source.shared = row.keys;
    if (!row.context) continue;
    row.firstKey = padded ? i * t.size(1) : first;
    if (row.keys > (padded ? t.size(1) : t.size(0) - first))
      fail("encoder_input_lengths[{}] is {}, but cross_kv is {}", i, row.keys, dimsText(t.sizes()));
    first += row.keys;
  }
}

void AttentionPlanner::planTokens() {
  plan_.heads = params_.numHeads;
  plan_.kvHeads = params_.numKvHeads;
  plan_.group = params_.groupSize();
  plan_.size = params_.headSize;
  plan_.scale = static_cast<float>(1 / (params_.qScaling * std::sqrt(static_cast<double>(plan_.size))));
  plan_.softcap = static_cast<float>(params_.softcap);
  plan_.cross = params_.crossAttention;
  planProjections();
  planBias();
  planOutput();
  planRows();
  planCrossAttention();
  if (inputs_.attentionSinks.defined())
    plan_.attentionSinks = floats("attention_sinks", inputs_.attentionSinks, plan_.heads);
  if (params_.skipAttention || inputs_.skipAttention.defined()) {
    const Tensor& skip = inputs_.skipAttention;
    if (!skip.defined() || skip.dtype() != DType::Bool || skip.numel() != 1) fail("skip_attn is not one bool");
    requireElements(skip);
    plan_.skip = *skip.data<bool>();
  }
}

AttentionPlan AttentionPlanner::make() {
  planTokens();
  planWindow();
  planBeams();
  planCache();
  planMasks();
  planRotary();
  planPositionBias();
  planLogn();
  return std::move(plan_);
}

AttentionPlan planAttention(const GptAttentionParams& params, const GptAttentionInputs& inputs, const Tensor& context) {
  checkAttentionParams(params);
  return AttentionPlanner(params, inputs, context).make();
}

}  // namespace tscompile
