// Nodes written as graph text, for rewrites of what a program calls.
#pragma once

#include "ir/graph/graph.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

// Operands of a text by their names in it.
using NamedOperands = std::vector<std::pair<std::string, Value*>>;

// Puts the nodes of `body` in front of `point`, at the place of `of` in the source. Gives what the text calls %y.
Value* insertText(std::string_view body, const NamedOperands& operands, Node* point, const Node* of);

}  // namespace tscompile
