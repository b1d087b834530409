// A graph whose inputs have small known sizes, of which parts are computed. What views, masks and sizes come to shows
// in their elements, however a model writes them down.
#pragma once

#include "ir/analysis/shape_propagation.h"
#include "passes/rewrite/rewrite.h"

#include <optional>
#include <vector>

namespace tscompile {

class SmallInstance {
 public:
  // Inputs of unknown rank are taken to be ids [batch, tokens]; of others the first open size is `batch` and the second
  // `tokens`; where an input [texts, tokens] tells its texts, these are `batch`. The context has an evaluator.
  // `positions`, if there are any, is an input [batch, tokens] that counts the tokens of each row from 0.
  SmallInstance(RewriteContext& context, int64_t batch, int64_t tokens, const Value* positions = nullptr);

  const int64_t batch, tokens;
  // Whether all sizes fit together.
  bool fits() const { return fits_; }
  // Nothing if some are not known.
  std::optional<Dims> sizes(const Value* value) const;
  DType dtype(const Value* value) const;

  struct Elements {
    Dims sizes;
    std::vector<double> values;  // row-major

    // As operators repeat them beside others. False if they cannot, or if these are too many.
    bool broadcast(const Dims& to);
  };
  using Given = std::vector<std::pair<const Value*, Tensor>>;
  // The elements of a tensor or number that depends on sizes, constants, positions and what is given alone.
  std::optional<Elements> compute(const Value* value, const Given& given = {}) const;
  // Where the elements of `value` come from: their row-major places in `from`, of which it is a view or copy.
  std::optional<Elements> places(const Value* value, const Value* from) const;
  // What stops sizes from fitting; null if they do.
  const ShapeConflict* conflict() const { return fits_ ? nullptr : &shapes_.conflicts().front(); }

 private:
  std::optional<IValue> known(const Value* value) const;

  RewriteContext& context_;
  const Value* positions_;
  ShapePropagation shapes_;
  bool fits_;
};

// The node of this kind, or of any, behind a value: in the outermost block, pure, and nobody writes its memory. Else
// null.
Node* quietNode(const Value* value, RewriteContext& context, Symbol kind = Symbol());
// The nodes that a value is computed by, inputs before users, down to values that are given, to sizes of tensors and to
// constants; nothing if it needs more, or what may not be computed elsewhere.
std::optional<std::vector<Node*>> nodesBehind(const Value* value, const std::vector<const Value*>& given,
                                              RewriteContext& context);
// Whether a node asks for sizes or the dtype alone, and the input of which it takes the form alone.
bool isSizeQuestion(const Node* node, GraphFacts& facts);
std::optional<size_t> slotOfForm(const Node* node, GraphFacts& facts);
// Makes a graph return a value as doubles that lie in order, so that masks, numbers and places are read the same way.
void returnAsDoubles(Graph& graph, Value* value);
// A tensor of these sizes whose elements are their row-major places.
Tensor counted(DimSpan sizes);

}  // namespace tscompile
