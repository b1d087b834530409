// The steps that serving.h puts together; passes.def has them as passes.
#pragma once

#include "passes/serving/attention_match.h"
#include "passes/serving/attention_node.h"
#include "passes/serving/entrance.h"

#include <unordered_set>
#include <vector>

namespace tscompile {

// Products of matrices and joined tensors, in the operators that attention is looked for in.
void writePlainly(Graph& graph, RewriteContext& context);

// Nodes that hand on their inputs go: casts to the type that a value has.
bool removeGuards(Graph& graph, RewriteContext& context);

struct AttentionChoices {
  // [batch, tokens] of each token in its text, counted from 0; null: not known.
  const Value* positions = nullptr;
  // Rotary positions that follow from them are left to the plugin, which counts the same way.
  bool fuseRotary = true;
  int64_t longest = 0;   // tokens of a text; 0: any number
  bool inFloat = false;  // of half precision it becomes attention of float32, which is that of its caches
  // What follows from positions and is other in longer texts: nothing turns by it.
  const std::unordered_set<const Value*>* changing = nullptr;
};
// Causal attention, written out or as one operator, becomes tensorrt_llm::GPTAttention. Returns what looked like it and
// is none; nothing can be found if sizes do not fit together, then this is the conflict.
struct AttentionFindings {
  size_t made = 0;
  std::vector<AttentionMatcher::Miss> misses;
  std::optional<ShapeConflict> conflict;
};
AttentionFindings makeAttention(RewriteContext& context, const AttentionChoices& choices);
// A record of the new node, if such records were asked for.
void recordAttention(const AttentionNode& made, const Node* instead, RewriteContext& context);
// The bias of the linear layer in front of attention becomes its input qkv_bias.
NodeRewrite fuseQkvBias();
// Products of the tokens of all texts in one matrix, or with a weight repeated for each text, become layers of
// [batch, tokens, width]. True if there were any.
bool splitRows(RewriteContext& context, Value* ids, const Value* positions);
// Factors that only views read come after them. True if there were any.
bool sinkFactors(RewriteContext& context, const Value* positions);

}  // namespace tscompile
