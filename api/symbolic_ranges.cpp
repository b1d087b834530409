#include "api/symbolic_ranges.h"

#include "api/named_inputs.h"
#include "ir/values/size_symbols.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>

namespace tscompile {

SizeRange boundsOf(const InputRange& range, size_t d) {
  if (!isExpression(range, d)) return {range.least[d], range.most[d]};
  SizeRange bounds = SizeExpression::ofSize(range.least[d]).range();
  return {std::max<int64_t>(bounds.least, 0), bounds.most};
}

InputRange withoutExpressions(InputRange range) {
  for (size_t d = 0; d < range.most.size(); ++d) {
    SizeRange bounds = boundsOf(range, d);
    range.least[d] = bounds.least, range.most[d] = bounds.most;
  }
  return range;
}

namespace {

// Gives a symbol without bounds those that `of` says of it. False if no input names it.
bool boundSymbol(std::vector<InputRange>& ranges, const InputRange& of) {
  if (of.most.size() != 1 || of.dtype != DType::Undefined || isExpression(of, 0)) return false;
  SizeExpression open = SizeExpression::symbol(of.name);
  bool found = false;
  for (InputRange& r : ranges)
    for (size_t d = 0; d < r.most.size(); ++d) {
      if (!isExpression(r, d)) continue;
      SizeExpression e = SizeExpression::ofSize(r.most[d]).replaced([&](SizeExpression symbol) {
        bool here = symbol == open;
        found |= here;
        return here ? std::optional(SizeExpression::symbol(of.name, {of.least[0], of.most[0]})) : std::nullopt;
      });
      r.least[d] = r.most[d] = e.size();
    }
  return found;
}

// Gives symbols without bounds those that they have in another place.
void shareBounds(std::vector<InputRange>& ranges) {
  std::map<std::string, SizeExpression> bounded;
  auto visit = [&](const SizeExpression::Substitute& by) {
    for (InputRange& r : ranges)
      for (size_t d = 0; d < r.most.size(); ++d)
        if (isExpression(r, d)) r.least[d] = r.most[d] = SizeExpression::ofSize(r.most[d]).replaced(by).size();
  };
  visit([&](SizeExpression symbol) {
    if (symbol.range() != SizeRange{0, INT64_MAX}) bounded.emplace(symbol.text(), symbol);
    return std::nullopt;
  });
  visit([&](SizeExpression symbol) {
    auto at = bounded.find(symbol.text());
    return at == bounded.end() ? std::nullopt : std::optional(at->second);
  });
}

}  // namespace

void addInputRange(std::vector<InputRange>& ranges, InputRange range) {
  if (boundSymbol(ranges, range)) return;
  ranges.push_back(std::move(range));
  shareBounds(ranges);
  for (size_t i = 0; i + 1 < ranges.size();) {
    InputRange other = ranges[i];
    if (boundSymbol(ranges, other))
      ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
}

bool checkExpressions(const std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs,
                      std::span<const IValue> values, Diagnostics& diagnostics) {
  SizeSymbols symbols;
  bool good = true;
  auto forEachTensor = [&](auto&& visit) {
    for (const InputRange& range : ranges)
      if (const IValue* v = valueOf(range.name, inputs, values); v && v->isTensor() && v->tensorImpl())
        visit(range, v->tensorImpl()->sizes());
  };
  forEachTensor([&](const InputRange& range, DimSpan sizes) { symbols.bind(range.most, sizes); });
  forEachTensor([&](const InputRange& range, DimSpan sizes) {
    for (size_t d = 0; d < std::min(range.most.size(), sizes.size()); ++d) {
      SizeExpression e = SizeExpression::ofSize(range.most[d]);
      std::optional<int64_t> value = isExpression(range, d) ? symbols.valueOf(e) : std::nullopt;
      if (!value || *value == sizes[d]) continue;
      diagnostics.error(
          fmt::format("dimension {} of input %{} is {}, but {} is {}", d, range.name, sizes[d], e.text(), *value),
          ErrorKind::Model);
      good = false;
    }
  });
  return good;
}

namespace {
int64_t sizeFor(const InputRange& range, size_t d, bool largest) {
  int64_t most = boundsOf(range, d).most;
  if (largest && most != INT64_MAX) return most;
  return range.least[d] == range.most[d] ? range.most[d] : kUnknownSize;
}

// Of what a dict has nothing can be known before a run.
void setPart(SymbolicValue& at, TypePtr type, std::span<const std::string> path, SymbolicValue part) {
  if (path.empty()) {
    at = std::move(part);
    return;
  }
  if (type->is(TypeKind::Optional)) type = type->element();
  if (!type->is(TypeKind::List) && !type->is(TypeKind::Tuple)) return;
  const size_t index = std::stoul(path.front());
  if (!at.hasItems) at = symbolicOf(type);
  at.hasItems = true;
  const size_t count = type->is(TypeKind::List) ? index + 1 : type->elements().size();
  for (size_t i = at.items.size(); i < count; ++i)
    at.items.push_back(symbolicOf(type->element(type->is(TypeKind::List) ? 0 : i)));
  setPart(at.items[index], type->element(type->is(TypeKind::List) ? 0 : index), path.subspan(1), std::move(part));
}
}  // namespace

ShapeOptions shapeOptions(const Graph& graph, const std::vector<InputRange>& ranges, bool largest) {
  ShapeOptions options;
  options.inputs.resize(graph.inputs().size());
  std::vector<ValueInfo> inputs;
  for (const Value* v : graph.inputs()) inputs.push_back({v->name(), v->type()});
  for (const InputRange& r : ranges) {
    const ContainedInput part = findPart(inputs, r.name);
    const TypePtr type = part.type ? sizedType(part.type) : nullptr;
    if (!type) continue;
    DType dtype = r.dtype != DType::Undefined ? r.dtype : type->tensor().dtype;
    Dims sizes;
    for (size_t d = 0; d < r.most.size(); ++d) sizes.push_back(sizeFor(r, d, largest));
    std::optional<SymbolicValue>& input = options.inputs[part.input];
    if (!input) input = symbolicOf(inputs[part.input].type);
    setPart(*input, inputs[part.input].type, part.path,
            symbolicTensor(dtype == DType::Undefined ? DType::Float32 : dtype, sizes));
  }
  return options;
}

}  // namespace tscompile
