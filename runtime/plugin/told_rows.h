// How many rows of an output a plugin says that it has written.
#pragma once

#include "runtime/plugin/plugin_instance.h"

namespace tscompile {

// What stands for a negative number, which a plugin may not say.
inline constexpr int64_t kNegativeRows = INT64_MIN;

// Throws ExecutionError if what was told cannot be; by output, -1 where nothing was.
void checkRows(const PluginCreator& creator, const PluginTensors& outputs, const std::vector<int64_t>& rows);

}  // namespace tscompile
