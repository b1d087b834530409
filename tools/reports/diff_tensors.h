// What the tensors of two models or files of weights differ in.
#pragma once

#include "ir/values/tensor.h"

#include <map>
#include <set>
#include <span>
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
// The same of models, whose constants without a name have a number that says nothing: of these, what is in both is left
// out, and what is left of the same sizes is taken for the same, in the order of the numbers.
// `constants`: the names of the constants of the first and of the second, others being weights whatever their names; if
// nothing is said, all are constants.
std::vector<TensorChange> changedConstants(std::map<std::string, Tensor> first, std::map<std::string, Tensor> second,
                                           std::span<const std::set<std::string>> constants = {});

}  // namespace tscompile
