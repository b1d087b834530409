// Any text as a file of rules, whose patterns are read, and as a query of databases.
#include "passes/rewrite/rules_file.h"
#include "runtime/registry.h"

#include <cstdlib>

using namespace tscompile;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Diagnostics rules, query, added;
  Result<std::vector<Rule>> read = readRules(SourceFile::make("fuzz", text), rules, &allOps());
  if (read.ok() == rules.hasErrors()) std::abort();
  RewriteDatabase database(RewriteDatabase::Kind::Sequence, "fuzz");
  if (read && addRules(database, std::move(*read), added).ok() == added.hasErrors()) std::abort();
  if (Query::parse(text, query).ok() == query.hasErrors()) std::abort();
  return 0;
}
