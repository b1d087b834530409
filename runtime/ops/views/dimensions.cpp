// Views with dimensions added, dropped or in another order: squeeze, unsqueeze, transpose, permute, movedim, and the
// in-place forms, which change the tensor for all who hold it.
#include "ir/values/size_expression.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/conjugates.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

#include <numeric>

namespace tscompile {
namespace {

// Gives the first argument itself the sizes and strides of a view of it.
void become(KernelCall& call, const Tensor& view) {
  Tensor t = call.tensor(0);
  requireOwned(t);
  t.impl()->setGeometry(view.sizes(), view.strides(), view.offset());
  call.setResult(t);
}

// ---- squeeze, unsqueeze ----

bool mayBeOne(int64_t size) { return !isKnownSize(size) && SizeExpression::ofSize(size).range().least <= 1; }

void inferSqueeze(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  // A size that is not known may be 1, which is not known either.
  if (std::any_of(t->sizes.begin(), t->sizes.end(), mayBeOne)) return call.resultOfUnknownRank(t->dtype);
  Dims sizes;
  for (int64_t s : t->sizes)
    if (s != 1) sizes.push_back(s);
  call.result(t->dtype, sizes);
}

void inferSqueezeDim(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  int64_t dim = call.dim(1, t->rank());
  if (t->rank() == 0) return call.result(*t);
  if (mayBeOne(t->sizes[dim])) return call.resultOfUnknownRank(t->dtype);
  Dims sizes(t->sizes);
  if (sizes[dim] == 1) sizes.erase(static_cast<size_t>(dim));
  call.result(t->dtype, sizes);
}

Tensor squeezedDim(const KernelCall& call) {
  Tensor t = call.tensor(0);
  int64_t dim = call.dim(1, t.rank());
  return t.rank() && t.sizes()[dim] == 1 ? squeezedAt(t, dim) : aliased(t);
}

void inferSqueezeDims(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  Dims dims = call.dims(1, t->rank(), /*emptyIsAll=*/false), sizes;
  for (size_t d = 0; d < t->rank(); ++d) {
    bool named = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    if (named && mayBeOne(t->sizes[d])) return call.resultOfUnknownRank(t->dtype);
    if (!named || t->sizes[d] != 1) sizes.push_back(t->sizes[d]);
  }
  call.result(t->dtype, sizes);
}

Tensor squeezedDims(const KernelCall& call) {
  Tensor t = call.tensor(0), out = aliased(t);
  Dims dims = call.dims(1, t.rank(), /*emptyIsAll=*/false);
  for (int64_t d = t.rank(); d-- > 0;)
    if (t.size(static_cast<int>(d)) == 1 && std::find(dims.begin(), dims.end(), d) != dims.end())
      out = squeezedAt(out, d);
  return out;
}

void inferUnsqueeze(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  Dims sizes(t->sizes);
  sizes.insert(static_cast<size_t>(call.dim(1, t->rank() + 1)), 1);
  call.result(t->dtype, sizes);
}

Tensor unsqueezedDim(const KernelCall& call) {
  Tensor t = call.tensor(0);
  return unsqueezed(t, call.dim(1, t.rank() + 1));
}

// ---- transpose ----

void resultPermuted(InferCall& call, const TensorInfo& t, DimSpan order) {
  Dims sizes;
  for (int64_t d : order) sizes.push_back(t.sizes[d]);
  call.result(t.dtype, sizes);
}

Dims identity(size_t rank) {
  Dims order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void resultTransposed(InferCall& call, const TensorInfo& t, int64_t a, int64_t b) {
  Dims order = identity(t.rank());
  if (t.rank()) std::swap(order[a], order[b]);
  resultPermuted(call, t, order);
}

void inferTranspose(InferCall& call) {
  if (std::optional<TensorInfo> t = rankedSelf(call))
    resultTransposed(call, *t, call.dim(1, t->rank()), call.dim(2, t->rank()));
}
Tensor transposedDims(const KernelCall& call) {
  Tensor t = call.tensor(0);
  return transposed(t, call.dim(1, t.rank()), call.dim(2, t.rank()));
}

void inferT(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  call.require(t->rank() <= 2, "{}() expects a tensor with <= 2 dimensions, but self is {}D", call.op().kind().name(),
               t->rank());
  resultTransposed(call, *t, 0, t->rank() == 2 ? 1 : 0);
}
Tensor transposedMatrix(const KernelCall& call) {
  Tensor t = call.tensor(0);
  return transposed(t, 0, t.rank() == 2 ? 1 : 0);
}

// The last two dimensions; with `matrixOnly` there are no others. Tensors without dimensions stay what they are.
template <bool kMatrixOnly>
void inferMatrixTranspose(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  size_t rank = t->rank();
  std::string_view name = kMatrixOnly ? "H" : call.op().kind().name();
  if (rank == 1 || (kMatrixOnly && rank > 2))
    call.fail("tensor.{} is only supported on matrices{}. Got {}-D tensor.{}", name,
              kMatrixOnly ? " (2-D tensors)" : " or batches of matrices", rank,
              kMatrixOnly ? " For batches of matrices, consider using tensor.mH" : "");
  resultTransposed(call, *t, rank ? rank - 1 : 0, rank ? rank - 2 : 0);
}
Tensor matrixTransposed(const Tensor& t) { return t.rank() ? transposed(t, t.rank() - 1, t.rank() - 2) : aliased(t); }
void matrixTransposeKernel(KernelCall& call) { call.setResult(matrixTransposed(call.tensor(0))); }
// Conjugated as well: of complex numbers, that is a copy.
Tensor conjugated(const Tensor& t) {
  if (!isComplex(t.dtype())) return t;
  Tensor out = cloneTensor(t);  // dense: a run of pairs
  auto negate = [&](auto* parts) {
    for (int64_t i = 0; i < out.numel(); ++i) parts[2 * i + 1] = -parts[2 * i + 1];
  };
  out.dtype() == DType::Complex64 ? negate(out.data<float>()) : negate(out.data<double>());
  return out;
}
void adjointKernel(KernelCall& call) {
  const Tensor t = matrixTransposed(call.tensor(0));
  call.setResult(isComplex(t.dtype()) ? shownConjugate(conjugated(t), t) : t);
}

void inferReversed(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  Dims order = identity(t->rank());
  std::reverse(order.begin(), order.end());
  resultPermuted(call, *t, order);
}
void numpyTKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  Dims order = identity(t.sizes().size());
  std::reverse(order.begin(), order.end());
  call.setResult(t.permuted(order));
}

// ---- permute, movedim ----

// Counts dimensions from the front; whether none is there twice.
bool wrapAll(const InferCall& call, Dims& dims, size_t rank) {
  for (int64_t& d : dims) d = call.wrap(d, rank);
  for (size_t i = 1; i < dims.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (dims[i] == dims[j]) return false;
  return true;
}

void requireDistinct(const InferCall& call, Dims& dims, size_t rank, std::string_view name) {
  const Dims given = dims;
  call.require(wrapAll(call, dims, rank), "movedim: repeated dim in `{}` ({})", name, dimsText(given));
}

void inferPermute(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  Dims order = call.integers(1);
  call.require(order.size() == t->rank(),
               "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
               "ordering of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
               t->rank(), order.size());
  call.require(wrapAll(call, order, t->rank()), "permute(): duplicate dims are not allowed.");
  resultPermuted(call, *t, order);
}
void permuteKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  call.setResult(t.permuted(call.dims(1, t.rank(), false)));
}

// The dimensions `from` go to the places `to`; the others fill the gaps in order.
Dims movedOrder(const InferCall& call, size_t rank) {
  Dims from = call.integers(1), to = call.integers(2);
  call.require(from.size() == to.size(),
               "movedim: invalid source or destination dims: source ({} dims) should contain the "
               "same number of dims as destination ({} dims)",
               dimsText(from), dimsText(to));
  requireDistinct(call, from, rank, "source");
  requireDistinct(call, to, rank, "destination");
  if (rank == 0) return {};
  Dims order(rank, -1);
  for (size_t i = 0; i < from.size(); ++i) order[to[i]] = from[i];
  size_t next = 0;
  for (size_t d = 0; d < rank; ++d) {
    if (std::find(from.begin(), from.end(), static_cast<int64_t>(d)) != from.end()) continue;
    while (order[next] >= 0) ++next;
    order[next] = static_cast<int64_t>(d);
  }
  return order;
}
void inferMovedim(InferCall& call) {
  if (std::optional<TensorInfo> t = rankedSelf(call)) resultPermuted(call, *t, movedOrder(call, t->rank()));
}
void movedimKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  InferCall arguments(call.op(), call.arguments(), call.size());
  call.setResult(t.permuted(movedOrder(arguments, t.sizes().size())));
}

// ---- at least 1, 2 or 3 dimensions ----

// [] -> [1, 1, 1], [n] -> [1, n] or [1, n, 1], [m, n] -> [m, n, 1]
Dims raisedSizes(DimSpan sizes, int rank) {
  Dims out(sizes);
  if (out.empty()) out.push_back(1);
  if (out.size() == 1 && rank > 1) out.insert(0, 1);
  if (out.size() == 2 && rank > 2) out.push_back(1);
  return out;
}
// The same by views, each of which has the strides that PyTorch gives it.
Tensor raised(Tensor t, int rank) {
  if (t.rank() >= rank) return t;
  if (t.rank() == 0) return reshaped(t, Dims(static_cast<size_t>(rank), 1));
  if (t.rank() == 1 && rank > 1) t = unsqueezed(t, 0);
  if (t.rank() == 2 && rank > 2) t = unsqueezed(t, 2);
  return t;
}

template <int kRank>
void inferAtLeast(InferCall& call) {
  if (std::optional<TensorInfo> t = rankedSelf(call)) call.result(t->dtype, raisedSizes(t->sizes, kRank));
}
template <int kRank>
void atLeastKernel(KernelCall& call) {
  call.setResult(raised(call.tensor(0), kRank));
}
template <int kRank>
void inferAllAtLeast(InferCall& call) {
  std::vector<TensorSpec> specs;
  for (const TensorInfo& t : call.tensors(0))
    specs.push_back({t.dtype, t.hasRank, raisedSizes(t.sizes, t.hasRank ? kRank : 0)});
  call.resultTensors(std::move(specs));
}
template <int kRank>
void allAtLeastKernel(KernelCall& call) {
  std::vector<Tensor> tensors = call.tensors(0);
  for (Tensor& t : tensors) t = raised(t, kRank);
  call.setResult(tensorList(std::move(tensors)));
}

// ---- kernels ----

template <auto kView>
void viewKernel(KernelCall& call) {
  call.setResult(kView(call));
}
template <auto kView>
void inPlaceKernel(KernelCall& call) {
  become(call, kView(call));
}
Tensor squeezedAll(const KernelCall& call) { return squeezed(call.tensor(0)); }

}  // namespace

void registerDimensionsOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, TraitSet traits = {}) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .dtypes = kMovedTypes,
             .traits = traits | TraitSet{Trait::MovesElements}});
  };
  constexpr TraitSet kInPlace{Trait::ChangesGeometry}, kMaySelf{Trait::MayShare, Trait::GivesViews};
  add("aten::squeeze", inferSqueeze, viewKernel<squeezedAll>);
  add("aten::squeeze.dim", inferSqueezeDim, viewKernel<squeezedDim>);
  add("aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", inferSqueezeDims, viewKernel<squeezedDims>);
  add("aten::squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)", inferSqueezeDims, inPlaceKernel<squeezedDims>,
      kInPlace);
  add("aten::squeeze_", inferSqueeze, inPlaceKernel<squeezedAll>, kInPlace);
  add("aten::squeeze_.dim", inferSqueezeDim, inPlaceKernel<squeezedDim>, kInPlace);
  add("aten::unsqueeze", inferUnsqueeze, viewKernel<unsqueezedDim>);
  add("aten::unsqueeze_", inferUnsqueeze, inPlaceKernel<unsqueezedDim>, kInPlace);
  for (const char* name : {"aten::transpose.int", "aten::swapaxes", "aten::swapdims"})
    add(name, inferTranspose, viewKernel<transposedDims>);
  for (const char* name : {"aten::transpose_", "aten::swapaxes_", "aten::swapdims_"})
    add(name, inferTranspose, inPlaceKernel<transposedDims>, kInPlace);
  add("aten::t", inferT, viewKernel<transposedMatrix>);
  add("aten::t_", inferT, inPlaceKernel<transposedMatrix>, kInPlace);
  for (const char* name : {"aten::mT", "aten::mT.a"}) add(name, inferMatrixTranspose<false>, matrixTransposeKernel);
  auto addAdjoint = [&](std::string_view schema, InferFunction infer) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = adjointKernel,
             .dtypes = kMovedTypes,
             .traits = {Trait::ShowsConjugates}});
  };
  for (const char* name : {"aten::mH", "aten::mH.a", "aten::adjoint"}) addAdjoint(name, inferMatrixTranspose<false>);
  for (const char* name : {"aten::matrix_H", "aten::matrix_H.a"}) addAdjoint(name, inferMatrixTranspose<true>);
  for (const char* name : {"aten::numpy_T", "aten::numpy_T.a"}) add(name, inferReversed, numpyTKernel);
  add("aten::permute", inferPermute, permuteKernel);
  for (const char* name :
       {"aten::movedim.int", "aten::movedim.intlist", "aten::moveaxis.int", "aten::moveaxis.intlist"})
    add(name, inferMovedim, movedimKernel);
  add("aten::atleast_1d", inferAtLeast<1>, atLeastKernel<1>, kMaySelf);
  add("aten::atleast_2d", inferAtLeast<2>, atLeastKernel<2>, kMaySelf);
  add("aten::atleast_3d", inferAtLeast<3>, atLeastKernel<3>, kMaySelf);
  add("aten::atleast_1d.Sequence", inferAllAtLeast<1>, allAtLeastKernel<1>, kMaySelf);
  add("aten::atleast_2d.Sequence", inferAllAtLeast<2>, allAtLeastKernel<2>, kMaySelf);
  add("aten::atleast_3d.Sequence", inferAllAtLeast<3>, allAtLeastKernel<3>, kMaySelf);
}

}  // namespace tscompile
