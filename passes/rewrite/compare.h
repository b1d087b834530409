// Runs a graph as it was before a rewrite and as it is after on sample inputs, and tells how the results differ.
#pragma once

#include "ir/graph/evaluator.h"
#include "passes/rewrite/samples.h"

#include <optional>
#include <string>
#include <string_view>
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

// The argument of rewriting that is the object behind %self: what is known of it is what samples take.
inline constexpr const char* kSampledModule = "sampled_module";

// How results are compared.
struct RewriteComparison {
  double relative = 1e-5, absolute = 1e-6;
  bool assumesFinite = false;         // what is not finite before may be anything after
  const ObjectValue* self = nullptr;  // of the module, what is known of it; attributes that it has not get samples
  std::optional<SampleForm>* form = nullptr;  // of samples, tried first; set to the one that fits
};

// Nothing if the results agree: exactly what is not floating, else within the tolerances, NaN equal to NaN. Numbers of
// 16 bits may differ in the last one.
std::optional<RewriteMismatch> compareResults(const std::vector<IValue>& before, const std::vector<IValue>& after,
                                              const RewriteComparison& how);

// Both graphs on a few samples; samples on which the first one fails say nothing. `compared`: how many did not.
std::optional<RewriteMismatch> compareGraphs(const Graph& before, const Graph& after, Evaluator& evaluator,
                                             const RewriteComparison& how = {}, size_t* compared = nullptr);

}  // namespace tscompile
