// What an exported program asks of its inputs.
#pragma once

#include "frontend/export/input_condition.h"
#include "ir/values/dtype.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tscompile {

// What a program asks of a dimension of an input: bounds, and that it is what an expression of symbols comes to, which
// are the same for all.
struct ExportedSize {
  int64_t least = 0, most = 0;
  std::string symbol;    // SizeExpression::text(), or empty
  int64_t example = -1;  // of the call that was exported; -1: not known
};
struct ExportedInput {
  std::string name;               // of the input of the graph, without "%"
  std::vector<std::string> path;  // to the tensor in it, if the input is a container: indices and keys
  std::vector<ExportedSize> sizes;
  DType dtype = DType::Undefined;  // of the example, others may be given; Undefined: the type of the input tells it
};
// An argument of the module that the program holds as a constant, and so does not take.
struct ExportedConstant {
  std::string name, value;  // in JSON
  size_t inputsBefore = 0;  // inputs of the graph that stand before it in a call
};
// A tensor, number or constant in an argument that is a container and no input by itself.
struct ExportedPart {
  std::string argument;
  std::vector<std::string> path;  // in the argument: indices, keys or fields
  std::string name;               // of the input or constant
};
struct ExportedInputs {
  std::vector<ExportedInput> tensors;
  std::vector<InputCondition> conditions;   // that bounds and expressions of sizes do not say
  std::vector<ExportedConstant> constants;  // ask nothing
  std::vector<ExportedPart> parts;          // neither do these
  bool empty() const { return tensors.empty() && conditions.empty(); }
};

}  // namespace tscompile
