// Masks that are given with a number for each two tokens: what a decoder's caller makes hides later tokens, and the
// graph can make it itself.
#pragma once

#include "ir/graph/graph.h"
#include "passes/serving/masks/mask_use.h"

#include <vector>

namespace tscompile {

struct PairMaskForm {
  using Kind = MaskUse::Kind;
  Kind kind = Kind::Shown;
  DType dtype = DType::Bool;
  size_t rank = 2;           // of [tokens, tokens], behind dimensions of 1
  bool tokensFirst = false;  // ids are [tokens, batch]
};

// The tensors that a graph takes if they are ids, one mask, and positions at most; null for what there is not.
struct MaskedInputs {
  Value *ids = nullptr, *mask = nullptr, *positions = nullptr;
};
MaskedInputs maskedInputs(const Graph& graph);

// What a mask of this type may be made for, likelier forms first.
std::vector<PairMaskForm> pairMaskForms(const Value* mask);

// The graph makes the mask of the tokens up to each one itself, and does not take it any more.
void makePairMask(Graph& graph, const MaskedInputs& inputs, const PairMaskForm& form);

}  // namespace tscompile
