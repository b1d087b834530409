// Models that are given what they returned for the tokens before, and are served as if they were given whole texts:
// whether their own calls, one after the other, say the same.
#pragma once

#include "api/serving/input_trials.h"
#include "passes/serving/entrance.h"
#include "passes/serving/forms/pair_mask.h"

#include <map>
#include <optional>

namespace tscompile {

struct OwnLoop {
  const Graph& graph;                           // with all of its inputs
  const RunModel called;                        // the model of this graph
  const RunModel whole;                         // without those that are handed on from call to call
  const Entrance& entrance;                     // of `whole`
  std::map<std::string, IValue> defaults = {};  // of inputs of `called` that callers leave out
  std::optional<PairMaskForm> ownMask = {};     // that `whole` makes itself
  bool mayLeaveOut = false;                     // what is handed on: `whole` is the model called without it
  bool keepsPlaces = false;                     // it has a fixed length, and some calls may not fit each other
  int64_t longest = 0;                          // tokens of texts at most
};

// Some tokens at once, then two one by one, each call given what the one before returned, against the whole text:
// reports logits that differ, and calls that do not fit each other. A short text, and one that is past all windows.
// `most` becomes how many tokens calls run with, if whole texts may be longer, else 0.
bool saysWhatItsCallsSay(const OwnLoop& loop, int64_t& most, Diagnostics& diagnostics);

// Whether the logits of the last token differ, in the scale of what tells words apart.
bool areOtherLogits(const Tensor& want, const Tensor& got, double tolerance);

}  // namespace tscompile
