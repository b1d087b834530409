// Tensors of 16 bits in networks. What PyTorch computes on them in f32 and rounds is layers of f32 and a step that
// rounds: between layers such a tensor is one of f32 whose elements 16 bits hold. It is stored in 16 bits where
// something else asks for it.
#pragma once

#include "ir/operators/op_registry.h"
#include "runtime/engine/network/convert_call.h"

#include <span>
#include <unordered_map>

namespace tscompile {

inline bool isHalf(DType d) { return d == DType::Float16 || d == DType::BFloat16; }

// Whether a call with such arguments and results is to be computed in f32.
bool computesInFloats(const Operator& op, std::span<const IValue* const> arguments, const InferCall& infer);

class HalfTensors {
 public:
  explicit HalfTensors(NetworkTensors& tensors) : tensors_(tensors) {}

  // A call of `op` without its halves: argument i where it is computed in f32.
  IValue inFloats(const Node* node, const Operator& op, std::span<const IValue* const> arguments, size_t i);
  // A tensor of 16 bits as f32, the same each time.
  Tensor widened(const Node* node, const Tensor& half);
  // What was added to a network for a call in f32, layers from `first` on, is told what it multiplies.
  void tellDType(const Operator& op, std::span<const IValue* const> arguments, size_t first);
  // The tensor of 16 bits that one of f32 is rounded to.
  Tensor narrowed(const Node* node, DType dtype, const Tensor& exact);

 private:
  Tensor widenedConstant(const Tensor& half);
  // As f32 that 16 bits hold, what is f32 or integers.
  Tensor rounded(const Node* node, DType dtype, const Tensor& exact);

  NetworkTensors& tensors_;
  std::unordered_map<const TensorImpl*, Tensor> stored_;  // those that lie in memory
  std::unordered_map<const Storage*, Tensor> constants_;  // all of their memory
};

}  // namespace tscompile
