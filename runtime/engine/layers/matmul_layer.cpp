#include "runtime/engine/layers/matmul_layer.h"

#include "ir/values/encoded.h"
#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/mix_layer.h"
#include "runtime/engine/layers/move_layers.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/kernels/batched_gemm.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/openblas/blas.h"

#include <fmt/core.h>

namespace tscompile {

void MatmulLayer::run(Frame& frame) const {
  PackedMatrix weights = packed_;
  Epilogue epilogue = epilogueOf(frame);
  std::byte* workspace = frame.workspace();
  if (takesLeast()) {
    weights.least = *frame.data<float>(inputs[leastAt_]);
    auto* sums = reinterpret_cast<int32_t*>(workspace);
    const auto least = static_cast<int32_t>(weights.least);
    for (int64_t i = 0; i < columnSums_.numel(); ++i)
      sums[i] = least * columnSums_.data<int32_t>()[i] + epilogue.integerBias[i];
    epilogue.integerBias = sums;
    workspace += columnSums_.numel() * static_cast<int64_t>(sizeof(int32_t));
  }
  gemm(m_, frame.data<float>(inputs[0]), lda_, weights, frame.data<float>(outputs[0]), n_, epilogue, workspace,
       frame.threads());
}

// Weights that have 16 bits keep them, though rows are not rounded to as many.
WeightStorage MatmulLayer::heldOr(WeightStorage wanted) const {
  const EncodedElements* held = weight_.storage()->encoding();
  if (wanted != WeightStorage::F32 || !held || scale_.defined()) return wanted;
  const DType dtype = held->values().dtype();
  if (dtype != DType::BFloat16 && dtype != DType::Float16) return wanted;
  const WeightStorage storage = dtype == DType::BFloat16 ? WeightStorage::BF16 : WeightStorage::F16;
  return onlyConverts(storage, weight_.numel()) ? wanted : storage;
}

void MatmulLayer::prepare(WeightStore& store, const ProductPrecision& precision) {
  // Few rows wait for the weights: half as many bytes are as exact.
  const WeightStorage storage = holdsIntegers()
                                    ? exactStorage(WeightStorage::BF16, true, hasLineProducts(WeightStorage::Bytes))
                                    : heldOr(fitting(precision.weights, [&] { return scaled(); }));
  if (storage == WeightStorage::Integers) bias = inWholeBlocks(bias);
  packed_ = {.k = k_,
             .n = n_,
             .storage = storage,
             .roundsRows = precision.roundsRows && precision.weights != WeightStorage::F32};
  if (storage == WeightStorage::Bytes) {
    packed_.least = exactArithmetic().least;
    auto sumOf = [&](int64_t column) {
      double sum = 0;
      for (int64_t i = 0; i < k_; ++i) sum += weight_.data<float>()[i * rowStride_ + column * columnStride_];
      return sum;
    };
    if (takesLeast()) {
      columnSums_ = Tensor::zeros(DType::Int32, Dims{channelBlocks(n_) * kBlock});
      for (int64_t i = 0; i < n_; ++i) columnSums_.data<int32_t>()[i] = static_cast<int32_t>(sumOf(i));
      packed_.least = 0;
    }
    integerBias = biasOfBytes(packed_.least, sumOf);
  }
  // One matrix may be used as it is and transposed.
  std::string name = keyOf(fmt::format("matmul {}x{} by {}, {}{}", k_, n_, rowStride_, columnStride_,
                                       storage == WeightStorage::Bytes ? ", bytes" : ""));
  if (scale_.defined()) name = WeightStore::nameWith(name + " scaled by ", scale_);
  data_ = store.get(name, sourceOf(weight_), [&] {
    Tensor packed = store.buffer(packedBytes(k_, n_, storage));
    pack(storage, packed.raw());
    return packed;
  });
  packed_.data = data_.raw();
  if (holdsIntegers()) weight_ = Tensor();
}

Tensor MatmulLayer::scaled() const {
  if (!scale_.defined()) return weight_;
  const Tensor weight = decodedOnce(weight_);
  Tensor product = Tensor::empty(DType::Float32, Dims{n_, k_});
  for (int64_t j = 0; j < n_; ++j)
    for (int64_t i = 0; i < k_; ++i)
      product.data<float>()[j * k_ + i] =
          weight.data<float>()[i * rowStride_ + j * columnStride_] * scale_.data<float>()[j];
  return product;
}

void MatmulLayer::pack(WeightStorage storage, void* packed) const {
  const EncodedElements* encoding = weight_.storage()->encoding();
  const bool isByColumns = rowStride_ == 1 && columnStride_ == k_;
  if (encoding && isByColumns && !scale_.defined())
    return packColumns(
        k_, n_,
        [&](int64_t first, int64_t count, float* to) {
          const int64_t begin = weight_.offset() + first * k_;
          encoding->decode(begin, count * k_, to);
          encoding->forget(begin, count * k_);
        },
        storage, packed);
  const Tensor weight = decodedOnce(weight_);
  const auto* elements = weight.data<float>();
  if (!scale_.defined()) return packMatrix(k_, n_, elements, rowStride_, columnStride_, storage, packed);
  packColumns(
      k_, n_,
      [&](int64_t first, int64_t count, float* to) {
        for (int64_t j = first; j < first + count; ++j)
          for (int64_t i = 0; i < k_; ++i)
            *to++ = elements[i * rowStride_ + j * columnStride_] * scale_.data<float>()[j];
      },
      storage, packed);
}

void BatchedMatmulLayer::run(Frame& frame) const {
  auto* places = reinterpret_cast<int64_t*>(frame.workspace());
  auto matrix = [&](size_t i, const Side& s) {
    BatchedMatrix made{frame.data<float>(inputs[i]), s.outer, s.inner, s.row, s.column};
    const auto& [which, first] = picked[i];
    if (which.indices.empty()) return made;
    const std::span<int64_t> found(places, static_cast<size_t>(which.count));
    which.find(frame, std::span(inputs).subspan(first, which.indices.size()), found);
    made.places = places;
    places += which.count;
    return made;
  };
  const BatchedMatrix left = matrix(0, a), right = matrix(1, b);
  batchedGemm(outer, inner, m, n, k, alpha, left, right, frame.data<float>(outputs[0]), c.outer, c.inner, c.row,
              reinterpret_cast<float*>(frame.workspace() + placesBytes()), frame.threads());
}

void DoubleMatmulLayer::run(Frame& frame) const {
  constexpr int64_t kWork = int64_t{1} << 20;  // products, at least, that a thread sums up
  const auto *left = frame.data<double>(inputs[0]), *right = frame.data<double>(inputs[1]);
  auto* to = frame.data<double>(outputs[0]);
  // In pieces of rows that do not depend on the threads, as sums might then.
  const int64_t rows = std::max<int64_t>(kWork / std::max<int64_t>(n * k, 1) / 8 * 8, 8),
                pieces = (m + rows - 1) / rows;
  const bool isAcross = a.column == 1, isBelow = b.column == 1;
  const int64_t lda = isAcross ? std::max(a.row, k) : std::max(a.column, m),
                ldb = isBelow ? std::max(b.row, n) : std::max(b.column, k);
  const bool isShort = outer * inner * m * n * k < kWork;
  parallelFor(outer * inner * pieces, isShort ? 1 : frame.threads(), [&](int64_t i) {
    const int64_t piece = i % pieces, batch = i / pieces, first = piece * rows;
    const double* from = left + batch / inner * a.outer + batch % inner * a.inner + first * a.row;
    blas::gemm(!isAcross, !isBelow, std::min(rows, m - first), n, k, 1.0, from, lda,
               right + batch / inner * b.outer + batch % inner * b.inner, ldb, 0.0, to + (batch * m + first) * n, n);
  });
}

namespace {

// The distance of rows of a tensor whose last dimension is contiguous, if all rows lie at the same.
std::optional<int64_t> rowDistance(const Tensor& t) {
  int last = t.rank() - 1;
  if (t.stride(last) != 1 && t.size(last) != 1) return std::nullopt;
  int64_t distance = t.size(last), rows = 1;
  for (int d = last - 1; d >= 0; --d) {
    if (t.size(d) == 1) continue;
    if (rows == 1) distance = t.stride(d);
    if (t.stride(d) != distance * rows) return std::nullopt;
    rows *= t.size(d);
  }
  return distance >= t.size(last) ? std::optional(distance) : std::nullopt;
}

// x * weight (+ bias) with a constant weight of element strides given; false if there is no such layer.
bool addProduct(ConvertCall& call, size_t xAt, const Tensor& weight, int64_t k, int64_t n, int64_t rowStride,
                int64_t columnStride, const Tensor& bias) {
  Tensor x = call.tensor(xAt);
  if (x.numel() == 0 || k == 0 || n == 0) return false;
  std::optional<int64_t> lda = rowDistance(x);
  if (std::optional<PlaneMix> mix = lda ? std::nullopt : planesOf(x, n)) {
    const Tensor whole = decodedOnce(weight);
    addMix(call, xAt, *mix, contiguous(whole.withGeometry(Dims{n, k}, Dims{columnStride, rowStride}, whole.offset())),
           bias);
    return true;
  }
  TensorId input = call.operand(xAt);
  if (!lda) {
    input = addCopy(call, input);
    lda = k;
  }
  TensorId output = call.makeResult();
  auto& layer = call.add<MatmulLayer>(weight, x.numel() / k, k, n, rowStride, columnStride, *lda);
  layer.inputs = {input};
  layer.outputs = {output};
  layer.bias = bias;
  return true;
}

// Why a kernel runs instead of a layer.
constexpr std::string_view kBiasUnknown = "the bias is no known row of float32";
std::string_view weightProblem(const ConvertCall& call, size_t i) {
  if (call.isNetworkTensor(i)) return "the weight is an input";
  return call.tensor(i).rank() == 2 ? kNotF32 : "the weight is no matrix";
}

bool isConstantMatrix(ConvertCall& call, size_t i) {
  return !call.isNetworkTensor(i) && call.tensor(i).rank() == 2 && isF32(call.tensor(i));
}

// A constant vector of n values, or one that is broadcast to them; undefined if it is something else.
Tensor constantRow(ConvertCall& call, size_t i, int64_t n) {
  if (call.isNetworkTensor(i)) return {};
  Tensor t = call.tensor(i);
  bool fits = isF32(t) && t.isContiguous() && t.numel() == n && t.rank() >= 1 && t.size(t.rank() - 1) == n;
  return fits ? t : Tensor();
}

// The strides of an operand under the batch dimensions of the result, its last two dimensions being a matrix.
std::optional<BatchedMatmulLayer::Side> sideOf(const Tensor& t, DimSpan batch) {
  if (t.rank() < 2 || batch.size() > 2) return std::nullopt;
  BatchedMatmulLayer::Side side;
  side.row = t.stride(t.rank() - 2);
  side.column = t.stride(t.rank() - 1);
  for (size_t i = 0; i < batch.size(); ++i) {
    int own = static_cast<int>(i) - static_cast<int>(batch.size()) + t.rank() - 2;
    int64_t stride = own < 0 || t.size(own) == 1 ? 0 : t.stride(own);
    (batch.size() == 2 && i == 0 ? side.outer : side.inner) = stride;
  }
  return side;
}

// Lays the shapes of a product into its layer, and connects it.
template <class L>
void settleBatched(ConvertCall& call, DimSpan sizes, const BatchedMatmulLayer::Side& a,
                   const BatchedMatmulLayer::Side& b, std::vector<TensorId> inputs) {
  const DimSpan batch = sizes.first(sizes.size() - 2);
  const TensorId output = call.makeResult();
  auto& layer = call.add<L>();
  layer.outer = batch.size() == 2 ? batch[0] : 1;
  layer.inner = batch.empty() ? 1 : batch.back();
  layer.m = sizes[sizes.size() - 2];
  layer.n = sizes.back();
  layer.k = call.tensor(0).size(call.tensor(0).rank() - 1);
  layer.a = a;
  layer.b = b;
  layer.inputs = std::move(inputs);
  layer.outputs = {output};
  if constexpr (std::is_same_v<L, BatchedMatmulLayer>)
    layer.c = {layer.inner * layer.m * layer.n, layer.m * layer.n, layer.n, 1};
}

// The product of two tensors as matrices; empty, or why there is no such layer.
std::string_view addBatched(ConvertCall& call) {
  Tensor x = call.tensor(0), y = call.tensor(1);
  const TensorSpec& spec = call.spec();
  if (!isF32(x) || !isF32(y)) return kNotF32;
  if (x.rank() < 2 || y.rank() < 2 || spec.sizes.size() < 2) return "an argument is a vector";
  DimSpan sizes(spec.sizes.data(), spec.sizes.size());
  DimSpan batch = sizes.first(sizes.size() - 2);
  std::optional<BatchedMatmulLayer::Side> a = sideOf(x, batch), b = sideOf(y, batch);
  if (!a || !b) return "there are more than two batch dimensions";
  if (x.numel() == 0 || checkedNumel(sizes) == 0) return kEmpty;
  // What shares one matrix on the right is one on the left.
  if (const std::optional<int64_t> distance = y.rank() == 2 && x.rank() > 2 ? rowDistance(x) : std::nullopt) {
    const Dims flat{x.numel() / x.size(x.rank() - 1), sizes.back()};
    settleBatched<BatchedMatmulLayer>(call, flat, {0, 0, *distance, 1}, *b, {call.operand(0), call.operand(1)});
    return {};
  }
  settleBatched<BatchedMatmulLayer>(call, sizes, *a, *b, {call.operand(0), call.operand(1)});
  return {};
}

// Of f64, under two batch dimensions at most. A library takes matrices whose rows or columns are runs of neighbours;
// what shares one matrix on the right is one on the left.
void addDoubles(ConvertCall& call) {
  const Dims sizes = call.spec().sizes;
  const DimSpan batch = DimSpan(sizes.data(), sizes.size()).first(sizes.size() - 2);
  auto side = [&](size_t i) {
    Tensor t = call.tensor(i);
    const int64_t rows = t.size(t.rank() - 2), columns = t.size(t.rank() - 1);
    const int64_t down = t.stride(t.rank() - 2), across = t.stride(t.rank() - 1);
    const bool isMatrix = (across == 1 && down >= columns) || (down == 1 && across >= rows);
    if (isMatrix) return t;
    const Tensor copy = call.makeTensor(t.dtype(), t.sizes());
    call.add<MoveLayer>(call.network(), call.idOf(t), call.idOf(copy));
    return copy;
  };
  const Tensor x = side(0), y = side(1);
  std::vector<TensorId> inputs{call.idOf(x), call.idOf(y)};
  if (y.rank() == 2 && x.isContiguous())
    return settleBatched<DoubleMatmulLayer>(call, Dims{x.numel() / x.size(x.rank() - 1), sizes.back()},
                                            {0, 0, x.size(x.rank() - 1), 1}, *sideOf(y, {}), std::move(inputs));
  settleBatched<DoubleMatmulLayer>(call, sizes, *sideOf(x, batch), *sideOf(y, batch), std::move(inputs));
}

// Under more than two batch dimensions: as one, over which both sides are expanded.
void computeInOneBatch(ConvertCall& call) {
  Tensor x = call.tensor(0), y = call.tensor(1);
  const Dims sizes = call.spec().sizes;
  const DimSpan batch = DimSpan(sizes.data(), sizes.size()).first(sizes.size() - 2);
  auto side = [&](const Tensor& t) {
    Dims whole(batch), flat{-1, t.size(t.rank() - 2), t.size(t.rank() - 1)};
    whole.push_back(flat[1]);
    whole.push_back(flat[2]);
    return reshaped(call, call.compute("aten::expand", {t, intList(whole)}), flat);
  };
  IValue made = call.compute("aten::bmm", {side(x), side(y)});
  call.setResult(0, reshaped(call, made, sizes));
}

// A vector is a matrix of one row, or on the right of one column.
void computeVector(ConvertCall& call) {
  const Dims sizes = call.spec().sizes;
  IValue x = call.argument(0), y = call.argument(1);
  if (call.tensor(0).rank() == 1) x = call.compute("aten::unsqueeze", {x, int64_t{0}});
  if (call.tensor(1).rank() == 1) y = call.compute("aten::unsqueeze", {y, int64_t{-1}});
  call.setResult(0, reshaped(call, call.compute("aten::matmul", {x, y}), sizes));
}

// One matrix times many vectors: the vectors are rows that its transpose multiplies.
void computeRows(ConvertCall& call) {
  const Tensor y = call.tensor(1);
  Dims rows(y.sizes());
  rows.pop_back();
  const IValue vectors = reshaped(call, y, rows);
  const IValue made = call.compute("aten::linear", {vectors, call.argument(0), IValue()});
  call.setResult(0, reshaped(call, made, call.spec().sizes));
}

// (a + bi)(c + di), of products of real matrices.
void computeComplex(ConvertCall& call) {
  auto part = [&](size_t i, int64_t of) {
    const IValue pairs = call.compute("aten::view_as_real", {call.argument(i)});
    return call.compute("aten::contiguous", {call.compute("aten::select.int", {pairs, int64_t{-1}, of}), int64_t{0}});
  };
  const IValue a = part(0, 0), b = part(0, 1), c = part(1, 0), d = part(1, 1);
  auto product = [&](const IValue& x, const IValue& y) { return call.compute("aten::matmul", {x, y}); };
  const IValue real = call.compute("aten::sub.Tensor", {product(a, c), product(b, d), int64_t{1}});
  const IValue imaginary = call.compute("aten::add.Tensor", {product(a, d), product(b, c), int64_t{1}});
  const IValue pairs = call.compute("aten::stack", {tensorList({real.toTensor(), imaginary.toTensor()}), int64_t{-1}});
  call.setResult(0, call.compute("aten::view_as_complex", {pairs}));
}

bool areF32(const ConvertCall& call, size_t i, size_t k) { return isF32(call.tensor(i)) && isF32(call.tensor(k)); }
bool isF64(const Tensor& t) { return t.dtype() == DType::Float64; }

}  // namespace

void setSum(ConvertCall& call, IValue result, size_t added, double beta, double alpha) {
  if (alpha != 1) result = call.compute("aten::mul.Scalar", {result, alpha});
  if (beta != 0 && !call.isNone(added)) {
    IValue other = call.argument(added);
    if (beta != 1) other = call.compute("aten::mul.Scalar", {other, beta});
    result = call.compute("aten::add.Tensor", {result, other});
  }
  call.setResult(0, result);
}

namespace {

// The product of arguments `a` and `b`, and what is added to it.
void computeSum(ConvertCall& call, std::string_view product, size_t a, const IValue& b, size_t added, double beta = 1,
                double alpha = 1) {
  setSum(call, call.compute(product, {call.argument(a), b}), added, beta, alpha);
}

}  // namespace

void convertLinear(ConvertCall& call) {
  const bool isDouble = isF64(call.tensor(0)) && isF64(call.tensor(1));
  if (!isF32(call.tensor(0)) && !isDouble) return convertToKernel(call, kNotF32);
  const bool hasElements = checkedNumel(call.spec().sizes) != 0 && call.tensor(0).numel() != 0;
  auto inSteps = [&] { computeSum(call, "aten::matmul", 0, call.compute("aten::t", {call.argument(1)}), 2); };
  if (!isConstantMatrix(call, 1)) {
    if (!(isDouble || areF32(call, 0, 1)) || call.tensor(1).rank() != 2)
      return convertToKernel(call, weightProblem(call, 1));
    return hasElements ? inSteps() : convertToKernel(call, kEmpty);
  }
  Tensor w = call.tensor(1), bias = call.isNone(2) ? Tensor() : constantRow(call, 2, w.size(0));
  if (!call.isNone(2) && !bias.defined()) {
    const bool isRow = isF32(call.tensor(2)) && call.tensor(2).rank() <= 1;
    return isRow && hasElements ? inSteps() : convertToKernel(call, kBiasUnknown);
  }
  if (!addProduct(call, 0, w, w.size(1), w.size(0), w.stride(1), w.stride(0), bias)) convertToKernel(call, kEmpty);
}

void convertMatmul(ConvertCall& call) {
  if (isF32(call.tensor(0)) && call.tensor(0).rank() >= 1 && isConstantMatrix(call, 1)) {
    Tensor w = call.tensor(1);
    if (addProduct(call, 0, w, w.size(0), w.size(1), w.stride(0), w.stride(1), {})) return;
  }
  const bool hasElements = checkedNumel(call.spec().sizes) != 0 && call.tensor(0).numel() != 0;
  const DType complex = DType::Complex64;
  if (hasElements && call.tensor(0).dtype() == complex && call.tensor(1).dtype() == complex)
    return computeComplex(call);
  const bool isDouble = isF64(call.tensor(0)) && isF64(call.tensor(1));
  if ((isDouble || areF32(call, 0, 1)) && hasElements) {
    const int x = call.tensor(0).rank(), y = call.tensor(1).rank();
    if (x == 1 || y == 1) return computeVector(call);
    constexpr int kMostRank = 4;  // two dimensions of batches
    if (std::max(x, y) > kMostRank) return computeInOneBatch(call);
    if (isDouble) return addDoubles(call);
    if (x == 2 && y > 2 && call.tensor(1).size(y - 1) == 1) return computeRows(call);
  }
  if (std::string_view why = addBatched(call); !why.empty()) convertToKernel(call, why);
}

void convertAddmm(ConvertCall& call) {
  const bool isDouble = isF64(call.tensor(0)) && isF64(call.tensor(1)) && isF64(call.tensor(2));
  if (!isDouble && !(areF32(call, 1, 2) && isF32(call.tensor(0)))) return convertToKernel(call, kNotF32);
  if (checkedNumel(call.spec().sizes) == 0 || call.tensor(1).numel() == 0) return convertToKernel(call, kEmpty);
  if (call.number(4) == 0) return convertToKernel(call, kNoProduct);
  if (isConstantMatrix(call, 2) && call.number(3) == 1 && call.number(4) == 1) {
    const Tensor w = call.tensor(2), bias = constantRow(call, 0, w.size(1));
    if (bias.defined() && addProduct(call, 1, w, w.size(0), w.size(1), w.stride(0), w.stride(1), bias)) return;
  }
  computeSum(call, "aten::mm", 1, call.argument(2), 0, call.number(3), call.number(4));
}

// (self, batch1, batch2, beta, alpha): a product, a scale and a sum, which may be the scores of attention.
void convertBaddbmm(ConvertCall& call) {
  const bool isDouble = isF64(call.tensor(0)) && isF64(call.tensor(1));
  if (!isDouble && !areF32(call, 0, 1)) return convertToKernel(call, kNotF32);
  if (checkedNumel(call.spec().sizes) == 0 || call.tensor(1).numel() == 0) return convertToKernel(call, kEmpty);
  computeSum(call, "aten::bmm", 1, call.argument(2), 0, call.number(3), call.number(4));
}

}  // namespace tscompile
