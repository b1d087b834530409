// The checks of a library's plugins in processes beside this one, so that a plugin that crashes or hangs is a finding.
#pragma once

#include "runtime/plugin/plugin_check.h"

#include <chrono>
#include <string>

namespace tscompile {

// Starts the tool anew for each plugin, and once more after each check that ends the process or takes longer than
// `limit`. Only in processes that prepareProcess() was called in: others are not the tool.
PluginReport checkInProcesses(const std::string& path, std::chrono::nanoseconds limit);

// Whether this process was started so.
bool isCheckProcess();
// What such a process does: opens the library and, with a number of a plugin, makes its checks from `from` on. How far
// it comes it writes to the file that its parent gave it.
int runChecksForParent(const std::string& path, std::optional<size_t> plugin, size_t from);

}  // namespace tscompile
