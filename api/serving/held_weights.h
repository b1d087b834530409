// The weights that a graph holds.
#pragma once

#include "ir/graph/graph.h"
#include "ir/values/tensor.h"

#include <span>
#include <vector>

namespace tscompile {

std::vector<Tensor> heldWeights(const Graph& graph);
// Whether most elements of products and tables are of half precision.
bool areHalf(std::span<const Tensor> weights);

}  // namespace tscompile
