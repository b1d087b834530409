// How tensors of a network would lie in the interpreter, for graphs that ask: networks lay out what they compute row by
// row, kernels may follow their arguments.
#pragma once

#include "ir/operators/op_registry.h"
#include "ir/values/ivalue.h"
#include "runtime/call/run_context.h"

#include <optional>
#include <span>
#include <unordered_map>

namespace tscompile {

class InterpreterStrides {
 public:
  explicit InterpreterStrides(RunContext& context) : context_(context) {}

  // A symbolic tensor as the interpreter has it, or a list of such; anything else as it is. Nothing if that is not
  // known.
  std::optional<IValue> of(const IValue& value) const;
  // To be told of what an operator gave in the network for arguments of the network.
  void note(const Operator& op, std::span<const IValue* const> arguments, std::span<IValue> results);
  // What the interpreter gives is not known.
  void forget(std::span<IValue> results);

 private:
  using Strides = std::optional<Dims>;
  struct Entry {
    Tensor tensor;  // so that no address is used twice
    Strides strides;
  };

  bool isViewAsTold(std::span<const IValue* const> arguments, std::span<const IValue> results) const;
  std::optional<std::vector<IValue>> all(std::span<const IValue* const> arguments) const;
  std::optional<std::vector<IValue>> computed(const Operator& op, const std::vector<IValue>& arguments, size_t count);
  void recordRows(std::span<IValue> results);
  void record(std::span<IValue> results, std::span<const IValue> interpreted);
  void record(IValue& result, Strides strides);
  static void layOut(IValue& constant, DimSpan strides);

  RunContext& context_;
  std::unordered_map<const TensorImpl*, Entry> entries_;  // of tensors whose strides are others, or not known
};

// Whether strides place elements alike: those of dimensions of one element place none.
bool placeAlike(DimSpan sizes, DimSpan a, DimSpan b);
// The dimensions from the outermost to the innermost, if strides are those of a tensor without gaps.
std::optional<Dims> denseOrder(DimSpan sizes, DimSpan strides);

}  // namespace tscompile
