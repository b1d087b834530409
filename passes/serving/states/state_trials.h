// Runs a model with the states that it was found to take: whether calls one after the other say what they should.
#pragma once

#include "passes/serving/states/example_call.h"
#include "passes/serving/states/given_states.h"

#include <optional>
#include <string>
#include <vector>

namespace tscompile {

struct StateTrial {
  const Graph& apart;  // its containers of states are inputs
  const Value& ids;
  const RunExample& run;
  const CallForms& forms;
  bool handsOn;  // calls are to say what one call with all tokens says
};

// Whether a model that is called with so many tokens is right with these states of `apart`; where it reads the last
// places alone there become as few. `doubt` becomes what it says twice, each time another thing.
StateVerdict acceptStates(const StateTrial& trial, std::vector<GivenState>& states, int64_t tokens, std::string& doubt);

// Logits of calls with a token each, which are given what the one before returned; nothing if one does not run, or
// returns a state of another dtype.
std::optional<std::vector<double>> logitsOfCalls(const StateTrial& trial, const std::vector<GivenState>& states);
// Whether logits differ by no more than rounding makes them: that of another order of sums, or of texts in other
// pieces. Infinite ones are near themselves, NaN is near nothing.
inline constexpr double kRounding = 1e-5;
bool areNear(const std::vector<double>& a, const std::vector<double>& b, double tolerance = 1e-3);

}  // namespace tscompile
