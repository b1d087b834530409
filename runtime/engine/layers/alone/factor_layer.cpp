#include "runtime/engine/layers/alone/factor_layer.h"

#include "ir/values/error.h"
#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/kernels/openblas/lapack.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <cmath>
#include <limits>

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
  // Matrix i of n rows and `columns` columns, as LAPACK has it.
  template <class T>
  void copyColumns(const Frame& frame, int64_t i, T* to) const {
    const auto [count, rows, columns] = shape();
    transposeInto(frame.data<T>(inputs[0]) + i * rows * columns, rows, columns, to);
  }
  // Element i of a result that tells what went wrong, the last one; a failure if `checks`.
  void tell(const Frame& frame, size_t output, int64_t i, int info, bool checks) const {
    if (info < 0 || checks) requireDone(info);
    if (output < outputs.size()) frame.data<int32_t>(outputs[output])[i] = info;
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

// The factor, and what went wrong.
class CholeskyExLayer : public FactorLayerOf<CholeskyExLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return "cholesky_ex"; }
  static int64_t scratchOf(const FactorShape& s) { return s.n * s.n; }
  template <class T>
  void one(const Frame& frame, int64_t i, T* scratch, int32_t*) const {
    const int64_t n = shape().n;
    copyColumns(frame, i, scratch);
    for (int64_t column = 0; column < n; ++column)
      for (int64_t row = 0; row < n; ++row)
        if (isUpper ? row > column : row < column) scratch[column * n + row] = T(0);
    tell(frame, 1, i, lapack::potrf(isUpper ? 'U' : 'L', n, scratch), checks);
    transposeInto(scratch, n, n, frame.data<T>(outputs[0]) + i * n * n);
  }
  bool isUpper = false, checks = false;
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
    tell(frame, 1, i, lapack::getrf(n, n, scratch, pivots), checks);
    T* to = frame.data<T>(outputs[0]) + i * n * n;
    std::fill_n(to, n * n, T(0));
    for (int64_t k = 0; k < n; ++k) to[k * n + k] = T(1);
    requireDone(lapack::getrs('N', n, n, scratch, pivots, to));
  }
  bool checks = true;
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
    tell(frame, outputs.size() - 1 + (outputs.size() == 1), i, lapack::getrf(n, n, scratch, pivots), checks);
    const T* from = frame.data<T>(inputs[1]) + i * n * columns;
    T* to = frame.data<T>(outputs[0]) + i * n * columns;
    if (!isLeft) {  // X A = B is A^T X^T = B^T, of which rows are columns
      std::copy_n(from, n * columns, to);
      requireDone(lapack::getrs('N', n, columns, scratch, pivots, to));
      return;
    }
    T* sides = columns > 1 ? scratch + n * n : to;
    transposeInto(from, n, columns, sides);
    requireDone(lapack::getrs('T', n, columns, scratch, pivots, sides));
    if (columns > 1) transposeInto(sides, columns, n, to);
  }
  bool isLeft = true, checks = true;
};

class DeterminantLayer : public FactorLayerOf<DeterminantLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  enum class Gives : uint8_t { Product, SignAndLogarithm, Logarithm } gives = Gives::Product;
  std::string name() const override {
    return gives == Gives::Product ? "det" : gives == Gives::Logarithm ? "logdet" : "slogdet";
  }
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
    if (isOdd) product = -product, sign = -sign;
    T* to = frame.data<T>(outputs[0]) + i;
    if (gives == Gives::Product)
      *to = product;
    else if (gives == Gives::Logarithm)
      *to = sign == T(-1) ? std::numeric_limits<T>::quiet_NaN() : logarithm;
    else
      *to = sign, frame.data<T>(outputs[1])[i] = logarithm;
  }
};

