#include "runtime/registry.h"

#include "frontend/text/parse.h"
#include "ir/support/embed.h"
#include "runtime/ops/ops.h"
#include "runtime/plugin/plugin_operators.h"
#include "runtime/trtllm/builtin.h"

// PyTorch 1.13's operator schemas, as facts: every operator's overloads in the order in which they are tried, those
// that gained arguments once more with `later` in their names. After them the operators that PyTorch got until 2.14.
// Most are not implemented: models name them in branches that are not taken.
TS_EMBED(tscompileCatalog, TSCOMPILE_CATALOG TS_AND TSCOMPILE_CATALOG_LATER);

namespace tscompile {

PluginRegistry& allPlugins() {
  static PluginRegistry& registry = []() -> PluginRegistry& {
    auto* made = new PluginRegistry;  // leaked: lives as long as the process
    made->addBuiltin(builtinPlugins, "tensorrt_llm");
    return *made;
  }();
  return registry;
}

const OpRegistry& allOps() {
  static const OpRegistry& registry = [&]() -> const OpRegistry& {
    const std::string_view catalog(tscompileCatalogBegin, tscompileCatalogEnd);
    auto* ops = new OpRegistry(readSchema, catalog);  // leaked: lives as long as the process
#define TS_FAMILY(name) register##name##Ops(*ops);
#include "runtime/ops/families.def"
#undef TS_FAMILY
    ops->setConfigured(new PluginOperators(allPlugins(), *ops));
    return *ops;
  }();
  return registry;
}

}  // namespace tscompile
