#include "ir/values/size_symbols.h"

#include <algorithm>

namespace tscompile {

void SizeSymbols::bind(DimSpan told, DimSpan is) {
  for (size_t d = 0; d < std::min(told.size(), is.size()); ++d) {
    SizeExpression e = SizeExpression::ofSize(told[d]);
    if (e.isSymbol())
      values_.emplace(e.integer(), is[d]);
    else if (!e.isNumber() && !e.isUnknown())
      unsolved_.emplace_back(e, is[d]);
  }
}

// Of an expression that is linear in the one symbol without a value, that value; rounded down where none fits, so that
// the expression differs from what it should be.
void SizeSymbols::solve() const {
  for (const auto& [e, is] : std::exchange(unsolved_, {})) {
    std::optional<SizeExpression> unknown;
    auto at = [&, expression = e](int64_t tried) {
      return expression.evaluate([&](SizeExpression symbol) -> std::optional<int64_t> {
        if (auto known = values_.find(symbol.integer()); known != values_.end()) return known->second;
        if (!unknown) unknown = symbol;
        return *unknown == symbol ? std::optional(tried) : std::nullopt;
      });
    };
    const std::optional<int64_t> start = at(0), next = at(1), after = at(2);
    if (!unknown || !start || !next || !after) continue;
    const int64_t factor = *next - *start;
    if (factor > 0 && *after - *next == factor) values_.emplace(unknown->integer(), (is - *start) / factor);
  }
}

std::optional<int64_t> SizeSymbols::valueOf(SizeExpression e) const {
  if (!unsolved_.empty()) solve();
  return e.evaluate([this](SizeExpression symbol) {
    auto at = values_.find(symbol.integer());
    return at == values_.end() ? std::nullopt : std::optional(at->second);
  });
}

std::optional<size_t> SizeSymbols::firstOther(DimSpan told, DimSpan is) const {
  for (size_t d = 0; d < std::min(told.size(), is.size()); ++d)
    if (std::optional<int64_t> value = valueOf(SizeExpression::ofSize(told[d])); value && *value != is[d]) return d;
  return std::nullopt;
}

}  // namespace tscompile
