// What operators on matrices share: checks of their arguments, and batches of matrices as LAPACK takes them.
#pragma once

#include "ir/operators/infer_call.h"
#include "ir/operators/op_def.h"
#include "ir/values/tensor.h"

#include <algorithm>
#include <complex>
#include <string>
#include <vector>

namespace tscompile {

// What decompositions are defined for.
inline constexpr DTypeSet kMatrixTypes = DTypeSet{DType::Float32, DType::Float64} | kComplexTypes;

// ---- checks; sizes and dtypes may be unknown ----

void requireSameDType(const InferCall& call, const TensorInfo& a, const TensorInfo& b);
// The same in the words of operators that read memory as what the first holds.
void requireSameScalarType(const InferCall& call, const TensorInfo& a, const TensorInfo& b);
// `from` can be broadcast to `to`, which it has at most as many dimensions as.
void requireExpandable(const InferCall& call, DimSpan from, DimSpan to);
// Argument i, which has at least two dimensions; `name` is what messages call it.
TensorInfo matrixArgument(const InferCall& call, size_t i, const char* name = "A");
// The same, and the last two sizes are equal.
TensorInfo squareArgument(const InferCall& call, size_t i, const char* name = "A");

// The dimensions in front of the last two.
inline DimSpan batchOf(DimSpan sizes) { return sizes.first(sizes.size() - 2); }
inline Dims withMatrix(DimSpan batch, int64_t rows, int64_t columns) {
  Dims sizes(batch);
  sizes.push_back(rows);
  sizes.push_back(columns);
  return sizes;
}
inline Dims withVector(DimSpan batch, int64_t length) {
  Dims sizes(batch);
  sizes.push_back(length);
  return sizes;
}
// The lesser of two sizes.
inline int64_t leastSize(int64_t a, int64_t b) {
  if (a == b) return a;
  return isKnownSize(a) && isKnownSize(b) ? std::min(a, b) : kUnknownSize;
}
inline int64_t rowsOf(const Tensor& t) { return t.size(t.rank() - 2); }
inline int64_t columnsOf(const Tensor& t) { return t.size(t.rank() - 1); }
// The broadcast batch dimensions of two tensors of matrices.
Dims broadcastBatches(DimSpan a, DimSpan b);

// ---- batches of column-major matrices ----

// Memory for matrices whose columns are runs of neighbours, one matrix after the other.
Tensor emptyColumns(DType dtype, DimSpan sizes);
Tensor zeroColumns(DType dtype, DimSpan sizes);
// A copy of this form, broadcast to `sizes` if they are given.
Tensor copyColumns(const Tensor& t);
Tensor copyColumns(const Tensor& t, DimSpan sizes);

// The matrices of a tensor that emptyColumns() or copyColumns() made.
template <class T>
struct Matrices {
  explicit Matrices(const Tensor& t) : data(t.data<T>()), rows(t.size(t.rank() - 2)), columns(t.size(t.rank() - 1)) {
    for (int64_t size : batchOf(t.sizes())) count *= size;
  }
  T* operator[](int64_t i) const { return data + i * rows * columns; }
  T* data;
  int64_t rows, columns, count = 1;
};

// Where the matrices (or vectors, with `inner` 1) of a tensor begin, in elements, its batch dimensions broadcast to
// `batch`.
std::vector<int64_t> batchOffsets(const Tensor& t, DimSpan batch, int inner = 2);

// "linalg.inv: (Batch element 3): ", or the function alone if there is one matrix only.
std::string batchPrefix(const KernelCall& call, const Tensor& t, int64_t index);

// Calls f with a value of the type: float, double or one of the two complex types.
template <class F>
void visitMatrixType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Float32:
      return f(float{});
    case DType::Float64:
      return f(double{});
    case DType::Complex64:
      return f(std::complex<float>{});
    case DType::Complex128:
      return f(std::complex<double>{});
    default:
      TS_UNREACHABLE();
  }
}

// out = a * b element by element, broadcast, computed in the dtype of `out`.
void multiplyElements(const Tensor& out, const Tensor& a, const Tensor& b);
// The tensor with the imaginary parts negated; itself if it is real.
Tensor conjugated(const Tensor& t);
// The last two dimensions exchanged, and conjugated.
Tensor adjoint(const Tensor& t);

}  // namespace tscompile
