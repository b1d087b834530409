// All built-in operators and plugins.
#pragma once

#include "ir/operators/op_registry.h"
#include "runtime/plugin/plugin_registry.h"

namespace tscompile {

// PyTorch's schemas and our records. Made at the first call, then const.
const OpRegistry& allOps();

// The plugins of the process. It begins with those that are built in, in the namespace "tensorrt_llm".
PluginRegistry& allPlugins();

}  // namespace tscompile
