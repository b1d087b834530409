// Layers that are products with constant weights: matrix products and convolutions. What follows them is done before
// their results leave the registers.
#pragma once

#include "runtime/call/function_ref.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/engine/network/weight_store.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/product.h"

#include <optional>

namespace tscompile {

class PackedLayer : public Layer {
 public:
  using Layer::Layer;
  // Packs the weights.
  virtual void prepare(WeightStore& store, const ProductPrecision& precision) = 0;
  // In which precision it multiplies where others do in the one that is wanted.
  virtual ProductPrecision precisionFor(const ProductPrecision& wanted) const { return wanted; }

 protected:
  // Whether so many weights in 16 bits are no faster than f32, since each product converts them.
  static bool onlyConverts(WeightStorage storage, int64_t count);
  // F32 if 16 bits do not hold the weights, or are no faster.
  static WeightStorage fitting(WeightStorage wanted, FunctionRef<Tensor()> weights);
};

class ProductLayer : public PackedLayer {
 public:
  static constexpr size_t kNoResidual = SIZE_MAX;
  using PackedLayer::PackedLayer;

  // activation(product + bias + residual)
  Tensor bias;                    // one value per column or channel, f32, contiguous; may be undefined
  size_t residual = kNoResidual;  // which of the inputs
  Activation activation = Activation::None;
  float alpha = 0, beta = 0;
  // Of integers, may be undefined: a factor for each column, in whole blocks, by which results are brought to
  // [alpha, beta] of a grid (Epilogue::factors).
  Tensor factors;
  Tensor integerBias;  // int32 in whole blocks, of what float32 does not hold; stands for `bias`, may be undefined

  // Multiplies the columns (channels) by `scale` and adds `shift`; f32, contiguous, as many as columns. Before packing.
  void scaleColumns(const Tensor& scale, const Tensor& shift);
  virtual int64_t columns() const = 0;
  // bf16 holds its input and its weights as they are: where processors multiply that, nothing is lost.
  void setIsOfBrains() { isOfBrains_ = true; }
  ProductPrecision precisionFor(const ProductPrecision& wanted) const override;

 protected:
  Epilogue epilogueOf(const Frame& frame) const;
  std::string epilogueName() const;
  // As kernels read values of blocked columns: filled up with zeros.
  static Tensor inWholeBlocks(const Tensor& columns);

  // The bias of a product of bytes that stand for as much more as `least`; sum(column): of the column's weights.
  Tensor biasOfBytes(float least, FunctionRef<double(int64_t)> sum) const;

  Tensor scale_;  // of the columns, applied when the weights are packed; may be undefined

 private:
  bool isOfBrains_ = false;
};

}  // namespace tscompile
