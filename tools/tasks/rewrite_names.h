// Names in queries of rewrites.
#pragma once

#include "passes/rewrite/database.h"

namespace tscompile {

// Throws UsageError for a name or tag that no entry of the database has.
void checkRewriteNames(const RewriteDatabase& database, const Query& query);

}  // namespace tscompile
