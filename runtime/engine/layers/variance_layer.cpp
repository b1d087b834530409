#include "runtime/engine/layers/variance_layer.h"

#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/pointwise_layer.h"

#include <algorithm>

namespace tscompile {

void VarianceLayer::run(Frame& frame) const {
  float* means = outputs.size() > 1 ? frame.data<float>(outputs[1]) : nullptr;
  variances(shape, frame.data<float>(inputs[0]), frame.data<float>(outputs[0]), means, frame.threads());
}

void convertVariance(ConvertCall& call, Dims dims, double correction, bool isRoot) {
  Tensor x = call.tensor(0);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  std::ranges::sort(dims);
  const bool isApart = !dims.empty() && dims.back() - dims.front() >= static_cast<int64_t>(dims.size());
  if (isApart) {
    // Those that are reduced go behind all others.
    Dims order;
    for (int64_t d = 0; d < x.rank(); ++d)
      if (!std::ranges::binary_search(dims, d)) order.push_back(d);
    const auto kept = static_cast<int64_t>(order.size());
    order.append(dims.begin(), dims.end());
    Dims sizes, strides;
    for (int64_t d : order) {
      sizes.push_back(x.size(static_cast<int>(d)));
      strides.push_back(x.stride(static_cast<int>(d)));
    }
    x = x.withGeometry(sizes, strides, x.offset());
    for (size_t i = 0; i < dims.size(); ++i) dims[i] = kept + static_cast<int64_t>(i);
  }
  const int64_t first = dims.empty() ? 0 : dims.front(), end = dims.empty() ? 0 : dims.back() + 1;
  auto layer = std::make_unique<VarianceLayer>(call.node());
  VarianceShape& s = layer->shape;
  for (int d = 0; d < x.rank(); ++d) (d < first ? s.outer : d < end ? s.count : s.inner) *= x.size(d);
  s.correction = correction;
  s.isRoot = isRoot;
  const TensorId from = call.idOf(x);
  layer->inputs = {call.network()[from].contiguous ? from : addCopy(call, from)};
  for (size_t i = 0; i < call.resultCount(); ++i) layer->outputs.push_back(call.makeResult(i));
  call.network().layers.push_back(std::move(layer));
}

}  // namespace tscompile
