// Computes ahead of a run: single nodes for constant folding, whole graphs for checks of rewrites.
#pragma once

#include "ir/graph/evaluator.h"
#include "ir/operators/op_registry.h"

#include <memory>

namespace tscompile {

// What evaluate() returns is made to be a constant: tensors are read-only copies in memory of their own, with the
// strides that the operator gave them; lists are new ones that runs may share. A tensor whose elements lie apart in
// memory is not returned, as a copy would not keep its strides. run() executes at most `runBytes` of tensors at a time
// and prints nothing.
std::unique_ptr<Evaluator> makeEvaluator(const OpRegistry& registry, uint64_t runBytes = uint64_t{1} << 30);

}  // namespace tscompile
