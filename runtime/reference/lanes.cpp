#include "runtime/reference/lanes.h"

namespace tscompile {

Lanes::Lanes(const Tensor& t, int64_t dim) : tensor_(t) {
  auto item = static_cast<int64_t>(itemSize(t.dtype()));
  length_ = t.rank() == 0 ? 1 : t.size(static_cast<int>(dim));
  stride_ = t.rank() == 0 ? item : t.stride(static_cast<int>(dim)) * item;
  for (int d = 0; d < t.rank(); ++d)
    if (d != dim) others_.push_back({t.size(d), t.stride(d) * item});
}

}  // namespace tscompile
