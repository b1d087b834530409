#include "api/input_range.h"

#include "api/named_inputs.h"
#include "api/symbolic_ranges.h"
#include "ir/support/number_of_text.h"
#include "ir/support/text.h"
#include "ir/values/size_symbols.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tscompile {
namespace {

std::optional<int64_t> readSize(std::string_view text) {
  const auto size = numberOfText<int64_t>(text);
  return size && *size >= 0 ? size : std::nullopt;
}

std::string dimensionText(int64_t least, int64_t most) {
  return least == most ? std::to_string(least) : fmt::format("{}..{}", least, most);
}

// "4*N[1..8]x3" at its x's; names of symbols have none, but max(…) does.
std::vector<std::string_view> dimensionsOf(std::string_view text) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == ')') depth += text[i] == '(' ? 1 : -1;
    bool ofMax = i >= 2 && text.substr(i - 2, 4) == "max(";
    if (text[i] != 'x' || depth > 0 || ofMax) continue;
    out.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  out.push_back(text.substr(begin));
  return out;
}

bool addDimension(InputRange& range, std::string_view text) {
  size_t dots = text.find("..");
  std::optional<int64_t> least = readSize(text.substr(0, dots));
  std::optional<int64_t> most = dots == std::string_view::npos ? least : readSize(text.substr(dots + 2));
  if (!least || !most) {
    auto symbol = [](std::string_view name) { return SizeExpression::symbol(name); };
    std::optional<SizeExpression> e = SizeExpression::parse(text, symbol);
    if (!e || e->range().most < 0) return false;
    least = most = e->size();
  }
  range.least.push_back(*least);
  range.most.push_back(*most);
  return !isKnownSize(*least) || *least <= *most;
}

// A dimension as parseInputRange() reads it.
std::string dimensionText(const InputRange& range, size_t d) {
  if (!isExpression(range, d)) return dimensionText(range.least[d], range.most[d]);
  std::string text = boundedText(SizeExpression::ofSize(range.most[d]));
  std::erase(text, ' ');
  return text;
}

std::string sizesText(DimSpan sizes) {
  return sizes.empty() ? "no dimensions" : join(sizes, "x", [](int64_t s) { return std::to_string(s); });
}

bool checkTensor(const InputRange& range, const Tensor& tensor, Diagnostics& diagnostics) {
  auto fail = [&](const std::string& message) {
    diagnostics.error(message, ErrorKind::Model)
        .note(fmt::format("it is {}, and this was compiled for {}", sizesText(tensor.sizes()), rangeSizesText(range)));
    return false;
  };
  if (range.dtype != DType::Undefined && tensor.dtype() != range.dtype)
    return fail(
        fmt::format("input %{} is {}, not {}", range.name, pythonName(tensor.dtype()), pythonName(range.dtype)));
  if (static_cast<size_t>(tensor.rank()) != range.most.size())
    return fail(fmt::format("input %{} has {}, not {}", range.name,
                            counted(static_cast<size_t>(tensor.rank()), "dimension"), range.most.size()));
  for (int d = 0; d < tensor.rank(); ++d) {
    auto [least, most] = boundsOf(range, static_cast<size_t>(d));
    if (tensor.size(d) < least || tensor.size(d) > most)
      return fail(fmt::format("dimension {} of input %{} is {}, {} {}", d, range.name, tensor.size(d),
                              least == most ? "not" : "outside of", dimensionText(least, most)));
  }
  return true;
}

// Lists have as many items as sizes were said of, and dicts what they were said of.
bool checkContainers(const std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs,
                     std::span<const IValue> values, Diagnostics& diagnostics) {
  bool good = true;
  std::map<std::string, std::pair<size_t, size_t>>
      lists;  // by name: the items that are wanted and those that are there
  for (const InputRange& range : ranges) {
    const ContainedInput part = findPart(inputs, range.name);
    if (part.input >= values.size()) continue;
    const IValue* at = &values[part.input];
    std::string name = inputs[part.input].name;
    for (size_t i = 0; at && i < part.path.size(); ++i) {
      if (at->isList()) {
        auto& [wanted, there] = lists[name];
        wanted = std::max<size_t>(wanted, std::stoul(part.path[i]) + 1);
        there = at->toList().items.size();
      }
      const IValue* item = valueAt(*at, std::span(part.path).subspan(i, 1));
      if (!item && at->isDict()) {
        diagnostics.error(fmt::format("input %{} has no '{}'", name, part.path[i]), ErrorKind::Model);
        good = false;
      }
      at = item;
      name += "." + part.path[i];
    }
  }
  for (const auto& [name, count] : lists) {
    if (count.first == count.second) continue;
    diagnostics.error(
        fmt::format("input %{} has {}, and this was compiled for {}", name, counted(count.second, "item"), count.first),
        ErrorKind::Model);
    good = false;
  }
  return good;
}

}  // namespace

