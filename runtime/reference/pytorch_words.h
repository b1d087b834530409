// Parts of messages as PyTorch has them: dtypes that an operator does not take, names of functions.
#pragma once

#include "ir/values/dtype.h"
#include "ir/values/error.h"

#include <string>
#include <string_view>

namespace tscompile {

// What a kernel throws that has nothing for a dtype, as PyTorch has not: the model is wrong. Whoever called it adds
// PyTorch's words for the operator.
class DTypeRefused : public ExecutionError {
 public:
  explicit DTypeRefused(DType dtype);
  DType dtype() const { return dtype_; }

 private:
  DType dtype_;
};

// PyTorch's words for an operator ("silu", "add_") that does not take a dtype.
std::string refusalWords(std::string_view op, DType dtype);

// Of a view that the order of elements in memory does not allow.
inline constexpr std::string_view kNoSuchView =
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
    "contiguous subspaces). Use .reshape(...) instead.";

// The name of a function of linear algebra: "linalg.inv" for inverse, linalg_inv and linalg_inv_ex.
std::string linalgName(std::string_view op);

}  // namespace tscompile
