// Any text as the JSON of an exported program: what is read prints as graph text that can be read again.
#include "frontend/export/program.h"
#include "frontend/export/program_json.h"
#include "frontend/text/parse.h"
#include "ir/graph/printer.h"
#include "runtime/registry.h"

#include <cstdlib>

using namespace tscompile;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  Diagnostics diagnostics;
  Result<JsonTree> json = JsonTree::parse(SourceFile::make("fuzz", exported::quoteNonFinite(text)), diagnostics);
  if (!json) return 0;
  Result<ExportedProgram> program = readProgram(*json, "", allOps(), diagnostics);
  if (program.ok() == diagnostics.hasErrors()) std::abort();
  if (!program) return 0;
  if (!parseGraph(graphText(*program->graph), diagnostics)) std::abort();
  return 0;
}
