// How large a loop may become when lowering unrolls it, or an engine runs it: what does it, and what tells people why
// it did not.
#pragma once

#include <cstdint>

namespace tscompile {

// Nodes that one loop may become.
inline constexpr int64_t kMostUnrolledNodes = 256;
// Nodes that all iterations of the loops of an engine may be together.
inline constexpr int64_t kMostIteratedNodes = 4096;

}  // namespace tscompile
