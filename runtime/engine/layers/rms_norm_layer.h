// Normalisation by the root of the mean square. Included by the operator's family alone: no optimisation looks at it.
#pragma once

#include "runtime/engine/layers/operands.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/rows.h"

#include <limits>

namespace tscompile {

class RmsNormLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "rms_norm"; }
  void run(Frame& frame) const override {
    rmsNormRows(frame.network()[inputs[0]].numel / count, count, frame.data<float>(inputs[0]), dataOrNull(weight),
                epsilon, frame.data<float>(outputs[0]), frame.threads());
  }
  int64_t count = 0;  // elements of a row
  Tensor weight;      // of a row; may be undefined
  double epsilon = 0;
};

// aten::rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps).
inline void convertRmsNorm(ConvertCall& call) {
  Tensor x = call.tensor(0);
  std::optional<Tensor> weight = constantVector(call, 2);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (!weight) return convertToKernel(call, kWeightUnknown);
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  int64_t count = 1;
  for (int64_t s : call.integers(1)) count *= s;
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  auto& layer = call.add<RmsNormLayer>();
  layer.count = count;
  layer.weight = *weight;
  layer.epsilon = call.isNone(3) ? static_cast<double>(std::numeric_limits<float>::epsilon()) : call.number(3);
  layer.inputs = {input};
  layer.outputs = {output};
}

}  // namespace tscompile
