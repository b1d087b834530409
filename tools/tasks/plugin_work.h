// What the plugins of the process did while a command ran.
#pragma once

#include "runtime/plugin/plugin_registry.h"

#include <map>
#include <string>
#include <vector>

namespace tscompile {

// From when it is made on.
class PluginWork {
 public:
  PluginWork();

  struct Row {
    std::string plugin;  // "mine::Scale version 1"
    int64_t calls = 0;
    double microseconds = 0;
    int64_t bytes = 0;          // of results
    int64_t workspacePeak = 0;  // bytes, of the whole process, as what is below
    int64_t live = 0;           // instances

    template <class Visit>
    void fields(Visit&& visit) const {
      visit("plugin", plugin);
      visit("calls", calls);
      visit("us", microseconds);
      visit("bytes", bytes);
      visit("workspace_peak", workspacePeak);
      visit("instances", live);
    }
  };
  // Of those that were called.
  std::vector<Row> rows() const;

 private:
  struct Start {
    int64_t calls, nanoseconds, bytes;
  };
  std::map<PluginKey, Start> starts_;
};

// "mine::Scale version 1: 3 calls, 12.5 us, 1.5 KiB of results, workspace 64 bytes, 1 instance"
std::string pluginWorkText(const PluginWork::Row& row);

}  // namespace tscompile
