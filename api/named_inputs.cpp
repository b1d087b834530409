#include "api/named_inputs.h"

#include "api/symbolic_ranges.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {

std::vector<ValueInfo> inputsOf(const Graph& graph) {
  std::vector<ValueInfo> inputs;
  for (const Value* v : graph.inputs())
    if (!v->type()->is(TypeKind::Class)) inputs.push_back({v->name(), v->type()});
  return inputs;
}

TypePtr sizedType(TypePtr type) {
  if (type->is(TypeKind::Optional)) type = type->element();
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

std::optional<InputFault> nameRange(InputRange& range, std::span<const ValueInfo> inputs) {
  const size_t found = findInput(inputs, range.name);
  if (found == kNoInput) return noSuchInput(inputs, range.name);
  const ValueInfo& input = inputs[found];
  if (!sizedType(input.type))
    return InputFault{"input %" + input.name + " is " + typeText(input.type) + " and has no shape", {}, found};
  range.name = input.name;
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
