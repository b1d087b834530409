// Weights in the precision that engines store them in: compiled modules hold them so, in memory and in files.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

namespace tscompile {

// In the engines of a stitched graph, tensors of float32 that nobody but layers with packed weights reads become
// tensors of `precision` (Float16, BFloat16, or Int8 with a scale for each column of the product, or channel) before a
// `tscompile::decode`, which layers read while they pack. Nothing for Float32.
void storeWeights(Graph& stitched, DType precision, const OpRegistry& registry);

// Whether a node is no work of the model, but a weight that is stored so.
bool isStoredWeight(const Node* node);

}  // namespace tscompile
