#include "api/named_inputs.h"

#include "api/symbolic_ranges.h"
#include "ir/support/number_of_text.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace tscompile {

std::vector<ValueInfo> inputsOf(const Graph& graph) {
  std::vector<ValueInfo> inputs;
  for (const Value* v : graph.inputs())
    if (!v->type()->is(TypeKind::Class)) inputs.push_back({v->name(), v->type()});
  return inputs;
}

TypePtr sizedType(TypePtr type) {
  if (type->is(TypeKind::Optional)) type = type->element();
  if (type->is(TypeKind::Union))
    if (auto t = std::ranges::find_if(type->elements(), &Type::isTensor); t != type->elements().end()) return *t;
  return type->isTensor() ? type : nullptr;
}

size_t findInput(std::span<const ValueInfo> inputs, std::string_view name) {
  if (!name.empty() && name[0] == '%') name.remove_prefix(1);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == name) return i;
  // Compilers number the names of the source.
  auto isNumbered = [&](const ValueInfo& v) {
    const size_t dot = v.name.rfind('.');
    return dot != std::string::npos && dot + 1 < v.name.size() && std::string_view(v.name).substr(0, dot) == name &&
           v.name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  };
  if (std::count_if(inputs.begin(), inputs.end(), isNumbered) == 1)
    return static_cast<size_t>(std::find_if(inputs.begin(), inputs.end(), isNumbered) - inputs.begin());
  if (name.empty() || name.size() >= 10 || name.find_first_not_of("0123456789") != std::string_view::npos)
    return kNoInput;
  const size_t at = std::stoul(std::string(name));
  return at < inputs.size() ? at : kNoInput;
}

namespace {

// Inputs of more items are not described one by one.
constexpr int64_t kMostItems = 4096;

std::optional<int64_t> elementAt(TypePtr tuple, const std::string& step) {
  if (tuple->isNamedTuple())
    for (size_t i = 0; i < tuple->fields().size(); ++i)
      if (tuple->fields()[i] == step) return static_cast<int64_t>(i);
  const std::optional<int64_t> index = numberOfText<int64_t>(step);
  return index && *index < static_cast<int64_t>(tuple->elements().size()) ? index : std::nullopt;
}

// The rest of a name after its input: what a dict of tensors has is told by all of it, since keys have dots as well.
void followParts(std::string_view rest, ContainedInput& part) {
  while (part.type && !rest.empty()) {
    TypePtr type = part.type->is(TypeKind::Optional) ? part.type->element() : part.type;
    const bool isLast = type->is(TypeKind::Dict) && sizedType(type->element(1));
    const size_t dot = isLast ? std::string_view::npos : rest.find('.');
    std::string step(rest.substr(0, dot));
    rest = dot == std::string_view::npos ? "" : rest.substr(dot + 1);
    part.type = nullptr;
    if (type->is(TypeKind::List)) {
      if (const std::optional<int64_t> index = numberOfText<int64_t>(step); index && 0 <= *index && *index < kMostItems)
        part.type = type->element();
    } else if (type->is(TypeKind::Dict)) {
      part.type = type->element(1);
    } else if (type->is(TypeKind::Tuple)) {
      if (const std::optional<int64_t> index = elementAt(type, step); index && 0 <= *index) {
        part.type = type->elements()[static_cast<size_t>(*index)];
        step = std::to_string(*index);
      }
    }
    part.path.push_back(std::move(step));
  }
}

}  // namespace

ContainedInput findPart(std::span<const ValueInfo> inputs, std::string_view name) {
  ContainedInput whole{findInput(inputs, name)};
  if (whole.input != kNoInput) {
    whole.type = inputs[whole.input].type;
    if (sizedType(whole.type)) return whole;
  }
  for (size_t dot = name.rfind('.'); dot != std::string_view::npos && dot > 0; dot = name.rfind('.', dot - 1)) {
    ContainedInput part{findInput(inputs, name.substr(0, dot))};
    if (part.input == kNoInput) continue;
    part.type = inputs[part.input].type;
    followParts(name.substr(dot + 1), part);
    if (!part.path.empty() && (whole.input == kNoInput || (part.type && sizedType(part.type)))) return part;
  }
  return whole;
}

std::string partName(std::string_view input, std::span<const std::string> path) {
  std::string name(input);
  for (const std::string& step : path) name += "." + step;
  return name;
}

const IValue* valueAt(const IValue& value, std::span<const std::string> path) {
  const IValue* at = &value;
  for (const std::string& step : path) {
    if (at->isDict()) {
      auto& dict = at->toDict();
      const bool isNumber = dict.keyType->is(TypeKind::Int);
      const std::optional<int64_t> number = isNumber ? numberOfText<int64_t>(step) : std::nullopt;
      at = isNumber && !number ? nullptr : dict.find(number ? IValue(*number) : IValue(step));
      if (!at) return nullptr;
      continue;
    }
    if (!at->isList() && !at->isTuple()) return nullptr;
    const std::vector<IValue>& items = at->isList() ? at->toList().items : at->toTuple().items;
    const std::optional<int64_t> index = numberOfText<int64_t>(step);
    if (!index || *index < 0 || static_cast<size_t>(*index) >= items.size()) return nullptr;
    at = &items[static_cast<size_t>(*index)];
  }
  return at;
}

