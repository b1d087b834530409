// The steps that others call after their own; passes.def has all.
#pragma once

#include "passes/rewrite/database.h"
#include "passes/rewrite/rewrite.h"

#include <vector>

namespace tscompile {

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
// What types, and the nodes around, tell of single nodes: `x is x`, items of a list that was just made.
std::vector<NamedRewrite> peepholeRewrites();

// Operators with two names get the first one, as the rewrite alias_operators does.
void takeFirstNames(Graph& graph, const OpRegistry& registry);

}  // namespace tscompile
