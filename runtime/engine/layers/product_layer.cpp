#include "runtime/engine/layers/product_layer.h"

#include "ir/values/encoded.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"

#include <algorithm>

namespace tscompile {

bool PackedLayer::onlyConverts(WeightStorage storage, int64_t count) {
  constexpr int64_t kSmall = 32 << 10;  // stays in the nearest caches whatever it is stored as
  return count <= kSmall && !(storage == WeightStorage::BF16 && hasLineProducts(storage));
}

WeightStorage PackedLayer::fitting(WeightStorage wanted, FunctionRef<Tensor()> weights) {
  if (wanted != WeightStorage::F16 && wanted != WeightStorage::BF16) return wanted;
  const Tensor weight = weights();
  // They were held before: f32 has the same numbers.
  if (weight.storage()->encoding()) return onlyConverts(wanted, weight.numel()) ? WeightStorage::F32 : wanted;
  const DType dtype = wanted == WeightStorage::F16 ? DType::Float16 : DType::BFloat16;
  return keepsDigits(weight, dtype) ? wanted : WeightStorage::F32;
}

ProductPrecision ProductLayer::precisionFor(const ProductPrecision& wanted) const {
  // Few rows would be added in another order than many.
  const bool mayBe = wanted.weights == WeightStorage::F32 && wanted.roundsRows;
  const bool isExact = isOfBrains_ && !scale_.defined() && hasLineProducts(WeightStorage::BF16);
  return mayBe && isExact ? ProductPrecision{WeightStorage::BF16, true} : wanted;
}

Epilogue ProductLayer::epilogueOf(const Frame& frame) const {
  Epilogue e;
  e.bias = bias.defined() ? bias.data<float>() : nullptr;
  e.residual = residual == kNoResidual ? nullptr : reinterpret_cast<const float*>(frame.raw(inputs[residual]));
  e.activation = activation;
  e.alpha = alpha;
  e.beta = beta;
  e.factors = factors.defined() ? factors.data<float>() : nullptr;
  e.integerBias = integerBias.defined() ? integerBias.data<int32_t>() : nullptr;
  return e;
}

std::string ProductLayer::epilogueName() const {
  static constexpr std::string_view kNames[] = {
      "",
#define TS_ACTIVATION(name, ...) #name,
#include "runtime/kernels/pointwise_ops.def"
  };
  std::string text = residual == kNoResidual ? "" : "+add";
  // LeakyRelu is "+leaky_relu".
  for (bool first = true; char c : kNames[static_cast<size_t>(activation)]) {
    const bool isUpper = c >= 'A' && c <= 'Z';
    if (isUpper) text += first ? '+' : '_';
    text += isUpper ? static_cast<char>(c - 'A' + 'a') : c;
    first = false;
  }
  return factors.defined() ? text + "+requantize" : text;
}

Tensor ProductLayer::inWholeBlocks(const Tensor& columns) {
  if (!columns.defined() || columns.numel() % kBlock == 0) return columns;
  Tensor filled = Tensor::zeros(DType::Float32, Dims{channelBlocks(columns.numel()) * kBlock});
  std::copy_n(columns.data<float>(), columns.numel(), filled.data<float>());
  return filled;
}

Tensor ProductLayer::biasOfBytes(float least, FunctionRef<double(int64_t)> sum) const {
  const int64_t count = columns();
  Tensor made = Tensor::zeros(DType::Int32, Dims{channelBlocks(count) * kBlock});
  for (int64_t i = 0; i < count; ++i) {
    const double added = integerBias.defined() ? integerBias.data<int32_t>()[i]
                         : bias.defined()      ? bias.data<float>()[i]
                                               : 0;
    // Wraps around, as sums do that are in range once all is added.
    made.data<int32_t>()[i] = static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(added + least * sum(i))));
  }
  return made;
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
