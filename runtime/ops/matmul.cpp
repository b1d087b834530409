// Matrix products: mm, bmm, matmul, linear and the forms that add to them.
#include "runtime/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/copy.h"
#include "runtime/reference/matmul.h"
#include "runtime/reference/promotion.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

constexpr DTypeSet kTypes = kRealTypes | kComplexTypes;

void requireSameDType(const InferCall& call, const TensorInfo& a, const TensorInfo& b) {
  call.require(a.dtype == b.dtype || a.dtype == DType::Undefined || b.dtype == DType::Undefined,
               "expected both tensors to have the same dtype, but got {} and {}", pythonName(a.dtype), pythonName(b.dtype));
}
bool differ(int64_t a, int64_t b) { return isKnownSize(a) && isKnownSize(b) && a != b; }

// ---- mm, bmm ----

void inferMm(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  call.require(a.rank() == 2 && b.rank() == 2, "mm takes two matrices, not tensors of {} and {} dimensions", a.rank(), b.rank());
  call.require(!differ(a.sizes[1], b.sizes[0]), "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", a.sizes[0],
               a.sizes[1], b.sizes[0], b.sizes[1]);
  requireSameDType(call, a, b);
  call.result(a.dtype, Dims{a.sizes[0], b.sizes[1]});
}

void inferBmm(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  call.require(a.rank() == 3 && b.rank() == 3, "batch1 and batch2 must be 3D tensors, not {}D and {}D", a.rank(), b.rank());
  call.require(!differ(a.sizes[0], b.sizes[0]) && !differ(a.sizes[2], b.sizes[1]),
               "the sizes {} and {} cannot be multiplied batch by batch", dimsText(a.sizes), dimsText(b.sizes));
  requireSameDType(call, a, b);
  call.result(a.dtype, Dims{a.sizes[0], a.sizes[1], b.sizes[2]});
}

void productKernel(KernelCall& call) { matmulInto(call.out(), call.tensor(0), call.tensor(1)); }

// ---- addmm, baddbmm: beta * self + alpha * a @ b ----

void inferAddProduct(InferCall& call, const Dims& product) {
  TensorInfo self = call.rankedTensor(0);
  requireSameDType(call, self, call.tensor(1));
  requireSameDType(call, self, call.tensor(2));
  Dims sizes = product;
  call.require(self.rank() <= product.size() && broadcastInto(sizes, self.sizes) && sizes.size() == product.size() && sizes == product,
               "the sizes {} cannot be expanded to {}", dimsText(self.sizes), dimsText(product));
  call.result(self.dtype, product);
}
void inferAddmm(InferCall& call) {
  TensorInfo a = call.rankedTensor(1), b = call.rankedTensor(2);
  call.require(a.rank() == 2 && b.rank() == 2, "addmm multiplies two matrices, not tensors of {} and {} dimensions", a.rank(), b.rank());
  call.require(!differ(a.sizes[1], b.sizes[0]), "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", a.sizes[0],
               a.sizes[1], b.sizes[0], b.sizes[1]);
  inferAddProduct(call, Dims{a.sizes[0], b.sizes[1]});
}
void inferBaddbmm(InferCall& call) {
  TensorInfo a = call.rankedTensor(1), b = call.rankedTensor(2);
  call.require(a.rank() == 3 && b.rank() == 3, "batch1 and batch2 must be 3D tensors, not {}D and {}D", a.rank(), b.rank());
  call.require(!differ(a.sizes[0], b.sizes[0]) && !differ(a.sizes[2], b.sizes[1]),
               "the sizes {} and {} cannot be multiplied batch by batch", dimsText(a.sizes), dimsText(b.sizes));
  inferAddProduct(call, Dims{a.sizes[0], a.sizes[1], b.sizes[2]});
}

void addProductKernel(KernelCall& call) {
  double beta = call.number(3), alpha = call.number(4);
  Tensor self = call.tensor(0), out = call.out();
  // 16-bit floats are added in float32 and rounded once.
  bool half = isFloating(out.dtype()) && itemSize(out.dtype()) == 2;
  Tensor sum = half ? Tensor::empty(DType::Float32, out.sizes()) : out;
  if (beta != 0 && sum.impl() != self.impl()) copyTensor(sum, self);
  Tensor a = call.tensor(1), b = call.tensor(2);
  if (half) a = convertTensor(a, DType::Float32), b = convertTensor(b, DType::Float32);
  if (call.isInPlace() && (memoryOverlaps(out, a) || memoryOverlaps(out, b))) a = cloneTensor(a), b = cloneTensor(b);
  matmulInto(sum, a, b, alpha, beta);
  if (half) copyTensor(out, sum);
}

// ---- matmul: vectors, matrices and batches, broadcast ----

