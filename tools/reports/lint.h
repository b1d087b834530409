// What is suspicious in a graph though it is no error.
#pragma once

#include "ir/graph/module.h"
#include "ir/support/diagnostics.h"

namespace tscompile {

// Warnings: operators that cannot run, results that nothing uses. Notes: inputs that nothing uses, constants whose data
// the text does not hold.
void lint(const ParsedText& text, Diagnostics& diagnostics);

}  // namespace tscompile
