// Tensors whose elements are computed from nothing but their index: ranges, windows, random numbers.
#pragma once

#include "ir/values/tensor.h"
#include "runtime/call/run_context.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/reduce.h"
#include "runtime/reference/loops/tiles.h"

#include <algorithm>

namespace tscompile {

// Writes f(0), f(1), ... to the elements of a tensor in row-major order. f gives a compute type (float, double, int64,
// complex<double>, bool), which is converted as a copy converts.
template <class F>
void generate(const Tensor& out, F&& f) {
  using T = decltype(f(int64_t{0}));
  if (!out.isContiguous()) {
    Tensor aside = Tensor::empty(out.dtype(), out.sizes());
    generate(aside, f);
    return copyTensor(out, aside);
  }
  StoreTile store = tileStorer(kComputeOf<T>, out.dtype());
  auto item = static_cast<int64_t>(itemSize(out.dtype()));
  RunContext& context = RunContext::current();
  T tile[kTile];
  for (int64_t at = 0; at < out.numel(); at += kTile) {
    int64_t n = std::min(kTile, out.numel() - at);
    for (int64_t i = 0; i < n; ++i) tile[i] = f(at + i);
    store(tile, out.raw() + at * item, item, n);
    context.checkInterrupt(n);
  }
}

}  // namespace tscompile
