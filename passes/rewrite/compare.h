// Runs a graph as it was before a rewrite and as it is after on sample inputs, and tells how the results differ.
#pragma once

#include "ir/graph/evaluator.h"

#include <optional>
#include <string>
#include <vector>

namespace tscompile {

// What differs, as PyTensor's BadOptimization reports it.
struct RewriteMismatch {
  size_t output = 0;
  std::string before, after;  // dtype and sizes of a tensor; the value of anything else
  // Of tensors of the same dtype and sizes; the relative ones by |a - b| / max(|a|, |b|), where both are finite.
  double maxAbsolute = 0, meanAbsolute = 0, medianAbsolute = 0, deviationAbsolute = 0;
  double maxRelative = 0, meanRelative = 0, medianRelative = 0, deviationRelative = 0;
  std::string position;  // index of the greatest absolute difference
  std::string valueBefore, valueAfter;
  std::string text() const;
};

// Arguments for a graph from the types of its inputs: small tensors, where sizes are not known 2, 3, 4 ...; `sample`
// selects which: 0 ordinary numbers, 1 small integers with zeros and repeats, 2 with infinities and NaN among them.
// Nothing if an input is of a type that has no samples.
std::optional<std::vector<IValue>> sampleInputs(const Graph& graph, int sample);

// Nothing if the results agree: exactly what is not floating, else within the tolerances, NaN equal to NaN.
std::optional<RewriteMismatch> compareResults(const std::vector<IValue>& before, const std::vector<IValue>& after,
                                              double relative, double absolute);

// Both graphs on a few samples; samples on which the first one fails say nothing. `compared`: how many did.
std::optional<RewriteMismatch> compareGraphs(const Graph& before, const Graph& after, Evaluator& evaluator,
                                             double relative = 1e-5, double absolute = 1e-6,
                                             size_t* compared = nullptr);

}  // namespace tscompile
