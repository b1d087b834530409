// The passes that are written in C++, one .cpp each. Each returns whether it changed the graph. How they are named,
// ordered and switched on is said in catalog.cpp; what they do is tested in tests/unit/passes.
#pragma once

#include "passes/rewrite/rewrite.h"

namespace tscompile {

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

}  // namespace tscompile
