// What is suspicious in a graph though it is no error.
#pragma once

#include "ir/graph/module.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"

#include <vector>

namespace tscompile {

// Errors: types that have no type's name. Warnings: operators that cannot run, types that are not what operators give,
// results that nothing uses. Notes: inputs that nothing uses, constants whose data the text does not hold.
// `holdsData`: of a file that has the data beside the text, which is not told.
void lint(const ParsedText& text, const OpRegistry& operators, Diagnostics& diagnostics, bool holdsData = false);

// Nodes whose operator is wrong whatever their inputs are: there is none of its name, or none that takes so many.
std::vector<const Node*> wrongOperators(const ParsedText& text, const OpRegistry& operators);

}  // namespace tscompile
