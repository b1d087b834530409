// What engines have left to the interpreter, in words.
#pragma once

#include "runtime/engine/refusal_watch.h"

#include <string>
#include <vector>

namespace tscompile {

// One sentence for each reason. The graphs of the engines must be there still.
std::vector<std::string> refusalTexts(const RefusalWatch& watch);

}  // namespace tscompile
