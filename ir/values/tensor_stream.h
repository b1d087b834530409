// Tensors as PyTorch's C++ stream prints them: `print` and `str` of a model, and constants in graph text.
#pragma once

#include "ir/values/tensor.h"

#include <functional>
#include <string>

namespace tscompile {

// As C's %.{precision}g in the C locale.
void appendGeneral(double value, int precision, std::string& out);

// Called now and then while a long text grows; may throw to stop it.
using TextCheck = std::function<void(const std::string&)>;

// Rows, "[ CPUFloatType{2,3} ]" after them, no final newline.
void appendTensorStream(const Tensor& tensor, std::string& out, const TextCheck& check = nullptr);

}  // namespace tscompile
