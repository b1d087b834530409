// How large a loop may become when lowering unrolls it: what does it, and what tells people why it did not.
#pragma once

#include <cstdint>

namespace tscompile {

// Nodes that one loop may become.
inline constexpr int64_t kMostUnrolledNodes = 256;

}  // namespace tscompile
