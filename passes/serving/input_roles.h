// What the inputs of a language model stand for: what their names say, else what is done to them.
#pragma once

#include "passes/serving/entrance.h"
#include "passes/serving/small_instance.h"

#include <optional>
#include <vector>

namespace tscompile {

// What the name of an input says it is.
std::optional<ServingInput> roleByName(const Value* input);

// What an input's elements are used for, as far as that can be seen.
struct InputUse {
  bool isPlace = false;  // they turn by angles, choose rows of a table of positions, or are compared with each other
  bool choosesRows = false;  // of other tables, as ids do
  bool asksIfZero = false;   // as masks are
};
InputUse useOf(const Value* input, const SmallInstance& small, RewriteContext& context);

// For each input; a report if they are not ids once, and a mask and positions once at most.
std::optional<std::vector<ServingInput>> rolesOfInputs(const Graph& graph, RewriteContext& context);

}  // namespace tscompile
