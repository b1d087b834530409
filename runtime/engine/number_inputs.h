// Numbers among the inputs of an engine that are no part of its plan: each run puts them where layers read them.
#pragma once

#include "runtime/engine/network/convert_call.h"

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace tscompile {

// Operators that tracing asks for by itself.
inline constexpr std::string_view kClone = "aten::clone", kTake = "aten::index_select", kDrop = "aten::squeeze.dim";

// Of one tracing.
class NumberInputs {
 public:
  NumberInputs(NetworkTensors& tensors, OperatorTracer& tracer) : tensors_(tensors), tracer_(tracer) {}

  // What stands for a number while the graph is traced.
  IValue standIn(uint32_t input, const IValue& number);
  // Tensors that are made of numbers stand behind this many others.
  void beginAt(uint32_t tensor) { nextTensor_ = tensor; }
  bool isAmong(std::span<const IValue* const> arguments) const;
  // The result of an operator that is given such numbers. Nothing if it would be another one than with the numbers
  // themselves.
  std::optional<IValue> compute(const Operator& op, std::span<const IValue* const> arguments);

 private:
  struct Number {
    uint32_t input;
    IValue like;  // another number of its type
  };
  const Number* find(const IValue& value) const;
  // The number as a tensor of the network.
  IValue tensorOf(const Number& number, DType dtype, int64_t extent = 0);
  IValue apply(std::string_view op, std::vector<IValue> arguments);
  std::optional<IValue> select(std::span<const IValue* const> arguments);
  TensorSpec made(const Operator& op, std::span<const IValue* const> alike);
  std::optional<IValue> fill(const Number& number, const TensorSpec& result);

  NetworkTensors& tensors_;
  OperatorTracer& tracer_;
  uint32_t nextTensor_ = 0;
  std::vector<IValue> kept_;  // so that no address is used twice
  std::unordered_map<const TensorImpl*, Number> numbers_;
  struct Made {
    NetNumber number;
    IValue tensor;
  };
  std::vector<Made> made_;
};

// The tensor that a run puts in the place of a number. Nothing if the interpreter is to tell what comes of it: an index
// out of range, a number that is too large for the dtype.
std::optional<Tensor> tensorOf(const IValue& number, const NetNumber& as);

}  // namespace tscompile
