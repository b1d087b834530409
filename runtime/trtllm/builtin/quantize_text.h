// Quantisation to int8 in graph text.
#pragma once

#include "runtime/trtllm/builtin/graph_text.h"
#include "runtime/trtllm/builtin/matmul_support.h"

#include <utility>

namespace tscompile {

// saturate(round(x)) of f32.
inline ValueText int8Text(GraphText& g, ValueText x) {
  ValueText numbers = g.op("aten::masked_fill", {x, g.op("aten::isnan", {x}), 0.0});
  return g.to(g.op("aten::clamp", {g.op("aten::round", {numbers}), -128, 127}), TSC_I8);
}

// Of f32: int8, and the scale of each row of the last dimension.
inline std::pair<ValueText, ValueText> perTokenText(GraphText& g, ValueText x) {
  ValueText magnitude = g.op("aten::abs", {g.op("aten::masked_fill", {x, g.op("aten::isnan", {x}), 0.0})});
  ValueText most = g.op("aten::amax", {magnitude, g.ints({-1}), true});
  most = g.op("aten::clamp_min", {most, 1e-6});
  ValueText factor = g.div(g.op("aten::full_like", {most, 127.0, nullptr, nullptr, nullptr, nullptr, nullptr}), most);
  return {int8Text(g, g.mul(x, factor)), g.div(most, 127.0)};
}

// Clamped to the two values of a tensor.
inline ValueText clampText(GraphText& g, ValueText x, ValueText bounds) {
  auto bound = [&](int64_t i) { return g.select(bounds, 0, i); };
  return g.op("aten::clamp", {x, bound(0), bound(1)});
}

inline ValueText rowSumText(GraphText& g, ValueText x) { return g.op("aten::sum", {x, g.ints({-1}), true, nullptr}); }

}  // namespace tscompile
