// Grids and products of 1-dimensional tensors: meshgrid, cartesian_prod, combinations.
#include "ir/values/size_expression.h"
#include "runtime/call/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

#include <cstring>
#include <numeric>

namespace tscompile {
namespace {

// Each tensor laid along its own dimension and expanded over the others. `xy`: the first lies along dimension 1, the
// second along 0.
std::vector<Tensor> meshgrid(const KernelCall& call, std::vector<Tensor> tensors, bool xy) {
  call.require(!tensors.empty(), "meshgrid expects a non-empty list of tensors");
  xy = xy && tensors.size() > 1;
  if (xy) std::swap(tensors[0], tensors[1]);
  Dims sizes;
  for (const Tensor& t : tensors) {
    call.require(t.defined() && t.dtype() == tensors[0].dtype(), "meshgrid expects all tensors to have the same dtype");
    call.require(t.rank() <= 1, "meshgrid: expected scalar or 1D tensors in the tensor list");
    sizes.push_back(t.rank() ? t.size(0) : 1);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    Dims along(sizes.size(), 1);
    along[i] = sizes[i];
    tensors[i] = expandedTo(reshaped(tensors[i], along), sizes);
  }
  if (xy) std::swap(tensors[0], tensors[1]);
  return tensors;
}

void meshgridKernel(KernelCall& call) { call.setResult(tensorList(meshgrid(call, call.tensors(0), false))); }
void meshgridIndexingKernel(KernelCall& call) {
  const std::string& indexing = call.text(1);
  call.require(indexing == "ij" || indexing == "xy",
               "meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {}", indexing);
  call.setResult(tensorList(meshgrid(call, call.tensors(0), indexing == "xy")));
}

void inferGrids(InferCall& call, bool xy) {
  std::vector<TensorInfo> tensors = call.tensors(0);
  call.require(!tensors.empty(), "meshgrid expects a non-empty list of tensors");
  Dims sizes;
  for (const TensorInfo& t : tensors) {
    if (!t.hasRank || t.dtype == DType::Undefined) return call.resultUnknown();
    call.require(t.dtype == tensors[0].dtype, "meshgrid expects all tensors to have the same dtype");
    call.require(t.rank() <= 1, "meshgrid: expected scalar or 1D tensors in the tensor list");
    sizes.push_back(t.rank() ? t.sizes[0] : 1);
  }
  if (xy && sizes.size() > 1) std::swap(sizes[0], sizes[1]);
  call.resultTensors(std::vector<TensorSpec>(tensors.size(), {tensors[0].dtype, true, sizes}));
}
void inferMeshgrid(InferCall& call) { inferGrids(call, false); }
void inferMeshgridIndexing(InferCall& call) {
  std::string_view indexing = call.text(1);
  call.require(indexing == "ij" || indexing == "xy",
               "meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {}", indexing);
  inferGrids(call, indexing == "xy");
}

void inferCartesianProd(InferCall& call) {
  std::vector<TensorInfo> tensors = call.tensors(0);
  call.require(!tensors.empty(), "cartesian_prod: expected vectors");
  if (tensors.size() == 1) return call.result(tensors[0]);
  int64_t rows = 1;
  for (const TensorInfo& t : tensors) {
    if (!t.hasRank) return call.result(tensors[0].dtype, Dims{kUnknownSize, static_cast<int64_t>(tensors.size())});
    call.require(t.rank() == 1, "Expect a 1D vector, but got shape {}", dimsText(t.sizes));
    rows = elementCount(Dims{rows, t.sizes[0]}).size();
  }
  call.result(tensors[0].dtype, Dims{rows, static_cast<int64_t>(tensors.size())});
}
void cartesianProdKernel(KernelCall& call) {
  std::vector<Tensor> tensors = call.tensors(0);
  for (const Tensor& t : tensors)
    call.require(t.defined() && t.rank() == 1, "Expect a 1D vector, but got shape {}",
                 dimsText(t.defined() ? t.sizes() : DimSpan()));
  if (tensors.size() == 1) return call.setResult(tensors[0]);
  std::vector<Tensor> grids = meshgrid(call, std::move(tensors), false);
  // stack(grids, 1) of the flattened grids, without flattening them.
  Dims sizes(grids[0].sizes());
  sizes.push_back(static_cast<int64_t>(grids.size()));
  Tensor out = Tensor::empty(grids[0].dtype(), sizes);
  for (size_t i = 0; i < grids.size(); ++i)
    copyTensor(selected(out, static_cast<int64_t>(sizes.size()) - 1, static_cast<int64_t>(i)), grids[i]);
  call.setResult(reshaped(out, Dims{grids[0].numel(), sizes.back()}));
}

// The number of ways to choose r of n, or nothing if it is above kMaxElements.
std::optional<int64_t> choose(int64_t n, int64_t r) {
  if (r > n) return 0;
  r = std::min(r, n - r);
  __int128 count = 1;
  for (int64_t i = 1; i <= r; ++i) {
    count = count * (n - r + i) / i;
    if (count > kMaxElements) return std::nullopt;
  }
  return static_cast<int64_t>(count);
}

// Moves on to the next index tuple in lexicographic order: ascending, or not descending if elements may come again.
void advance(std::span<int64_t> indices, int64_t n, bool again) {
  size_t r = indices.size(), k = r - 1;
  auto last = [&](size_t i) { return n - 1 - (again ? 0 : static_cast<int64_t>(r - 1 - i)); };
  while (k > 0 && indices[k] == last(k)) --k;
  ++indices[k];
  for (size_t j = k + 1; j < r; ++j) indices[j] = indices[j - 1] + (again ? 0 : 1);
}

void combinationsKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  int64_t r = call.integer(1), n = t.numel();
  bool again = call.flag(2);
  call.require(t.rank() == 1, "Expect a 1D vector, but got shape {}", dimsText(t.sizes()));
  call.require(r >= 0, "combinations: expected a non-negative number, but got {}", r);
  if (r == 0) return call.setResult(Tensor::empty(t.dtype(), Dims{0}));
  std::optional<int64_t> count = n == 0             ? 0
                                 : !again           ? choose(n, r)
                                 : r > kMaxElements ? std::nullopt
                                                    : choose(n + r - 1, r);
  if (!count)
    throw ExecutionError(ErrorKind::Limit, fmt::format("the combinations of {} of {} elements are too many", r, n));
  Tensor out = Tensor::empty(t.dtype(), Dims{*count, r});
  if (*count == 0) return call.setResult(out);
  size_t item = itemSize(t.dtype());
  Tensor elements = contiguous(t);
  std::vector<int64_t> indices(static_cast<size_t>(r), 0);
  if (!again) std::iota(indices.begin(), indices.end(), 0);
  std::byte* to = out.raw();
  for (int64_t i = 0; i < *count; ++i) {
    if (i) advance(indices, n, again);
    for (int64_t k : indices) {
      std::memcpy(to, elements.raw() + static_cast<size_t>(k) * item, item);
      to += item;
    }
    call.context().checkInterrupt(r);
  }
  call.setResult(out);
}

}  // namespace

void registerGridsOps(OpRegistry& ops) {
  constexpr TraitSet kMaySelf{Trait::MayShare, Trait::GivesViews};
  ops.add({.schema = "aten::meshgrid",
           .infer = inferMeshgrid,
           .kernel = meshgridKernel,
           .dtypes = kAllTypes,
           .traits = kMaySelf});
  ops.add({.schema = "aten::meshgrid.indexing",
           .infer = inferMeshgridIndexing,
           .kernel = meshgridIndexingKernel,
           .dtypes = kAllTypes,
           .traits = kMaySelf});
  ops.add({.schema = "aten::cartesian_prod",
           .infer = inferCartesianProd,
           .kernel = cartesianProdKernel,
           .dtypes = kAllTypes,
           .traits = {Trait::MayShare}});
  ops.add({.schema = "aten::combinations",
           .kernel = combinationsKernel,
           .dtypes = kAllTypes,
           .traits = {Trait::DependsOnElements}});
}

}  // namespace tscompile
