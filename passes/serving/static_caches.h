// Caches of a fixed length: tensors that a model keeps, or is given, and writes at the places of the tokens of a call.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

#include <string>

namespace tscompile {

// What became of a graph that writes such tensors.
enum class StaticCaches : uint8_t {
  None,       // there are none; the graph computes what it did
  WholeText,  // it takes all tokens of a text, whose caches begin as they are in the model
  OneByOne,   // it takes them as well, and runs what it was, a graph for one token, for one after the other
};

struct StaticCacheFacts {
  int64_t tokens = 0;          // that the longest tensor has places for; 0 if that is not told
  std::string unchanged = {};  // what the model reads and gives back as it was given, which is no state; "": nothing
  std::string mask;            // the input that has a number for each place, without "%"; "": there is none
};

// Makes a graph that is called with new tokens, and with the places of these in one dimension, or the place of the
// first of them, if it asks for them, one of whole texts: the places count from 0, masks of the tensors' length show
// what is written up to each token, and each call begins with tensors as they are in the model, zeros where a caller
// gives them. `oneByOne`: a graph for any number of tokens is called with one after the other as well.
StaticCaches readWholeTexts(Graph& graph, const OpRegistry& registry, StaticCacheFacts* facts = nullptr,
                            bool oneByOne = false);

}  // namespace tscompile
