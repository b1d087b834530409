// Commands do not write over what they read.
#pragma once

#include "tools/options/options.h"

namespace tscompile {

// Throws UsageError if a file that the command is to write is one that it reads. A text may be written over itself, and
// what refit replaces is its own.
void checkOutputIsNoInput(const Options& options);

// Whether all files and folders that the command is to write can be written; false after a report. Asked before the
// work, which may be long.
bool checkOutputPlaces(const Options& options, Diagnostics& diagnostics);

}  // namespace tscompile
