// The passes that are written in C++, one .cpp each. Each returns whether it changed the graph. How they are named,
// ordered and switched on is said in catalog.cpp; what they do is tested in tests/unit/passes.
#pragma once

#include "passes/rewrite/rewrite.h"

namespace tscompile {}  // namespace tscompile
