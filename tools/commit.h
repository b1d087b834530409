// The commit that the program was made from, or "unknown".
#pragma once

namespace tscompile {

extern const char* const kSourceCommit;

}  // namespace tscompile
