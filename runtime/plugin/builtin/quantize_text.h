// Quantisation to int8 in graph text.
#pragma once

#include "runtime/plugin/builtin/graph_lines.h"
#include "runtime/plugin/builtin/matmul_support.h"

#include <utility>

namespace tscompile {

// Fails unless the input has one element.
inline void expectOne(const tsc::Shapes& s, size_t input, const std::string& name) {
  if (!s.has(input)) return;
  tsc::Dim all = s.constant(1);
  for (const tsc::Dim& d : s.input(input).dims) all = all * d;
  s.expect(all, 1, "the number of elements of " + name);
}

// saturate(round(x)) of f32.
inline std::string int8Text(GraphLines& g, const std::string& x) {
  std::string numbers = g.op("masked_fill", {x, g.op("isnan", {x}), g.real(0)});
  return g.to(g.op("clamp", {g.op("round", {numbers}), g.integer(-128), g.integer(127)}), TSC_I8);
}

// Of f32: int8, and the scale of each row of the last dimension.
inline std::pair<std::string, std::string> perTokenText(GraphLines& g, const std::string& x) {
  std::string magnitude = g.op("abs", {g.op("masked_fill", {x, g.op("isnan", {x}), g.real(0)})});
  std::string most = g.op("amax", {magnitude, g.integers({-1}), g.boolean(true)});
  most = g.op("clamp_min", {most, g.real(1e-6)});
  std::string none = g.none();
  std::string factor = g.div(g.op("full_like", {most, g.real(127), none, none, none, none, none}), most);
  return {int8Text(g, g.mul(x, factor)), g.div(most, g.real(127))};
}

// Clamped to the two values of a tensor.
inline std::string clampText(GraphLines& g, const std::string& x, const std::string& bounds) {
  auto bound = [&](int64_t i) { return g.op("select", {bounds, g.integer(0), g.integer(i)}); };
  return g.op("clamp", {x, bound(0), bound(1)});
}

inline std::string rowSumText(GraphLines& g, const std::string& x) {
  return g.op("sum", {x, g.integers({-1}), g.boolean(true), g.none()});
}

}  // namespace tscompile
