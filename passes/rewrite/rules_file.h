// Files of rules: named pairs of graph texts with conditions, tags and positions. docs/rewriting.md describes them.
#pragma once

#include "ir/operators/unknown_operators.h"
#include "passes/rewrite/database.h"
#include "passes/rewrite/pattern.h"

#include <optional>
#include <string>
#include <vector>

namespace tscompile {

struct Rule {
  std::string name;
  std::string group;  // the equilibrium that it belongs to; empty: an entry of its own, if it has a position
  EntryOptions options;
  NodeRewrite rewrite;
  SourceRange range;
};

// Reads all rules of a text; several mistakes give several messages, each where it is. With a registry, replacements
// are calls of operators that it has, with as many arguments as they take; those of name spaces that are not PyTorch's
// may be unknown, unless that is refused.
Result<std::vector<Rule>> readRules(SourcePtr text, Diagnostics& diagnostics, const OpRegistry* registry = nullptr,
                                    UnknownOperators unknown = UnknownOperators::Kept);

// Adds rules to a sequence: to the databases inside that they name as their group, which are made where there is none.
Result<void> addRules(RewriteDatabase& database, std::vector<Rule> rules, Diagnostics& diagnostics);

}  // namespace tscompile
