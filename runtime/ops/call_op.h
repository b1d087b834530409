// Operators that are made of other operators call them by name.
#pragma once

#include "runtime/engine/network/convert_call.h"

#include <initializer_list>
#include <span>
#include <string_view>

namespace tscompile {

// Runs "aten::add.Tensor" with arguments in schema order, defaults included; the first result.
IValue invoke(const KernelCall& call, std::string_view fullName, std::initializer_list<IValue> arguments);
// The same where there are several results.
std::vector<IValue> invokeAll(const KernelCall& call, std::string_view fullName,
                              std::initializer_list<IValue> arguments);
// The same with as many arguments as there are.
IValue invoke(const KernelCall& call, std::string_view fullName, std::span<const IValue> arguments);
// The first result, which is a tensor.
Tensor invokeTensor(const KernelCall& call, std::string_view fullName, std::initializer_list<IValue> arguments);

// `convert` of operators whose kernels look at sizes, take parts and call other operators, and touch no element: in
// engines they are the layers of what they call.
void convertByKernel(ConvertCall& call, KernelFunction kernel);
template <KernelFunction kKernel>
void convertByParts(ConvertCall& call) {
  convertByKernel(call, kKernel);
}

}  // namespace tscompile
