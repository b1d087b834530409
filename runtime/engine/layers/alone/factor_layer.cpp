#include "runtime/engine/layers/alone/factor_layer.h"

#include "ir/values/error.h"
#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/kernels/openblas/lapack.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

constexpr int64_t kMostPieces = 16;          // each with a workspace of its own
constexpr int64_t kParallelWork = 64 << 10;  // multiplications; fewer are done by one thread

// The interpreter does it again, and tells which matrix it is.
void requireDone(int info) {
  if (info) throw ExecutionError(ErrorKind::Model, "a matrix has no such factorization");
}

// to[column][row] = from[row][column]
template <class T>
void transposeInto(const T* from, int64_t rows, int64_t columns, T* to) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < columns; ++k) to[k * rows + i] = from[i * columns + k];
}

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// A layer that does one thing in both dtypes, by L::one(frame, i, scratch, pivots).
template <class L>
class FactorLayerOf : public FactorLayer {
 public:
  using FactorLayer::FactorLayer;

 protected:
  void runOne(const Frame& frame, int64_t i, float* scratch, int32_t* pivots) const override {
    static_cast<const L*>(this)->one(frame, i, scratch, pivots);
  }
  void runOne(const Frame& frame, int64_t i, double* scratch, int32_t* pivots) const override {
    static_cast<const L*>(this)->one(frame, i, scratch, pivots);
  }
  int64_t scratchElements() const override { return static_cast<const L*>(this)->scratchOf(shape()); }

  // Matrix i of n * n elements, and right side i.
  template <class T>
  const T* matrix(const Frame& frame, TensorId id, int64_t i) const {
    return frame.data<T>(id) + i * shape().n * shape().n;
  }
};

class CholeskyLayer : public FactorLayerOf<CholeskyLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return "cholesky"; }
  static int64_t scratchOf(const FactorShape&) { return 0; }
  template <class T>
  void one(const Frame& frame, int64_t i, T*, int32_t*) const {
    const int64_t n = shape().n;
    const T* from = matrix<T>(frame, inputs[0], i);
    T* to = frame.data<T>(outputs[0]) + i * n * n;
    for (int64_t row = 0; row < n; ++row)
      for (int64_t column = 0; column < n; ++column)
        to[row * n + column] = (isUpper ? column >= row : column <= row) ? from[row * n + column] : T(0);
    requireDone(lapack::potrf(isUpper ? 'L' : 'U', n, to));
  }
  bool isUpper = false;
};

class CholeskyInverseLayer : public FactorLayerOf<CholeskyInverseLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return "cholesky_inverse"; }
  static int64_t scratchOf(const FactorShape&) { return 0; }
  template <class T>
  void one(const Frame& frame, int64_t i, T*, int32_t*) const {
    const int64_t n = shape().n;
    const T* from = matrix<T>(frame, inputs[0], i);
    T* to = frame.data<T>(outputs[0]) + i * n * n;
    std::copy_n(from, n * n, to);
    requireDone(lapack::potri(isUpper ? 'L' : 'U', n, to));
    for (int64_t row = 0; row < n; ++row)
      for (int64_t column = 0; column < row; ++column) {
        T &lower = to[row * n + column], &upper = to[column * n + row];
        isUpper ? lower = upper : upper = lower;
      }
  }
  bool isUpper = false;
};

// Inputs: the right sides, the factors.
class CholeskySolveLayer : public FactorLayerOf<CholeskySolveLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return "cholesky_solve"; }
  static int64_t scratchOf(const FactorShape& s) { return s.n * s.columns; }
  template <class T>
  void one(const Frame& frame, int64_t i, T* scratch, int32_t*) const {
    const auto [count, n, columns] = shape();
    transposeInto(frame.data<T>(inputs[0]) + i * n * columns, n, columns, scratch);
    requireDone(lapack::potrs(isUpper ? 'L' : 'U', n, columns, matrix<T>(frame, inputs[1], i), scratch));
    transposeInto(scratch, columns, n, frame.data<T>(outputs[0]) + i * n * columns);
  }
  bool isUpper = false;
};

// Inputs: the matrices, the right sides.
class TriangularLayer : public FactorLayerOf<TriangularLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return "solve_triangular"; }
  static int64_t scratchOf(const FactorShape&) { return 0; }
  template <class T>
  void one(const Frame& frame, int64_t i, T*, int32_t*) const {
    const auto [count, n, columns] = shape();
    T* to = frame.data<T>(outputs[0]) + i * n * columns;
    std::copy_n(frame.data<T>(inputs[1]) + i * n * columns, n * columns, to);
    // A X = B is X^T A^T = B^T, of which rows are columns.
    lapack::trsm(isLeft ? 'R' : 'L', isUpper ? 'L' : 'U', 'N', isUnit ? 'U' : 'N', isLeft ? columns : n,
                 isLeft ? n : columns, matrix<T>(frame, inputs[0], i), to);
  }
  bool isUpper = false, isLeft = true, isUnit = false;
};