// Factors and pivots, and what went wrong; or P, L and U.
class LuLayer : public FactorLayerOf<LuLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return unpacks ? "lu" : "lu_factor"; }
  static int64_t scratchOf(const FactorShape& s) { return s.n * s.columns; }
  template <class T>
  void one(const Frame& frame, int64_t i, T* scratch, int32_t* pivots) const {
    const auto [count, rows, columns] = shape();
    const int64_t k = std::min(rows, columns);
    copyColumns(frame, i, scratch);
    const int info = lapack::getrf(rows, columns, scratch, pivots);
    tell(frame, unpacks ? outputs.size() : 2, i, info, checks);
    if (unpacks) return unpack(frame, i, scratch, pivots);
    transposeInto(scratch, columns, rows, frame.data<T>(outputs[0]) + i * rows * columns);
    std::copy_n(pivots, k, frame.data<int32_t>(outputs[1]) + i * k);
  }
  bool unpacks = false, checks = false;

 private:
  template <class T>
  void unpack(const Frame& frame, int64_t i, const T* lu, const int32_t* pivots) const {
    const auto [count, rows, columns] = shape();
    const int64_t k = std::min(rows, columns);
    T* permuted = frame.data<T>(outputs[0]) + i * rows * rows;
    T* lower = frame.data<T>(outputs[1]) + i * rows * k;
    T* upper = frame.data<T>(outputs[2]) + i * k * columns;
    std::fill_n(permuted, rows * rows, T(0));
    std::vector<int64_t> order(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r) order[static_cast<size_t>(r)] = r;
    for (int64_t r = 0; r < k; ++r) std::swap(order[static_cast<size_t>(r)], order[static_cast<size_t>(pivots[r]) - 1]);
    for (int64_t r = 0; r < rows; ++r) permuted[order[static_cast<size_t>(r)] * rows + r] = T(1);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < k; ++c) lower[r * k + c] = r > c ? lu[c * rows + r] : T(r == c);
    for (int64_t r = 0; r < k; ++r)
      for (int64_t c = 0; c < columns; ++c) upper[r * columns + c] = r <= c ? lu[c * rows + r] : T(0);
  }
};

class QrLayer : public FactorLayerOf<QrLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return "qr"; }
  // The matrix, its reflectors' factors, Q.
  int64_t scratchOf(const FactorShape& s) const { return s.n * s.columns + std::min(s.n, s.columns) + s.n * qColumns; }
  template <class T>
  void one(const Frame& frame, int64_t i, T* scratch, int32_t*) const {
    const auto [count, rows, columns] = shape();
    const int64_t k = std::min(rows, columns);
    T *tau = scratch + rows * columns, *q = tau + k;
    copyColumns(frame, i, scratch);
    requireDone(lapack::geqrf(rows, columns, scratch, tau));
    T* upper = frame.data<T>(outputs[1]) + i * qColumns * columns;
    for (int64_t r = 0; r < qColumns; ++r)
      for (int64_t c = 0; c < columns; ++c) upper[r * columns + c] = r <= c && r < k ? scratch[c * rows + r] : T(0);
    std::fill_n(q, rows * qColumns, T(0));
    std::copy_n(scratch, rows * std::min(columns, qColumns), q);
    requireDone(lapack::orgqr(rows, qColumns, k, q, tau));
    transposeInto(q, qColumns, rows, frame.data<T>(outputs[0]) + i * rows * qColumns);
  }
  int64_t qColumns = 0;  // as many as R has rows
};

// LAPACK ends where it finds a NaN, but may turn about infinities without end: what comes of them is no number.
template <class T>
bool holdsInfinity(const T* elements, int64_t count) {
  bool infinite = false;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(elements[i])) return false;
    infinite |= std::isinf(elements[i]);
  }
  return infinite;
}

struct SvdShape {
  int64_t rows, columns, k, uColumns, vRows;
};
SvdShape svdShape(const FactorShape& s, char job) {
  const int64_t k = std::min(s.n, s.columns);
  return {s.n, s.columns, k, job == 'N' ? 0 : job == 'S' ? k : s.n, job == 'N' ? 0 : job == 'S' ? k : s.columns};
}
// Singular values and vectors of `a`, all of it by columns.
template <class T>
void decompose(char job, const SvdShape& s, T* a, T* values, T* u, T* vh) {
  if (holdsInfinity(a, s.rows * s.columns)) {
    constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
    std::fill_n(values, s.k, kNan);
    std::fill_n(u, s.rows * s.uColumns, kNan);
    std::fill_n(vh, s.vRows * s.columns, kNan);
    return;
  }
  requireDone(lapack::gesdd(job, s.rows, s.columns, a, values, u, vh));
}

