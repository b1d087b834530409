// Elements of float32 that are stored smaller: as numbers of 16 bits, or as integers of 8 bits with a scale for each
// channel. Weights of engines are; what reads them as tensors of float32 finds them decoded.
#pragma once

#include "ir/support/once.h"
#include "ir/values/tensor.h"

namespace tscompile {

class EncodedElements : public RefCounted {
 public:
  // `values` is contiguous: Float16, BFloat16, or Int8 with `scales`, contiguous Float32, one for each index along
  // `axis`; an element is value * scale then.
  EncodedElements(Tensor values, Tensor scales, int axis);

  const Tensor& values() const { return values_; }
  const Tensor& scales() const { return scales_; }  // undefined of 16 bits
  int64_t inner() const { return inner_; }          // elements that lie between two indices along the axis
  // The elements begin to begin + count, row by row.
  void decode(int64_t begin, int64_t count, float* to) const;
  // All of them, decoded by the first call and kept. Throws ExecutionError (Limit) if there is no memory for that.
  const Tensor& all() const;
  // Of values that show a file, the pages of these elements need not stay in memory.
  void forget(int64_t begin, int64_t count) const;

 private:
  Tensor values_, scales_;
  int64_t inner_ = 1;
  mutable Once decoded_;
  mutable Tensor all_;
};

// The tensor of float32 whose elements are these.
Tensor encodedTensor(const Tensor& values, const Tensor& scales, int axis);
// A tensor like `t` in memory of its own if the elements of `t` are encoded; `t` if not. For readers who need them
// once.
Tensor decodedOnce(const Tensor& t);

// Whether elements of float32 keep their digits when they are stored as `storage`: in 16 bits, none may become an
// infinity, and their largest must not be among the smallest numbers, which have fewer digits.
bool keepsDigits(const Tensor& elements, DType storage);

struct Encoded {
  Tensor values, scales;  // without scales: of 16 bits
};
// Contiguous float32 elements as `storage` has them: Float16, BFloat16, or Int8 with the scale that the largest element
// of a channel along `axis` asks for. Read-only.
Encoded encode(const Tensor& elements, DType storage, int axis);

}  // namespace tscompile
