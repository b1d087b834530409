#include "passes/serving/moved_dim.h"

#include "ir/values/aten.h"

namespace tscompile {

std::optional<size_t> dimNamed(const Value* number, size_t rank, const GraphFacts& facts) {
  std::optional<int64_t> d = facts.integer(number);
  if (d && *d < 0) d = *d + static_cast<int64_t>(rank);
  return d && *d >= 0 && *d < static_cast<int64_t>(rank) ? std::optional(static_cast<size_t>(*d)) : std::nullopt;
}

std::optional<size_t> movedDim(const Node* n, size_t dim, size_t rank, size_t made, const GraphFacts& facts) {
  const Symbol k = n->kind();
  if (k == aten::transpose) {
    const std::optional<size_t> a = dimNamed(n->input(1), rank, facts), b = dimNamed(n->input(2), rank, facts);
    if (!a || !b) return std::nullopt;
    return dim == *a ? *b : dim == *b ? *a : dim;
  }
  if (k == aten::permute) {
    const std::optional<Dims> order = facts.integers(n->input(1));
    for (size_t i = 0; order && i < order->size(); ++i)
      if ((*order)[i] + ((*order)[i] < 0 ? static_cast<int64_t>(rank) : 0) == static_cast<int64_t>(dim)) return i;
    return std::nullopt;
  }
  if (k == aten::unsqueeze) {
    const std::optional<size_t> d = dimNamed(n->input(1), rank + 1, facts);
    return d ? std::optional(dim + (*d <= dim)) : std::nullopt;
  }
  if ((k == aten::squeeze || k == aten::select) && n->inputCount() > 1) {
    std::optional<Dims> gone = facts.integers(n->input(1));
    if (const std::optional<int64_t> one = facts.integer(n->input(1))) gone = Dims{*one};
    if (!gone || (made < rank && made + gone->size() != rank)) return std::nullopt;
    size_t before = 0;
    for (int64_t d : *gone) {
      const auto at = static_cast<size_t>(d < 0 ? d + static_cast<int64_t>(rank) : d);
      if (at == dim) return std::nullopt;
      before += made < rank && at < dim;
    }
    return dim - before;
  }
  if (k == aten::repeat_interleave && n->inputCount() > 2 && !n->input(1)->type()->isTensor()) {
    const std::optional<size_t> d = dimNamed(n->input(2), rank, facts);
    return d && *d != dim ? std::optional(dim) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace tscompile
