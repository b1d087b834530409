#include "runtime/reference/reduce.h"

#include <algorithm>

namespace tscompile {

ReducePlan::ReducePlan(const Tensor& in, DimSpan dims) {
  uint64_t mask = 0;
  for (int64_t d : dims) mask |= uint64_t{1} << d;
  auto item = static_cast<int64_t>(itemSize(in.dtype()));
  for (int d = 0; d < in.rank(); ++d) {
    Dimension dim{in.size(d), in.stride(d) * item};
    bool isReduced = mask >> d & 1;
    (isReduced ? reducedCount : keptCount) *= dim.size;
    auto& list = isReduced ? reduced : kept;
    if (dim.size == 1) continue;
    // Neighbours that continue each other are one dimension.
    if (!list.empty() && list.back().stride == dim.stride * dim.size && dim.size != 0)
      list.back() = {list.back().size * dim.size, dim.stride};
    else
      list.push_back(dim);
  }
  if (in.rank() == 0) keptCount = reducedCount = 1;
  // The order in which elements are joined is free; memory order is the fastest.
  std::stable_sort(reduced.begin(), reduced.end(), [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
  alongRuns = kept.empty() || (!reduced.empty() && reduced.back().stride < kept.back().stride);
  if (reduced.empty()) reduced.push_back({1, 0});
  if (kept.empty()) kept.push_back({1, 0});
}

Dims reducedSizes(DimSpan sizes, DimSpan reduced, bool keepDim) {
  uint64_t mask = 0;
  for (int64_t d : reduced) mask |= uint64_t{1} << d;
  Dims out;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!(mask >> d & 1))
      out.push_back(sizes[d]);
    else if (keepDim)
      out.push_back(1);
  }
  return out;
}

}  // namespace tscompile
