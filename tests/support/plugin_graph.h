// Graphs with plugins of a test.
#pragma once

#include "api/compile.h"
#include "api/extensions.h"
#include "api/module.h"
#include "runtime/plugin/plugin_host.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace tscompile::test {

inline std::shared_ptr<Extensions> extensionsWith(std::initializer_list<const tsc_plugin*> tables) {
  tsc::host() = &pluginHost();
  auto extensions = std::make_shared<Extensions>();
  for (const tsc_plugin* t : tables) {
    PluginResult added = extensions->plugins().add(*t);
    EXPECT_TRUE(added) << added.message;
  }
  return extensions;
}

class PluginGraph : public testing::Test {
 protected:
  PluginGraph(std::initializer_list<const tsc_plugin*> tables) : extensions(extensionsWith(tables)) {}
  Result<Module> load(const std::string& text) {
    LoadOptions options;
    options.extensions = extensions;
    return Module::fromText(text, "test", options, diagnostics);
  }
  // The same, as it is and as an engine.
  Result<Module> loadAs(bool engine, const std::string& text, double coverage = 0) {
    Result<Module> module = load(text);
    if (!module || !engine) return module;
    CompileSpec spec;
    spec.minBlockSize = 1;
    spec.requiredCoverage = coverage;
    return compile(*module, spec, diagnostics);
  }
  static Tensor tensor(std::vector<float> values) {
    Dims sizes{static_cast<int64_t>(values.size())};
    return Tensor::of<float>(sizes, values);
  }
  static std::vector<float> values(const IValue& v) {
    Tensor t = v.toTensor();
    return {t.data<float>(), t.data<float>() + t.numel()};
  }
  std::string firstError() const {
    for (const Diagnostic& d : diagnostics.list())
      if (d.severity == Severity::Error) return d.message;
    return "";
  }
  std::shared_ptr<Extensions> extensions;
  Diagnostics diagnostics;
};

}  // namespace tscompile::test
