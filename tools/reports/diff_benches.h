// Which of two measurements, as `tscompile bench --format json` writes them, is faster.
#pragma once

#include "tools/session/session.h"

#include <string>

namespace tscompile {

// Whether a file holds a measurement: JSON that names its format.
bool isBenchReport(const std::string& path);
// Writes a table of times; the exit code is kExitNegative if the second is slower somewhere.
int diffBenches(const std::string& first, const std::string& second, Session& session);

}  // namespace tscompile
