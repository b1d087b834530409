// The verbs. Each takes the parsed command line and returns the exit code.
#pragma once

#include "tools/options/options.h"
#include "tools/session/session.h"

namespace tscompile {

// Help of the whole tool and of one verb.
std::string generalHelp();
std::string verbHelp(const VerbSpec& verb);

}  // namespace tscompile
