// The steps that make a model's graph one for serving, as passes; serving.h puts them together.
#pragma once

#include "passes/node_rewriting.h"
#include "passes/serving/attention_match.h"

#include <vector>

namespace tscompile {

// Causal attention, written out or as one operator, becomes tensorrt_llm::GPTAttention; what looked like it and is none
// is added to `misses`, which may be null.
bool makeAttention(Graph& graph, RewriteContext& context, std::vector<AttentionMatcher::Miss>* misses);
bool makeAttention(Graph& graph, RewriteContext& context);
// The bias of the linear layer in front of attention becomes its input qkv_bias.
NodeRewrite fuseQkvBias();
// Attention of a padded batch, of arguments batch_size and in_len, becomes that of one row of tokens.
NodeRewrite removePadding();
// Attention without a cache, in operators of ATen.
NodeRewrite unpackGptAttention();

}  // namespace tscompile
