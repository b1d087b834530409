// Any bytes as a schema, a type and a value; what reads prints to a text that reads and prints the same.
#include "frontend/text/parse.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/values/literal.h"

#include <cstdlib>

using namespace tscompile;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Diagnostics diagnostics;
  if (Result<Schema> schema = parseSchema(text, diagnostics)) {
    std::string once = schemaText(*schema);
    Result<Schema> again = parseSchema(once, diagnostics);
    if (!again || schemaText(*again) != once) std::abort();
  }
  if (Result<TypePtr> type = parseType(text, diagnostics)) {
    std::string once = typeText(*type);
    Result<TypePtr> again = parseType(once, diagnostics);
    if (!again || typeText(*again) != once) std::abort();
  }
  (void)parseValue(text, diagnostics);
  return 0;
}
