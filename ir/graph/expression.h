// Graphs as formulas and as trees, for people to read; neither can be read back.
#pragma once

#include "ir/graph/graph.h"
#include "ir/support/limits.h"
#include "ir/values/bounded_text.h"

#include <functional>
#include <string>

namespace tscompile {

struct ExpressionOptions {
  bool allBrackets = false;  // around every operation, also where precedence makes them needless
  uint64_t maxBytes = Limits().printBytes;
  // Which operators change something outside of their node. Without it: those with an underscore at their end.
  std::function<bool(const Node&)> hasEffects = nullptr;
};

// `z + x * (z / x)`, `relu(*1 -> x @ y) * *1`. Constants stand where they are used. What is used several times is
// written where it is met first, after `*1 ->`, and is called *1 from then on. Lines of their own have: nodes with
// blocks or subgraphs, with effects or with several outputs, and values that such a line stands in between of, or that
// another block uses.
//   graph(x, n):
//     a, b = unbind(x)
//     y = for i in range(n) with c = a:
//       next c + b * i
//     return y, relu(y)
// Names of aten and prim lose their name space where that leaves no doubt. False if the text would be longer than
// options.maxBytes; what was written by then stays written.
bool printExpression(const Graph& graph, const TextSink& sink, const ExpressionOptions& options = {});
std::string expressionText(const Graph& graph, const ExpressionOptions& options = {});
// Of one value, down to inputs, block parameters, and outputs of nodes that have a line of their own.
std::string expressionText(const Value* value, const ExpressionOptions& options = {});

// One line for each node, its inputs below it, then its blocks:
//   add [id A] 'y'
//    |x [id B]
//    |mul [id C] '3'
//    | |x [id B]
//    | |2 [id D]
// What was shown before has its line, and nothing below. In graphs and blocks, results stand after "->", after the
// nodes whose outputs nothing uses.
bool printTree(const Graph& graph, const TextSink& sink, uint64_t maxBytes = Limits().printBytes);
std::string treeText(const Graph& graph);
std::string treeText(const Value* value);

}  // namespace tscompile
