// Any bytes as graph text: read, verified, printed; what was read prints to a text that reads and prints the same.
#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/registry.h"

#include <cstdio>
#include <cstdlib>

using namespace tscompile;

namespace {

std::string printed(const ParsedText& text) {
  std::string out;
  auto sink = [&out](std::string_view piece) { out += piece; };
  for (const auto& g : text.graphs) printGraph(*g, sink, {});
  if (text.module) printDump(*text.module, sink, {});
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ParseOptions options;
  options.registry = &allOps();
  options.limits.blocks = 1000;
  Diagnostics diagnostics;
  std::string text(reinterpret_cast<const char*>(data), size);
  Result<ParsedText> first = parseText(SourceFile::make("fuzz", text), diagnostics, options);
  if (!first) {
    if (diagnostics.errorCount() == 0) std::abort();
    renderDiagnostics(diagnostics, "fuzz");
    return 0;
  }
  for (const auto& g : first->graphs) verify(*g, allOps(), diagnostics);
  std::string once = printed(*first);
  Diagnostics again;
  Result<ParsedText> second = parseText(SourceFile::make("printed", once), again, options);
  if (!second) {
    std::fprintf(stderr, "the printed text does not read:\n%s%s", once.c_str(),
                 renderDiagnostics(again, "fuzz").c_str());
    std::abort();
  }
  if (std::string twice = printed(*second); twice != once) {
    std::fprintf(stderr, "not a fixpoint:\n%s---\n%s", once.c_str(), twice.c_str());
    std::abort();
  }
  return 0;
}
