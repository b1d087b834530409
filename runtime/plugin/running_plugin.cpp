#include "runtime/plugin/running_plugin.h"

#include <atomic>

namespace tscompile {
namespace {

thread_local const PluginKey* tRunning = nullptr;
std::atomic<const PluginKey*> gRunning{nullptr};

}  // namespace

RunningPlugin::RunningPlugin(const PluginKey& key) : own_(tRunning), shared_(gRunning.exchange(&key)) {
  tRunning = &key;
}

RunningPlugin::~RunningPlugin() {
  tRunning = own_;
  gRunning = shared_;
}

const PluginKey* RunningPlugin::current() { return tRunning ? tRunning : gRunning.load(); }

}  // namespace tscompile
