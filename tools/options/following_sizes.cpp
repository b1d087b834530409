#include "tools/options/following_sizes.h"

#include "api/named_inputs.h"
#include "ir/support/text.h"
#include "ir/values/size_symbols.h"
#include "tools/options/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace tscompile {
namespace {

constexpr char kNext = '#';

// Of sizes without a name, how many there are before them; "0" are the first.
std::optional<size_t> placeOf(const InputRange& r) {
  if (r.name == "0") return 0;
  return isUnnamed(r.name) ? std::optional(std::stoul(r.name.substr(1))) : std::nullopt;
}

// The sizes that an input is known to have, where each is a number or a symbol; null: that is not known.
const Dims* sizesOf(const ValueInfo& input) {
  if (!input.type->isTensor() || !input.type->tensor().hasRank) return nullptr;
  return &input.type->tensor().sizes;
}

bool isSymbol(int64_t size) {
  return !isKnownSize(size) && size != kUnknownSize && SizeExpression::ofSize(size).isNamed();
}

// The range with what the symbols come to; nothing if a size stays open, or none was.
std::optional<InputRange> followed(const ValueInfo& input, const SizeSymbols& symbols) {
  const Dims* sizes = sizesOf(input);
  if (!sizes || std::ranges::none_of(*sizes, isSymbol)) return std::nullopt;
  InputRange out;
  out.name = input.name;
  for (int64_t size : *sizes) {
    const std::optional<int64_t> value = isKnownSize(size) ? size
                                         : isSymbol(size)  ? symbols.valueOf(SizeExpression::ofSize(size))
                                                           : std::nullopt;
    if (!value || *value < 0) return std::nullopt;
    out.most.push_back(*value);
  }
  out.least = out.most;
  out.dtype = input.type->tensor().dtype;
  return out;
}

void addFollowed(std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs, const SizeSymbols& symbols) {
  for (const ValueInfo& input : inputs) {
    const bool isSaid = std::ranges::any_of(ranges, [&](const InputRange& r) { return r.name == input.name; });
    if (std::optional<InputRange> range = isSaid ? std::nullopt : followed(input, symbols))
      ranges.push_back(std::move(*range));
  }
}

// The size that is a symbol of this name; nothing if there is none.
std::optional<int64_t> symbolOf(std::span<const ValueInfo> inputs, const std::string& name) {
  for (const ValueInfo& input : inputs)
    if (const Dims* sizes = sizesOf(input))
      for (int64_t size : *sizes)
        if (isSymbol(size) && SizeExpression::ofSize(size).text() == name) return size;
  return std::nullopt;
}

}  // namespace

bool isUnnamed(std::string_view name) { return name.starts_with(kNext); }

std::string unnamedSizes(std::span<const InputRange> said) {
  const auto count = std::ranges::count_if(said, [](const InputRange& r) { return placeOf(r).has_value(); });
  return count == 0 ? "0" : kNext + std::to_string(count);
}

void nameUnnamedSizes(std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs) {
  if (std::ranges::none_of(ranges, [](const InputRange& r) { return isUnnamed(r.name); })) return;
  std::vector<std::string> tensors, all;
  for (const ValueInfo& input : inputs) {
    if (input.type->isTensor()) tensors.push_back(input.name);
    if (sizedType(input.type)) all.push_back(input.name);
  }
  size_t count = 0;
  for (const InputRange& r : ranges)
    if (const std::optional<size_t> place = placeOf(r)) count = std::max(count, *place + 1);
  const std::vector<std::string>& names = count > tensors.size() ? all : tensors;
  if (count > names.size())
    throw UsageError{
        fmt::format("{} have no name, and there {} {}", count == 1 ? "sizes" : fmt::format("{} sizes", count),
                    names.size() == 1 ? "is" : "are",
                    counted(names.size(), "input") + " that " + (names.size() == 1 ? "has" : "have") + " some"),
        {"it takes " + join(inputs, ", ", [](const ValueInfo& v) {
           return "%" + v.name + " : " + typeText(withoutRefinement(v.type));
         })}};
  for (InputRange& r : ranges)
    if (const std::optional<size_t> place = placeOf(r)) r.name = names[*place];
}

void spreadSymbols(std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs) {
  SizeSymbols symbols;
  const size_t before = ranges.size();
  std::erase_if(ranges, [&](const InputRange& r) {
    if (r.most.size() != 1 || r.least != r.most || findPart(inputs, r.name).input != kNoInput) return false;
    const std::optional<int64_t> symbol = symbolOf(inputs, r.name);
    if (symbol) symbols.bind(DimSpan(&*symbol, 1), r.most);
    return symbol.has_value();
  });
  if (ranges.size() < before) addFollowed(ranges, inputs, symbols);
}

void addFollowingSizes(std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs) {
  SizeSymbols symbols;
  for (const InputRange& r : ranges)
    for (const ValueInfo& input : inputs)
      if (const Dims* sizes = input.name == r.name && r.least == r.most ? sizesOf(input) : nullptr;
          sizes && sizes->size() == r.most.size())
        symbols.bind(*sizes, r.most);
  addFollowed(ranges, inputs, symbols);
}

}  // namespace tscompile
