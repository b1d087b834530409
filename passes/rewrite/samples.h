// Values on which a graph can be run to see what it computes: arguments, and what stands for weights that are not
// there.
#pragma once

#include "ir/graph/graph.h"

#include <memory>
#include <optional>
#include <vector>

namespace tscompile {

// How values are made where types leave them open.
struct SampleForm {
  // Of tensors of unknown rank, and for the open sizes of tensors of this rank. Else two dimensions, and 2, 3, 4 ....
  std::optional<Dims> sizes;
  DType dtype = DType::Float32;
  // Indices: 0 and 1, which lie in all that holds two. Sizes: lists of integers are the sizes of the tensor before
  // them.
  enum class Integers : uint8_t { Any, Indices, Sizes } integers = Integers::Any;
  friend bool operator==(const SampleForm&, const SampleForm&) = default;
};

// Arguments for a graph from the types of its inputs: small tensors; `sample` selects which: 0 ordinary numbers, 1
// small integers with zeros and repeats, 2 with infinities and NaN among them, 3 halves. Nothing if an input is of a
// type that has no samples.
std::optional<std::vector<IValue>> sampleInputs(const Graph& graph, int sample, const SampleForm& form = {});

// A graph that runs without its weights: attributes and constants whose values are not known get samples, too, the same
// for the same name.
class SampledGraph {
 public:
  // `self`: of the module, what is known of it; may be null. Keys of dicts are the words that `words` looks up.
  SampledGraph(const Graph& graph, const ObjectValue* self, const Graph& words);

  // The forms that may fit, the simplest ones first: with the sizes of images and texts that its weights ask for.
  std::vector<SampleForm> forms() const;
  // Makes arguments(); false if something is of a type that has no samples.
  bool fill(int sample, const SampleForm& form);
  std::vector<IValue>& arguments() { return arguments_; }
  const Graph& graph() const { return filled_ ? *filled_ : graph_; }

 private:
  std::optional<IValue> object(const Value* self, int sample, const SampleForm& form) const;

  const Graph& graph_;
  const ObjectValue* self_;
  std::vector<IValue> words_;
  std::unique_ptr<Graph> filled_;  // a copy of the graph, if constants lack their values
  std::vector<IValue> arguments_;
};

}  // namespace tscompile
