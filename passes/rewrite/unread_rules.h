// Rules whose patterns are read late.
#pragma once

#include "passes/rewrite/rules_file.h"

namespace tscompile {

// Of a text that is known to be right: reads the patterns of a rule when it is first asked about a node. Most rules are
// of no use for most graphs, and reading them all takes longer than to compile a small model.
std::vector<Rule> readRulesLater(SourcePtr text);

}  // namespace tscompile
