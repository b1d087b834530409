// What node rewrites on tensor operators share: looking at the nodes around one, and making others in its place.
#pragma once

#include "passes/rewrite/database.h"

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tscompile {

// Whether the operator computes each element of its result from the same element of its tensor inputs, broadcast to one
// shape.
bool isElementwise(const Node* n, GraphFacts& facts);

// The node that a rewrite is asked about. The node and those that `producer` finds are pure, and nobody writes the
// memory that they read or make, so they may be computed anywhere and any number of times.
class Site {
 public:
  Site(Node* node, RewriteContext& context) : node(node), context(context), facts(context.facts) {}

  Node* const node;
  RewriteContext& context;
  GraphFacts& facts;

  Value* input(size_t i) const { return node->input(i); }
  Value* output() const { return node->output(); }
  size_t inputCount() const { return node->inputCount(); }

  // The node of this kind (or any) behind a value, in the same block; null if there is none that may be looked through.
  Node* producer(const Value* value, Symbol kind = Symbol());
  // The same for a value that nothing else uses.
  Node* soleProducer(const Value* value, Symbol kind = Symbol()) {
    return value->useCount() == 1 ? producer(value, kind) : nullptr;
  }

  // The number that a constant is, or that every element of a constant has, or of zeros, ones and the like.
  std::optional<double> uniform(const Value* value);
  // The node that fills a tensor with one number, if one makes the value: full, zeros, ones.
  Node* filling(const Value* value);
  // Whether dtype and sizes of both are known and equal.
  bool sameType(const Value* a, const Value* b) { return sameDType(a, b) && sameSizes(a, b); }
  bool sameDType(const Value* a, const Value* b) {
    DType d = facts.dtype(a);
    return d != DType::Undefined && d == facts.dtype(b);
  }
  bool sameSizes(const Value* a, const Value* b);
  bool isFloating(const Value* v) { return kFloatingTypes.contains(facts.dtype(v)); }
  // Integers that wrap around; bool is none.
  bool isInteger(const Value* v) { return kIntegerTypes.contains(facts.dtype(v)); }
  bool isTensor(const Value* v) const { return v->type()->isTensor(); }
  // An integer input as a dimension from 0 on, if it is known and in range.
  std::optional<size_t> dimension(const Value* value, std::optional<size_t> rank) const;
  // Whether a value that the graph has already may take the place of the result, which is a tensor of its own.
  bool mayReuse(const Value* by) { return facts.mayReplace(output(), by); }

  // Nodes in front of the site; types come from the schema.
  Value* make(Symbol kind, std::span<Value* const> inputs);
  Value* make(Symbol kind, std::initializer_list<Value*> inputs) {
    return make(kind, std::span<Value* const>(inputs.begin(), inputs.size()));
  }
  // A node like another one with other inputs.
  Value* remake(const Node* like, std::vector<Value*> inputs);
  std::vector<Value*> inputsOf(const Node* n) const;
  // Which inputs are tensors.
  std::vector<size_t> tensorInputs(const Node* n) const;
  Value* constant(const IValue& value, TypePtr type = nullptr) { return context.before(node).constant(value, type); }
  Value* integers(DimSpan values);
  Value* none(TypePtr type = nullptr) { return constant(IValue(), type ? type : types().none); }

  bool isElementwise(const Node* n) { return tscompile::isElementwise(n, facts); }
  // Whether an elementwise node may meet an integer that is divided by 0, and raise. It has to see each element then.
  bool mayDivideByZero(const Node* n);
  // Whether a node is as `Site` says.
  bool isQuiet(const Node* n) { return facts.isPure(n) && facts.isUndisturbed(n); }
};

// What a rewrite is for.
using Kinds = std::vector<Symbol>;

// Calls `apply` for pure nodes of these kinds whose memory nobody writes.
NodeRewrite siteRewrite(std::string name, std::initializer_list<const char*> kinds, Replacement (*apply)(Site&));
NodeRewrite siteRewrite(std::string name, Kinds kinds, Replacement (*apply)(Site&));

// The same as siteRewrite for all elementwise nodes.
NodeRewrite elementwiseRewrite(std::string name, Replacement (*apply)(Site&));
// What they are among: the records say which of these are elementwise.
inline const std::vector<Symbol> kElementwiseKinds{Symbol::of("aten::*")};

}  // namespace tscompile
