// Walks through the elements of tensors, and what they are in what those were copied from.
#pragma once

#include "runtime/engine/network/network.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tscompile {

// Elements of a tensor: sizes, strides and the first one.
struct Walk {
  Dims sizes, strides;
  int64_t offset = 0;
};

// Finds in the source of a copy what is walked through in its target.
class Origin {
 public:
  // Both are seen in the sizes of the target, which is in row-major order.
  Origin(const NetTensor& source, const Dims& sizes)
      : sizes_(sizes), targets_(contiguousStrides(sizes)), sources_(sizes.size(), 0), offset_(source.offset) {
    const size_t missing = sizes.size() - source.sizes.size();
    for (size_t d = 0; d < source.sizes.size(); ++d)
      sources_[missing + d] = source.sizes[d] == 1 ? 0 : source.strides[d];
  }

  // `firsts` and `lasts`, if they are asked for: in each dimension of the target, the indices that are reached.
  std::optional<Walk> of(const Walk& walk, Dims* firsts = nullptr, Dims* lasts = nullptr) const {
    Walk found{walk.sizes, Dims(walk.sizes.size(), 0), offset_};
    Dims last(sizes_.size(), 0);
    for (size_t d = 0; d < sizes_.size(); ++d) {
      last[d] = walk.offset / targets_[d] % sizes_[d];
      found.offset += last[d] * sources_[d];
    }
    if (firsts) *firsts = last;
    for (size_t i = 0; i < walk.sizes.size(); ++i)
      if (walk.sizes[i] > 1 && walk.strides[i] != 0 && !follow(walk.sizes[i], walk.strides[i], found.strides[i], last))
        return std::nullopt;
    for (size_t d = 0; d < sizes_.size(); ++d)
      if (last[d] >= sizes_[d]) return std::nullopt;
    if (lasts) *lasts = std::move(last);
    return found;
  }

  // How many times in a row the source's elements stand in the target, `stride` apart.
  int64_t repeats(int64_t stride) const {
    for (size_t d = 0; d < sizes_.size(); ++d)
      if (sizes_[d] != 1 && targets_[d] == stride && sources_[d] == 0) return sizes_[d];
    return 1;
  }

 private:
  // The stride in the source of `size` elements that lie `stride` apart in the target: in one of its dimensions, or in
  // all of some that lie in the source one in the other.
  bool follow(int64_t size, int64_t stride, int64_t& wanted, Dims& last) const {
    for (size_t d = sizes_.size(); d-- > 0;) {
      if (sizes_[d] == 1 || stride % targets_[d] != 0 || stride / targets_[d] >= sizes_[d]) continue;
      const int64_t step = stride / targets_[d];
      wanted = sources_[d] * step;
      if ((size - 1) * step < sizes_[d]) return last[d] += (size - 1) * step, true;
      return step == 1 && spans(size, d, last);
    }
    return false;
  }
  // `size` elements, one after the other, from dimension d outwards.
  bool spans(int64_t size, size_t d, Dims& last) const {
    const size_t inner = d;
    int64_t covered = 1;
    for (;; --d) {
      if (sources_[d] != sources_[inner] * covered && sizes_[d] > 1) return false;
      const int64_t some = std::min(sizes_[d], size / covered);
      if (size % covered != 0) return false;
      last[d] += some - 1;
      covered *= some;
      if (covered == size) return true;
      if (some != sizes_[d] || d == 0) return false;
    }
  }

  const Dims sizes_;
  const Dims targets_;
  Dims sources_;
  const int64_t offset_;
};

}  // namespace tscompile
