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

// The type that sizes can be said of: that of a tensor, also of one that may be left out. Null for others.
TypePtr sizedType(TypePtr type);

// The input that people mean by a name: its own, that of the source (`image` for %image.1), or a position, from 0,
// where the module itself is not counted. kNoInput if there is none.
inline constexpr size_t kNoInput = SIZE_MAX;
size_t findInput(std::span<const ValueInfo> inputs, std::string_view name);

// What is wrong with something that was said of inputs.
struct InputFault {
  std::string message;
  std::vector<std::string> notes = {};
  size_t noTensor = kNoInput;  // the input that has no sizes, if that is what is wrong
};
// That no input has this name, and what inputs there are.
InputFault noSuchInput(std::span<const ValueInfo> inputs, std::string_view name);
// Gives ranges the names that the graph has, and checks that each is of a tensor and goes from least over usual to most
// sizes. The first fault, if there is one.
std::optional<InputFault> nameInputRanges(std::vector<InputRange>& shapes, std::vector<InputRange>& usualShapes,
                                          std::span<const ValueInfo> inputs);

}  // namespace tscompile
