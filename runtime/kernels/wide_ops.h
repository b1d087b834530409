// Functions that run one step of a pointwise program on a tile of int64_t or double, which floats would round.
#pragma once

#include "runtime/kernels/pointwise.h"

#include <cstdint>

namespace tscompile {

// Operands and result may be one memory. `alpha` and `beta` are the step's parameters.
template <class T>
using WideFunction = void (*)(const T* a, const T* b, const T* c, T* out, int64_t count, double alpha, double beta);

// Null where the step has no meaning in these numbers, or none that floats do not give better. Divisors of integers
// are not 0.
template <class T>
WideFunction<T> wideFunction(PointwiseOp op);

}  // namespace tscompile
