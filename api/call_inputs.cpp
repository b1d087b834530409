#include "api/call_inputs.h"

#include "api/support/enum_members.h"
#include "api/support/fitted_values.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {

std::string_view withoutNumber(std::string_view name) {
  size_t end = name.find_last_not_of("0123456789");
  return end != std::string_view::npos && end + 1 < name.size() && name[end] == '.' ? name.substr(0, end) : name;
}

bool CallInputs::areComplete(std::span<const IValue> given) const {
  if (given.size() != wanted_.size()) return false;
  for (size_t i = 0; i < given.size(); ++i) {
    const TypePtr type = wanted_[i].type;
    if (!(type->isTensor() ? given[i].isTensor() : isInstance(given[i], withoutRefinement(type)))) return false;
    if (!members_.empty() && lacksMembers(given[i])) return false;
  }
  return true;
}

const IValue* CallInputs::defaultOf(size_t input) const {
  auto known = defaults_.find(wanted_[input].name);
  if (known == defaults_.end()) known = defaults_.find(std::string(withoutNumber(wanted_[input].name)));
  // None is no default any more of what was compiled for a tensor.
  const bool fits = known != defaults_.end() && !(known->second.isNone() && wanted_[input].type->isTensor());
  return fits ? &known->second : nullptr;
}

bool CallInputs::isOptional(size_t input) const {
  return defaultOf(input) || isInstance(IValue(), wanted_[input].type);
}

std::optional<size_t> CallInputs::find(std::string_view name) const {
  std::optional<size_t> found;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    if (wanted_[i].name == name) return i;
    if (withoutNumber(wanted_[i].name) != name) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

namespace {

// Whether a list stands where a tensor is wanted, or an item of a dict or list of tensors.
bool isListForTensor(TypePtr wanted, const IValue& given) {
  if (wanted->isTensor()) return given.isList();
  if (wanted->is(TypeKind::List) && given.isList())
    return std::ranges::any_of(given.toList().items,
                               [&](const IValue& item) { return isListForTensor(wanted->element(), item); });
  bool found = false;
  if (wanted->is(TypeKind::Dict) && given.isDict())
    given.toDict().forEach(
        [&](const IValue&, const IValue& item) { found |= isListForTensor(wanted->element(1), item); });
  return found;
}

}  // namespace

Result<std::vector<IValue>> CallInputs::complete(std::vector<std::optional<IValue>> given,
                                                 Diagnostics& diagnostics) const {
  if (given.size() > wanted_.size()) {
    diagnostics.error(fmt::format("the method takes {}, {} were given", counted(wanted_.size(), "input"), given.size()),
                      ErrorKind::Input);
    return Failed{};
  }
  given.resize(wanted_.size());
  std::vector<IValue> out;
  out.reserve(wanted_.size());
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const ValueInfo& input = wanted_[i];
    if (given[i]) {
      if (std::optional<IValue> value = fitted(*given[i], withoutRefinement(input.type))) {
        if (!findMembers(*value, members_, diagnostics)) return Failed{};
        out.push_back(std::move(*value));
        continue;
      }
      Diagnostic& error = diagnostics.error(
          fmt::format("input %{} takes {}, not {}", input.name, typeText(withoutRefinement(input.type)),
                      typeText(withoutRefinement(dynamicType(*given[i])))),
          ErrorKind::Input);
      if (isListForTensor(input.type, *given[i]))
        error.note(
            "a list of numbers has no dtype: a tensor has one, such as an array of NumPy, or in texts 2x3:f32=[1 2 3; "
            "4 5 6]");
      return Failed{};
    }
    const IValue* standard = defaultOf(i);
    if (!standard && !isInstance(IValue(), input.type)) {
      diagnostics.error(fmt::format("input %{} was not given", input.name), ErrorKind::Input);
      return Failed{};
    }
    out.push_back(standard ? *standard : IValue());
  }
  return out;
}

}  // namespace tscompile
