// The one symbolic shape propagation: dtypes, ranks, sizes and known integers of every value, from what is known of the
// inputs. Nothing is executed.
#pragma once

#include "ir/graph/graph.h"
#include "ir/graph/side_table.h"
#include "ir/operators/infer_call.h"
#include "ir/operators/op_registry.h"

#include <deque>
#include <functional>
#include <optional>
#include <vector>

namespace tscompile {

// A mistake that shows without running: sizes that cannot fit.
struct ShapeConflict {
  const Node* node;
  std::string message;
};

struct ShapeOptions {
  // What is known of graph inputs, by position; fewer or empty entries: the type that the text gives. Sizes may be
  // symbols (numbers below kUnknownSize), which stay symbols where they pass through unchanged.
  std::vector<std::optional<SymbolicValue>> inputs;
  // Values that are known otherwise: attributes of modules, constants whose data was supplied. May be empty.
  std::function<std::optional<SymbolicValue>(const Value*)> known;
};

class ShapePropagation {
 public:
  ShapePropagation(const Graph& graph, const OpRegistry& registry, const ShapeOptions& options = {});

  // What is known of a value; at least its type without refinement.
  const SymbolicValue& of(const Value* value) const;
  // Null for values that are newer than the analysis.
  const SymbolicValue* find(const Value* value) const;
  // What is known of a newer value, from what is known of the inputs of its node. The values that were known are taken
  // to be as they were.
  const SymbolicValue& extend(const Value* value);
  void forget(const Value* value) { index_[value] = 0; }
  // The tensor's facts: dtype, rank and sizes, as far as they are known.
  const TensorFacts& tensor(const Value* value) const { return of(value).type->tensor(); }
  const std::vector<ShapeConflict>& conflicts() const { return conflicts_; }
  const OpRegistry& registry() const { return *registry_; }

  // Writes what is known into the types of the graph's values.
  void applyTo(Graph& graph) const;

 private:
  friend class ShapeWalker;
  SymbolicValue& at(const Value* value);

  ValueTable<uint32_t> index_;       // into store_, from 1 on; 0: not known
  std::deque<SymbolicValue> store_;  // what was handed out stays where it is
  std::vector<ShapeConflict> conflicts_;
  const OpRegistry* registry_;
  bool changesInPlace_ = false;  // sizes or dtypes of some values change while the graph runs
};

// A symbolic tensor of this dtype and these sizes.
SymbolicValue symbolicTensor(DType dtype, DimSpan sizes);
SymbolicValue symbolicOf(const IValue& value);
SymbolicValue symbolicOf(TypePtr type);

}  // namespace tscompile
