// The inner loop of convolutions: sums of products of weights with one run of memory seen at several offsets.
#pragma once

#include <complex>
#include <cstdint>
#include <span>

namespace tscompile {

// One position of the kernel.
struct KernelTap {
  int64_t offset;  // of what it meets, from the start of a channel
  int64_t index;   // of its weight, from the first weight of a channel
};

// result[m][p] = start[m] + sum over c, t of weights[m * weightRow + c * weightChannel + taps[t].index] *
//                                            x[c * channel + taps[t].offset + p]
template <class T>
struct ShiftedProduct {
  const T* x;
  int64_t channels, channel;
  const T* weights;
  int64_t weightRow, weightChannel;
  std::span<const KernelTap> taps;
};

// The loops that compute tiles of such sums in registers: some rows, and positions in multiples of `lanes`. How many of
// each depends on the processor. T is float, double, uint64_t (for all integers) or complex.
template <class T>
class ShiftedProductLoops {
 public:
  // For results of so many rows in all.
  explicit ShiftedProductLoops(int64_t rows);
  int64_t rows() const { return rows_; }  // at most, of a tile
  int64_t lanes() const { return lanes_; }
  int64_t vectors() const { return vectors_; }  // at most, of a tile

  // Writes row m, position p to out[m * lanes * vectors() + p] for p < lanes * vectors. `start` may be null: zeros.
  void run(const ShiftedProduct<T>& product, const T* start, int64_t rows, int64_t vectors, T* out) const {
    loops_[(rows - 1) * vectors_ + vectors - 1](product, start, out);
  }

 private:
  using Loop = void (*)(const ShiftedProduct<T>&, const T* start, T* out);
  int64_t rows_, lanes_, vectors_;
  const Loop* loops_;
};
inline constexpr int64_t kMaxTileElements = 384;  // of `out`

}  // namespace tscompile
