// Layers that read or write blocked activations of lines (runtime/kernels/layout.h) as well as of floats.
#pragma once

#include "runtime/engine/network/network.h"
#include "runtime/kernels/product.h"

namespace tscompile {

class LineLayer {
 public:
  virtual ~LineLayer() = default;
  // Whether the tensor, a blocked one that the layer reads or writes, may be lines of this kind.
  virtual bool takesLines(const Network& network, const ProductPrecision& precision, TensorId tensor,
                          DType dtype) const = 0;
  // Whether the tensor has to have the kind of all others of which this is so.
  virtual bool sharesKind(const Network&, TensorId) const { return false; }
  // Whether elements go through as they are, so that bytes have one grid.
  virtual bool sharesGrid() const { return false; }
  // Whether all that it writes are elements that it reads.
  virtual bool movesElements() const { return false; }
  // The types of its tensors are known now.
  virtual void settle(const Network& network) = 0;
};

}  // namespace tscompile
