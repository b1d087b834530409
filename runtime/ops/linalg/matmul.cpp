// Matrix products: mm, bmm, matmul, linear and the forms that add to them.
#include "runtime/reference/matmul.h"

#include "ir/values/rounded_number.h"
#include "runtime/call/kernel_call.h"
#include "runtime/engine/layers/grouped_matmul_layer.h"
#include "runtime/engine/layers/half_tensors.h"
#include "runtime/engine/layers/matmul_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/cpp_types.h"
#include "runtime/reference/promotion.h"
#include "runtime/reference/views.h"

#include <cmath>

namespace tscompile {
namespace {

// ---- what products take ----

// Said as the product says it that PyTorch makes of these.
void requireSameFactors(const InferCall& call, const TensorInfo& a, const TensorInfo& b) {
  if (a.dtype == b.dtype || a.dtype == DType::Undefined || b.dtype == DType::Undefined) return;
  if (a.rank() == 1 && b.rank() == 1)
    call.fail("dot : expected both vectors to have same dtype, but found {} and {}", graphName(a.dtype),
              graphName(b.dtype));
  if (b.rank() == 1)
    call.fail("addmv input tensors must have the same dtype, but got {}, {}, and {}", graphName(b.dtype),
              graphName(a.dtype), graphName(b.dtype));
  if (b.rank() > 2) requireSameScalarType(call, a, b);
  call.fail("expected m1 and m2 to have the same dtype, but got: {} != {}", cppName(a.dtype), cppName(b.dtype));
}

Dims mmSizes(const InferCall& call, const TensorInfo& a, const TensorInfo& b) {
  const bool added = call.op().kind().name().starts_with("addmm");
  const auto requireMatrix = [&](const TensorInfo& t, std::string_view name) {
    if (t.rank() == 2) return;
    if (added) call.fail("{} must be a matrix, got {}-D tensor", name, t.rank());
    call.fail("{} must be a matrix", name);
  };
  requireMatrix(a, added ? "mat1" : "self");
  requireMatrix(b, "mat2");
  call.require(!differ(a.sizes[1], b.sizes[0]), "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
               a.sizes[0], a.sizes[1], b.sizes[0], b.sizes[1]);
  return {a.sizes[0], b.sizes[1]};
}

// Of the second stack of matrices.
void requireBatch(const InferCall& call, int64_t batch, int64_t k, DimSpan b) {
  const int64_t have = b[b.size() - 2];
  call.require(!differ(batch, b[0]) && !differ(k, have),
               "expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].", batch, k,
               b[0], have);
}

Dims bmmSizes(const InferCall& call, const TensorInfo& a, const TensorInfo& b) {
  call.require(a.rank() == 3, "batch1 must be a 3D tensor");
  call.require(b.rank() == 3, "batch2 must be a 3D tensor");
  requireBatch(call, a.sizes[0], a.sizes[2], b.sizes);
  return {isKnownSize(a.sizes[0]) ? a.sizes[0] : b.sizes[0], a.sizes[1], b.sizes[2]};
}

void requireVector(const InferCall& call, int64_t rows, int64_t k, int64_t n) {
  call.require(!differ(k, n), "size mismatch, got input ({}), mat ({}x{}), vec ({})", rows, rows, k, n);
}

Dims mvSizes(const InferCall& call, const TensorInfo& a, const TensorInfo& b) {
  call.require(a.rank() == 2 && b.rank() == 1, "vector + matrix @ vector expected, got {}, {}, {}",
               call.size() > 3 ? call.rankedTensor(0).rank() : 1, a.rank(), b.rank());
  requireVector(call, a.sizes[0], a.sizes[1], b.sizes[0]);
  return {a.sizes[0]};
}

Dims addbmmSizes(const InferCall& call, const TensorInfo& a, const TensorInfo& b) {
  Dims sizes = bmmSizes(call, a, b);
  sizes.erase(0);
  return sizes;
}

// ---- mm, bmm, mv ----

using ProductSizes = Dims (*)(const InferCall&, const TensorInfo&, const TensorInfo&);

// A factor whose rank is not known has the one that the product takes.
template <ProductSizes kSizes, bool kIsSecond>
TensorInfo factor(const InferCall& call, size_t i) {
  static const Dims kOpen(3, kUnknownSize);
  constexpr size_t kFirst = kSizes == mmSizes || kSizes == mvSizes ? 2 : 3,
                   kRank = kIsSecond && kSizes == mvSizes ? 1 : kFirst;
  TensorInfo t = call.tensor(i);
  return t.hasRank ? t : TensorInfo{t.dtype, true, DimSpan(kOpen).first(kRank)};
}

template <ProductSizes kSizes>
void inferProduct(InferCall& call) {
  TensorInfo a = factor<kSizes, false>(call, 0), b = factor<kSizes, true>(call, 1);
  Dims sizes = kSizes(call, a, b);
  requireSameFactors(call, a, b);
  call.result(a.dtype, sizes);
}

void productKernel(KernelCall& call) { matmulInto(call.out(), call.tensor(0), call.tensor(1)); }
void mvKernel(KernelCall& call) {
  matmulInto(unsqueezed(call.out(), 1), call.tensor(0), unsqueezed(call.tensor(1), 1));
}

// ---- addmm, baddbmm, addmv, addbmm: beta * self + alpha * a @ b ----

// With `kConverts`, `self` is taken to the dtype of the product.
template <ProductSizes kSizes, bool kConverts = false>
void inferAddProduct(InferCall& call) {
  TensorInfo self = call.rankedTensor(0), a = factor<kSizes, false>(call, 1), b = factor<kSizes, true>(call, 2);
  Dims product = kSizes(call, a, b);
  if (!kConverts || call.op().isInPlaceVariant()) requireSameDType(call, self, a);
  requireSameFactors(call, a, b);
  requireExpandable(call, self.sizes, product);
  call.result(a.dtype, product);
}

// out = beta * self + alpha * a @ b; `out` may be `self`.
void addProduct(KernelCall& call, const Tensor& out, const Tensor& self, Tensor a, Tensor b, const IValue& alpha,
                const IValue& beta) {
  // 16-bit floats are added in float32 and rounded once.
  bool half = isHalf(out.dtype());
  if (call.isInPlace() && (memoryOverlaps(out, a) || memoryOverlaps(out, b))) a = cloneTensor(a), b = cloneTensor(b);
  Tensor sum = half ? Tensor::empty(DType::Float32, out.sizes()) : out;
  bool isRead = beta.isComplex() ? beta.toComplex() != 0.0 : beta.toDouble() != 0;
  if (isRead && !(call.isInPlace() && !half)) copyTensor(sum, self);
  if (half) a = convertTensor(a, DType::Float32), b = convertTensor(b, DType::Float32);
  matmulInto(sum, a, b, alpha, beta);
  if (half) copyTensor(out, sum);
}

struct Factors {
  explicit Factors(const KernelCall& call)
      : beta(numberFor(call.argument(3), call.spec().dtype)), alpha(numberFor(call.argument(4), call.spec().dtype)) {}
  IValue beta, alpha;
};

void addProductKernel(KernelCall& call) {
  Factors f(call);
  addProduct(call, call.out(), call.tensor(0), call.tensor(1), call.tensor(2), f.alpha, f.beta);
}
// Of 16 bits the factors are rounded, and so is beta * self.
Tensor roundedSummand(const Tensor& self, Factors& f) {
  const DType dtype = self.dtype();
  f.alpha = roundedTo(dtype, f.alpha.toDouble());
  const auto beta = static_cast<float>(roundedTo(dtype, f.beta.toDouble()));
  if (beta == 0 || beta == 1) return self;
  f.beta = 1.0;
  Tensor scaled = Tensor::empty(dtype, self.sizes());
  mapTensors<kF32>(
      dtype, [beta](float x) { return beta * x; }, scaled, self);
  return scaled;
}
void addmvKernel(KernelCall& call) {
  Factors f(call);
  Tensor out = call.out(), self = call.tensor(0);
  if (isHalf(out.dtype())) self = roundedSummand(self, f);
  addProduct(call, unsqueezed(out, 1), unsqueezed(expandedTo(self, out.sizes()), 1), call.tensor(1),
             unsqueezed(call.tensor(2), 1), f.alpha, f.beta);
}
void addbmmKernel(KernelCall& call) {
  Factors f(call);
  // [a0 a1 ...] @ [b0; b1; ...] is the sum of the products.
  Tensor a = call.tensor(1), b = call.tensor(2);
  int64_t depth = a.size(0) * a.size(2);
  a = reshaped(a.permuted(Dims{1, 0, 2}), Dims{a.size(1), depth});
  b = reshaped(b, Dims{depth, b.size(2)});
  addProduct(call, call.out(), call.tensor(0), a, b, f.alpha, f.beta);
}

// Unlike the others, the in-place form takes the size of the result.
void addbmmInPlaceKernel(KernelCall& call) {
  Tensor self = call.tensor(0);
  requireOwned(self);
  Tensor sum = invokeTensor(call, "aten::addbmm",
                            {self, call.argument(1), call.argument(2), call.argument(3), call.argument(4)});
  if (Dims(self.sizes()) == Dims(sum.sizes())) {
    requireWritable(self);
    copyTensor(self, sum);
  } else {
    self.impl()->setStorage(sum.storage(), sum.sizes(), sum.strides(), sum.offset());
  }
  call.setResult(self);
}

// ---- _addmm_activation: relu or gelu of addmm ----

template <class T, bool kGelu>
void activateTile(const Tile& t) {
  auto* out = static_cast<T*>(t.operand[0]);
  auto* in = static_cast<const T*>(t.operand[1]);
  for (int64_t i = 0; i < t.n; ++i)
    out[i] = kGelu ? in[i] * T(0.5) * (T(1) + std::erf(in[i] * T(M_SQRT1_2))) : in[i] < T(0) ? T(0) : in[i];
}

void addmmActivationKernel(KernelCall& call) {
  addProductKernel(call);
  Tensor out = call.out();
  bool gelu = call.flag(5), wide = out.dtype() == DType::Float64;
  Compute c = wide ? Compute::F64 : Compute::F32;
  call.require(isFloating(out.dtype()), "the activation is not defined for {}", pythonName(out.dtype()));
  Operand operands[] = {{out, c}, {out, c}};
  loopTiles(out.sizes(), operands, 1,
            wide ? (gelu ? activateTile<double, true> : activateTile<double, false>)
                 : (gelu ? activateTile<float, true> : activateTile<float, false>));
}

// ---- matmul: vectors, matrices and batches, broadcast ----

// As the product says that PyTorch makes of it: of vectors, of a matrix and a vector, of matrices (stacks that meet one
// are one), or of stacks. `sizes`: rows and columns of both.
[[noreturn]] void failMatmul(const InferCall& call, DimSpan a, DimSpan b, const Dims& sizes) {
  const int64_t rows = a.size() > 2 ? elementCount(Dims(a.first(a.size() - 1))).size() : sizes[0];
  if (b.size() == 1 && a.size() == 1)
    call.fail(
        "inconsistent tensor size, expected tensor {} and src {} to have the same number of elements, but got {} and "
        "{} "
        "elements respectively",
        dimsText(a), dimsText(b), a[0], b[0]);
  if (b.size() == 1) requireVector(call, rows, sizes[1], b[0]);
  if (b.size() > 2) {
    Dims batch = broadcastBatches(a.size() == 1 ? Dims{1, a[0]} : Dims(a), b);
    const int64_t count = elementCount(batch).size();
    requireBatch(call, count, sizes[1], Dims{count, sizes[2], sizes[3]});
  }
  call.fail("mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", rows, sizes[1], sizes[2], sizes[3]);
}

Dims matmulSizes(const InferCall& call, DimSpan a, DimSpan b) {
  call.require(!a.empty() && !b.empty(), "both arguments to matmul need to be at least 1D, but they are {}D and {}D",
               a.size(), b.size());
  // The dimension that a vector lacks.
  Dims x(a), y(b);
  if (a.size() == 1) x.insert(0, 1);
  if (b.size() == 1) y.push_back(1);
  int64_t m = x[x.size() - 2], k = x.back(), k2 = y[y.size() - 2], n = y.back();
  if (differ(k, k2)) failMatmul(call, a, b, Dims{m, k, k2, n});
  Dims sizes = broadcastBatches(x, y);
  if (a.size() > 1) sizes.push_back(m);
  if (b.size() > 1) sizes.push_back(n);
  return sizes;
}

void inferMatmul(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  Dims sizes = matmulSizes(call, a.sizes, b.sizes);
  requireSameFactors(call, a, b);
  call.result(a.dtype, sizes);
}

void matmulKernel(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1), out = call.out();
  Tensor target = out;
  if (b.rank() == 1) {
    b = unsqueezed(b, 1);
    target = unsqueezed(target, target.rank());
  }
  if (a.rank() == 1) {
    a = unsqueezed(a, 0);
    target = unsqueezed(target, target.rank() - 1);
  }
  multiplyBatches(target, a, b);
}

// ---- linear: x @ weight^T + bias ----

void inferLinear(InferCall& call) {
  TensorInfo x = call.rankedTensor(0), w = call.rankedTensor(1);
  call.require(x.rank() >= 1 && (w.rank() == 1 || w.rank() == 2), "linear takes a weight of 1 or 2 dimensions, not {}",
               w.rank());
  int64_t k = w.sizes.back();
  call.require(!differ(x.sizes.back(), k), "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
               elementCount(Dims(x.sizes.first(x.rank() - 1))).size(), x.sizes.back(), k,
               w.rank() == 2 ? w.sizes[0] : 1);
  requireSameFactors(call, x, w);
  Dims sizes(x.sizes.first(x.rank() - 1));
  if (w.rank() == 2) sizes.push_back(w.sizes[0]);
  if (!call.isNone(2)) {
    TensorInfo bias = call.rankedTensor(2);
    requireSameDType(call, x, bias);
    call.require(x.rank() != 2 || w.rank() == 2, "the weight must be a matrix where a bias is given, got a {}D tensor",
                 w.rank());
    // Contiguous batches are multiplied as one matrix, whose rows the bias is added to: the kernel knows.
    if (x.rank() != 3 || bias.rank() < 2) requireExpandable(call, bias.sizes, sizes);
  }
  call.result(x.dtype, sizes);
}

void linearKernel(KernelCall& call) {
  Tensor x = call.tensor(0), w = call.tensor(1), bias = call.tensor(2), out = call.out();
  Tensor target = out;
  if (w.rank() == 1) {
    w = unsqueezed(w, 0);
    target = unsqueezed(target, target.rank());
    if (bias.defined() && bias.rank() > 0) bias = unsqueezed(bias, bias.rank());
  }
  int64_t k = x.size(x.rank() - 1), n = w.size(0), rows = 1;
  for (int d = 0; d < x.rank() - 1; ++d) rows *= x.size(d);
  bool half = isHalf(out.dtype());
  Tensor sum = half ? Tensor::empty(DType::Float32, target.sizes()) : target;
  if (bias.defined() && x.rank() == 3 && bias.rank() >= 2) {
    Dims broadcast = x.isContiguous() ? Dims{rows, n} : Dims(sum.sizes()), sizes = broadcast;
    call.require(
        bias.rank() <= static_cast<int>(sizes.size()) && broadcastInto(sizes, bias.sizes()) && sizes == broadcast,
        "the sizes {} cannot be expanded to {}", dimsText(bias.sizes()), dimsText(broadcast));
    copyTensor(reshaped(sum, broadcast), bias);
  } else if (bias.defined()) {
    copyTensor(sum, bias);
  }
  if (half) x = convertTensor(x, DType::Float32), w = convertTensor(w, DType::Float32);
  matmulInto(reshaped(sum, Dims{rows, n}), reshaped(contiguous(x), Dims{rows, k}), transposed(w, 0, 1), 1,
             bias.defined() ? 1 : 0);
  if (half) copyTensor(target, sum);
}

// (self, matrix, vector, beta, alpha): as other products and sums.
void convertAddmv(ConvertCall& call) {
  const Tensor x = call.tensor(0), matrix = call.tensor(1), vector = call.tensor(2);
  const DType d = matrix.dtype();
  const bool isFloat = (d == DType::Float32 || d == DType::Float64) && x.dtype() == d && vector.dtype() == d;
  if (!isFloat || matrix.numel() == 0)
    return convertToKernel(call, "an argument is neither float32 nor float64, or empty");
  if (call.number(4) == 0) return convertToKernel(call, kNoProduct);
  setSum(call, call.compute("aten::matmul", {matrix, vector}), 0, call.number(3), call.number(4));
}

// (self, batch1, batch2, beta, alpha): the products of a batch are summed up, so they are one product.
void convertAddbmm(ConvertCall& call) {
  const DType d = call.tensor(0).dtype();
  const bool isFloat =
      (d == DType::Float32 || d == DType::Float64) && call.tensor(1).dtype() == d && call.tensor(2).dtype() == d;
  if (!isFloat || checkedNumel(call.spec().sizes) == 0 || call.tensor(1).numel() == 0)
    return convertToKernel(call, "an argument is neither float32 nor float64, or empty");
  if (call.number(4) == 0) return convertToKernel(call, kNoProduct);
  const Tensor a = call.tensor(1), b = call.tensor(2);
  const int64_t depth = a.size(0) * a.size(2);
  const IValue beside = call.compute(
      "aten::reshape", {call.compute("aten::permute", {a, intList(Dims{1, 0, 2})}), intList(Dims{a.size(1), depth})});
  const IValue below = call.compute("aten::reshape", {b, intList(Dims{depth, b.size(2)})});
  setSum(call, call.compute("aten::mm", {beside, below}), 0, call.number(3), call.number(4));
}

// ---- _grouped_mm(self, mat2, offs, bias, out_dtype) ----

// Products of as many groups as `offs` has ends: of rows of `self` and matrices of `mat2`, of matrices of `self` and
// columns of `mat2`, or of the depths that two matrices share. Two stacks of matrices have no groups.
void inferGroupedMm(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  auto isMatrices = [](const TensorInfo& t) { return t.rank() == 2 || t.rank() == 3; };
  call.require(isMatrices(a) && isMatrices(b),
               "expected matrices or stacks of them, not tensors of {} and {} dimensions", a.rank(), b.rank());
  call.require(call.isNone(2) == (a.rank() == 3 && b.rank() == 3), "offs is for groups, which stacks have not");
  call.require(call.isNone(3), "a bias is not supported");
  requireSameDType(call, a, b);
  Dims sizes{a.sizes[a.rank() - 2], b.sizes[b.rank() - 1]};
  if (a.rank() == 3 && b.rank() == 3) sizes.insert(0, a.sizes[0]);
  if (a.rank() == 2 && b.rank() == 2) sizes.insert(0, call.rankedTensor(2).sizes[0]);
  call.result(call.dtypeOr(4, a.dtype), sizes);
}

void groupedMmKernel(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1), out = call.out();
  if (a.rank() == 3 && b.rank() == 3) return copyTensor(out, invokeTensor(call, "aten::bmm", {a, b}));
  Tensor ends = call.tensor(2);
  call.require(ends.rank() == 1 && isIntegral(ends.dtype(), false), "offs must be a list of integers");
  fillTensor(out, 0);  // what is after the last group
  int64_t groupedSize = a.rank() == 3 ? b.size(1) : b.rank() == 3 ? a.size(0) : a.size(1), begin = 0;
  auto at = [&](const Tensor& t, int64_t i) { return invokeTensor(call, "aten::select.int", {t, 0, i}); };
  for (int64_t g = 0; g < ends.numel(); ++g) {
    int64_t end = ends.integer(g);
    call.require(begin <= end && end <= groupedSize, "the ends of groups must rise to {} at most, found {}",
                 groupedSize, end);
    auto part = [&](const Tensor& t, int64_t dim) {
      return invokeTensor(call, "aten::slice.Tensor", {t, dim, begin, end, 1});
    };
    Tensor left = a.rank() == 3 ? at(a, g) : part(a, b.rank() == 3 ? 0 : 1);
    Tensor right = b.rank() == 3 ? at(b, g) : part(b, a.rank() == 3 ? 1 : 0);
    Tensor into = a.rank() == 3 ? part(out, 1) : b.rank() == 3 ? part(out, 0) : at(out, g);
    copyTensor(into, invokeTensor(call, "aten::mm", {left, right}));
    begin = end;
  }
}

}  // namespace

