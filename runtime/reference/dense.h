// Operators that work on whole tensors rather than element by element: their arguments as row-major tensors of the
// dtype that is computed in, and their results brought back from such tensors.
#pragma once

#include "ir/values/tensor.h"

#include <complex>
#include <cstdint>

namespace tscompile {

// float32 for the 16-bit floats, int64 for integers and bool; the dtype itself for the rest.
DType computeDType(DType dtype);

// The tensor in row-major order, in its compute dtype or another one; an undefined tensor stays undefined.
Tensor denseTensor(const Tensor& t);
Tensor denseTensor(const Tensor& t, DType dtype);

// A result that is computed row-major in the compute dtype: the result itself where that is what it is.
class DenseResult {
 public:
  explicit DenseResult(Tensor result);
  const Tensor& tensor() const { return dense_; }
  template <class T>
  T* data() const {
    return dense_.data<T>();
  }
  // Brings the elements to the result; once they are computed.
  void store() const;

 private:
  Tensor result_, dense_;
};

// Calls f with a value of the type of a floating compute dtype: float or double.
template <class F>
void withFloating(DType compute, F&& f) {
  if (compute == DType::Float64)
    f(double{});
  else
    f(float{});
}

// The same, and the two complex types.
template <class F>
void withFloatingOrComplex(DType compute, F&& f) {
  if (compute == DType::Complex64)
    f(std::complex<float>{});
  else if (compute == DType::Complex128)
    f(std::complex<double>{});
  else
    withFloating(compute, f);
}

// A tensor's sizes around one dimension: element [o][i][k] is that with index i along it.
struct SplitSizes {
  int64_t outer = 1, size = 1, inner = 1;
  SplitSizes(DimSpan sizes, int64_t dim) {
    for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d)
      (d < dim ? outer : d == dim ? size : inner) *= sizes[d];
  }
};

}  // namespace tscompile
