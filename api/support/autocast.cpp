#include "api/support/autocast.h"

#include "frontend/source/autocast_regions.h"
#include "passes/catalog.h"

#include <algorithm>

namespace tscompile {

bool entersAutocast(const Graph& entry, const ProgramSources& sources) {
  auto enters = [](const auto& named) { return entersAutocast(*named.second); };
  return entersAutocast(entry) || std::ranges::any_of(sources.functions, enters) ||
         std::ranges::any_of(sources.methods, [&](const auto& m) { return std::ranges::any_of(m.second, enters); });
}

bool castWithCallees(Graph& graph, const CallTargets& targets, const OpRegistry& registry, Diagnostics& diagnostics) {
  const size_t before = diagnostics.errorCount();
  RewriteContext context(graph, registry, diagnostics);
  context.module = &targets;
  loweringDatabase().query(Query().including({"inline_calls"})).run(context, {});
  castInRegions(graph, registry);
  return diagnostics.errorCount() == before;
}

}  // namespace tscompile
