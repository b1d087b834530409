// Diagonals and triangles of matrices, and matrices made of them: eye, tril, triu, diag, diag_embed, vander, one_hot.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/scatter_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/generate.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/pytorch_words.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// ---- eye ----

template <size_t kDType>
void inferEye(InferCall& call) {
  Dims sizes(2, kUnknownSize);
  for (size_t i = 0; i < 2; ++i) {
    size_t argument = std::min(i, kDType - 1);
    sizes[i] = integerAsSize(call.size(argument));
    if (!call.constant(argument)) continue;
    call.require(sizes[i] >= 0, "{} must be greater or equal to 0, got {}", i == 0 ? "n" : "m", sizes[i]);
  }
  call.result(optionsDType(call, kDType, DType::Float32), sizes);
}
void eyeKernel(KernelCall& call) {
  Tensor out = Tensor::zeros(call.spec().dtype, call.spec().sizes);
  fillTensor(diagonalOf(out, 0, 0, 1), true);
  call.setResult(out);
}

// ---- tril, triu ----

void inferTriangle(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (t.hasRank)
    call.require(t.rank() >= 2, "{}: input tensor must have at least 2 dimensions", call.op().kind().name());
  call.result(t);
}

// Zeros where the same triangle of ones, which is known, has them.
void convertTriangle(ConvertCall& call) {
  const Tensor t = call.tensor(0);
  if (isComplex(t.dtype()) || t.numel() == 0)
    return convertToKernel(call, "the elements are complex numbers, or there are none");
  Tensor ones = Tensor::empty(DType::Bool, Dims{t.size(t.rank() - 2), t.size(t.rank() - 1)});
  fillTensor(ones, 1);
  const IValue stays =
      call.compute(call.op().kind().text() == "aten::tril" ? "aten::tril" : "aten::triu", {ones, call.argument(1)});
  if (t.dtype() == DType::Bool) return call.setResult(0, call.compute("aten::logical_and", {t, stays}));
  const IValue zero = isFloating(t.dtype()) ? IValue(0.0) : IValue(int64_t{0});
  call.setResult(0, call.compute("aten::where.ScalarOther", {stays, t, zero}));
}

// The columns of row `i` that stay: those below the end of tril, those from the start of triu.
template <bool kLower>
std::pair<int64_t, int64_t> kept(int64_t i, int64_t columns, int64_t diagonal) {
  // Offsets beyond the matrix are all the same.
  int64_t edge = std::clamp<int64_t>(i + diagonal + (kLower ? 1 : 0), 0, columns);
  return kLower ? std::pair<int64_t, int64_t>(0, edge) : std::pair(edge, columns);
}

// Zeroes the rest of each row of a tensor whose matrices lie in the last two dimensions.
template <bool kLower>
void clearTriangle(const Tensor& t, int64_t diagonal) {
  int64_t rows = t.size(t.rank() - 2), columns = t.size(t.rank() - 1);
  diagonal = std::clamp(diagonal, -rows, columns);
  // The other triangle of the transpose is the same: few long runs are better than many short ones.
  if (rows > columns) return clearTriangle<!kLower>(transposed(t, t.rank() - 2, t.rank() - 1), -diagonal);
  for (int64_t i = 0; i < rows; ++i) {
    auto [from, to] = kept<kLower>(i, columns, diagonal);
    Tensor row = selected(t, t.rank() - 2, i);
    int64_t start = kLower ? to : 0, length = kLower ? columns - to : from;
    if (length) fillTensor(narrowed(row, row.rank() - 1, start, length), false);
  }
}

// The result keeps its own row-major order, as PyTorch's does, unless the input is written over: if it is expanded, one
// element several times.
template <bool kLower>
void triangleKernel(KernelCall& call) {
  Tensor t = call.tensor(0), out = call.isInPlace() ? t : Tensor::empty(t.dtype(), t.sizes());
  if (!call.isInPlace()) copyTensor(out, t);
  if (out.numel()) clearTriangle<kLower>(out, call.integer(1));
  call.setResult(out);
}

// ---- tril_indices, triu_indices ----

// How many elements of a rows x columns matrix lie in the triangle.
template <bool kLower>
__int128 triangleCount(int64_t rows, int64_t columns, int64_t offset) {
  // Row i has clamp(i + offset + 1, 0, columns) elements of the lower triangle.
  __int128 r = rows, c = columns, lower = 0;
  __int128 first = std::clamp<__int128>(-static_cast<__int128>(offset), 0, r);            // the first row with one
  __int128 full = std::clamp<__int128>(c - static_cast<__int128>(offset) - 1, first, r);  // the first with all
  __int128 n = full - first;
  lower = n * (first + offset + 1) + n * (n - 1) / 2 + (r - full) * c;
  if constexpr (kLower) return lower;
  return r * c - lower;
}

