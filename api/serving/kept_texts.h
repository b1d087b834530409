// What is kept of the texts that a model serves where each has tensors of its own, and which texts may share a run.
#pragma once

#include "ir/values/ivalue.h"
#include "passes/serving/incremental.h"
#include "runtime/llm/tokens.h"

#include <memory>
#include <vector>

namespace tscompile {

class KeptTexts {
 public:
  // The states of some texts, beside each other in each tensor.
  struct Shared {
    std::vector<Tensor> states;
    size_t texts = 1;
  };
  // Those of one of them.
  struct Part {
    std::shared_ptr<const Shared> shared;
    size_t at = 0;
  };

  KeptTexts() = default;
  // Of so many texts at most.
  KeptTexts(std::vector<KeptState> forms, size_t most) : forms_(std::move(forms)), most_(most) {}

  size_t states() const { return forms_.size(); }
  // Whether texts with states of the same sizes may run together.
  bool mayShare() const;

  // What was kept after these tokens; without any, what texts begin with. Nothing if that is not there (any more).
  std::optional<Part> after(TokenSpan tokens) const;
  void forget(TokenSpan tokens);
  void keep(TokenSpan tokens, Part part);

  // Whether the states of two texts go into one tensor.
  bool fit(const Part& a, const Part& b) const;
  // Of all these, in their order: inputs of a run.
  std::vector<IValue> joined(const std::vector<Part>& parts) const;

 private:
  Tensor rowsOf(const Part& part, size_t state) const;

  struct Kept {
    std::vector<TokenId> tokens;
    Part part;
  };
  std::vector<KeptState> forms_;
  size_t most_ = 0;
  std::vector<Kept> kept_;  // the latest last
};

// What a model returned, tensors in tuples and lists as well, in the order of dimensions: views are copied. A graph
// that was lowered takes inputs that lie so.
std::vector<IValue> inOrder(std::vector<IValue> values);

// Tensors of the same sizes but for that of `dim`, one behind the other along it.
Tensor joinTensors(const std::vector<Tensor>& parts, int64_t dim);

}  // namespace tscompile
