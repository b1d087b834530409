// Names of kinds of errors, as JSON and the interfaces for other languages have them.
#pragma once

#include "ir/support/diagnostics.h"

namespace tscompile {

// "input", "unsupported", "io", "limit", "incompatible", "model", "interrupted".
const char* errorKindName(ErrorKind kind);

}  // namespace tscompile