template <bool kLower>
void inferIndices(InferCall& call) {
  DType dtype = optionsDType(call, 3, DType::Int64);
  if (dtype != DType::Int64 && dtype != DType::Int32) throw DTypeRefused(dtype);
  if (!call.constant(0) || !call.constant(1) || !call.constant(2)) return call.result(dtype, Dims{2, kUnknownSize});
  int64_t rows = call.integer(0), columns = call.integer(1), offset = call.integer(2);
  call.require(rows >= 0, "row must be non-negative, got{}", rows);
  call.require(columns >= 0, "col must be non-negative, got{}", columns);
  call.require(rows <= kMaxElements && columns <= kMaxElements, "a {} x {} matrix has too many elements", rows,
               columns);
  // A triu offset of k leaves out the tril of offset k - 1.
  offset = std::clamp(offset, -kMaxElements - 1, kMaxElements + 1);
  __int128 count = triangleCount<kLower>(rows, columns, kLower ? offset : offset - 1);
  call.require(count <= kMaxElements, "a {} x {} matrix has too many elements", rows, columns);
  call.result(dtype, Dims{2, static_cast<int64_t>(count)});
}
template <bool kLower>
void indicesKernel(KernelCall& call) {
  Tensor out = call.out();
  int64_t rows = call.integer(0), columns = call.integer(1);
  int64_t offset = std::clamp(call.integer(2), -rows - 1, columns + 1);
  int64_t row = 0, column = 0, end = 0;
  auto enter = [&](int64_t i) {
    row = i;
    std::tie(column, end) = kept<kLower>(i, columns, offset);
  };
  // The rows of the elements in order, then their columns.
  for (int which = 0; which < 2; ++which) {
    enter(kLower ? std::max<int64_t>(0, -offset) : 0);
    generate(selected(out, 0, which), [&](int64_t) {
      while (column >= end) enter(row + 1);
      ++column;
      return which ? column - 1 : row;
    });
  }
  call.setResult(out);
}

// ---- diag, diag_embed, diagflat ----

template <class Call>
int64_t checkedOffset(const Call& call, size_t i) {
  int64_t offset = call.integer(i);
  call.require(offset > -kMaxElements && offset < kMaxElements, "the offset {} of the diagonal is too large", offset);
  return offset;
}

// Without the last dimension, but with two of this size.
Dims embeddedSizes(const Dims& sizes, int64_t side, int64_t dim1, int64_t dim2) {
  Dims out(sizes.begin(), sizes.end() - 1);
  out.insert(static_cast<size_t>(std::min(dim1, dim2)), side);
  out.insert(static_cast<size_t>(std::max(dim1, dim2)), side);
  return out;
}

// Zeros, with the last dimension of `t` as the diagonal of two new ones.
Tensor embedded(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2) {
  int64_t side = addSizes(t.sizes().back(), std::abs(offset));
  Tensor out = Tensor::zeros(t.dtype(), embeddedSizes(t.sizes(), side, dim1, dim2));
  copyTensor(diagonalOf(out, offset, dim1, dim2), t);
  return out;
}

void resultEmbedded(InferCall& call, DType dtype, const Dims& sizes, int64_t offset, int64_t dim1, int64_t dim2) {
  int64_t side = (SizeExpression::ofSize(sizes.back()) + std::abs(offset)).size();
  call.result(dtype, embeddedSizes(sizes, side, dim1, dim2));
}

