#include "runtime/engine/layers/product_layer.h"

namespace tscompile {

Epilogue ProductLayer::epilogueOf(const Frame& frame) const {
  Epilogue e;
  e.bias = bias.defined() ? bias.data<float>() : nullptr;
  e.residual = residual == kNoResidual ? nullptr : frame.data<float>(inputs[residual]);
  e.activation = activation;
  e.alpha = alpha;
  e.beta = beta;
  return e;
}

std::string ProductLayer::epilogueName() const {
  static constexpr const char* kNames[] = {"",      "+relu",    "+clamp", "+leaky_relu", "+sigmoid",     "+tanh",
                                           "+gelu", "+gelu",    "+silu",  "+hardswish",  "+hardsigmoid", "+elu",
                                           "+mish", "+softplus"};
  return std::string(residual == kNoResidual ? "" : "+add") + kNames[static_cast<size_t>(activation)];
}

void ProductLayer::scaleColumns(const Tensor& scale, const Tensor& shift) {
  Tensor newBias = Tensor::empty(DType::Float32, scale.sizes()), newScale = scale;
  if (scale_.defined()) newScale = Tensor::empty(DType::Float32, scale.sizes());
  for (int64_t i = 0; i < scale.numel(); ++i) {
    const float s = scale.data<float>()[i];
    newBias.data<float>()[i] = (bias.defined() ? bias.data<float>()[i] * s : 0.0f) + shift.data<float>()[i];
    if (scale_.defined()) newScale.data<float>()[i] = scale_.data<float>()[i] * s;
  }
  bias = newBias;
  scale_ = newScale;
}

}  // namespace tscompile
