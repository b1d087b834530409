// Expansions that stand for what an operator does by itself.
#pragma once

#include "ir/graph/module.h"

namespace tscompile {

// Whatever PyTorch runs of a text or an archive leaves out expansions that are marked as implicit by a constant, for
// the operators behind broadcast anyhow. What computes the mark leaves them in.
//   aten::expand(%x, %sizes, implicit=true)  ->  %x
void dropImplicitExpands(const ParsedText& text);

}  // namespace tscompile
