#include "tools/tasks/rewrite_names.h"

#include "ir/support/text.h"
#include "tools/options/options.h"

namespace tscompile {

void checkRewriteNames(const RewriteDatabase& database, const Query& query) {
  for (const std::string& name : database.unknownNames(query)) {
    if (name == "default") continue;  // of a database that has no such entries
    UsageError error{"there is no rewrite and no tag '" + abbreviate(name, 80) + "'"};
    if (std::string nearest = database.nearestName(name); !nearest.empty())
      error.notes.push_back("did you mean '" + nearest + "'?");
    error.notes.push_back("'tscompile passes' lists them");
    throw error;
  }
}

}  // namespace tscompile
