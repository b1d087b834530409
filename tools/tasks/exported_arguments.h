// What is given for the arguments of an exported program, in the words of the graph that it has.
#pragma once

#include "api/module.h"
#include "frontend/export/exported_input.h"

#include <span>
#include <string>
#include <vector>

namespace tscompile {

// Texts such as "2=@x.npy": where a position is beyond the inputs, or its text cannot be of the input there, positions
// are those of the call, with constants and whole containers among the arguments. Containers that are no input by
// themselves, such as "opts={"a": @x.npy, "k": 3}", become texts of their parts. Throws UsageError for parts that the
// program does not have.
std::vector<std::string> ofInputs(std::vector<std::string> texts, std::span<const ValueInfo> inputs,
                                  const ExportedInputs& exported);

}  // namespace tscompile
