#include "runtime/engine/layers/conv_layer.h"
#include "runtime/engine/layers/input_conv_layer.h"
#include "runtime/engine/layers/integer_weights.h"
#include "runtime/engine/layers/matmul_layer.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/layers/product_layer.h"
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace tscompile {
namespace {

std::optional<Activation> activationOf(PointwiseOp op) {
  switch (op) {
#define TS_ACTIVATION(name, ...) \
  case PointwiseOp::name:        \
    return Activation::name;
#include "runtime/kernels/pointwise_ops.def"
    default:
      return std::nullopt;
  }
}

class ProductFuser {
 public:
  explicit ProductFuser(Network& network) : n_(network), uses_(network) {}

  void run() {
    for (size_t i = 0; i < n_.layers.size(); ++i)
      if (dynamic_cast<ProductLayer*>(n_.layers[i].get())) extend(i);
    uses_.compact();
  }

 private:
  // Takes in what follows, one layer at a time, until there is an activation or something else.
  void extend(size_t i) {
    auto& product = static_cast<ProductLayer&>(*n_.layers[i]);
    auto* integers = dynamic_cast<IntegerWeights*>(&product);
    if (integers && integers->holdsIntegers()) return takeRounding(i, product);  // of sums with what is added as well
    while (product.activation == Activation::None) {
      TensorId t = product.outputs[0];
      size_t next = uses_.soleReader(t);
      if (next == NetworkUses::kNobody || next <= i) return;
      auto* after = dynamic_cast<PointwiseLayer*>(n_.layers[next].get());
      if (!after || !uses_.isWhole(t) || !uses_.isWhole(after->outputs[0]) || !n_[after->outputs[0]].isFloat()) return;
      if (takeBehindView(product, *after)) return;
      uses_.remove(i);
      bool taken = take(product, *after);
      uses_.add(i);
      if (!taken) return;
      TensorId output = after->outputs[0];
      uses_.remove(i);
      product.outputs[0] = output;
      uses_.add(i);
      uses_.replace(next, i);
      i = next;
    }
  }

  // Whether a view shows each element of its buffer once, in another order.
  bool isPermuted(TensorId id) const {
    const NetTensor& t = n_[id];
    if (t.contiguous || t.offset != 0) return false;
    std::vector<std::pair<int64_t, int64_t>> steps;  // strides and sizes
    for (size_t d = 0; d < t.sizes.size(); ++d)
      if (t.sizes[d] != 1) steps.emplace_back(t.strides[d], t.sizes[d]);
    std::sort(steps.begin(), steps.end());
    int64_t next = 1;
    for (auto [stride, size] : steps) {
      if (stride != next) return false;
      next *= size;
    }
    return static_cast<size_t>(next) * itemSize(t.dtype) == n_.buffers[t.buffer].bytes;
  }

  // An activation of the result in another order of dimensions: the product does it, what is left is a copy.
  bool takeBehindView(ProductLayer& product, PointwiseLayer& after) {
    const PointwiseProgram::Value* step = after.onlyStep();
    if (!step || after.inputs.size() != 1 || !isPermuted(after.inputs[0])) return false;
    const std::optional<Activation> activation = activationOf(step->op);
    if (!activation) return false;
    product.activation = *activation;
    product.alpha = static_cast<float>(step->alpha);
    product.beta = static_cast<float>(step->beta);
    PointwiseProgram copy;
    copy.output(copy.step(PointwiseOp::Copy, copy.input()));
    after.program = std::move(copy);
    return true;
  }

  // The layer that brings integers to a grid, if it is what follows.
  void takeRounding(size_t i, ProductLayer& product) {
    const TensorId t = product.outputs[0];
    const size_t next = uses_.soleReader(t);
    if (next == NetworkUses::kNobody || next <= i) return;
    auto* after = dynamic_cast<RequantizeLayer*>(n_.layers[next].get());
    if (!after || !uses_.isWhole(t) || !uses_.isWhole(after->outputs[0]) || product.factors.defined()) return;
    const auto* conv = dynamic_cast<ConvLayer*>(&product);
    const int64_t inner = conv ? conv->shape().outArea() : 1;
    product.factors = after->factorsOf(product.columns(), inner);
    if (!product.factors.defined()) return;
    product.alpha = after->range().least;
    product.beta = after->range().most;
    const TensorId output = after->outputs[0];
    uses_.remove(i);
    product.outputs[0] = output;
    uses_.add(i);
    uses_.replace(next, i);
  }

  // The input of `layer` that is all of the product's result, with the same sizes as the layer's result; its position.
  std::optional<size_t> resultAmong(const ProductLayer& product, const PointwiseLayer& layer) const {
    std::optional<size_t> found;
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      if (n_[layer.inputs[k]].buffer != n_[product.outputs[0]].buffer) continue;
      if (found || !uses_.isWhole(layer.inputs[k]) || !(n_[layer.inputs[k]].sizes == n_[layer.outputs[0]].sizes))
        return std::nullopt;
      found = k;
    }
    return found;
  }

  bool take(ProductLayer& product, const PointwiseLayer& layer) {
    const PointwiseProgram::Value* step = layer.onlyStep();
    std::optional<size_t> at = resultAmong(product, layer);
    if (!step || !at) return false;
    auto inputOf = [&](int value) {
      const PointwiseProgram::Value& v = layer.program.values()[static_cast<size_t>(value)];
      return v.kind == PointwiseProgram::Value::Kind::Input ? std::optional<size_t>(static_cast<size_t>(v.index))
                                                            : std::nullopt;
    };
    if (std::optional<Activation> activation = activationOf(step->op); activation && layer.inputs.size() == 1) {
      product.activation = *activation;
      product.alpha = static_cast<float>(step->alpha);
      product.beta = static_cast<float>(step->beta);
      return true;
    }
    if (step->op == PointwiseOp::MulAdd && layer.inputs.size() == 3)
      return *at == 0 && inputOf(step->a) == 0u && inputOf(step->b) == 1u && inputOf(step->c) == 2u &&
             takeScale(product, layer);
    if (step->op != PointwiseOp::Add || layer.inputs.size() != 2 || !inputOf(step->a) || !inputOf(step->b))
      return false;
    TensorId other = layer.inputs[1 - *at];
    return takeBias(product, layer, other) || takeResidual(product, layer, other);
  }

  // Whether a constant has a value for each column (channel) of the product, broadcast to its result.
  bool isPerColumn(const ProductLayer& product, const PointwiseLayer& layer, TensorId id) const {
    const NetTensor& t = n_[id];
    const Dims& sizes = n_[layer.outputs[0]].sizes;
    if (!n_.isConstant(id) || !t.isFloat() || !t.contiguous || t.numel != product.columns()) return false;
    bool isMatmul = dynamic_cast<const MatmulLayer*>(&product);
    // Channels are still dimension 1 only as long as the batch is dimension 0.
    if (!isMatmul && (sizes.size() < 2 || sizes[0] != n_[product.outputs[0]].sizes[0])) return false;
    size_t channel = isMatmul ? sizes.size() - 1 : 1;
    size_t fromEnd = sizes.size() - channel;
    return t.sizes.size() >= fromEnd && t.sizes[t.sizes.size() - fromEnd] == product.columns() &&
           sizes[channel] == product.columns();
  }

  Tensor vectorOf(TensorId id) const {
    const Tensor& c = n_.bufferOf(id).constant;
    return c.withGeometry(Dims{c.numel()}, Dims{1}, c.offset());
  }

  bool takeScale(ProductLayer& product, const PointwiseLayer& layer) {
    if (dynamic_cast<const InputConvLayer*>(&product)) return false;  // its weights are not packed before
    if (product.residual != ProductLayer::kNoResidual || !isPerColumn(product, layer, layer.inputs[1]) ||
        !isPerColumn(product, layer, layer.inputs[2]))
      return false;
    product.scaleColumns(vectorOf(layer.inputs[1]), vectorOf(layer.inputs[2]));
    return true;
  }

  bool takeBias(ProductLayer& product, const PointwiseLayer& layer, TensorId other) {
    if (product.bias.defined() || product.residual != ProductLayer::kNoResidual || !isPerColumn(product, layer, other))
      return false;
    product.bias = vectorOf(other);
    return true;
  }

  bool takeResidual(ProductLayer& product, const PointwiseLayer& layer, TensorId other) {
    const NetTensor& t = n_[other];
    if (product.residual != ProductLayer::kNoResidual || !t.isFloat() || !t.contiguous ||
        !(t.sizes == n_[layer.outputs[0]].sizes))
      return false;
    product.residual = product.inputs.size();
    product.inputs.push_back(other);
    return true;
  }

  Network& n_;
  NetworkUses uses_;
};

}  // namespace

void fuseProducts(Network& network) { ProductFuser(network).run(); }

}  // namespace tscompile
