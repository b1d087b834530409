// Views of a program, which sees memory as PyTorch's kernels lay it out.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

#include <span>

namespace tscompile::exported {

// Memory that PyTorch can see with other sizes may lie otherwise here, so views are read as `aten::reshape`, which then
// copies. Where a copy would not tell of a write, the view, which is among `views`, becomes `aten::view` again.
void keepWrittenViews(Graph& graph, const OpRegistry& registry, std::span<Node* const> views);

}  // namespace tscompile::exported
