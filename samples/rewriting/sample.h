// What the samples share: graphs from text, with every operator known.
#pragma once

#include "api/compiler.h"
#include "frontend/text/parse.h"
#include "ir/graph/expression.h"
#include "passes/rewrite/pattern.h"
#include "passes/rewrite/plan.h"
#include "runtime/registry.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace sample {

// Ends the program if something was reported.
inline void check(const tscompile::Diagnostics& diagnostics) {
  if (!diagnostics.hasErrors()) return;
  std::fputs(tscompile::renderDiagnostics(diagnostics, "sample").c_str(), stderr);
  std::exit(1);
}

inline std::unique_ptr<tscompile::Graph> graph(std::string_view text) {
  tscompile::Diagnostics diagnostics;
  tscompile::ParseOptions options;
  options.registry = &tscompile::allOps();
  auto graph = tscompile::parseGraph(text, diagnostics, options);
  check(diagnostics);
  return std::move(*graph);
}

inline tscompile::Pattern pattern(std::string_view text) {
  tscompile::Diagnostics diagnostics;
  auto pattern = tscompile::Pattern::parse(text, diagnostics);
  check(diagnostics);
  return *pattern;
}

inline void print(const char* title, const tscompile::Graph& graph) {
  std::printf("%-14s %s\n", title, tscompile::expressionText(graph.output(0)).c_str());
}

// Runs a plan and prints the graph after it.
inline tscompile::Outcome run(const char* title, tscompile::Graph& graph, const tscompile::Plan& plan) {
  tscompile::Diagnostics diagnostics;
  tscompile::RewriteContext context(graph, tscompile::allOps(), diagnostics);
  tscompile::Outcome outcome = plan.run(context);
  check(diagnostics);
  print(title, graph);
  return outcome;
}

}  // namespace sample
