// Inputs of a graph by the names that people give them, and what is said of their sizes.
#pragma once

#include "api/input_range.h"
#include "api/module.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// What a graph takes; the module itself is not counted.
std::vector<ValueInfo> inputsOf(const Graph& graph);

// The type that sizes can be said of: that of a tensor, also of one that may be left out or
// something else. Null for others.
TypePtr sizedType(TypePtr type);

// The input that people mean by a name: its own, that of the source (`image` for %image.1), or a position, from 0,
// where the module itself is not counted. kNoInput if there is none.
inline constexpr size_t kNoInput = SIZE_MAX;
size_t findInput(std::span<const ValueInfo> inputs, std::string_view name);

// A value that is an input, or in one that is a container: `xs.0` is the first item of a list or tuple, `d.key` what a
// dict has there. An input whose own name has the dots is meant first.
struct ContainedInput {
  size_t input = kNoInput;
  std::vector<std::string> path = {};  // indices and keys from the input on
  TypePtr type = nullptr;              // null: the type of the input has no such part
  bool isWhole() const { return path.empty(); }
};
ContainedInput findPart(std::span<const ValueInfo> inputs, std::string_view name);
std::string partName(std::string_view input, std::span<const std::string> path);
// The part of a value; null if it has none. `valueOf` takes the name as nameInputRanges() leaves it.
const IValue* valueAt(const IValue& value, std::span<const std::string> path);
const IValue* valueOf(std::string_view name, std::span<const ValueInfo> inputs, std::span<const IValue> values);

// What is wrong with something that was said of inputs.
struct InputFault {
  std::string message;
  std::vector<std::string> notes = {};
  size_t noTensor = kNoInput;  // the input that has no sizes, if that is what is wrong
};
// That no input has this name, and what inputs there are.
InputFault noSuchInput(std::span<const ValueInfo> inputs, std::string_view name);
// Gives ranges the names that the graph has, and checks that each is of a tensor, or of one in a container, and goes
// from least over usual to most sizes. The first fault, if there is one.
std::optional<InputFault> nameInputRanges(std::vector<InputRange>& shapes, std::vector<InputRange>& usualShapes,
                                          std::span<const ValueInfo> inputs);

}  // namespace tscompile