// Results: U, the values, V or its transposed; or the values alone.
class SvdLayer : public FactorLayerOf<SvdLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return job == 'N' ? "svdvals" : "svd"; }
  int64_t scratchOf(const FactorShape& f) const {
    const SvdShape s = svdShape(f, job);
    return s.rows * s.columns + s.rows * s.uColumns + s.vRows * s.columns;
  }
  template <class T>
  void one(const Frame& frame, int64_t i, T* scratch, int32_t*) const {
    const SvdShape s = svdShape(shape(), job);
    T *u = scratch + s.rows * s.columns, *vh = u + s.rows * s.uColumns;
    copyColumns(frame, i, scratch);
    decompose(job, s, scratch, frame.data<T>(outputs[job == 'N' ? 0 : 1]) + i * s.k, u, vh);
    if (job == 'N') return;
    transposeInto(u, s.uColumns, s.rows, frame.data<T>(outputs[0]) + i * s.rows * s.uColumns);
    T* v = frame.data<T>(outputs[2]) + i * s.vRows * s.columns;
    givesV ? void(std::copy_n(vh, s.vRows * s.columns, v)) : transposeInto(vh, s.columns, s.vRows, v);
  }
  char job = 'S';
  bool givesV = false;
};

// V times the inverted values times U transposed.
class PseudoInverseLayer : public FactorLayerOf<PseudoInverseLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return "pinv"; }
  static int64_t scratchOf(const FactorShape& f) {
    const SvdShape s = svdShape(f, 'S');
    return s.rows * s.columns + s.k + s.rows * s.uColumns + s.vRows * s.columns;
  }
  template <class T>
  void one(const Frame& frame, int64_t i, T* scratch, int32_t*) const {
    const SvdShape s = svdShape(shape(), 'S');
    T *values = scratch + s.rows * s.columns, *u = values + s.k, *vh = u + s.rows * s.uColumns;
    copyColumns(frame, i, scratch);
    decompose('S', s, scratch, values, u, vh);
    double largest = 0;
    for (int64_t j = 0; j < s.k; ++j) largest = std::max(largest, static_cast<double>(values[j]));
    const double bound = std::max(absolute, static_cast<double>(static_cast<T>(relative * largest)));
    T* to = frame.data<T>(outputs[0]) + i * s.rows * s.columns;
    std::fill_n(to, s.rows * s.columns, T(0));
    for (int64_t r = 0; r < s.columns; ++r)
      for (int64_t j = 0; j < s.k; ++j) {
        const T factor = vh[r * s.k + j] * (static_cast<double>(values[j]) > bound ? T(1) / values[j] : T(0));
        for (int64_t c = 0; c < s.rows; ++c) to[r * s.rows + c] += factor * u[j * s.rows + c];
      }
  }
  double absolute = 0, relative = 0;
};

class SymmetricEigenLayer : public FactorLayerOf<SymmetricEigenLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return outputs.size() > 1 ? "eigh" : "eigvalsh"; }
  static int64_t scratchOf(const FactorShape& s) { return s.n * s.n; }
  template <class T>
  void one(const Frame& frame, int64_t i, T* scratch, int32_t*) const {
    const int64_t n = shape().n;
    copyColumns(frame, i, scratch);
    requireDone(lapack::syevd(outputs.size() > 1, triangle, n, scratch, frame.data<T>(outputs[0]) + i * n));
    if (outputs.size() > 1) transposeInto(scratch, n, n, frame.data<T>(outputs[1]) + i * n * n);
  }
  char triangle = 'L';
};

// Eigenvalues and eigenvectors are complex.
class EigenLayer : public FactorLayerOf<EigenLayer> {
 public:
  using FactorLayerOf::FactorLayerOf;
  std::string name() const override { return outputs.size() > 1 ? "eig" : "eigvals"; }
  int64_t scratchOf(const FactorShape& s) const { return s.n * s.n * (outputs.size() > 1 ? 3 : 1); }
  template <class T>
  void one(const Frame& frame, int64_t i, T* scratch, int32_t*) const {
    using C = std::complex<T>;
    const int64_t n = shape().n;
    copyColumns(frame, i, scratch);
    for (int64_t k = 0; k < n * n; ++k)
      if (!std::isfinite(scratch[k])) requireDone(-1);
    C* vectors = outputs.size() > 1 ? reinterpret_cast<C*>(scratch + n * n) : nullptr;
    requireDone(lapack::geev(n, scratch, reinterpret_cast<C*>(frame.raw(outputs[0])) + i * n, vectors));
    if (vectors) transposeInto(vectors, n, n, reinterpret_cast<C*>(frame.raw(outputs[1])) + i * n * n);
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

constexpr std::string_view kNoPivots = "rows are not exchanged";
constexpr std::string_view kNotReal = "the matrices are neither float32 nor float64, or have no elements";

bool isReal(const Tensor& t) { return (isF32(t) || t.dtype() == DType::Float64) && t.numel() > 0; }

// Nobody reads results from `first` on: what they hold depends on how the matrices lie in memory.
bool areUnused(const ConvertCall& call, size_t first) {
  const Node* node = call.node();
  if (!node || node->outputCount() != call.resultCount()) return false;
  for (size_t i = first; i < call.resultCount(); ++i)
    if (node->output(i)->hasUses()) return false;
  return true;
}
constexpr std::string_view kFactorsUsed = "its factors are used, which lie as the matrices do";

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
  auto& layer = call.add<L>(FactorShape{a.numel() / (a.size(-2 + a.rank()) * a.size(a.rank() - 1)),
                                        a.size(a.rank() - 2), a.size(a.rank() - 1)},
                            a.dtype());
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

void convertCholeskyEx(ConvertCall& call) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  auto& layer = addFactor<CholeskyExLayer>(call);
  layer.isUpper = call.flag(1);
  layer.checks = call.flag(2);
}

void convertInverse(ConvertCall& call) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  addFactor<InverseLayer>(call);
}

