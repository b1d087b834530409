// Conjugates of complex tensors. PyTorch has views that conjugate what is read through them and what is written; here
// they are tensors with memory of their own, kept equal to what they show: operators that write tell so.
#pragma once

#include "ir/values/ivalue.h"

namespace tscompile {

// The conjugates of a tensor, `computed`, as a tensor that shows `of`.
Tensor shownConjugate(Tensor computed, Tensor of);
// Whether a tensor shows the conjugates of another one, or a part of them.
bool isShownConjugate(const Tensor& t);
// Whether there are any; else nobody has to tell of writes.
bool hasShownConjugates();
// After the memory of a tensor was written: what shows it, and what it shows, follows.
void followWrites(const Tensor& written);

}  // namespace tscompile
