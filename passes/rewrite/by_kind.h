// A driver that goes from kind to kind instead of from node to node.
#pragma once

#include "passes/rewrite/rewrite.h"

namespace tscompile {

// Asks each rewrite, those of higher benefit first, about the nodes of its kinds, also those that are made meanwhile,
// until none of them finds anything; other nodes are never looked at. Ends all the same after many more replacements
// than the graph had nodes. Rewrites have to name kinds: those of every node or of a name space are asked about
// nothing.
GraphRewrite byKind(std::string name, std::vector<NodeRewrite> rewrites);

}  // namespace tscompile
