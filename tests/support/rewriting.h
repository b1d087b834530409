// What tests of rewriting share: operators f, g, h, k without meaning, graphs and patterns from text.
#pragma once

#include "passes/rewrite/pattern.h"
#include "passes/rewrite/plan.h"

#include <memory>
#include <string>
#include <string_view>

namespace tscompile::test {

// All operators, and test::f, g, h, k, f1, g1 of one to three tensors, test::split with two results.
const OpRegistry& testOps();

std::unique_ptr<Graph> graphOf(std::string_view text);
Pattern patternOf(std::string_view text);
// A pattern or graph in short: "%x, %y: f(g(%x, %y), %y)" with test:: operators.
std::string shortGraph(std::string_view text);
std::unique_ptr<Graph> shortly(std::string_view text);  // the graph of that
// The rewrite of one short pattern by another.
NodeRewrite rule(std::string name, std::string_view from, std::string_view to);
inline const Symbol kF = Symbol::of("test::f"), kG = Symbol::of("test::g"), kH = Symbol::of("test::h");

struct PlanResult {
  std::string text;  // of the graph afterwards, in short: "h(z, y)"
  Outcome outcome;
  std::string messages;
};
// The graph's outputs as expressions of its inputs, without name spaces.
std::string shortText(const Graph& graph);
PlanResult runPlan(Graph& graph, const Plan& plan, const PlanSettings& settings = {});

}  // namespace tscompile::test
