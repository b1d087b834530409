#include "runtime/reference/join.h"

#include "ir/values/size_expression.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/memory_format.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

bool isPassedOver(DimSpan sizes) { return sizes.size() == 1 && sizes[0] == 0; }

void checkFit(const InferCall& call, DimSpan first, DimSpan sizes, int64_t dim, size_t i) {
  call.require(first.size() == sizes.size(), "tensors must have same number of dimensions: got {} and {}", first.size(),
               sizes.size());
  for (size_t d = 0; d < first.size(); ++d) {
    bool same =
        static_cast<int64_t>(d) == dim || first[d] == sizes[d] || !isKnownSize(first[d]) || !isKnownSize(sizes[d]);
    call.require(same,
                 "sizes of tensors must match except in dimension {}. Expected size {} but got size {} for tensor "
                 "number {} in the list",
                 dim, first[d], sizes[d], i);
  }
}

}  // namespace

TensorSpec joinedSpec(const InferCall& call, const std::vector<TensorSpec>& tensors, int64_t& dim) {
  call.require(!tensors.empty(), "torch.cat(): expected a non-empty list of Tensors");
  TensorSpec out{DType::Undefined, true, Dims{0}};
  const TensorSpec* first = nullptr;
  bool allVectors = dim == 0 || dim == -1, mayPassOver = false;
  for (const TensorSpec& t : tensors) {
    if (!t.hasRank || t.dtype == DType::Undefined) throw InferCall::NotKnown{};
    out.dtype = out.dtype == DType::Undefined ? t.dtype : promoteTypes(out.dtype, t.dtype);
    if (!first && !isPassedOver(t.sizes)) first = &t;
    allVectors &= t.sizes.size() == 1;
    mayPassOver |= t.sizes.size() == 1 && !isKnownSize(t.sizes[0]);
  }
  // A vector that may turn out to be empty says nothing of the others' rank.
  if (mayPassOver && !allVectors) throw InferCall::NotKnown{};
  if (!first) return out;
  dim = call.wrap(dim, first->sizes.size());
  out.sizes = first->sizes;
  int64_t sum = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Dims& sizes = tensors[i].sizes;
    call.require(!sizes.empty(), "zero-dimensional tensor (at position {}) cannot be concatenated", i);
    if (isPassedOver(sizes)) continue;
    checkFit(call, first->sizes, sizes, dim, i);
    for (size_t d = 0; d < sizes.size(); ++d)
      if (out.sizes[d] == kUnknownSize || isKnownSize(sizes[d])) out.sizes[d] = sizes[d];
    if (!isKnownSize(sizes[dim]) || !isKnownSize(sum))
      sum = (SizeExpression::ofSize(sum) + SizeExpression::ofSize(sizes[dim])).size();
    else if (__builtin_add_overflow(sum, sizes[dim], &sum))
      call.fail("the sizes along dimension {} are too large to be added", dim);
  }
  out.sizes[dim] = sum;
  return out;
}

Tensor joined(const TensorSpec& spec, const std::vector<Tensor>& tensors, int64_t dim) {
  MemoryFormat format = suggestedFormat(tensors[0]);
  for (const Tensor& t : tensors)
    if (suggestedFormat(t) != format) format = MemoryFormat::Contiguous;
  Tensor out = format == MemoryFormat::Contiguous
                   ? Tensor::empty(spec.dtype, spec.sizes)
                   : Tensor::emptyStrided(spec.dtype, spec.sizes, formatStrides(spec.sizes, format));
  int64_t start = 0;
  for (const Tensor& t : tensors) {
    if (isPassedOver(t.sizes())) continue;
    int64_t length = t.sizes()[dim];
    if (t.numel()) copyTensor(narrowed(out, dim, start, length), t);
    start += length;
  }
  return out;
}

}  // namespace tscompile