class InverseLayer : public FactorLayerOf<InverseLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return "inverse"; }
  static int64_t scratchOf(const FactorShape& s) { return s.n * s.n; }
  template <class T>
  void one(const Frame& frame, int64_t i, T* scratch, int32_t* pivots) const {
    const int64_t n = shape().n;
    std::copy_n(matrix<T>(frame, inputs[0], i), n * n, scratch);
    requireDone(lapack::getrf(n, n, scratch, pivots));
    T* to = frame.data<T>(outputs[0]) + i * n * n;
    std::fill_n(to, n * n, T(0));
    for (int64_t k = 0; k < n; ++k) to[k * n + k] = T(1);
    requireDone(lapack::getrs('N', n, n, scratch, pivots, to));
  }
};

// Inputs: the matrices, the right sides.
class SolveLayer : public FactorLayerOf<SolveLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return "solve"; }
  static int64_t scratchOf(const FactorShape& s) { return s.n * s.n + (s.columns > 1 ? s.n * s.columns : 0); }
  template <class T>
  void one(const Frame& frame, int64_t i, T* scratch, int32_t* pivots) const {
    const auto [count, n, columns] = shape();
    std::copy_n(matrix<T>(frame, inputs[0], i), n * n, scratch);
    requireDone(lapack::getrf(n, n, scratch, pivots));
    const T* from = frame.data<T>(inputs[1]) + i * n * columns;
    T* to = frame.data<T>(outputs[0]) + i * n * columns;
    T* sides = columns > 1 ? scratch + n * n : to;
    transposeInto(from, n, columns, sides);
    requireDone(lapack::getrs('T', n, columns, scratch, pivots, sides));
    if (columns > 1) transposeInto(sides, columns, n, to);
  }
};

class DeterminantLayer : public FactorLayerOf<DeterminantLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return outputs.size() > 1 ? "slogdet" : "det"; }
  static int64_t scratchOf(const FactorShape& s) { return s.n * s.n; }
  template <class T>
  void one(const Frame& frame, int64_t i, T* scratch, int32_t* pivots) const {
    const int64_t n = shape().n;
    std::copy_n(matrix<T>(frame, inputs[0], i), n * n, scratch);
    if (lapack::getrf(n, n, scratch, pivots) < 0) requireDone(-1);  // singular ones have the determinant 0
    bool isOdd = false;
    T product(1), sign(1), logarithm(0);
    for (int64_t k = 0; k < n; ++k) {
      const T d = scratch[k * n + k];
      isOdd ^= pivots[k] != k + 1;
      product *= d;
      sign *= static_cast<T>((d > 0) - (d < 0));
      logarithm += std::log(std::abs(d));
    }
    const bool isPair = outputs.size() > 1;
    const T first = isPair ? sign : product;
    frame.data<T>(outputs[0])[i] = isOdd ? -first : first;
    if (isPair) frame.data<T>(outputs[1])[i] = logarithm;
  }
};

}  // namespace

int64_t FactorLayer::pieces() const { return std::clamp<int64_t>(shape_.count, 1, kMostPieces); }
size_t FactorLayer::pieceBytes() const {
  return static_cast<size_t>(rounded(scratchElements() * static_cast<int64_t>(itemSize(dtype_))) +
                             rounded(shape_.n * static_cast<int64_t>(sizeof(int32_t))));
}
size_t FactorLayer::workspace() const { return static_cast<size_t>(pieces()) * pieceBytes(); }

void FactorLayer::run(Frame& frame) const {
  const int64_t work = shape_.count * shape_.n * shape_.n * (shape_.n + shape_.columns);
  std::byte* scratch = static_cast<std::byte*>(static_cast<void*>(frame.workspace()));
  parallelFor(pieces(), work < kParallelWork ? 1 : frame.threads(), [&](int64_t p) {
    std::byte* own = scratch + static_cast<size_t>(p) * pieceBytes();
    auto* pivots = reinterpret_cast<int32_t*>(
        own + static_cast<size_t>(rounded(scratchElements() * static_cast<int64_t>(itemSize(dtype_)))));
    const Piece piece = pieceOf(shape_.count, pieces(), p);
    for (int64_t i = piece.begin; i < piece.end; ++i)
      dtype_ == DType::Float64 ? runOne(frame, i, reinterpret_cast<double*>(own), pivots)
                               : runOne(frame, i, reinterpret_cast<float*>(own), pivots);
  });
}

// ---- converters ----

