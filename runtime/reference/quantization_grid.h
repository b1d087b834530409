// Which grid of integers stands for numbers between two bounds.
#pragma once

#include "ir/values/quantization.h"

namespace tscompile {

// The grid on which PyTorch's dynamic quantisation puts numbers between two bounds. `isSymmetric`: bounds of both signs
// are as far from 0.
Ref<Quantization> chooseGrid(float least, float most, int32_t qmin, int32_t qmax, bool isSymmetric = false);

}  // namespace tscompile