void registerMatmulOps(OpRegistry& ops) {
  auto product = [&](const char* schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert = nullptr,
                     TraitSet traits = {Trait::SetsStrides, Trait::RoundsOnce}) {
    // Bool for the sake of empty tensors only.
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kAllTypes,
             .traits = traits,
             .cost = Cost::Product});
  };
  product("aten::mm(Tensor self, Tensor mat2) -> Tensor", inferProduct<mmSizes>, productKernel, convertMatmul);
  product("aten::bmm(Tensor self, Tensor mat2) -> Tensor", inferProduct<bmmSizes>, productKernel, convertMatmul);
  product("aten::mv(Tensor self, Tensor vec) -> Tensor", inferProduct<mvSizes>, mvKernel, convertMatmul);
  product("aten::matmul(Tensor self, Tensor other) -> Tensor", inferMatmul, matmulKernel, convertMatmul);
  product("aten::linalg_matmul(Tensor self, Tensor other) -> Tensor", inferMatmul, matmulKernel, convertMatmul);
  product("aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", inferLinear, linearKernel,
          convertLinear);

  auto add = [&](const char* schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert = nullptr,
                 InPlace inplace = InPlace::Direct, TraitSet traits = {Trait::SetsStrides, Trait::RoundsOnce}) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kAllTypes,
             .inplace = inplace,
             .traits = traits,
             .cost = Cost::AddedProduct});
  };
  add("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
      inferAddProduct<mmSizes>, addProductKernel, convertAddmm);
  add("aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
      inferAddProduct<bmmSizes, true>, addProductKernel, convertBaddbmm);
  add("aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
      inferAddProduct<mvSizes, true>, addmvKernel, convertAddmv, InPlace::Direct, {Trait::SetsStrides});
  add("aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
      inferAddProduct<addbmmSizes>, addbmmKernel, convertAddbmm, InPlace::No);
  // Takes on the sizes of the sum.
  ops.add({.schema = "aten::addbmm_",
           .kernel = addbmmInPlaceKernel,
           .dtypes = kAllTypes,
           .traits = {Trait::ChangesGeometry},
           .cost = Cost::AddedProduct});
  ops.add({.schema =
               "aten::_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool "
               "use_gelu=False) -> Tensor",
           .infer = inferAddProduct<mmSizes>,
           .kernel = addmmActivationKernel,
           .dtypes = kFloatingTypes,
           .cost = Cost::AddedProduct});
  ops.add({.schema = "aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? "
                     "out_dtype=None) -> Tensor",
           .infer = inferGroupedMm,
           .kernel = groupedMmKernel,
           .convert = convertGroupedMatmul,
           .dtypes = kFloatingTypes,
           .traits = {Trait::RoundsOnce},
           .cost = Cost::Product});
}

}  // namespace tscompile
