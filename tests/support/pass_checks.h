// Checks of passes: graph text in, graph text out, and the same runs before and after.
#pragma once

#include "ir/graph/graph.h"
#include "ir/values/ivalue.h"
#include "passes/lowering/clean_up.h"
#include "runtime/engine/network/engine_options.h"
#include "tests/support/module_checks.h"
#include "tests/support/pass.h"
#include "tests/support/random_graph.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace tscompile::test {

// The text as it is printed.
std::string printed(const std::string& text);

// What a run shows: results and what memory they share, arguments afterwards, prints. NaNs are all one.
struct RunOutcome {
  bool ok = false;
  std::string results, arguments, printed, error;
};
// A run that takes too long fails.
RunOutcome runGraph(const Graph& graph, std::vector<IValue> arguments,
                    std::chrono::milliseconds limit = std::chrono::milliseconds(200), const EngineOptions& engine = {});

// Applies a pass to a graph. Fails the test unless the graph still verifies, the flag says whether the text changed,
// and a second run changes nothing. Returns the flag.
bool applyPass(const Pass& pass, Graph& graph);
// The text that a pass makes of another, after the checks of applyPass and of expectSameRuns.
std::string afterPass(const Pass& pass, const std::string& text);

// Runs both graphs on the same random arguments, some of them NaN and infinite: where the first runs, the second must
// show the same. Returns how many of the runs did not fail.
using MakeInputs = std::vector<IValue> (*)(Choices&, const Graph&);
int expectSameRuns(const Graph& before, const Graph& after, int runs = 8, uint64_t seed = 0,
                   MakeInputs inputs = randomInputs, const EngineOptions& engine = {});

}  // namespace tscompile::test
