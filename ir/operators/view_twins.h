// Operators that belong to one that gives a view, by their names: aten::select_copy copies what aten::select shows,
// aten::select_scatter puts such a part into a copy of the whole.
#pragma once

#include "ir/operators/op_registry.h"

#include <optional>
#include <string>
#include <string_view>

namespace tscompile {

inline std::optional<Symbol> viewTwin(Symbol view, std::string_view suffix, const OpRegistry& registry) {
  const Symbol twin = Symbol::of(std::string(view.text()) + std::string(suffix));
  return registry.isKnown(twin) ? std::optional(twin) : std::nullopt;
}
inline std::optional<Symbol> copyOf(Symbol view, const OpRegistry& registry) {
  return viewTwin(view, "_copy", registry);
}
inline std::optional<Symbol> scatterOf(Symbol view, const OpRegistry& registry) {
  return viewTwin(view, "_scatter", registry);
}

// Whether it is the scatter of a view.
inline bool isScatter(Symbol kind, const OpRegistry& registry) {
  constexpr std::string_view kSuffix = "_scatter";
  const std::string_view name = kind.text();
  return name.ends_with(kSuffix) && registry.isKnown(Symbol::of(name.substr(0, name.size() - kSuffix.size())));
}

}  // namespace tscompile
