// Element-wise operations: one at first, chains of them once the network is optimised.
#pragma once

#include "runtime/engine/layers/line_layer.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/pointwise.h"

#include <optional>
#include <vector>

namespace tscompile {

class PointwiseLayer : public Layer, public LineLayer {
 public:
  using Layer::Layer;
  std::string name() const override;
  void run(Frame& frame) const override;

  // Each input is broadcast to the sizes of the output.
  PointwiseProgram program;

  // Whether all it does is to copy its input.
  bool isCopy() const;
  // The only step, if there is one only; null otherwise.
  const PointwiseProgram::Value* onlyStep() const;
  // The program is over blocked activations (layout.h): inputs have the output's layout, or are constants of one value
  // or of one per channel in whole blocks.
  bool blocked = false;
  // Where inputs are broadcast along pixels or channels otherwise: each one's steps through images, blocks, the
  // dimensions of pixels, and lanes.
  std::vector<Dims> spread;
  bool takesLines(const Network& network, const ProductPrecision&, TensorId tensor, DType dtype) const override;
  bool sharesKind(const Network& network, TensorId tensor) const override {
    return network[tensor].numel == network[outputs[0]].numel;
  }
  void settle(const Network& network) override;
};

// Such loops on integers and on f64, which no other layer takes into its own.
class WideLoopLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override;
  void run(Frame& frame) const override;

  // Each input is broadcast to the sizes of the output.
  PointwiseProgram program;
};

// What reports call such a loop: "pointwise of 3".
std::string loopName(const PointwiseProgram& program);
// Images of such sizes in blocks of channels: images, blocks, the dimensions of pixels, and lanes.
Dims sizesInBlocks(const Dims& sizes);
// The strides with which a tensor walks through sizes of so many dimensions that it is broadcast to.
Dims broadcastStrides(const NetTensor& t, size_t rank);
// Whether loops read and write elements of this dtype where the network has them.
inline bool isPointwise(DType dtype) { return dtype == DType::Float32 || dtype == DType::Bool; }
// All of a tensor of integers as floats.
TensorId addFloats(Network& network, const Node* node, TensorId integers);
TensorId addFloats(ConvertCall& call, const Tensor& integers);
// Appends the steps of `from` to `to`, its inputs being the values `inputs` of `to`. Returns the value of its output.
int appendProgram(PointwiseProgram& to, const PointwiseProgram& from, std::span<const int> inputs);

// Whether they can load and store elements of this dtype, which are floats in between.
inline bool isLoaded(DType dtype) { return isPointwise(dtype) || dtype == DType::Float16 || dtype == DType::BFloat16; }
// The same of integers: bytes are what quantised activations are stored as, which are rounded and not cut off.
inline bool isLoadedInteger(DType dtype) {
  return dtype == DType::Int8 || dtype == DType::Int16 || dtype == DType::Int32;
}
// to = from, between two such dtypes, of which one is no integer.
void addConversion(Network& network, const Node* node, TensorId from, TensorId to);
// A contiguous copy of a tensor.
TensorId addCopy(ConvertCall& call, TensorId from);
void addCopy(ConvertCall& call, TensorId from, TensorId to);
// Adds y = x * scale + shift with a scale and shift for each channel, dimension 1; f32 constants.
void addChannelAffine(ConvertCall& call, const Tensor& scale, const Tensor& shift);

// aten::clone, contiguous and reshape of what has to be copied.
void convertCopy(ConvertCall& call);

}  // namespace tscompile
