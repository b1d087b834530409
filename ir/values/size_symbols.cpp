#include "ir/values/size_symbols.h"

#include <algorithm>

namespace tscompile {

void SizeSymbols::bind(DimSpan told, DimSpan is) {
  for (size_t d = 0; d < std::min(told.size(), is.size()); ++d)
    if (SizeExpression e = SizeExpression::ofSize(told[d]); e.isSymbol()) values_.emplace(e.integer(), is[d]);
}

std::optional<int64_t> SizeSymbols::valueOf(SizeExpression e) const {
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
