// Random tensors: elements are drawn one after the other, in row-major order, from the generator of the run.
#pragma once

#include "runtime/call/kernel_call.h"
#include "runtime/reference/generate.h"

namespace tscompile {

// Numbers in [0, 1) that the dtype can hold: multiples of one power of two, so that rounding does not reach 1.
class UnitDraw {
 public:
  explicit UnitDraw(DType dtype);
  double operator()(RandomState& random) const { return static_cast<double>(random.next() >> shift_) * scale_; }

 private:
  int shift_;
  double scale_;
};

// Writes draw(random) to every element.
template <class F>
void drawElements(const Tensor& out, RandomState& random, F&& draw) {
  generate(out, [&](int64_t) { return draw(random); });
}

// Sets every element to 1 with a probability, else to 0.
void drawBernoulli(const Tensor& out, RandomState& random, double probability);

}  // namespace tscompile