const IValue* valueOf(std::string_view name, std::span<const ValueInfo> inputs, std::span<const IValue> values) {
  const size_t count = std::min(inputs.size(), values.size());
  for (size_t i = 0; i < count; ++i)
    if (inputs[i].name == name && sizedType(inputs[i].type)) return &values[i];
  const ContainedInput part = findPart(inputs, name);
  return part.input < count ? valueAt(values[part.input], part.path) : nullptr;
}

InputFault noSuchInput(std::span<const ValueInfo> inputs, std::string_view name) {
  InputFault fault{"the graph has no input '" + abbreviate(name, 80) + "'"};
  NearestName nearest(std::string(name.substr(startsWith(name, "%"))));
  for (const ValueInfo& v : inputs) {
    nearest.consider(v.name);
    nearest.consider(v.name.substr(0, v.name.rfind('.')));  // as the source has it
  }
  if (nearest.found()) fault.notes.push_back("did you mean '" + nearest.name() + "'?");
  fault.notes.push_back(inputs.empty() ? "it takes no inputs"
                                       : "it takes " + join(inputs, ", ", [](const ValueInfo& v) {
                                           return "%" + v.name + " : " + typeText(withoutRefinement(v.type));
                                         }));
  return fault;
}

namespace {

// The way to a tensor in a container of this type, as ".0"; empty if there is none.
std::string firstTensorIn(TypePtr type) {
  std::string path;
  while (!sizedType(type)) {
    if (type->is(TypeKind::Optional)) {
      type = type->element();
    } else if (type->is(TypeKind::List)) {
      path += ".0";
      type = type->element();
    } else if (type->is(TypeKind::Dict)) {
      path += ".KEY";
      type = type->element(1);
    } else if (type->is(TypeKind::Tuple)) {
      const auto of = [](TypePtr element) { return sizedType(element) || !firstTensorIn(element).empty(); };
      const auto found = std::ranges::find_if(type->elements(), of);
      if (found == type->elements().end()) return "";
      path += "." + std::to_string(found - type->elements().begin());
      type = *found;
    } else {
      return "";
    }
  }
  return path;
}

std::optional<InputFault> nameRange(InputRange& range, std::span<const ValueInfo> inputs) {
  const ContainedInput part = findPart(inputs, range.name);
  if (part.input == kNoInput) return noSuchInput(inputs, range.name);
  const ValueInfo& input = inputs[part.input];
  const std::string name = partName(input.name, part.path);
  if (!part.type)
    return InputFault{fmt::format("input %{} is {} and has no '{}'", input.name, typeText(input.type),
                                  abbreviate(join(part.path, ".", std::identity()), 80))};
  if (!sizedType(part.type)) {
    InputFault fault{"input %" + name + " is " + typeText(part.type) + " and has no shape", {}, part.input};
    if (const std::string way = firstTensorIn(part.type); !way.empty())
      fault.notes.push_back("what is in it has: " + name + way + "=...");
    return fault;
  }
  range.name = name;
  return std::nullopt;
}

std::string listText(const Dims& sizes) {
  return "[" + join(sizes, ", ", [](int64_t s) { return std::to_string(s); }) + "]";
}

// Of ranges that were made by hand.
bool isOrdered(const InputRange& range) {
  bool ordered = range.least.size() == range.most.size();
  for (size_t d = 0; ordered && d < range.most.size(); ++d)
    ordered = 0 <= boundsOf(range, d).least && boundsOf(range, d).least <= boundsOf(range, d).most;
  return ordered;
}

bool isInside(const InputRange& usual, const InputRange& range) {
  bool inside = usual.most.size() == range.most.size();
  for (size_t d = 0; inside && d < range.most.size(); ++d)
    inside = boundsOf(range, d).least <= usual.most[d] && usual.most[d] <= boundsOf(range, d).most;
  return inside;
}

}  // namespace

std::optional<InputFault> nameInputRanges(std::vector<InputRange>& shapes, std::vector<InputRange>& usualShapes,
                                          std::span<const ValueInfo> inputs) {
  for (std::vector<InputRange>* ranges : {&shapes, &usualShapes})
    for (InputRange& r : *ranges) {
      if (std::optional<InputFault> fault = nameRange(r, inputs)) return fault;
      for (size_t d = 0; d < r.most.size(); ++d)
        if (isExpression(r, d) && boundsOf(r, d).most == std::numeric_limits<int64_t>::max()) {
          const std::string open = SizeExpression::ofSize(r.most[d]).text();
          const bool isName = open.find_first_of("+-*/( ") == std::string::npos;
          return InputFault{fmt::format("nothing says how large {} of input %{} may be", open, r.name),
                            {fmt::format("say it as of an input: {}=1..8", isName ? open : "N")}};
        }
      if (!isOrdered(r))
        return InputFault{fmt::format("the sizes of input %{} do not go from least to most", r.name),
                          {fmt::format("they go from {} to {}", listText(r.least), listText(r.most))}};
    }
  for (const InputRange& usual : usualShapes) {
    if (usual.least != usual.most)
      return InputFault{fmt::format("the usual sizes of input %{} are not one for each dimension", usual.name),
                        {"they are " + rangeSizesText(usual)}};
    for (const InputRange& r : shapes)
      if (r.name == usual.name && !isInside(usual, r))
        return InputFault{fmt::format("the usual sizes of input %{} are outside of those that it may have", r.name),
                          {fmt::format("usual are {}, and it may be {}", rangeSizesText(usual), rangeSizesText(r))}};
  }
  return std::nullopt;
}

}  // namespace tscompile
