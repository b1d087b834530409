// The passes that are written in C++, one .cpp each. Each returns whether it changed the graph. How they are named,
// ordered and switched on is said in catalog.cpp; what they do is tested in tests/unit/passes.
#pragma once

#include "ir/support/limits.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {

// A call that was inlined, told when everything that its callee calls is inlined, too.
struct CallSite {
  std::string callee;                                     // "__torch__.Net.forward", or the name of a function
  const Graph* graph;                                     // of the callee
  std::vector<std::pair<std::string, Value*>> arguments;  // by the names of the callee's inputs
  std::vector<Value*> outputs;                            // what took the place of the call's outputs
  std::vector<Node*> nodes;                               // what was made, in order, without the insides of blocks
};

// What the calls of a graph mean: the methods and functions of its module, and the object behind %self.
struct CallTargets {
  std::unordered_map<TypePtr, std::unordered_map<std::string, const Graph*>> methods;  // of a class, by its type
  std::unordered_map<std::string, const Graph*> functions;
  Ref<ObjectValue> self;                                  // null: not known
  uint64_t maxNodes = Limits().nodes;                     // of a graph whose calls are inlined
  std::function<void(const CallSite&)> onCall = nullptr;  // may be empty

  // The graph that a prim::CallMethod or prim::CallFunction runs, whatever the arguments, and its name; null if that is
  // not known.
  const Graph* calleeOf(const Node* call, std::string* name = nullptr) const;
};

// Takes the sizes out of the types of all values but constants; dtypes and ranks stay.
bool forgetSizes(Graph& graph, RewriteContext& context);
// Replaces calls of methods and functions by the nodes of their graphs, as far as the context's module knows these.
bool inlineCalls(Graph& graph, RewriteContext& context);
// Makes constants of the attributes that nothing writes, and drops %self if it is no longer used.
bool freeze(Graph& graph, RewriteContext& context);
// Computes what depends on constants alone; takes the branch or leaves out the loop that a constant condition decides.
bool foldConstants(Graph& graph, RewriteContext& context);
// Nodes, results and loop-carried values that nothing needs go; effects stay, writes to memory that nobody reads do
// not.
bool removeDeadCode(Graph& graph, RewriteContext& context);
// Equal pure computations become the first of them, in its block and those inside. Argument "commutative" (bool): also
// those whose first two inputs changed places.
bool mergeCommonSubexpressions(Graph& graph, RewriteContext& context);
// Constants move to the top of the graph, equal ones become one.
bool poolConstants(Graph& graph, RewriteContext& context);
// In-place operators on memory that the graph made itself and nobody else holds become functional ones; appends to a
// list right where it is made become a longer list.
bool functionalise(Graph& graph, RewriteContext& context);
// Nodes of profiling that hand on their inputs go, and casts to types that values have anyway.
bool removeGuards(Graph& graph, RewriteContext& context);
// Branches that raise go where constants, types or shapes prove that they are not taken.
bool removeUnreachableExceptions(Graph& graph, RewriteContext& context);
// Small exact rewrites of single nodes: operators that do nothing, questions that types answer, lists and tuples that
// are taken apart again, sums of known integers.
bool peephole(Graph& graph, RewriteContext& context);
// Small loops with a known number of trips become their bodies; loops without trips go.
bool unrollLoops(Graph& graph, RewriteContext& context);
// Tuples that are made and taken apart again become their elements, also across branches and loops.
bool lowerTuples(Graph& graph, RewriteContext& context);

// Marks the nodes that arguments of rewriting keep out of engines (fallback_marks.h).
bool markFallback(Graph& graph, RewriteContext& context);
// Inputs whose values are arguments "bind:NAME" become constants.
bool bindInputs(Graph& graph, RewriteContext& context);
// contiguous() goes where no node can tell.
bool removeContiguous(Graph& graph, RewriteContext& context);
// One tuple or list of tensors that the graph returns becomes its tensors.
bool flattenOutputs(Graph& graph, RewriteContext& context);
// Constants that name a device name the one of argument "device".
bool useOneDevice(Graph& graph, RewriteContext& context);

// ---- node rewrites ----

// Dropout that drops nothing.
NodeRewrite removeDropout();
// Operators with two names.
NodeRewrite aliasOperators();
// The padding "same" of convolutions in numbers.
NodeRewrite explicitPadding();
// Integers that were made tensors to be added, multiplied or divided.
NodeRewrite scalarArithmetic();
// A fully connected layer said twice, in the branches of an If.
NodeRewrite fuseAddmmBranches();
// Halves computed as floats and rounded once.
NodeRewrite computeInFloat();
// Results that are written over an input which nobody reads any more. Not before the marker: what runs behind it must
// know memory.
NodeRewrite inplaceElementwise();
// Operators in terms of simpler ones.
NodeRewrite unpackVar();
NodeRewrite unpackBatchNorm();
NodeRewrite unpackLayerNorm();
NodeRewrite unpackGroupNorm();
NodeRewrite unpackAttention();

}  // namespace tscompile
