// What an engine computes for inputs of known dtypes and sizes: layers over tensors that lie in buffers.
#pragma once

#include "ir/graph/node.h"
#include "ir/values/ivalue.h"
#include "ir/values/tensor.h"
#include "ir/values/type.h"
#include "runtime/kernels/layout.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace tscompile {

class Frame;

using TensorId = uint32_t;
using BufferId = uint32_t;

// Memory that tensors of a network lie in.
struct NetBuffer {
  enum class Kind : uint8_t {
    Input,     // of a tensor that the caller gives
    Constant,  // of a weight
    Inner,     // of the engine's arena, or a tensor of its own if it is given out
  } kind = Kind::Inner;
  bool escapes = false;  // an output lies in it
  size_t bytes = 0;
  uint32_t input = 0;    // of Input: which of the tensors among the inputs
  Tensor constant = {};  // of Constant
  size_t behind = 0;     // of Inner: bytes past its end that may be read, but are not used
};

// A tensor of a network: a part of a buffer, seen through sizes and strides.
struct NetTensor {
  static constexpr int64_t kNotAnInput = -1;
  BufferId buffer = 0;
  DType dtype = DType::Undefined;
  Dims sizes, strides;
  int64_t offset = 0;  // of the element with index 0, in elements from the start of the buffer
  int64_t numel = 0;
  bool contiguous = true;
  bool blocked = false;       // [N][C / 16][H][W][16] in memory (layout.h); sizes are those of the tensor all the same
  ElementType elements = {};  // of a blocked one; its dtype is theirs
  int64_t input = kNotAnInput;  // it is this input itself, not a view of it

  int rank() const { return static_cast<int>(sizes.size()); }
  bool isFloat() const { return dtype == DType::Float32; }
};

// A value of the graph as the network knows it.
struct NetValue {
  enum class Kind : uint8_t { Known, Tensor, List } kind = Kind::Known;
  IValue known;  // of Known; the value itself
  TensorId tensor = 0;
  std::vector<NetValue> items;    // of List: some of them are tensors of the network
  TypePtr elementType = nullptr;  // of List
};

// A number among the inputs as a tensor that layers read.
struct NetNumber {
  uint32_t input = 0;  // which of the inputs
  DType dtype = DType::Undefined;
  int64_t extent = 0;  // of an index: of what it counts, from the end if it is negative; 0: it is an operand
};

// One step of an engine. Immutable once the network is made: many runs may be in it at once.
class Layer {
 public:
  explicit Layer(const Node* node) : node(node) {}
  virtual ~Layer() = default;
  // What reports call it: "conv2d", "kernel aten::lgamma".
  virtual std::string name() const = 0;
  // Planned, threaded, and without a call of an operator's reference kernel.
  virtual bool isNative() const { return true; }
  // Of layers that call a kernel though the operator has a converter: why that has no layer for these arguments.
  virtual std::string_view whyKernel() const { return {}; }
  // Whether output 0 is input 0 but for what is written to parts of it. Where both lie in the same memory
  // (optimize/write_in_place.cpp) there are these alone to write.
  virtual bool replacesParts() const { return false; }
  // Bytes that it needs for itself while it runs.
  virtual size_t workspace() const { return 0; }
  virtual void run(Frame& frame) const = 0;
  // Floating-point operations, as far as they are known; for reports.
  virtual double flops() const { return 0; }

  // What it reads and writes. Layers that write to a tensor that they also read, name it in both.
  std::vector<TensorId> inputs, outputs;
  const Node* node;           // the (first) node that it computes
  std::string_view ofOthers;  // the operator whose converter is not ours and has added it; empty: it is ours
};

class Network {
 public:
  std::vector<NetBuffer> buffers;
  std::vector<NetTensor> tensors;
  std::vector<std::unique_ptr<Layer>> layers;
  std::vector<NetValue> outputs;
  // A layer writes memory that other layers or the caller see: layers keep their order and their tensors.
  bool writes = false;
  // Layers write inputs that no other layer reads: which of the tensors among the inputs.
  std::vector<uint32_t> writtenInputs;
  // Tensors behind those among the inputs: operands have no dimensions, indices one of size 1.
  std::vector<NetNumber> numbers;

  // A contiguous tensor in a buffer of its own.
  TensorId addTensor(DType dtype, DimSpan sizes);
  TensorId addView(BufferId buffer, DType dtype, DimSpan sizes, DimSpan strides, int64_t offset);
  TensorId addConstant(const Tensor& constant);
  const NetTensor& operator[](TensorId id) const { return tensors[id]; }
  const NetBuffer& bufferOf(TensorId id) const { return buffers[tensors[id].buffer]; }
  bool isConstant(TensorId id) const { return bufferOf(id).kind == NetBuffer::Kind::Constant; }
};

// A tensor in memory that nothing has written when it is read: by a layer, or by whom the network gives it (null).
struct UnmadeTensor {
  TensorId tensor = 0;
  const Layer* layer = nullptr;
};
std::optional<UnmadeTensor> firstUnmade(const Network& network);

}  // namespace tscompile
