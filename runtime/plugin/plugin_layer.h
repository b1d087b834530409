// The layer of an engine that runs a plugin.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/plugin/plugin_instance.h"

namespace tscompile {

// The elements of a small integer tensor, for shapes(); false if it is none.
bool readElements(const Tensor& t, std::vector<int64_t>& into);

// Adds the layer and sets the results. `inputs`: by input of the plugin, which argument it is, or -1. With `inPlace`,
// outputs that may be written over an input are that input.
void convertToPluginLayer(ConvertCall& call, std::shared_ptr<const PluginInstance> plugin,
                          const std::vector<int>& inputs, bool inPlace);

}  // namespace tscompile
