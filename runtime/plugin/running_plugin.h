// Which plugin is executing, for whoever has to tell it when the process ends there.
#pragma once

#include "runtime/plugin/plugin_registry.h"

namespace tscompile {

class RunningPlugin {
 public:
  // From here to the end of the scope this thread executes the plugin, whose key must live as long. A library that is
  // being loaded is a key without namespace, whose name is its path.
  explicit RunningPlugin(const PluginKey& key);
  ~RunningPlugin();
  RunningPlugin(const RunningPlugin&) = delete;

  // That of this thread; of threads that only help one, that which began last and is not done. Null: none. May be asked
  // by a signal handler.
  static const PluginKey* current();

 private:
  const PluginKey *own_, *shared_;  // those before
};

}  // namespace tscompile
