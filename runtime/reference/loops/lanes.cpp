#include "runtime/reference/loops/lanes.h"

namespace tscompile {

LaneOrder::LaneOrder(const Tensor& t, int64_t dim) : tensor_(t) {
  auto item = static_cast<int64_t>(itemSize(t.dtype()));
  length_ = t.rank() == 0 ? 1 : t.size(static_cast<int>(dim));
  stride_ = t.rank() == 0 ? item : t.stride(static_cast<int>(dim)) * item;
  for (int d = 0; d < t.rank(); ++d) {
    if (d == dim) continue;
    if (t.size(d) == 0) done_ = true;
    outer_.push_back({t.size(d), t.stride(d) * item});
  }
  if (!outer_.empty()) {
    neighbour_ = outer_.back();
    outer_.pop_back();
  }
  index_.resize(outer_.size());
}

int64_t LaneOrder::blockWidth() const {
  constexpr int64_t kBufferElements = 1 << 17;
  return std::clamp<int64_t>(kBufferElements / std::max<int64_t>(length_, 1), 1, 16);
}

void LaneOrder::next() {
  at_ += width_;
  if (at_ < neighbour_.size) return;
  at_ = 0;
  for (size_t d = outer_.size(); d-- > 0;) {
    offset_ += outer_[d].stride;
    if (++index_[d] < outer_[d].size) return;
    offset_ -= outer_[d].stride * outer_[d].size;
    index_[d] = 0;
  }
  done_ = true;
}

}  // namespace tscompile
