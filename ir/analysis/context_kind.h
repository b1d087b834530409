// What `with` statements over objects of PyTorch's own classes mean.
#pragma once

#include <string_view>

namespace tscompile {

enum class ContextKind {
  Other,      // its methods run
  Gradients,  // no_grad, enable_grad: what is_grad_enabled() answers
  Profiler,   // marks that change nothing
  Autocast,   // operators inside convert their inputs; where the conversions were inserted it changes nothing
};

ContextKind contextKindOf(std::string_view className);

}  // namespace tscompile
