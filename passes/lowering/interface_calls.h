// Calls that do not say which method they mean: those by an interface, whose module only the object tree or a run
// tells, and those of `with` statements.
#pragma once

#include "passes/lowering/call_targets.h"

namespace tscompile {

// Gives modules that are read as an interface the class that they have.
bool nameClasses(Graph& graph, const CallTargets& targets);
// Calls methods of modules that branches choose in these branches; so many at most.
bool callInBranches(Graph& graph, uint64_t maxCalls);
// Makes calls of prim::Enter and prim::Exit of classes with methods for them.
bool callContexts(Graph& graph, const CallTargets& targets);

}  // namespace tscompile
