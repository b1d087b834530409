// What texts and runs say of the symbols of sizes.
#pragma once

#include "ir/values/size_expression.h"

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tscompile {

class SizeSymbols {
 public:
  // Sizes that are symbols get the values that they stand beside; those that have one keep it. Of 4*N + 1 the value of
  // N follows, if no other size tells it.
  void bind(DimSpan told, DimSpan is);
  // What an expression comes to, if all of its symbols have a value.
  std::optional<int64_t> valueOf(SizeExpression e) const;
  // The first dimension that differs from what was told of it; nothing if none is known to.
  std::optional<size_t> firstOther(DimSpan told, DimSpan is) const;

 private:
  void solve() const;

  mutable std::unordered_map<int64_t, int64_t> values_;
  mutable std::vector<std::pair<SizeExpression, int64_t>> unsolved_;  // and what they come to
};

// The text with the bounds of its symbols: `2*N[1..8] + 1`, as SizeExpression::parse() reads them.
std::string boundedText(SizeExpression e);
// `min(…)`, `max(…)`, `broadcast(…)`, `floordiv(…)`, also by the names that sympy has; nothing for others.
std::optional<SizeExpression> sizeCall(std::string_view name, std::span<const SizeExpression> operands);

}  // namespace tscompile
