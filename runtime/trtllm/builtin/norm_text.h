// What the plugins with norms share: vectors as wide as rows, the norm in graph text.
#pragma once

#include "runtime/trtllm/builtin/graph_text.h"
#include "runtime/trtllm/builtin/matmul_support.h"

namespace tscompile {

// Fails unless the input is absent or a vector of this size.
inline void expectVector(const tsc::Shapes& s, size_t input, const tsc::Dim& size, const std::string& name,
                         const std::string& like) {
  if (!s.has(input)) return;
  expectRank(s.input(input), 1, name);
  expectEqual(s.input(input).dims[0], size, "the size of " + name, "the last one of " + like);
}

// (x - mean) / sqrt(variance + eps) * weight + bias, or without mean; weight and bias may be absent.
inline ValueText normText(GraphText& g, bool centered, ValueText x, double eps, ValueText weight, ValueText bias) {
  ValueText last = g.ints({-1});
  if (centered) x = g.sub(x, g.op("aten::mean", {x, last, true, nullptr}));
  ValueText squares = g.op("aten::mean", {g.mul(x, x), last, true, nullptr});
  ValueText y = g.mul(x, g.op("aten::rsqrt", {g.add(squares, eps)}));
  if (!weight.empty()) y = g.mul(y, g.toFloat(weight));
  return bias.empty() ? y : g.add(y, g.toFloat(bias));
}

}  // namespace tscompile
