#include "passes/serving/attention_node.h"

#include <algorithm>

namespace tscompile {
namespace {

const Symbol kInputs = Symbol::of("inputs");

// The order of the inputs of the original plugin; `k`, `v` and the pool itself are ours.
constexpr std::string_view kOrder[] = {"qkv",
                                       "k",
                                       "v",
                                       "attention_mask",
                                       "attention_packed_mask",
                                       "sequence_length",
                                       "host_past_key_value_lengths",
                                       "host_max_attention_window_sizes",
                                       "host_sink_token_length",
                                       "context_lengths",
                                       "cache_indirection",
                                       "host_request_types",
                                       "kv_cache_block_offsets",
                                       "host_kv_cache_block_offsets",
                                       "kv_cache_pool",
                                       "past_key_value",
                                       "kv_cache_quantization_scale",
                                       "kv_cache_dequantization_scale",
                                       "attention_output_quantization_scale",
                                       "rotary_inv_freq",
                                       "rotary_cos_sin",
                                       "alibi_slopes",
                                       "relative_attention_bias",
                                       "attention_sinks",
                                       "host_context_lengths",
                                       "qkv_bias"};

size_t placeOf(std::string_view name) {
  return static_cast<size_t>(std::find(std::begin(kOrder), std::end(kOrder), name) - kOrder);
}

}  // namespace

std::vector<AttentionNode> AttentionNode::all(const Graph& graph) {
  std::vector<AttentionNode> out;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() == sym::GptAttention) out.emplace_back(n);
  });
  return out;
}

bool AttentionNode::isWellFormed() const { return inputNames().size() == node_->inputCount(); }

std::vector<std::string> AttentionNode::inputNames() const {
  std::vector<std::string> names;
  const IValue* list = node_->attributeValue(kInputs);
  if (!list || !list->isList()) return names;
  for (const IValue& item : list->toList().items) names.push_back(item.isString() ? item.toString() : std::string());
  return names;
}

void AttentionNode::setInputNames(const std::vector<std::string>& names) {
  std::vector<IValue> items(names.begin(), names.end());
  node_->setAttribute(kInputs, IValue(Ref<ListValue>::make(types().string, std::move(items))));
}

Value* AttentionNode::input(std::string_view name) const {
  std::vector<std::string> names = inputNames();
  auto at = std::find(names.begin(), names.end(), name);
  size_t index = static_cast<size_t>(at - names.begin());
  return index < std::min(names.size(), node_->inputCount()) ? node_->input(index) : nullptr;
}

void AttentionNode::setInput(std::string_view name, Value* value) {
  std::vector<std::string> names = inputNames();
  auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return node_->replaceInput(static_cast<size_t>(at - names.begin()), value);
  at = std::find_if(names.begin(), names.end(), [&](const std::string& n) { return placeOf(n) > placeOf(name); });
  node_->insertInput(static_cast<size_t>(at - names.begin()), value);
  names.insert(at, std::string(name));
  setInputNames(names);
}

int64_t AttentionNode::integer(std::string_view field, int64_t otherwise) const {
  const IValue* v = node_->attributeValue(Symbol::of(field));
  return v && v->isInt() ? v->toInt() : otherwise;
}

double AttentionNode::number(std::string_view field, double otherwise) const {
  const IValue* v = node_->attributeValue(Symbol::of(field));
  if (v && v->isInt()) return static_cast<double>(v->toInt());
  return v && v->isFloat() ? v->toFloat() : otherwise;
}

std::string AttentionNode::text(std::string_view field, std::string_view otherwise) const {
  const IValue* v = node_->attributeValue(Symbol::of(field));
  return std::string(v && v->isString() ? std::string_view(v->toString()) : otherwise);
}

}  // namespace tscompile
