// Dtypes of states: a trace or a script does not tell them, and what the model does with states does.
#pragma once

#include "passes/serving/states/state_trials.h"

#include <string>
#include <vector>

namespace tscompile {

// Gives each state the dtype with which it comes back as it was given: the least of those, if others become it, as when
// new numbers are joined or added to it. Where nothing in the graph tells, calls with the dtypes that are left are
// tried: the one that runs. `known` is what the graph's other inputs are. False if there is none; `doubt` says of which
// state several run and say different things.
bool settleDtypes(const StateTrial& trial, const OpRegistry& registry, const ShapeOptions& known,
                  std::vector<GivenState>& states, std::string& doubt);

}  // namespace tscompile