void inferDiagEmbed(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  call.require(t.rank() > 0, "diag_embed: expected a tensor with at least one dimension");
  int64_t dim1 = call.dim(2, t.rank() + 1), dim2 = call.dim(3, t.rank() + 1);
  call.require(dim1 != dim2, "diagonal dimensions cannot be identical {}, {}", call.integer(2), call.integer(3));
  resultEmbedded(call, t.dtype, Dims(t.sizes), checkedOffset(call, 1), dim1, dim2);
}
void diagEmbedKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  call.require(t.rank() > 0, "diag_embed: expected a tensor with at least one dimension");
  int64_t dim1 = call.dim(2, t.rank() + 1), dim2 = call.dim(3, t.rank() + 1);
  call.require(dim1 != dim2, "diagonal dimensions cannot be identical {}, {}", call.integer(2), call.integer(3));
  call.setResult(embedded(t, call.integer(1), dim1, dim2));
}
void inferDiagflat(InferCall& call) {
  TensorInfo t = call.tensor(0);
  int64_t count = t.hasRank ? elementCount(t.sizes).size() : kUnknownSize;
  resultEmbedded(call, t.dtype, Dims{count}, checkedOffset(call, 1), 0, 1);
}
void diagflatKernel(KernelCall& call) {
  Tensor t = contiguous(call.tensor(0));
  call.setResult(embedded(reshaped(t, Dims{t.numel()}), call.integer(1), 0, 1));
}
void inferDiag(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  call.require(t.rank() == 1 || t.rank() == 2, "diag(): Supports 1D or 2D tensors. Got {}D", t.rank());
  if (t.rank() == 1) return resultEmbedded(call, t.dtype, Dims(t.sizes), checkedOffset(call, 1), 0, 1);
  if (!allKnown(t.sizes)) return call.result(t.dtype, Dims{kUnknownSize});
  int64_t offset = checkedOffset(call, 1);
  int64_t rows = offset < 0 ? std::max(t.sizes[0] + offset, int64_t{0}) : t.sizes[0];
  int64_t columns = offset < 0 ? t.sizes[1] : std::max(t.sizes[1] - offset, int64_t{0});
  call.result(t.dtype, Dims{std::min(rows, columns)});
}
void diagKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  int64_t offset = call.integer(1);
  if (t.rank() == 1) return call.setResult(embedded(t, offset, 0, 1));
  Tensor diagonal = diagonalOf(t, offset, 0, 1), out = Tensor::empty(t.dtype(), diagonal.sizes());
  copyTensor(out, diagonal);
  call.setResult(out);
}

// The last dimension of a tensor as the diagonal of two new ones at the end, and zeros.
void setEmbedded(ConvertCall& call, const IValue& values, int64_t offset) {
  const Tensor t = values.toTensor();
  if (offset != 0 || t.numel() == 0 || (t.dtype() != DType::Float32 && t.dtype() != DType::Int64))
    return convertToKernel(call, "another diagonal than the main one, or neither float32 nor int64");
  const int64_t side = t.size(t.rank() - 1);
  const IValue isDiagonal = call.compute("aten::eye", {side, static_cast<int64_t>(DType::Bool)});
  const IValue rows = call.compute("aten::unsqueeze", {values, -1}),
               zero = isFloating(t.dtype()) ? IValue(0.0) : IValue(0);
  call.setResult(0, call.compute("aten::where.ScalarOther", {isDiagonal, rows, zero}));
}
void convertDiagEmbed(ConvertCall& call) {
  const int64_t rank = call.tensor(0).rank() + 1, a = call.dim(2, static_cast<int>(rank)),
                b = call.dim(3, static_cast<int>(rank));
  if (std::min(a, b) != rank - 2 || std::max(a, b) != rank - 1)
    return convertToKernel(call, "the diagonal is not of the last two dimensions");
  setEmbedded(call, call.argument(0), call.integer(1));
}
void convertDiagflat(ConvertCall& call) {
  setEmbedded(call, call.compute("aten::reshape", {call.argument(0), intList(Dims{-1})}), call.integer(1));
}
void convertDiag(ConvertCall& call) {
  if (call.tensor(0).rank() == 1) return setEmbedded(call, call.argument(0), call.integer(1));
  call.setResult(0,
                 call.compute("aten::clone", {call.compute("aten::diagonal", {call.argument(0), call.argument(1)})}));
}

// ---- vander, one_hot ----

