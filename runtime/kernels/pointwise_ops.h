// The table of functions that run one step of a pointwise program on a tile.
#pragma once

#include "runtime/kernels/pointwise.h"

namespace tscompile {

using PointwiseFunction = void (*)(const float* a, const float* b, const float* c, float* out, int64_t count,
                                   float alpha, float beta);
PointwiseFunction pointwiseFunction(PointwiseOp op);

// The same on the bytes of bool, 0 or 1; null for what is not logic.
using LogicFunction = void (*)(const uint8_t* a, const uint8_t* b, const uint8_t* c, uint8_t* out, int64_t count,
                               float alpha, float beta);
LogicFunction logicFunction(PointwiseOp op);

// Stored values to f32 and back.
void loadPointwise(DType type, const void* from, int64_t count, float* to);
void storePointwise(DType type, const float* from, int64_t count, void* to);

}  // namespace tscompile
