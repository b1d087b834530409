// What quantised convolutions and products need to bring their sums of integers to the grid of the result.
#pragma once

#include "runtime/call/kernel_call.h"
#include "runtime/engine/layers/integer_weights.h"
#include "runtime/kernels/requantize.h"
#include "runtime/ops/quantized/packed_params.h"

#include <vector>

namespace tscompile {

// In which dimension of the weight the channels of the result are, and how many there are.
size_t channelDim(const PackedWeight& w);
int64_t channelsOf(const PackedWeight& w);
// The scale of each channel of the weight.
std::vector<double> scalesOf(const KernelCall& call, const PackedWeight& w);
// For each channel: the scale of the weight times that of the input, in units of the output's.
std::vector<float> productFactors(const std::vector<double>& scales, double inputScale, double outputScale);
// Fails if the weight is not quantised, or the input does not fit it.
void checkProductInput(const KernelCall& call, const PackedWeight& w, const Tensor& x);

struct ProductGrid {
  std::vector<float> factors;
  std::vector<int64_t> bias;  // in units of the sums; zeros if there is none
};
// Of an input of eight bits; fails if the grid of the output is none.
ProductGrid productGrid(const KernelCall& call, const PackedWeight& w, const Tensor& x, double scale, int64_t zero);

// A product or convolution of float32 that are quantised on the way in, whose weight is unpacked once for many calls.
class DynamicProduct {
 public:
  DynamicProduct(const KernelCall& call, PackedWeight w);
  Tensor operator()(const KernelCall& call, const Tensor& x, bool isReduced) const;

 private:
  PackedWeight w_;
  Tensor steps_;  // of the weight, in a dtype that holds all sums
  std::vector<double> scales_;
  Tensor bias_;
};

// ---- engines ----

// In which arithmetic sums of products of such float32 and a weight of these steps are exact, whatever the grid is.
ExactArithmetic dynamicArithmetic(const PackedWeight& w, const Tensor& steps);
// The product of rows of integers in this range, which floats of the network hold, and a known matrix of int8,
// [in][out], as int32. Undefined if float32 cannot have its sums without rounding.
Tensor addIntegerProduct(const ConvertCall& call, const Tensor& x, StepRange range, const Tensor& weight);

// Sums of integers as a float32 product, rounded to the grid: (x, weight, ..., scale at `scaleAt`, zero point).
template <size_t kScaleAt, bool kRelu>
void convertQuantizedProduct(ConvertCall& call);
// (x, weight, whether the range is reduced): float32 that are quantised on the way in.
template <bool kRelu>
void convertDynamicProduct(ConvertCall& call);

}  // namespace tscompile
