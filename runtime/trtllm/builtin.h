// The plugins that come with the library, one file each in builtin/.
#pragma once

#include "runtime/plugin/plugin_sdk.h"

#include <span>

namespace tscompile {

std::span<const tsc_plugin* const> builtinPlugins();

}  // namespace tscompile
