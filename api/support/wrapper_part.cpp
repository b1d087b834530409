#include "api/support/wrapper_part.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace tscompile {

std::string wrapperPart(std::span<const std::string> stored, std::span<const std::string> given) {
  if (stored.empty()) return "";
  const std::string part = stored[0].substr(0, stored[0].find('.') + 1);
  const auto begins = [&](const std::string& name) { return name.starts_with(part); };
  if (part.empty() || !std::ranges::all_of(stored, begins) || std::ranges::any_of(given, begins)) return "";
  const std::unordered_set<std::string_view> names(stored.begin(), stored.end());
  const auto isStored = [&](const std::string& name) { return names.contains(part + name); };
  return std::ranges::any_of(given, isStored) ? part : "";
}

std::string wrapperText(const std::string& part) {
  return fmt::format("the weights are those of '{}', below which the model has all of its own",
                     abbreviate(part.substr(0, part.size() - 1), 80));
}

}  // namespace tscompile
