// What the tensors of two engine files differ in.
#pragma once

#include "ir/values/tensor.h"

#include <map>
#include <string>
#include <vector>

namespace tscompile {

struct TensorChange {
  std::string name, text;  // "fc.bias", "the elements differ by 0.25 at most"

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("text", text);
  }
};

// In the order of the names. Tensors are compared bit by bit.
std::vector<TensorChange> changedTensors(const std::map<std::string, Tensor>& first,
                                         const std::map<std::string, Tensor>& second);
// The same of engine files, whose constants without a name have a number that says nothing: of these, what is in both
// is left out.
std::vector<TensorChange> changedConstants(std::map<std::string, Tensor> first, std::map<std::string, Tensor> second);

}  // namespace tscompile
