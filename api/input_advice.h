// What is told of the inputs beside a run that failed: other dtypes than those of the model, and how they would fit.
#pragma once

#include "api/input_range.h"
#include "api/module.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tscompile {

// What is known of the inputs of a method.
struct KnownInputs {
  std::span<const ValueInfo> wanted;
  const Graph& graph;
  const OpRegistry& registry;
  bool isWhole;  // the graph calls nothing, and has its weights: it was lowered
  // Whether tensors of these dtypes and sizes may be given at all. Their elements must not be read.
  std::function<bool(std::span<const IValue>)> accepts;
};

// Runs, and adds that to errors of kind Model: where the sizes and dtypes of the inputs are what the model cannot
// compute with, the nearest ones that it can, and what makes them of the given tensors.
Result<std::vector<IValue>> toldOfInputs(const KnownInputs& known, std::span<const IValue> given,
                                         Diagnostics& diagnostics,
                                         const std::function<Result<std::vector<IValue>>(Diagnostics&)>& run);

// The same notes for sizes that a lowered graph was asked to be compiled for.
std::vector<std::string> fittingSizes(const Graph& graph, const OpRegistry& registry,
                                      std::span<const InputRange> asked);

// While one lives, runs of its thread that fail are trials, whose inputs nobody has given.
class InputTrialsScope {
 public:
  InputTrialsScope();
  ~InputTrialsScope();
  InputTrialsScope(const InputTrialsScope&) = delete;
  InputTrialsScope& operator=(const InputTrialsScope&) = delete;

 private:
  bool before_;
};

// Sizes and dtype, "1x3x224x224:f32", of the first usual kind of tensor whose rank and dtype all nodes of a lowered
// graph can take for this input, with sizes that they can take where those are found; "" if there is none.
std::string likelySizes(const Graph& graph, const OpRegistry& registry, const std::string& input);

}  // namespace tscompile
