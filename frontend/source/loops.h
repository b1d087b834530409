// Which names a loop may carry.
#pragma once

#include "frontend/source/syntax.h"

#include <set>
#include <string>

namespace tscompile::source {

// The names that statements assign, nested ones included.
std::set<std::string> assignedIn(const Slice<Stmt*>& statements);
void addTargets(const Expr& target, std::set<std::string>& names);

}  // namespace tscompile::source
