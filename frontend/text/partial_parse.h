// What can be read of a text with mistakes, for tools that tell what else is wrong with it.
#pragma once

#include "frontend/text/parse.h"

namespace tscompile {

// Reads as parseText, and goes on after mistakes. A statement that could not be read is a node prim::Uninitialized of
// the same range that gives the values that it names (Tensor where it says so, else Any); a value that nothing defines
// is given by such a node without a range. Graphs may lack their end.
ParsedText parsePartly(SourcePtr source, Diagnostics& diagnostics, const ParseOptions& options = {});

}  // namespace tscompile
