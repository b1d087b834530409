// Sizes of what a model is given beside its tokens, and gives back for the next ones: states and caches of a trace or a
// script, whose sizes are in no file.
#pragma once

#include "passes/serving/states/given_states.h"

#include <functional>
#include <optional>
#include <vector>

namespace tscompile {

// Looks for sizes with which nothing conflicts, which what is returned has as well, and which are accepted by what may
// give them other dtypes. `others`
// knows ids of `tokens` tokens. Sizes that anything fits are one of `places`, the first that is accepted. Nothing if
// there are none.
std::optional<std::vector<GivenState>> findStateSizes(
    const Graph& graph, const OpRegistry& registry, const ShapeOptions& others, int64_t tokens,
    const std::vector<int64_t>& places, std::vector<GivenState> states,
    const std::function<StateVerdict(std::vector<GivenState>& states)>& accepts);

}  // namespace tscompile
