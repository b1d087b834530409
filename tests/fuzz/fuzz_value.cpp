// Any text as a value of the command line and as a weights recipe. What is read is written and read again.
#include "api/value_text.h"
#include "frontend/files/recipe.h"

#include <cstdlib>

using namespace tscompile;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  Limits limits;
  limits.generatedBytes = 1 << 20;
  Diagnostics recipe;
  if (parseRecipe(SourceFile::make("fuzz", text), recipe, limits).ok() == recipe.hasErrors()) std::abort();
  if (text.find('@') != std::string::npos) return 0;  // no files
  Diagnostics diagnostics;
  Result<IValue> value = parseValueText(text, "fuzz", diagnostics, nullptr, limits);
  if (value.ok() == diagnostics.hasErrors()) std::abort();
  for (const Diagnostic& d : diagnostics.list())
    if (d.message.empty() || d.range.end > size) std::abort();
  if (!value) return 0;
  std::string written = valueToText(*value);
  Diagnostics none;
  Result<IValue> again = parseValueText(written, "fuzz", none, dynamicType(*value), limits);
  if (!again || valueToText(*again) != written) std::abort();
  return 0;
}
