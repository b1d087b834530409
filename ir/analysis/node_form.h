// What a node of a kind without a schema looks like: the one table of inputs, outputs and blocks that the verifier and
// the compiler of programs go by.
#pragma once

#include "ir/graph/graph.h"

#include <string>

namespace tscompile {

// What is wrong with the number of inputs, outputs or blocks of a node; empty if nothing is, or its kind says nothing.
std::string formProblem(const Node& node);
// Whether the table has the kind.
bool hasForm(Symbol kind);
// Whether texts cannot name this kind: graphs keep it for the ends of their blocks, or for what is written `^name`.
bool isReservedKind(Symbol kind);

}  // namespace tscompile