Dims matmulSizes(const InferCall& call, DimSpan a, DimSpan b) {
  call.require(!a.empty() && !b.empty(), "both arguments to matmul need to be at least 1D, but they are {}D and {}D", a.size(), b.size());
  // The dimension that a vector lacks.
  Dims x(a), y(b);
  if (a.size() == 1) x.insert(0, 1);
  if (b.size() == 1) y.push_back(1);
  int64_t m = x[x.size() - 2], k = x.back(), k2 = y[y.size() - 2], n = y.back();
  call.require(!differ(k, k2), "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", m, k, k2, n);
  Dims sizes;
  bool fits = broadcastInto(sizes, DimSpan(x).first(x.size() - 2)) && broadcastInto(sizes, DimSpan(y).first(y.size() - 2));
  call.require(fits, "the batch dimensions of {} and {} cannot be broadcast", dimsText(a), dimsText(b));
  if (a.size() > 1) sizes.push_back(m);
  if (b.size() > 1) sizes.push_back(n);
  return sizes;
}

void inferMatmul(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  requireSameDType(call, a, b);
  call.result(a.dtype, matmulSizes(call, a.sizes, b.sizes));
}

// a @ b for tensors of at least two dimensions into `out`, whose batch dimensions are broadcast.
void multiplyBatches(const Tensor& out, const Tensor& a, const Tensor& b) {
  if (b.rank() == 2 && a.rank() > 2 && a.isContiguous() && out.isContiguous()) {
    // One matrix for the whole batch: its rows follow each other.
    int64_t k = a.size(a.rank() - 1), n = out.size(out.rank() - 1), rows = k ? a.numel() / k : 0;
    if (k) return matmulInto(reshaped(out, Dims{rows, n}), reshaped(a, Dims{rows, k}), b);
  }
  auto withBatch = [&](const Tensor& t) {
    Dims sizes(out.sizes());
    sizes[sizes.size() - 2] = t.size(t.rank() - 2);
    sizes[sizes.size() - 1] = t.size(t.rank() - 1);
    return expandedTo(t, sizes);
  };
  matmulInto(out, withBatch(a), withBatch(b));
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
  requireSameDType(call, x, w);
  call.require(x.rank() >= 1 && (w.rank() == 1 || w.rank() == 2), "linear takes a weight of 1 or 2 dimensions, not {}", w.rank());
  int64_t k = w.sizes.back();
  call.require(!differ(x.sizes.back(), k), "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
               x.rank() > 1 ? x.sizes[x.rank() - 2] : 1, x.sizes.back(), k, w.rank() == 2 ? w.sizes[0] : 1);
  Dims sizes(x.sizes.first(x.rank() - 1));
  if (w.rank() == 2) sizes.push_back(w.sizes[0]);
  if (!call.isNone(2)) {
    TensorInfo bias = call.rankedTensor(2);
    requireSameDType(call, x, bias);
    Dims with = sizes;
    call.require(broadcastInto(with, bias.sizes) && with == sizes, "the bias of size {} does not fit an output of size {}",
                 dimsText(bias.sizes), dimsText(sizes));
  }
  call.result(x.dtype, sizes);
}

void linearKernel(KernelCall& call) {
  Tensor x = call.tensor(0), w = call.tensor(1), bias = call.tensor(2), out = call.out();
  Tensor target = out;
  if (w.rank() == 1) {
    w = unsqueezed(w, 0);
    target = unsqueezed(target, target.rank());
  }
  int64_t k = x.size(x.rank() - 1), n = w.size(0), rows = target.numel() / std::max<int64_t>(n, 1);
  bool half = isFloating(out.dtype()) && itemSize(out.dtype()) == 2;
  Tensor sum = half ? Tensor::empty(DType::Float32, target.sizes()) : target;
  if (bias.defined()) copyTensor(sum, bias);
  if (half) x = convertTensor(x, DType::Float32), w = convertTensor(w, DType::Float32);
  matmulInto(reshaped(sum, Dims{rows, n}), reshaped(contiguous(x), Dims{rows, k}), transposed(w, 0, 1), 1, bias.defined() ? 1 : 0);
  if (half) copyTensor(target, sum);
}

}  // namespace

void registerMatmulOps(OpRegistry& ops) {
  ops.add({.schema = "aten::mm(Tensor self, Tensor mat2) -> Tensor", .infer = inferMm, .kernel = productKernel, .dtypes = kTypes});
  ops.add({.schema = "aten::bmm(Tensor self, Tensor mat2) -> Tensor", .infer = inferBmm, .kernel = productKernel, .dtypes = kTypes});
  ops.add({.schema = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           .infer = inferAddmm, .kernel = addProductKernel, .dtypes = kTypes, .inplace = InPlace::Direct});
  ops.add({.schema = "aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           .infer = inferBaddbmm, .kernel = addProductKernel, .dtypes = kTypes, .inplace = InPlace::Direct});
  ops.add({.schema = "aten::matmul(Tensor self, Tensor other) -> Tensor", .infer = inferMatmul, .kernel = matmulKernel, .dtypes = kTypes});
  ops.add({.schema = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", .infer = inferLinear,
           .kernel = linearKernel, .dtypes = kTypes});
}

}  // namespace tscompile
