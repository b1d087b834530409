#include "runtime/reference/loops/reduce.h"

#include <algorithm>

namespace tscompile {
namespace {

// Tensors without elements may have sizes whose product does not fit; what it is does not matter then.
int64_t product(int64_t a, int64_t b) {
  int64_t p;
  return __builtin_mul_overflow(a, b, &p) ? INT64_MAX : p;
}

}  // namespace

ReducePlan::ReducePlan(const Tensor& in, DimSpan dims) {
  uint64_t mask = 0;
  for (int64_t d : dims) mask |= uint64_t{1} << d;
  auto item = static_cast<int64_t>(itemSize(in.dtype()));
  // The results lie in row-major order of the kept dimensions; the walk through them is free. Memory order is fastest.
  Dims steps(in.sizes().size(), 0);
  for (int d = in.rank(); d-- > 0;) {
    if (mask >> d & 1) {
      reducedCount = product(reducedCount, in.size(d));
    } else {
      steps[d] = keptCount;
      keptCount = product(keptCount, in.size(d));
    }
  }
  if (keptCount == 0 || reducedCount == 0) return;
  SmallVector<int, 6> order;
  for (int d = 0; d < in.rank(); ++d) {
    order.push_back(d);
    for (int i = d; i > 0 && in.stride(order[i - 1]) < in.stride(order[i]); --i) std::swap(order[i - 1], order[i]);
  }

  for (int d : order) {
    Dimension dim{in.size(d), in.stride(d) * item};
    if (dim.size == 1) continue;
    bool isReduced = mask >> d & 1;
    auto& list = isReduced ? reduced : kept;
    // Neighbours that continue each other are one dimension.
    bool merges = !list.empty() && list.back().stride == dim.stride * dim.size &&
                  (isReduced || results.back().stride == steps[d] * dim.size);
    if (merges) {
      list.back() = {list.back().size * dim.size, dim.stride};
      if (!isReduced) results.back() = {list.back().size, steps[d]};
    } else {
      list.push_back(dim);
      if (!isReduced) results.push_back({dim.size, steps[d]});
    }
  }
  alongRuns = kept.empty() || (!reduced.empty() && reduced.back().stride < kept.back().stride);
  // Many short runs near each other: what starting and ending a run costs would prevail.
  constexpr int64_t kShort = 16, kNear = 256;
  if (alongRuns && !kept.empty() && reducedCount <= kShort && kept.back().size > 2 * kShort &&
      kept.back().stride <= kNear)
    alongRuns = false;
  if (reduced.empty()) reduced.push_back({1, 0});
  if (kept.empty()) {
    kept.push_back({1, 0});
    results.push_back({1, 0});
  }
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
