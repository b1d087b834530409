#include "tools/tasks/plugin_work.h"

#include "ir/support/quantities.h"
#include "ir/support/text.h"
#include "runtime/registry.h"

#include <fmt/core.h>

namespace tscompile {

PluginWork::PluginWork() {
  for (const PluginCreatorPtr& c : allPlugins().listUsed())
    starts_[c->key] = {c->counters.calls, c->counters.nanoseconds, c->counters.bytes};
}

std::vector<PluginWork::Row> PluginWork::rows() const {
  std::vector<Row> out;
  for (const PluginCreatorPtr& c : allPlugins().listUsed()) {
    auto it = starts_.find(c->key);
    Start start = it == starts_.end() ? Start{0, 0, 0} : it->second;
    const PluginCounters& now = c->counters;
    if (now.calls == start.calls) continue;
    out.push_back({c->key.text(), now.calls - start.calls,
                   static_cast<double>(now.nanoseconds - start.nanoseconds) / 1e3, now.bytes - start.bytes,
                   now.workspacePeak, now.live});
  }
  return out;
}

std::string pluginWorkText(const PluginWork::Row& row) {
  auto size = [](int64_t bytes) { return sizeText(static_cast<uint64_t>(bytes)); };
  return fmt::format("{}: {}, {:.1f} us, {} of results, workspace {}, {}", row.plugin, counted(row.calls, "call"),
                     row.microseconds, size(row.bytes), size(row.workspacePeak), counted(row.live, "instance"));
}

}  // namespace tscompile
