// Compares what serves a language model with the model that it was made from.
#pragma once

#include "api/built_model.h"
#include "api/module.h"
#include "passes/serving/entrance.h"

namespace tscompile {

// A text, and the logits of its last token.
struct KnownText {
  std::vector<int32_t> ids;
  Tensor logits;
};

// A model on its way to one that serves.
struct ServingSteps {
  const Module& given;
  const Entrance& entrance;
  const Module& compiled;              // in engines
  const Module* lowered = nullptr;     // with a cache: of ids and positions [batch, tokens]
  const Module* packed = nullptr;      // and of the tokens of all requests, with caches
  const KnownText* longest = nullptr;  // and the logits of its tokens, or of the last one
  const Module* flat = nullptr;        // the model as it was given, without calls
  Diagnostics* remarks = nullptr;      // on what serves
  bool isHalf = false;                 // the model as it was given computes in half precision
};

// Some texts of random ids run through what was compiled, in pieces, packed beside each other and behind a cache, and
// through the model as it was given as a whole: logits must be the same. So must those at the end of the longest text,
// if they are known. They may differ as far as the model's own do when it is rounded in other ways. Else the first node
// is named that differs between the lowered and the packed graph, if there are these.
bool proveServing(const ServingSteps& steps, const BuiltModel& built, Diagnostics& diagnostics);

}  // namespace tscompile
