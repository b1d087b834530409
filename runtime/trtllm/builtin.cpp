#include "runtime/trtllm/builtin.h"

#include "runtime/plugin/plugin_host.h"

namespace tscompile {

#define TS_PLUGIN(name) const tsc_plugin* make##name();
#include "runtime/trtllm/builtin.def"
#undef TS_PLUGIN

std::span<const tsc_plugin* const> builtinPlugins() {
  static const tsc_plugin* const all[] = {
#define TS_PLUGIN(name) make##name(),
#include "runtime/trtllm/builtin.def"
#undef TS_PLUGIN
  };
  tsc::host() = &pluginHost();
  return all;
}

}  // namespace tscompile
