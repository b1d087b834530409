#include "passes/rewrite/managers.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

// After the entries of the same or higher benefit.
template <class Entries, class Entry>
Result<void> insert(Entries& entries, Entry entry, Diagnostics& diagnostics) {
  for (const auto& e : entries)
    if (e.label == entry.label) {
      diagnostics.error(fmt::format("the label '{}' is taken", entry.label), ErrorKind::Input);
      return Failed{};
    }
  auto at = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.benefit < entry.benefit; });
  entries.insert(at, std::move(entry));
  return {};
}

}  // namespace

Result<void> RewritePatternManager::add(std::string label, PatternRewriter rewriter, int benefit,
                                        Diagnostics& diagnostics) {
  return insert(entries_, Entry{std::move(label), std::move(rewriter), benefit}, diagnostics);
}

const PatternRewriter* RewritePatternManager::get(std::string_view label) const {
  for (const Entry& e : entries_)
    if (e.label == label) return &e.rewriter;
  return nullptr;
}

Outcome RewritePatternManager::rewrite(RewriteContext& context, RewriteArguments arguments,
                                       const PlanSettings& settings) const {
  Plan::Equilibrium parts;
  for (const Entry& e : entries_) {
    NodeRewrite r;
    r.name = e.label;
    r.kinds = e.rewriter.kinds;
    r.benefit = e.benefit;
    const PatternRewriter& p = e.rewriter;
    if (p.matchAndRewrite)
      r.apply = p.matchAndRewrite;
    else
      r.apply = [&p](Node* n, RewriteContext& c) { return p.match(n, c) ? p.rewrite(n, c) : Replacement(); };
    parts.nodes.push_back(std::move(r));
  }
  std::swap(context.arguments, arguments);
  Outcome outcome = Plan::equilibrium("patterns", std::move(parts)).run(context, settings);
  std::swap(context.arguments, arguments);
  return outcome;
}

Result<void> AnalysisPatternManager::add(std::string label, PatternAnalyzer analyzer, int benefit,
                                         Diagnostics& diagnostics) {
  return insert(entries_, Entry{std::move(label), std::move(analyzer), benefit}, diagnostics);
}

const PatternAnalyzer* AnalysisPatternManager::get(std::string_view label) const {
  for (const Entry& e : entries_)
    if (e.label == label) return &e.analyzer;
  return nullptr;
}

void AnalysisPatternManager::analyze(const Graph& graph, const RewriteArguments& arguments) const {
  for (const Entry& e : entries_) {
    std::vector<const Node*> found;
    forEachNode(graph, [&](const Node* n) {
      if (isOfKind(n->kind(), e.analyzer.kinds) && e.analyzer.match(n, arguments)) found.push_back(n);
    });
    e.analyzer.analyze(found, arguments);
  }
}

}  // namespace tscompile
