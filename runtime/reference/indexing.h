// Elements that are picked by indices: the loops that read and write them.
#pragma once

#include "runtime/call/kernel_call.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/reduce.h"

#include <span>

namespace tscompile {

// What becomes of an element when another one is written over it.
enum class Update : uint8_t { Assign, Add, Multiply, Max, Min };

// An index as it counts from the front; fails if it is out of bounds for a dimension of this size.
inline int64_t checkedIndex(int64_t index, int64_t size, int64_t dim, bool allowNegative) {
  if (index >= 0 && index < size) [[likely]]
    return index;
  if (allowNegative && index < 0 && index >= -size) return index + size;
  throw ExecutionError(ErrorKind::Model,
                       fmt::format("index {} is out of bounds for dimension {} with size {}", index, dim, size));
}

// A tensor seen as [outer][indexed][inner], where `count` dimensions from `first` on are indexed together.
struct IndexedView {
  IndexedView(const Tensor& t, int first, int count);
  std::byte* data;
  DType dtype;
  // Neighbours that continue each other are one dimension; at least one each. Strides in bytes.
  SmallVector<ReducePlan::Dimension, 6> outer, inner;
};

// The elements of a contiguous int64 tensor.
inline std::span<const int64_t> asSpan(const Tensor& offsets) {
  return {offsets.data<int64_t>(), static_cast<size_t>(offsets.numel())};
}

// Copies the blocks at `offsets` (bytes) into `to`: [outer][offsets][inner], contiguous, of the same dtype.
void gatherBlocks(const IndexedView& from, std::span<const int64_t> offsets, const Tensor& to);
// The other way; an element stands for all blocks if `from` is only one.
void updateBlocks(const IndexedView& to, std::span<const int64_t> offsets, const Tensor& from, Update how);

// out[i][j][k] = from[i][index[i][j][k]][k] for dim 1, and so on; `out` has the sizes of `index` (int64).
void gatherElements(const Tensor& out, const Tensor& from, int64_t dim, const Tensor& index);
// to[i][index[i][j][k]][k] = from[i][j][k] for dim 1, and so on; `from` is at least as large as `index` (int64).
void updateElements(const Tensor& to, int64_t dim, const Tensor& index, const Tensor& from, Update how);

// Updates elements of `to` on which several may fall: those of 16 bits are joined in f32, and rounded at the end.
template <class F>
void joinWide(const Tensor& to, const Tensor& from, F&& update) {
  if (to.dtype() != DType::Float16 && to.dtype() != DType::BFloat16) return update(to, from);
  Tensor wide = convertTensor(to, DType::Float32);
  update(wide, convertTensor(from, DType::Float32));
  copyTensor(to, wide);
}

// How scatter_reduce and index_reduce join the elements that fall on one place.
class JoinRule {
 public:
  // By name: sum, prod, mean, amax, amin; fails for others.
  JoinRule(const KernelCall& call, const std::string& name, bool allowSum);
  // Joins `source` to `self`, or among itself only. `update(to, from, how)` brings the elements of `from`, which has
  // the sizes of `source`, to their places in `to`, which has those of `self`.
  template <class F>
  void run(const Tensor& self, const Tensor& source, bool includeSelf, F&& update) const {
    if (!includeSelf) update(self, neutral(self.dtype(), source.sizes()), Update::Assign);
    update(self, source, how_);
    if (!isMean_) return;
    Tensor counts = Tensor::zeros(DType::Int64, self.sizes());
    update(counts, ones(source.sizes()), Update::Add);
    divide(self, counts, includeSelf);
  }

 private:
  // An element that leaves any other as it is, broadcast.
  Tensor neutral(DType dtype, DimSpan sizes) const;
  static Tensor ones(DimSpan sizes);
  static void divide(const Tensor& self, const Tensor& counts, bool includeSelf);
  Update how_;
  bool isMean_;
};

// What an operator reads while it writes `out`. Memory that both have is refused as far as PyTorch refuses it, and read
// in advance otherwise.
Tensor sourceFor(const KernelCall& call, const Tensor& out, const Tensor& source);
// `self` to be updated: itself for in-place variants, else a copy that becomes the result. May PyTorch's variant write
// an element of an expanded tensor several times?
enum class Repeats : bool { Refused, Written };
Tensor updatedSelf(KernelCall& call, Repeats repeats = Repeats::Refused);
// The same, where PyTorch's copy lies in rows, however `self` does.
Tensor updatedRows(KernelCall& call);

}  // namespace tscompile
