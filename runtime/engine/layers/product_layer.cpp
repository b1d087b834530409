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

void ProductLayer::scaleBias(const Tensor& scale, const Tensor& shift) {
  Tensor scaled = Tensor::empty(DType::Float32, scale.sizes());
  for (int64_t i = 0; i < scale.numel(); ++i)
    scaled.data<float>()[i] =
        (bias.defined() ? bias.data<float>()[i] * scale.data<float>()[i] : 0.0f) + shift.data<float>()[i];
  bias = scaled;
}

}  // namespace tscompile
