// Products and quotients of complex tensors.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"

namespace tscompile {

// Inputs, of complex64 or f32 and at least one of complex64, are broadcast to the sizes of the output, which is
// contiguous. Divisors are real.
class ComplexLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return divides ? "complex_quotient" : "complex_product"; }
  void run(Frame& frame) const override;
  bool divides = false;
};

// The result of the call is a * b, or a / b.
void addComplexLayer(ConvertCall& call, const Tensor& a, const Tensor& b, bool divides);

// Complex elements in row-major order.
TensorId contiguousComplex(ConvertCall& call, TensorId id);

}  // namespace tscompile
