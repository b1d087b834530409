// Managers of rewriters and analysers, after TensorRT-LLM's Graph Rewriting: each has a label and a benefit; the
// manager walks the network and hands over the arguments of the call.
#pragma once

#include "ir/support/result.h"
#include "passes/rewrite/plan.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// Looks for nodes and rewrites them: with `match` and `rewrite`, or, where more than a bool passes from one to the
// other, with `matchAndRewrite` alone.
struct PatternRewriter {
  std::vector<Symbol> kinds = {};  // of the nodes that it is asked about; empty: every node
  std::function<bool(const Node*, RewriteContext&)> match = nullptr;
  std::function<Replacement(Node*, RewriteContext&)> rewrite = nullptr;
  std::function<Replacement(Node*, RewriteContext&)> matchAndRewrite = nullptr;
};

// Collects nodes and looks at them together; changes nothing.
struct PatternAnalyzer {
  std::vector<Symbol> kinds = {};
  std::function<bool(const Node*, const RewriteArguments&)> match;
  std::function<void(const std::vector<const Node*>&, const RewriteArguments&)> analyze;
};

class RewritePatternManager {
 public:
  // Higher benefits go first. A label that is taken is refused.
  Result<void> add(std::string label, PatternRewriter rewriter, int benefit, Diagnostics& diagnostics);
  const PatternRewriter* get(std::string_view label) const;
  // Applies all rewriters until nothing changes; `arguments` are in context.arguments meanwhile.
  Outcome rewrite(RewriteContext& context, RewriteArguments arguments = {}, const PlanSettings& settings = {}) const;

 private:
  struct Entry {
    std::string label;
    PatternRewriter rewriter;
    int benefit;
  };
  std::vector<Entry> entries_;
};

class AnalysisPatternManager {
 public:
  Result<void> add(std::string label, PatternAnalyzer analyzer, int benefit, Diagnostics& diagnostics);
  const PatternAnalyzer* get(std::string_view label) const;
  // One walk for each analyser, by benefit.
  void analyze(const Graph& graph, const RewriteArguments& arguments = {}) const;

 private:
  struct Entry {
    std::string label;
    PatternAnalyzer analyzer;
    int benefit;
  };
  std::vector<Entry> entries_;
};

}  // namespace tscompile
