#include "runtime/ops/quantized/product_grid.h"

#include "runtime/reference/loops/copy.h"
#include "runtime/reference/quantized.h"

namespace tscompile {

size_t channelDim(const PackedWeight& w) { return w.transposed ? 1 : 0; }

int64_t channelsOf(const PackedWeight& w) {
  int64_t size = w.weight.size(static_cast<int>(channelDim(w)));
  return w.transposed ? size * w.shape.groups : size;
}

// The scale of each channel of the weight.
std::vector<double> scalesOf(const KernelCall& call, const PackedWeight& w) {
  const Quantization& q = quantizationOf(w.weight);
  std::vector<double> scales(static_cast<size_t>(channelsOf(w)), q.scale);
  if (q.isPerTensor()) return scales;
  call.require(q.axis == static_cast<int64_t>(channelDim(w)) && q.scales.numel() > 0,
               "the weight has a scale for each index of dimension {}", q.axis);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = q.scales.real(static_cast<int64_t>(i) % q.scales.numel());
  return scales;
}

std::vector<float> productFactors(const std::vector<double>& scales, double inputScale, double outputScale) {
  std::vector<float> out;
  float inverse = 1.0f / static_cast<float>(outputScale);
  for (double s : scales) out.push_back(static_cast<float>(s) * static_cast<float>(inputScale) * inverse);
  return out;
}

void checkProductInput(const KernelCall& call, const PackedWeight& w, const Tensor& x) {
  auto rank = static_cast<int>(w.shape.stride.size());
  call.require(isQuantized(w.weight.dtype()) && w.weight.rank() == rank + 2,
               "expected a quantised weight of {} dimensions", rank + 2);
  call.require(w.shape.groups > 0, "expected at least one group, not {}", w.shape.groups);
  call.require(rank == 0 ? x.rank() > 0 : x.rank() == rank + 2, "the input {} does not fit the weight {}",
               dimsText(x.sizes()), dimsText(w.weight.sizes()));
  call.require(!w.bias.defined() || w.bias.numel() == channelsOf(w), "the bias has {} elements, expected {}",
               w.bias.defined() ? w.bias.numel() : 0, channelsOf(w));
}

ProductGrid productGrid(const KernelCall& call, const PackedWeight& w, const Tensor& x, double scale, int64_t zero) {
  call.require(isQuantized(x.dtype()) && x.dtype() != DType::QInt32, "expected a quint8 or qint8 input, not {}",
               pythonName(x.dtype()));
  checkGrid(x.dtype(), scale, zero);
  const double inputScale = quantizationOf(x).scale;
  const std::vector<double> scales = scalesOf(call, w);
  ProductGrid grid{productFactors(scales, inputScale, scale), std::vector<int64_t>(scales.size(), 0)};
  if (!w.bias.defined()) return grid;
  Tensor numbers = convertTensor(w.bias, DType::Float32);
  for (size_t i = 0; i < scales.size(); ++i)
    grid.bias[i] = Rounding(DType::QInt32, scales[i] * inputScale, 0)(numbers.data<float>()[i]);
  return grid;
}

}  // namespace tscompile
