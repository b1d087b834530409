// Steps of lowering by their names.
#pragma once

#include "passes/rewrite/rewrite.h"

#include <functional>
#include <string>

namespace tscompile::test {

using Pass = std::function<bool(Graph&, RewriteContext&)>;
// A step of lowering, or all steps with a tag.
Pass pass(std::string name);

}  // namespace tscompile::test
