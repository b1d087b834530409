#include "api/input_range.h"

#include "api/module.h"

#include <fmt/core.h>

#include <charconv>

namespace tscompile {
namespace {

std::optional<int64_t> readSize(std::string_view text) {
  int64_t size = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (text.empty() || failure != std::errc() || end != text.data() + text.size() || size < 0) return std::nullopt;
  return size;
}

std::string rangeText(int64_t least, int64_t most) {
  return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
}

// What is wrong with a tensor for its range; empty if nothing is.
std::string misfit(const InputRange& range, const Tensor& t) {
  if (range.dtype != DType::Undefined && t.dtype() != range.dtype)
    return fmt::format("it is {}, and {} was compiled for", pythonName(t.dtype()), pythonName(range.dtype));
  if (t.sizes().size() != range.most.size())
    return fmt::format("it has {} dimensions, and {} were compiled for", t.sizes().size(), range.most.size());
  for (size_t d = 0; d < range.most.size(); ++d)
    if (t.sizes()[d] < range.least[d] || t.sizes()[d] > range.most[d])
      return fmt::format("dimension {} is {}, and {} was compiled for", d, t.sizes()[d],
                         rangeText(range.least[d], range.most[d]));
  return "";
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
  for (size_t at = 0; !sizes.empty() && at <= sizes.size();) {
    size_t end = std::min(sizes.find('x', at), sizes.size());
    std::string_view dim = sizes.substr(at, end - at);
    size_t dots = dim.find("..");
    std::optional<int64_t> least = readSize(dim.substr(0, dots));
    std::optional<int64_t> most = dots == std::string_view::npos ? least : readSize(dim.substr(dots + 2));
    if (!least || !most || *least > *most) return std::nullopt;
    range.least.push_back(*least);
    range.most.push_back(*most);
    at = end + 1;
  }
  return range;
}

bool checkRanges(std::span<const InputRange> ranges, std::span<const ValueInfo> infos, std::span<const IValue> inputs,
                 Diagnostics& diagnostics) {
  bool good = true;
  for (const InputRange& r : ranges)
    for (size_t i = 0; i < infos.size() && i < inputs.size(); ++i) {
      if (infos[i].name != r.name || !inputs[i].isTensor() || !inputs[i].tensorImpl()) continue;
      std::string wrong = misfit(r, inputs[i].toTensor());
      if (wrong.empty()) continue;
      diagnostics.error("input %" + r.name + " is outside of its range: " + wrong, ErrorKind::Model);
      good = false;
    }
  return good;
}

}  // namespace tscompile