namespace {

constexpr std::string_view kNotReal = "the matrices are neither float32 nor float64, or have no elements";

bool isReal(const Tensor& t) { return (isF32(t) || t.dtype() == DType::Float64) && t.numel() > 0; }

// Square matrices `a`, and right sides with `columns` columns.
FactorShape shapeOf(const Tensor& a, int64_t columns) {
  const int64_t n = a.size(a.rank() - 1);
  return {a.numel() / (n * n), n, columns};
}

// The matrices of a batch one after the other, repeated where the batch is larger.
TensorId inBatch(ConvertCall& call, const Tensor& t, DimSpan batch) {
  Dims sizes(batch);
  sizes.push_back(t.size(t.rank() - 2));
  sizes.push_back(t.size(t.rank() - 1));
  const TensorId id = call.idOf(expandedTo(t, sizes));
  return call.network()[id].contiguous ? id : addCopy(call, id);
}

// A layer on the matrices of argument 0, for all results of the call.
template <class L>
L& addFactor(ConvertCall& call) {
  const Tensor a = call.tensor(0);
  const TensorId input = contiguousOperand(call, 0);
  std::vector<TensorId> outputs;
  for (size_t i = 0; i < call.resultCount(); ++i) outputs.push_back(call.makeResult(i));
  auto& layer = call.add<L>(shapeOf(a, a.size(a.rank() - 1)), a.dtype());
  layer.inputs = {input};
  layer.outputs = std::move(outputs);
  return layer;
}

// A layer on matrices and right sides, the arguments that are given in the order of its inputs.
template <class L>
L& addSolver(ConvertCall& call, const Tensor& a, const Tensor& b, DimSpan sizes, bool sidesFirst, bool isLeft = true) {
  const DimSpan batch = sizes.first(sizes.size() - 2);
  TensorId matrices = inBatch(call, a, batch), sides = inBatch(call, b, batch);
  if (sidesFirst) std::swap(matrices, sides);
  std::vector<TensorId> outputs;
  for (size_t i = 0; i < call.resultCount(); ++i) outputs.push_back(call.makeResult(i));
  FactorShape shape{1, a.size(a.rank() - 1), sizes[sizes.size() - (isLeft ? 1 : 2)]};
  for (int64_t n : batch) shape.count *= n;
  auto& layer = call.add<L>(shape, a.dtype());
  layer.inputs = {matrices, sides};
  layer.outputs = std::move(outputs);
  return layer;
}

}  // namespace

void convertCholesky(ConvertCall& call) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  addFactor<CholeskyLayer>(call).isUpper = call.flag(1);
}

void convertCholeskyInverse(ConvertCall& call) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  addFactor<CholeskyInverseLayer>(call).isUpper = call.flag(1);
}

void convertCholeskySolve(ConvertCall& call) {
  const Tensor b = call.tensor(0), factor = call.tensor(1);
  if (!isReal(factor) || !isReal(b)) return convertToKernel(call, kNotReal);
  addSolver<CholeskySolveLayer>(call, factor, b, call.spec().sizes, true).isUpper = call.flag(2);
}

void convertSolveTriangular(ConvertCall& call) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (!isReal(a) || !isReal(b) || a.dtype() != b.dtype()) return convertToKernel(call, kNotReal);
  auto& layer = addSolver<TriangularLayer>(call, a, b, call.spec().sizes, false, call.flag(3));
  layer.isUpper = call.flag(2);
  layer.isLeft = call.flag(3);
  layer.isUnit = call.flag(4);
}

void convertInverse(ConvertCall& call) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  addFactor<InverseLayer>(call);
}

void convertSolve(ConvertCall& call) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (!isReal(a) || !isReal(b)) return convertToKernel(call, kNotReal);
  if (!call.flag(2)) return convertToKernel(call, "the matrices stand on the right");
  if (b.rank() == 1 || b.rank() + 1 == a.rank()) {
    if (b.rank() != 1) return convertToKernel(call, "the right sides are vectors");
    Dims sizes(call.spec().sizes);
    sizes.push_back(1);
    addSolver<SolveLayer>(call, a, unsqueezed(b, 1), sizes, false);
    return;
  }
  addSolver<SolveLayer>(call, a, b, call.spec().sizes, false);
}

void convertDeterminant(ConvertCall& call) {
  if (!isReal(call.tensor(0)) || call.resultCount() != 1) return convertToKernel(call, kNotReal);
  addFactor<DeterminantLayer>(call);
}

void convertSignAndLogarithm(ConvertCall& call) {
  if (!isReal(call.tensor(0)) || call.resultCount() != 2) return convertToKernel(call, kNotReal);
  addFactor<DeterminantLayer>(call);
}

}  // namespace tscompile
