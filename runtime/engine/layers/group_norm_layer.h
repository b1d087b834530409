// Normalisation of groups of channels.
#pragma once

#include "runtime/engine/layers/line_layer.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/rows.h"

namespace tscompile {

class GroupNormLayer : public Layer, public LineLayer {
 public:
  using Layer::Layer;
  std::string name() const override { return "group_norm"; }
  void run(Frame& frame) const override {
    const NetTensor &t = frame.network()[inputs[0]], &made = frame.network()[outputs[0]];
    const int64_t batch = t.sizes[0], channels = t.sizes[1], area = t.numel / (batch * channels);
    if (blocked)
      return groupNormOfBlocks(batch, channels, area, groups, frame.blocks(inputs[0]), t.elements, dataOrNull(weight),
                               dataOrNull(bias), epsilon, frame.blocks(outputs[0]), made.elements, frame.threads());
    groupNorm(batch, channels, area, groups, frame.data<float>(inputs[0]), dataOrNull(weight), dataOrNull(bias),
              epsilon, frame.data<float>(outputs[0]), frame.threads());
  }
  bool takesLines(const Network&, const ProductPrecision&, TensorId, DType) const override { return blocked; }
  bool sharesKind(const Network&, TensorId) const override { return true; }
  void settle(const Network&) override {}
  bool blocked = false;  // input and output are
  int64_t groups = 1;
  Tensor weight, bias;  // per channel; may be undefined
  double epsilon = 0;
};

// The layer for known weights, which are arguments `weightAt` and the next one.
inline void addGroupNorm(ConvertCall& call, int64_t groups, size_t weightAt, double epsilon) {
  Tensor x = call.tensor(0);
  std::optional<Tensor> weight = constantVector(call, weightAt), bias = constantVector(call, weightAt + 1);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (!weight || !bias) return convertToKernel(call, kWeightUnknown);
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  auto& layer = call.add<GroupNormLayer>();
  layer.groups = groups;
  layer.weight = *weight;
  layer.bias = *bias;
  layer.epsilon = epsilon;
  layer.inputs = {input};
  layer.outputs = {output};
}

// aten::group_norm(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps, bool cudnn_enabled).
inline void convertGroupNorm(ConvertCall& call) { addGroupNorm(call, call.integer(1), 2, call.number(4)); }

// aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
// bool use_input_stats, float momentum, float eps, bool cudnn_enabled): groups of one channel.
inline void convertInstanceNorm(ConvertCall& call) {
  if (!call.flag(5) || !call.isNone(3) || !call.isNone(4)) return convertToKernel(call, "there are running statistics");
  // What does not vary is 0 there rather than divided by 0.
  if (!(call.number(7) > 0)) return convertToKernel(call, "nothing is added to the variance");
  addGroupNorm(call, call.tensor(0).size(1), 1, call.number(7));
}

}  // namespace tscompile
