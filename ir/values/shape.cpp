#include "ir/values/shape.h"

#include "ir/values/size_expression.h"

namespace tscompile {

bool allKnown(DimSpan sizes) {
  for (int64_t s : sizes)
    if (!isKnownSize(s)) return false;
  return true;
}

std::optional<int64_t> knownNumel(DimSpan sizes) {
  for (int64_t s : sizes)
    if (s == 0) return 0;
  if (!allKnown(sizes)) return std::nullopt;
  return checkedNumel(sizes);
}

bool broadcastInto(Dims& result, DimSpan sizes) {
  if (sizes.size() > result.size()) {
    Dims longer(sizes.size(), 1);
    std::copy(result.begin(), result.end(), longer.end() - result.size());
    result = std::move(longer);
  }
  size_t offset = result.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t& r = result[offset + i];
    int64_t s = sizes[i];
    if (r == s || s == 1) continue;
    if (r == 1) {
      r = s;
    } else if (isKnownSize(r) && isKnownSize(s)) {
      return false;
    } else if (isKnownSize(s)) {
      r = s;
    } else if (!isKnownSize(r)) {
      r = broadcastOf(SizeExpression::ofSize(r), SizeExpression::ofSize(s)).size();  // either may be 1
    }
  }
  return true;
}

bool wrapDim(int64_t& dim, int64_t rank) {
  int64_t n = rank == 0 ? 1 : rank;
  if (dim < -n || dim >= n) return false;
  if (dim < 0) dim += n;
  return true;
}

}  // namespace tscompile
