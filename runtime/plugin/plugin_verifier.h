// Runs of plugins under observation: what one does beside what it says is an error that names it.
#pragma once

#include "runtime/plugin/plugin_instance.h"

namespace tscompile {

// Calls a plugin twice, with memory around its tensors and workspace that must stay as it is, and with results that
// hold other bytes before each of the two. Throws ExecutionError for writes past the end of outputs and workspace,
// changed inputs, elements that are not written, and results that differ though the plugin says they do not.
class PluginVerifier {
 public:
  PluginVerifier(const PluginInstance& plugin, PluginInstance::Context& context, PluginRun& state)
      : plugin_(plugin), context_(context), state_(state) {}
  void run(const PluginTensors& inputs, const PluginTensors& outputs);

 private:
  struct Observed;
  Observed once(const PluginTensors& inputs, const PluginTensors& outputs, unsigned char poison);
  const tsc_port& output(size_t i) const { return plugin_.creator().outputs()[i]; }

  const PluginInstance& plugin_;
  PluginInstance::Context& context_;
  PluginRun& state_;
};

}  // namespace tscompile