std::optional<InputRange> parseInputRange(std::string_view text) {
  size_t equal = text.find('=');
  if (equal == std::string_view::npos || equal == 0) return std::nullopt;
  InputRange range;
  range.name = text.substr(text[0] == '%', equal - (text[0] == '%'));
  std::string_view sizes = text.substr(equal + 1);
  if (size_t colon = sizes.find(':'); colon != std::string_view::npos) {
    std::optional<DType> dtype = dtypeFromName(sizes.substr(colon + 1));
    if (!dtype) return std::nullopt;
    range.dtype = *dtype;
    sizes = sizes.substr(0, colon);
  }
  if (sizes.empty()) return range;
  for (std::string_view dim : dimensionsOf(sizes))
    if (!addDimension(range, dim)) return std::nullopt;
  return range;
}

std::string sizesFault(std::string_view text) {
  const size_t equal = text.find('=');
  std::string_view sizes = text.substr(equal == std::string_view::npos ? 0 : equal + 1);
  sizes = sizes.substr(0, sizes.find(':'));
  for (std::string_view dim : dimensionsOf(sizes)) {
    if (dim == "?" || dim == "*" || dim == "-1" || dim == "None")
      return fmt::format("a size that is not fixed needs its least and its most, such as 1..8 in place of {}", dim);
    const size_t dots = dim.find("..");
    if (dots == std::string_view::npos) continue;
    const std::optional<int64_t> least = readSize(dim.substr(0, dots)), most = readSize(dim.substr(dots + 2));
    if (least && most && *least > *most) return fmt::format("{} is more than {}", *least, *most);
    if ((least && dim.size() == dots + 2) || (most && dots == 0))
      return fmt::format("{} has no {}, which it needs", dim, least ? "most" : "least");
  }
  const bool isCapital = sizes.find_first_not_of("0123456789.xX") == std::string_view::npos;
  return isCapital && sizes.find('X') != std::string_view::npos ? "sizes are joined by x, not by X" : "";
}

namespace {

// Why a dimension is none.
std::string problemOf(std::string_view dimension) {
  if (dimension.find(',') != std::string_view::npos) return fmt::format("an x is between two sizes, not a comma");
  return fmt::format("'{}' is no size: a number, a range such as 1..8, or an expression such as 2*N",
                     abbreviate(dimension, 40));
}

}  // namespace

Result<InputRange> readInputRange(std::string_view text, Diagnostics& diagnostics) {
  const bool isNamed = text.find('=') != std::string_view::npos;
  const std::string named = isNamed ? std::string(text) : "x=" + std::string(text);
  std::optional<InputRange> range = text.empty() ? std::nullopt : parseInputRange(named);
  if (range) {
    if (!isNamed) range->name.clear();
    return std::move(*range);
  }
  Diagnostic& d = diagnostics.error(
      fmt::format("'{}' is no size of an input, such as x=1..8x3x224x224:f32", abbreviate(text, 80)), ErrorKind::Input);
  std::string_view sizes = std::string_view(named).substr(named.find('=') + 1);
  if (const size_t colon = sizes.find(':'); colon != std::string_view::npos) {
    const std::string_view dtype = sizes.substr(colon + 1);
    if (!dtypeFromName(dtype)) d.note(fmt::format("'{}' is no dtype", abbreviate(dtype, 40)));
    sizes = sizes.substr(0, colon);
  }
  if (named.front() == '=') d.note("nothing stands before the =");
  InputRange unused;
  if (!sizes.empty())
    for (std::string_view dimension : dimensionsOf(sizes))
      if (!addDimension(unused, dimension)) {
        const std::string fault = sizesFault(named);
        d.note(fault.empty() ? problemOf(dimension) : fault);
        break;
      }
  return Failed{};
}

std::string rangeSizesText(const InputRange& range) {
  std::string out;
  for (size_t d = 0; d < range.most.size(); ++d) {
    if (d) out += 'x';
    out += dimensionText(range, d);
  }
  return out;
}

std::string inputRangeText(const InputRange& range) {
  std::string out = range.name + "=" + rangeSizesText(range);
  if (range.dtype != DType::Undefined) out += ":" + std::string(pythonName(range.dtype));
  return out;
}

bool checkInputRanges(const std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs,
                      std::span<const IValue> values, Diagnostics& diagnostics) {
  bool good = true, hasParts = false;
  for (const InputRange& range : ranges) {
    hasParts |= std::ranges::find(inputs, range.name, &ValueInfo::name) == inputs.end();
    if (const IValue* v = valueOf(range.name, inputs, values); v && v->isTensor() && v->tensorImpl())
      good &= checkTensor(range, v->toTensor(), diagnostics);
  }
  if (hasParts) good &= checkContainers(ranges, inputs, values, diagnostics);
  return good && checkExpressions(ranges, inputs, values, diagnostics);
}

}  // namespace tscompile
