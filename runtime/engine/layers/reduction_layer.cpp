#include "runtime/engine/layers/reduction_layer.h"

#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/row_layers.h"

#include <algorithm>
#include <numeric>

namespace tscompile {

std::string ReductionLayer::name() const {
  return isMean ? "mean" : kind == RowReduction::Sum ? "sum" : kind == RowReduction::Max ? "max" : "min";
}

void ReductionLayer::run(Frame& frame) const {
  reduceMiddle(kind, outer, count, inner, isMean ? static_cast<float>(count) : 1.0f, frame.data<float>(inputs[0]),
               frame.data<float>(outputs[0]), frame.threads());
}

template <ReductionOf kOf>
void convertReduction(ConvertCall& call) {
  Tensor x = call.tensor(0);
  if (!isF32(x) || call.spec().dtype != DType::Float32) return convertToKernel(call, kNotF32);
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  const bool hasDims = call.size() > 2 && x.rank() > 0;
  Dims dims;
  if (hasDims && !call.isNone(1)) dims = call.dims(1, x.rank(), true);
  if (dims.empty())
    for (int d = 0; d < x.rank(); ++d) dims.push_back(d);
  std::sort(dims.begin(), dims.end());
  auto layer = std::make_unique<ReductionLayer>(call.node());
  layer->kind = kOf == ReductionOf::Max   ? RowReduction::Max
                : kOf == ReductionOf::Min ? RowReduction::Min
                                          : RowReduction::Sum;
  layer->isMean = kOf == ReductionOf::Mean;
  const int first = dims.empty() ? 0 : static_cast<int>(dims.front()),
            end = dims.empty() ? 0 : static_cast<int>(dims.back()) + 1;
  int64_t reduced = 1;
  for (int64_t d : dims) reduced *= x.size(static_cast<int>(d));
  for (int d = 0; d < x.rank(); ++d) (d < first ? layer->outer : d < end ? layer->count : layer->inner) *= x.size(d);
  if (layer->count != reduced) return convertToKernel(call, "its dimensions do not lie next to each other");
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  if (kOf == ReductionOf::Mean && x.rank() == 4 && first == 2 && end == 4) {
    // Images in blocks of channels are read as they are.
    auto& pool = call.add<Pool2dLayer>();
    pool.mode = Pool2dLayer::Mode::Global;
    pool.shape = {.batch = x.size(0), .channels = x.size(1), .inHeight = x.size(2), .inWidth = x.size(3)};
    pool.inputs = {input};
    pool.outputs = {output};
    return;
  }
  layer->inputs = {input};
  layer->outputs = {output};
  call.network().layers.push_back(std::move(layer));
}

template void convertReduction<ReductionOf::Sum>(ConvertCall& call);
template void convertReduction<ReductionOf::Mean>(ConvertCall& call);
template void convertReduction<ReductionOf::Max>(ConvertCall& call);
template void convertReduction<ReductionOf::Min>(ConvertCall& call);

}  // namespace tscompile