// Powers of each element: columns from x^(n - 1) down to 1, or the other way. Computed by repeated multiplication.
template <class T>
void fillVander(const Tensor& x, const Tensor& out, bool increasing) {
  int64_t n = out.size(1);
  Tensor row = contiguous(x);
  LoadTile load = tileLoader(x.dtype(), kComputeOf<T>);
  std::vector<T> base(static_cast<size_t>(x.numel())), power(base.size(), T(1));
  load(row.raw(), static_cast<int64_t>(itemSize(x.dtype())), base.data(), x.numel());
  for (int64_t k = 0; k < n; ++k) {
    generate(selected(out, 1, increasing ? k : n - 1 - k), [&](int64_t i) { return power[static_cast<size_t>(i)]; });
    for (size_t i = 0; i < base.size(); ++i) {
      if constexpr (std::is_same_v<T, int64_t>)
        power[i] = wrapMul(power[i], base[i]);
      else
        power[i] *= base[i];
    }
  }
}
void inferVander(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  call.require(x.rank() == 1, "x must be a one-dimensional tensor.");
  int64_t n = call.isNone(1) ? x.sizes[0] : call.integer(1);
  call.require(n >= 0 || call.isNone(1), "vander: N must be non-negative, not {}", n);
  call.result(isIntegral(x.dtype, true) ? DType::Int64 : x.dtype, Dims{x.sizes[0], n});
}
void vanderKernel(KernelCall& call) {
  Tensor x = call.tensor(0), out = Tensor::empty(call.spec().dtype, call.spec().sizes);
  switch (computeTypeOf(x.dtype())) {
    case Compute::F32:
      fillVander<float>(x, out, call.flag(2));
      break;
    case Compute::F64:
      fillVander<double>(x, out, call.flag(2));
      break;
    case Compute::C128:
      fillVander<std::complex<double>>(x, out, call.flag(2));
      break;
    default:
      fillVander<int64_t>(x, out, call.flag(2));
      break;
  }
  call.setResult(out);
}

// Without a number of classes the largest element says how many there are.
void inferOneHot(InferCall& call) {
  TensorInfo classes = call.tensor(0);
  int64_t count = call.integer(1);
  if (!classes.hasRank) return call.resultOfUnknownRank(DType::Int64);
  if (call.isRun() && count < 1) return call.resultUnknown();
  Dims sizes(classes.sizes);
  sizes.push_back(count < 1 ? kUnknownSize : count);
  call.result(DType::Int64, sizes);
}
void oneHotKernel(KernelCall& call) {
  Tensor classes = contiguous(call.tensor(0));
  int64_t count = call.integer(1);
  call.require(classes.dtype() == DType::Int64, "one_hot is only applicable to index tensor of type LongTensor.");
  call.require(count >= -1, "one_hot: num_classes must be -1 or positive, not {}", count);
  const auto* index = classes.data<int64_t>();
  auto [least, most] = std::minmax_element(index, index + classes.numel());
  Dims sizes(classes.sizes());
  if (classes.numel() == 0) {
    call.require(count > 0, "Can not infer total number of classes from empty tensor.");
  } else {
    call.require(*least >= 0, "Class values must be non-negative.");
    call.require(count != 0, "Class values must be smaller than num_classes.");
    call.require(count == -1 || *most < count, "Class values must be smaller than num_classes.");
    call.require(*most < kMaxElements, "one_hot: class {} is too large", *most);
    if (count == -1) count = *most + 1;
  }
  sizes.push_back(count);
  const bool isPlanned = call.integer(1) > 0;  // its sizes do not depend on the elements
  Tensor out = isPlanned ? call.out() : Tensor::empty(DType::Int64, sizes);
  std::fill_n(out.data<int64_t>(), out.numel(), 0);
  for (int64_t i = 0; i < classes.numel(); ++i) out.data<int64_t>()[i * count + index[i]] = 1;
  if (!isPlanned) call.setResult(out);
}

}  // namespace

void registerTrianglesOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel,
                 ConvertFunction convert = nullptr) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = kAllTypes});
  };
  add("aten::eye", inferEye<1>, eyeKernel);
  add("aten::eye.m", inferEye<2>, eyeKernel);
  ops.add({.schema = "aten::tril",
           .infer = inferTriangle,
           .kernel = triangleKernel<true>,
           .convert = convertTriangle,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::RoundsOnce}});
  ops.add({.schema = "aten::triu",
           .infer = inferTriangle,
           .kernel = triangleKernel<false>,
           .convert = convertTriangle,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::RoundsOnce}});
  add("aten::tril_indices", inferIndices<true>, indicesKernel<true>);
  add("aten::triu_indices", inferIndices<false>, indicesKernel<false>);
  add("aten::diag", inferDiag, diagKernel, convertDiag);
  add("aten::diag_embed", inferDiagEmbed, diagEmbedKernel, convertDiagEmbed);
  add("aten::diagflat", inferDiagflat, diagflatKernel, convertDiagflat);
  add("aten::vander", inferVander, vanderKernel);
  ops.add({.schema = "aten::one_hot",
           .infer = inferOneHot,
           .kernel = oneHotKernel,
           .convert = convertOneHot,
           .dtypes = kAllTypes});
}

}  // namespace tscompile
