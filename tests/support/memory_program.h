// Random programs about nothing but memory, which never fail: tensors of one shape, views of them, writes, lists,
// branches and loops.
#pragma once

#include "ir/graph/graph.h"
#include "ir/values/ivalue.h"
#include "tests/support/choices.h"

#include <memory>
#include <vector>

namespace tscompile::test {

std::unique_ptr<Graph> memoryProgram(Choices& choices, size_t nodes);
// Arguments for it: infinities, NaN and -0.0 among them.
std::vector<IValue> memoryProgramInputs(Choices& choices, const Graph& graph);

}  // namespace tscompile::test
