// Environment variables that say what options are.
#pragma once

#include "tools/options/options.h"

namespace tscompile {

// TSCOMPILE_MIN_BLOCK_SIZE for --min-block-size; empty for an option without a long name. Of several, the one that is
// set.
std::string variableOf(const OptionSpec& option);

// What is wrong with variables that no command listens to, though their names are nearly those of options.
std::vector<std::string> misspeltVariables();

}  // namespace tscompile
