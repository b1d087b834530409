// Any text as the code of an archive: every function and class of it is compiled.
#include "frontend/source/library.h"
#include "ir/graph/printer.h"
#include "runtime/registry.h"

#include <cstdlib>

using namespace tscompile;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SourcePtr file = SourceFile::make("fuzz", std::string(reinterpret_cast<const char*>(data), size));
  Diagnostics diagnostics;
  Limits limits;
  limits.nodes = 10000;
  source::Library library([&](const std::string& module) { return module == "__torch__" ? file : nullptr; }, allOps(),
                          diagnostics, limits);
  library.setConstants({IValue(1), IValue("two")});
  library.findClass("__torch__.X");
  for (const auto& info : library.classes()) {
    if (!library.declared(info->name)) continue;
    for (const auto& m : info->methods) library.request(*m);
  }
  for (source::MethodInfo* f : library.functionsRead()) library.request(*f);
  if (library.compile() == diagnostics.hasErrors()) std::abort();
  for (source::MethodInfo* f : library.functionsRead())
    if (f->graph) printGraph(*f->graph, [](std::string_view) {});
  return 0;
}
