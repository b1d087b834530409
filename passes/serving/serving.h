// Makes the graph of a language model one for serving: attention becomes the plugin GPTAttention with a cache of keys
// and values, the tokens of all requests lie in one row, and logits are those of each request's last token.
#pragma once

#include "ir/graph/evaluator.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "ir/support/result.h"

#include <string>
#include <vector>

namespace tscompile {

struct ServingOptions {
  enum class Cache : uint8_t {
    None,        // attention sees the tokens of one call only
    Contiguous,  // past_key_value_L [requests, 2, heads, longest, size] in and out
    Paged,       // kv_cache_pool_L [blocks, 2, heads, tokens_per_block, size] in and out
  };
  Cache cache = Cache::Paged;
  int64_t tokensPerBlock = 64;       // of a paged cache; a power of two
  int64_t kvCacheQuantMode = 0;      // bits of the plugin's field: 64 int8, 128 fp8
  bool removeInputPadding = true;    // one row of tokens; else a row for each request
  bool gatherContextLogits = false;  // logits of all tokens
  bool cacheIndirection = false;     // for beams
  bool fuseQkvBias = false;          // into the plugin
  bool fuseRotary = true;            // rotary positions that follow from position_ids are left to the plugin
  int64_t longest = 0;               // tokens of a text; 0: any number
  int64_t mostTokens = 0;            // of all texts of a step
};

struct ServingModel {
  // In the order of the graph's.
  std::vector<std::string> inputs, outputs;
  int64_t layers = 0, heads = 0, kvHeads = 0, headSize = 0;
  int64_t vocabulary = 0, hidden = 0;  // of the last layer
  int64_t bends = 0;                   // tokens of a text that is past all windows; 0: there are none
  int64_t places = 0;                  // for tokens in tensors that they were written to; 0: there were none
};

// The graph has the inputs input_ids and position_ids [batch, tokens] and returns logits [batch, tokens, vocabulary],
// of any batch and number of tokens; its weights are constants. What does not fit is reported, and the graph is then
// good for nothing. Further inputs, all int32 unless said otherwise, of R requests and T tokens:
//   input_ids, position_ids          int64 [1, T], or [R, tokens] with padding
//   sequence_length                  [R] tokens up to now, the new ones included
//   host_past_key_value_lengths      [R] tokens in the cache
//   host_max_attention_window_sizes  [layers]
//   host_sink_token_length           [1]
//   context_lengths                  [R] tokens of the prompt
//   cache_indirection                [R, beams, longest]
//   host_request_types               [R] 0: prompt, 1: generation
//   kv_cache_block_offsets           [R, 2, blocks]
//   kv_cache_quantization_scale, kv_cache_dequantization_scale  float [1]
//   kv_cache_pool_L or past_key_value_L  one of each layer
//   last_token_ids                   [R] each request's last token, counted from 1 along its row
Result<ServingModel> prepareForServing(Graph& graph, const OpRegistry& registry, Evaluator& evaluator,
                                       const ServingOptions& options, Diagnostics& diagnostics);

}  // namespace tscompile
