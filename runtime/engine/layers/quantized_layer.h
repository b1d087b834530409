// Quantised tensors in engines. Which grid one lies on is known while the network is made: the symbolic storage says
// it. In memory are steps (runtime/kernels/requantize.h), so that layers for float32 compute with them, exactly as long
// as sums stay below 2^24, and fuse and lay them out as all others. Only inputs and outputs of an engine, and what
// reference kernels take, are bytes.
#pragma once

#include "ir/values/quantization.h"
#include "runtime/call/function_ref.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/kernels/requantize.h"

#include <vector>

namespace tscompile {

// Layers over the elements of tensors of one size, in the order in which they lie.
class StepLayer : public Layer {
 public:
  using Layer::Layer;
  bool blocked = false;  // all tensors are (layout.h)

 protected:
  // Calls body(begin, count) for pieces of all floats, those that fill up blocks included.
  void overPieces(const Frame& frame, FunctionRef<void(int64_t begin, int64_t count)> body) const;
};

// x * factor, rounded to the grid. One factor, or one for each index of a dimension, of which there are
// `channels`; `inner` elements lie between two of them.
class RequantizeLayer : public StepLayer {
 public:
  RequantizeLayer(const Node* node, std::vector<float> factors, int64_t inner, StepRange range);
  std::string name() const override { return "requantize"; }
  void run(Frame& frame) const override;
  // Of the columns of a product, of which there are so many and `inner` elements between two; undefined if these are
  // not what the factors are for.
  Tensor factorsOf(int64_t columns, int64_t inner) const;
  StepRange range() const { return range_; }

 private:
  std::vector<float> factors_;  // filled up with zeros to whole blocks of channels, unless it is one
  int64_t channels_, inner_;
  StepRange range_;
};

class AddStepsLayer : public StepLayer {
 public:
  AddStepsLayer(const Node* node, const FixedPointSum& sum, StepRange range)
      : StepLayer(node), sum_(sum), range_(range) {}
  std::string name() const override { return "quantized_add"; }
  void run(Frame& frame) const override;

 private:
  FixedPointSum sum_;
  StepRange range_;
};

// What an element-wise operator gives for each integer that there is.
class TableLayer : public StepLayer {
 public:
  TableLayer(const Node* node, std::vector<float> table, StepRange range)
      : StepLayer(node), table_(std::move(table)), range_(range) {}
  std::string name() const override { return "table"; }
  void run(Frame& frame) const override;

 private:
  std::vector<float> table_;
  StepRange range_;
};

// The grid of unsigned bytes that PyTorch's dynamic quantisation chooses for numbers between two bounds, of seven bits
// where the range is reduced; fails if the bounds are NaN.
struct DynamicGrid {
  float scale;
  StepRange range;
};
DynamicGrid dynamicGrid(StepRange bounds, bool isReduced);

// Numbers -> steps on a grid that each run chooses, as PyTorch's dynamic quantisation does; the second output is its
// scale.
class DynamicStepsLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "dynamic_quantize"; }
  void run(Frame& frame) const override;

  bool isReduced = false;
};

// Bytes -> steps at an input of an engine, and back at an output.
class BytesLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return grid ? "pack_bytes" : "unpack_bytes"; }
  void run(Frame& frame) const override;
  Ref<const Quantization> grid;  // of the output; null: the input is the quantised one
};

bool isQuantizedTensor(const IValue& v);
// Whether the value is a quantised tensor, or a list that holds one.
bool holdsQuantized(const IValue& v);
bool sameGrid(const Quantization& a, const Quantization& b);
StepRange stepRange(DType quantized, const Quantization& q);

// The steps of a quantised tensor: of the network, or a constant.
Tensor stepsIn(const Tensor& quantized);
// Steps as a quantised tensor; refuses grids that engines do not have.
IValue quantizedIn(ConvertCall& call, const Tensor& steps, DType dtype, const Quantization& q);
// What the integers stand for.
IValue numbersIn(ConvertCall& call, const Tensor& quantized);

// ---- layers of a call, each of which gives a new tensor ----

// x * factor, rounded: with several factors one for each index of a dimension, `inner` elements apart.
Tensor addRequantize(ConvertCall& call, const Tensor& x, std::vector<float> factors, int64_t inner, StepRange range);
IValue addQuantize(ConvertCall& call, const Tensor& numbers, DType dtype, const Quantization& q);
Tensor addSumOfSteps(ConvertCall& call, const Tensor& a, const Tensor& b, const FixedPointSum& sum, StepRange range);
// Steps of a grid that follows from x; its scale, and the least step that there can be.
Tensor addDynamicSteps(ConvertCall& call, const Tensor& x, bool isReduced, Tensor& scale, Tensor& least);
// The quantised tensor `given` at an input of the engine, of which `input` is the symbolic tensor; and one at an
// output.
Tensor unpackInput(NetworkTensors& tensors, const Tensor& input, const Tensor& given);
TensorId packOutput(NetworkTensors& tensors, const Tensor& quantized);

// ---- converters ----

// Every operator: its kernel runs on tensors of bytes. What it gives, and on which grid, is found by running it on
// zeros.
void convertQuantizedToKernel(ConvertCall& call);
// Each element of the result comes from one of the first argument, and all other arguments are known.
void convertByTable(ConvertCall& call);
// Operators that move and choose elements do so with steps.
void convertOnSteps(ConvertCall& call);
// Operators that compute with steps as with numbers; the result is rounded to the grid of the argument.
void convertRoundedSteps(ConvertCall& call);

}  // namespace tscompile