void convertInverseEx(ConvertCall& call) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  addFactor<InverseLayer>(call).checks = call.flag(1);
}

namespace {

void addSolve(ConvertCall& call, bool checks) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (!isReal(a) || !isReal(b)) return convertToKernel(call, kNotReal);
  Dims sizes(call.spec().sizes);
  const bool isVector =
      b.rank() == 1 || std::ranges::equal(b.sizes(), a.sizes().first(static_cast<size_t>(a.rank()) - 1));
  if (isVector) sizes.push_back(1);
  const DimSpan batch = DimSpan(sizes).first(sizes.size() - 2);
  if (call.resultCount() > 1 && !std::ranges::equal(batch, a.sizes().first(static_cast<size_t>(a.rank()) - 2)))
    return convertToKernel(call, "one matrix is for several right sides");
  auto& layer = addSolver<SolveLayer>(call, a, isVector ? unsqueezed(b, b.rank()) : b, sizes, false, call.flag(2));
  layer.isLeft = call.flag(2);
  layer.checks = checks;
}

void addDeterminant(ConvertCall& call, DeterminantLayer::Gives gives, size_t results) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  if (call.resultCount() > results && !areUnused(call, results)) return convertToKernel(call, kFactorsUsed);
  addFactor<DeterminantLayer>(call).gives = gives;
}

}  // namespace

void convertSolve(ConvertCall& call) { addSolve(call, true); }
void convertSolveEx(ConvertCall& call) {
  constexpr size_t kPlain = 2;  // results: the solution, what went wrong; or with factors and pivots between them
  if (call.resultCount() > kPlain && !areUnused(call, 1)) return convertToKernel(call, kFactorsUsed);
  addSolve(call, call.flag(3));
}

void convertDeterminant(ConvertCall& call) { addDeterminant(call, DeterminantLayer::Gives::Product, 1); }
void convertSignAndLogarithm(ConvertCall& call) { addDeterminant(call, DeterminantLayer::Gives::SignAndLogarithm, 2); }
void convertLogDeterminant(ConvertCall& call) { addDeterminant(call, DeterminantLayer::Gives::Logarithm, 1); }

void convertLuFactor(ConvertCall& call, bool checks) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  if (!call.flag(1)) return convertToKernel(call, kNoPivots);
  addFactor<LuLayer>(call).checks = checks;
}

void convertLu(ConvertCall& call) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  if (!call.flag(1)) return convertToKernel(call, kNoPivots);
  addFactor<LuLayer>(call).unpacks = true;
}

void convertQr(ConvertCall& call) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  const Dims& q = call.spec(0).sizes;
  if (q.size() < 2) return convertToKernel(call, "Q is not wanted");
  addFactor<QrLayer>(call).qColumns = q[q.size() - 1];
}

void convertSingularValues(ConvertCall& call, char job, bool givesV) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  auto& layer = addFactor<SvdLayer>(call);
  layer.job = job;
  layer.givesV = givesV;
}

void convertPseudoInverse(ConvertCall& call, double absolute, double relative) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  auto& layer = addFactor<PseudoInverseLayer>(call);
  layer.absolute = absolute;
  layer.relative = relative;
}

void convertSymmetricEigen(ConvertCall& call) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  const char triangle = static_cast<char>(call.text(1)[0] & ~0x20);
  addFactor<SymmetricEigenLayer>(call).triangle = triangle;
}

void convertEigen(ConvertCall& call) {
  if (!isReal(call.tensor(0))) return convertToKernel(call, kNotReal);
  addFactor<EigenLayer>(call);
}

}  // namespace tscompile
