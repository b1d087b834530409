// Models that write what they keep of some tokens a call: whether one call with all tokens of a text says what calls
// with one token after the other say.
#pragma once

#include "api/serving/input_trials.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

#include <functional>
#include <memory>

namespace tscompile {

struct OneCall {
  const Graph& calls;   // is given new tokens, and the place of them; of one text
  const Graph& whole;   // takes all tokens of a text
  int64_t places;       // of the longest tensor that is written, or tokens that texts may have
  int64_t weights = 1;  // numbers that a call reads
  const std::function<RunModel(const Graph&)> runOf;
  const OpRegistry& registry;
};

struct OneByOne {
  // Takes one token after the other, if one call with all tokens forgets some that it remembers, as rings of fewer
  // places do; else null.
  std::unique_ptr<Graph> remembers;
  // Whether a text of more tokens than calls are for says the same in one call. Of a model that takes minutes for one
  // token more than that: whether such a call runs.
  bool isTheSameBeyond = false;
};
// `most`: tokens that calls are for.
OneByOne tryOneByOne(const OneCall& one, int64_t most);

}  // namespace tscompile
