// What the analyses say of a graph, compared with what a run of it did.
#pragma once

#include "ir/analysis/shape_propagation.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/values/ivalue.h"

#include <span>
#include <string>
#include <vector>

namespace tscompile::test {

// They take the inputs that are not bound and the results of one run; they name the first disagreement, or are empty.

// Values that share memory though the alias analysis rules it out.
std::string unpredictedSharing(const Graph& graph, const OpRegistry& registry, std::span<const IValue> inputs,
                               std::span<const IValue> results);

// Results that do not lie in rows though passes/rewrite/memory_order.h says that they do; the inputs lie so.
std::string wrongOrder(const Graph& graph, const OpRegistry& registry, std::span<const IValue> inputs,
                       std::span<const IValue> results);

// Makes results of all tensors and integers that the outermost block computes, so that the next check sees them.
void returnEverything(Graph& graph);
// What shape propagation is told of the inputs.
enum class Knowledge { All, Ranks, Types };
ShapeOptions knownInputs(const Graph& graph, std::span<const IValue> inputs, Knowledge knowledge);
// Dtypes, ranks, sizes or integers that shape propagation tells wrong: expressions come to what the run had. The graph
// runs in between the two: kernels may write to the inputs.
std::string wrongShapes(const Graph& graph, const ShapePropagation& shapes, std::span<const IValue> inputs,
                        std::span<const IValue> results);

}  // namespace tscompile::test
