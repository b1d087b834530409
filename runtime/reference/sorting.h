// Sorting along a dimension: NaN is larger than any number, -0 equal to 0.
#pragma once

#include "ir/values/tensor.h"

#include <span>

namespace tscompile {

// Finds the sorted order of runs. Keeps its memory from one run to the next.
class Sorter {
 public:
  // The positions of the elements of a run of T (float, double or int64) in sorted order; valid until the next call.
  // If not `stable`, equal elements come in the order that PyTorch gives them: std::sort's.
  template <class T>
  std::span<const uint32_t> order(const T* run, int64_t n, bool descending, bool stable = true);

 private:
  template <class Item>
  Item* items(int64_t n);
  Tensor scratch_, order_;
};

extern template std::span<const uint32_t> Sorter::order(const float*, int64_t, bool, bool);
extern template std::span<const uint32_t> Sorter::order(const double*, int64_t, bool, bool);
extern template std::span<const uint32_t> Sorter::order(const int64_t*, int64_t, bool, bool);

// Sorts `in`, which holds real numbers or bool, along `dim`. `values` (undefined: not wanted) and `indices` (int64)
// have its sizes.
void sortInto(const Tensor& in, int64_t dim, bool descending, bool stable, const Tensor& values, const Tensor& indices);

}  // namespace tscompile
