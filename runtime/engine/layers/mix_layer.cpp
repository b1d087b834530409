#include "runtime/engine/layers/mix_layer.h"

namespace tscompile {

std::optional<PlaneMix> planesOf(const Tensor& x, int64_t out) {
  constexpr int64_t kLeastArea = 256;
  const int last = x.rank() - 1;
  PlaneMix mix{.images = 1, .in = x.size(last), .out = out, .area = 1, .imageStride = 0, .planeStride = x.stride(last)};
  if (mix.in < 2 || mix.in > kMostMixedPlanes || out > kMostMixedPlanes || mix.planeStride == 1) return std::nullopt;
  int d = last - 1;
  for (; d >= 0 && (x.size(d) == 1 || x.stride(d) == mix.area); --d) mix.area *= x.size(d);
  for (; d >= 0; --d) {
    if (x.size(d) == 1) continue;
    if (mix.images == 1) mix.imageStride = x.stride(d);
    if (x.stride(d) != mix.imageStride * mix.images) return std::nullopt;
    mix.images *= x.size(d);
  }
  return mix.area >= kLeastArea ? std::optional(mix) : std::nullopt;
}

void addMix(ConvertCall& call, size_t xAt, const PlaneMix& mix, const Tensor& weights, const Tensor& bias) {
  Network& n = call.network();
  const TensorId input = call.operand(xAt), made = n.addTensor(DType::Float32, Dims{mix.images, mix.out, mix.area});
  auto& layer = call.add<MixLayer>();
  layer.mix = mix;
  layer.weights = weights;
  layer.bias = bias;
  layer.inputs = {input};
  layer.outputs = {made};
  const TensorId output = call.makeResult();
  const Dims rows{mix.images, mix.area, mix.out};
  auto& copy = call.add<PointwiseLayer>();
  copy.program.output(copy.program.step(PointwiseOp::Copy, copy.program.input()));
  copy.inputs = {n.addView(n[made].buffer, DType::Float32, rows, Dims{mix.area * mix.out, 1, mix.area}, 0)};
  copy.outputs = {n.addView(n[output].buffer, DType::Float32, rows, contiguousStrides(rows), 0)};
}

}  // namespace tscompile
