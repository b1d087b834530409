// Checks of what is done to the graphs of a module: graphs from text, the module that they belong to, runs of both.
#pragma once

#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/lowering/call_targets.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/registry.h"
#include "tests/support/pass.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tscompile::test {

inline std::unique_ptr<Graph> readGraph(const std::string& text) {
  Diagnostics diagnostics;
  ParseOptions options;
  options.registry = &allOps();
  Result<std::unique_ptr<Graph>> g = parseGraph(SourceFile::make("text", text), diagnostics, options);
  EXPECT_TRUE(g.ok()) << renderDiagnostics(diagnostics, "test") << text;
  return g ? std::move(*g) : std::make_unique<Graph>();
}

// A graph with the module that it belongs to, and what is done to it.
class ModuleCase {
 public:
  explicit ModuleCase(const std::string& text) : graph(readGraph(text)), evaluator_(makeEvaluator(allOps())) {}

  std::unique_ptr<Graph> graph;
  CallTargets module;
  Diagnostics diagnostics;
  uint64_t foldBytes = 1 << 20;

  // Adds a method to a class ("__torch__.Net", "forward") or, without one, a function.
  const Graph* add(const std::string& className, const std::string& name, const std::string& text) {
    callees_.push_back(readGraph(text));
    (className.empty() ? module.functions : module.methods[classType(className)])[name] = callees_.back().get();
    return callees_.back().get();
  }

  // Runs a pass; the flag must say whether the text changed, and a second run must change nothing.
  bool apply(const Pass& pass) {
    std::string before = graphText(*graph);
    bool changed = once(pass);
    std::string after = graphText(*graph);
    EXPECT_EQ(changed, before != after) << after;
    Diagnostics broken;
    EXPECT_TRUE(verify(*graph, allOps(), broken)) << renderDiagnostics(broken, "test") << after;
    size_t errors = diagnostics.errorCount();
    EXPECT_FALSE(once(pass) && diagnostics.errorCount() == errors);
    EXPECT_EQ(graphText(*graph), after);
    return changed;
  }

  std::string text() const { return graphText(*graph); }

 private:
  bool once(const Pass& pass) {
    RewriteContext context(*graph, allOps(), diagnostics);
    context.module = &module;
    context.evaluator = evaluator_.get();
    context.foldBytes = foldBytes;
    return pass(*graph, context);
  }

  std::unique_ptr<Evaluator> evaluator_;
  std::vector<std::unique_ptr<Graph>> callees_;
};

inline Tensor floats(std::initializer_list<float> values) {
  std::vector<float> v(values);
  int64_t size = static_cast<int64_t>(v.size());
  return Tensor::of<float>(DimSpan(&size, 1), v);
}
inline Tensor floats(std::initializer_list<int64_t> sizes, std::initializer_list<float> values) {
  std::vector<int64_t> s(sizes);
  std::vector<float> v(values);
  return Tensor::of<float>(s, v);
}

}  // namespace tscompile::test
