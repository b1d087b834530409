// The list of all operators: one registration function for each family file.
#pragma once

#include "ir/op_registry.h"

namespace tscompile {

// PyTorch's schemas and our records. Made at the first call, then const.
const OpRegistry& allOps();

// One for each family, in runtime/ops/<family>.cpp.
void registerScalarOps(OpRegistry& ops);
void registerElementwiseUnaryOps(OpRegistry& ops);
void registerElementwiseBinaryOps(OpRegistry& ops);
void registerReductionOps(OpRegistry& ops);
void registerSoftmaxOps(OpRegistry& ops);
void registerMatmulOps(OpRegistry& ops);
void registerConvolutionOps(OpRegistry& ops);

}  // namespace tscompile
