// What rewrites may ask about a graph: constants, shapes, effects, memory that is written. Analyses are made when they
// are first needed and again after refresh(); of values that are newer than the analysis, less is known.
#pragma once

#include "ir/analysis/alias.h"
#include "ir/analysis/shape_propagation.h"
#include "ir/graph/side_table.h"
#include "ir/operators/overload_cache.h"

#include <memory>
#include <optional>
#include <unordered_set>

namespace tscompile {

class DestroyHandler;
class Origins;

class GraphFacts {
 public:
  GraphFacts(const Graph& graph, const OpRegistry& registry);
  ~GraphFacts();

  // The value of a constant, or null. Not for constants whose data is missing.
  static const IValue* constant(const Value* value);
  static bool isNone(const Value* value);
  std::optional<int64_t> integer(const Value* value) const;
  std::optional<double> number(const Value* value) const;  // of an int, float or bool constant
  std::optional<bool> boolean(const Value* value) const;
  // Of a constant or of a list made from constants.
  std::optional<Dims> integers(const Value* value) const;

  // What is known of a value without running anything.
  const SymbolicValue& symbolic(const Value* value);
  const TensorFacts& tensor(const Value* value) { return symbolic(value).type->tensor(); }
  // The same, and where nothing is known what the text says: for rules, which take it at its word.
  TensorFacts told(const Value* value);
  DType dtype(const Value* value) { return tensor(value).dtype; }
  std::optional<size_t> rank(const Value* value);
  // All sizes, if every one is known.
  std::optional<Dims> sizes(const Value* value);

  const Operator* resolve(const Node* node) { return overloads_.resolve(*node); }
  // Whether the node may go if nothing uses its outputs, and may be computed twice or elsewhere: it computes its
  // outputs from its inputs, writes nothing, prints, raises and draws nothing. Nodes with blocks: if all nodes inside
  // are so.
  bool isPure(const Node* node);
  // Kinds without a schema that make, take apart or hand on values, and do nothing besides.
  static bool isStructural(Symbol kind);
  // Whether nobody writes the memory that the node reads or makes: it computes the same wherever it stands.
  bool isUndisturbed(const Node* node);
  // Whether all outputs are new memory that is no argument's.
  bool isFresh(const Node* node);

  // Whether some node writes the memory of the value, or of something inside it.
  bool isWritten(const Value* value);
  // Whether a write may give the value other strides: to what holds tensors, or by a node that changes how they lie.
  bool mayChangeStrides(const Value* value);
  // Whether an operator may give other sizes or strides to a tensor that it gets, and to no other one of its memory: to
  // one that takes a result, too.
  static bool changesGeometry(const Operator& op) { return op.has(Trait::ChangesGeometry) || op.outCount() > 0; }
  bool graphHasWrites() { return aliases().graphHasWrites(); }
  // Whether the node may tell a tensor from one with the same elements: aten::view and others fail for some strides
  // and not for others, aten::__is__ asks for the object, and of what is not known anything may be true.
  bool looksAtMemory(const Node* node);
  // Whether some node may, of the value or of something that is made from it.
  bool isSeen(const Value* value);
  // Inputs of the graph are taken to lie in memory in the order of their dimensions, until it is said that they may lie
  // anyhow; whether something was found by it.
  void takeInputsAnyhow() { inputsLieInOrder_ = false; }
  bool inputsLieInOrder() const { return inputsLieInOrder_; }
  void noteInputOrder() { reliesOnInputOrder_ = true; }
  bool reliesOnInputOrder() const { return reliesOnInputOrder_; }
  // Whether results lie in order whatever the arguments do.
  bool setsStrides(const Node* node);
  // Operators whose results, or whose success, depend on strides. Reshaping does not: it copies where it must.
  bool asksForStrides(const Node* node);
  // Whether a node asks so for those of a tensor, or of what shows its memory.
  bool isAskedForStrides(const Value* tensor);
  // Operators that give elements of their first input in other order, some of them, or some several times.
  bool movesElements(const Node* node);
  // Those that give each of them in its place, if in another dtype.
  bool keepsElements(const Node* node);
  // Operators that tell one object from another with the same content.
  bool asksForIdentity(const Node* node);
  // Whether a tensor that nobody writes may be laid out otherwise or share memory: no node looks, and the caller does
  // not get it.
  bool isUnseen(const Value* value) { return !isSeen(value) && !escapes(value); }
  // Whether `by` may take the place of `old`, a tensor of its own with the same elements: as isUnseen says, or `by` is
  // new memory that nobody else gets.
  bool mayReplace(const Value* old, const Value* by);
  // What passes/rewrite/memory_order.cpp remembers of values, until the next refresh().
  ValueTable<uint8_t>& knownOrders() { return orders_ ? *orders_ : orders_.emplace(graph_); }
  // To be told of replacements, until the next refresh().
  void replaced(const Value* old, const Value* by);
  const AliasAnalysis& aliases();
  // Which inputs may be overwritten.
  DestroyHandler& destroyHandler();

  // Forgets the analyses; the graph has changed.
  void refresh();
  // Forgets a value that was taken out of the graph again; another may get its place in memory.
  void forget(const Value* value) {
    if (shapes_) shapes_->forget(value);
    if (orders_) (*orders_)[value] = 0;
  }
  const OpRegistry& registry() const { return registry_; }

 private:
  bool isPureAlone(const Node* node);
  // Whether the caller gets memory of the value.
  bool escapes(const Value* value);
  void addEscaping(const Value* value);

  const Graph& graph_;
  const OpRegistry& registry_;
  OverloadCache overloads_;
  enum class Purity : uint8_t { No, Yes, AskNode };
  static Purity purityOf(const Operator* op);
  std::unordered_map<uint64_t, Purity> pure_;
  std::unique_ptr<AliasAnalysis> aliases_;
  std::unique_ptr<DestroyHandler> destroyHandler_;
  std::unique_ptr<ShapePropagation> shapes_;
  std::unique_ptr<Origins> seen_;
  std::optional<ValueTable<uint8_t>> orders_;
  bool inputsLieInOrder_ = true, reliesOnInputOrder_ = false;
  std::optional<bool> changesGeometry_;                   // of some tensor
  std::optional<std::unordered_set<uint32_t>> escaping_;  // locations
};

}  // namespace tscompile
