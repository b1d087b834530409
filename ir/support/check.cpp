#include "ir/support/check.h"

#include <cstdio>
#include <cstdlib>

namespace tscompile {
namespace {
InternalErrorHandler gHandler = nullptr;
}

void setInternalErrorHandler(InternalErrorHandler handler) { gHandler = handler; }

void internalError(const char* what, const char* file, int line) {
  if (gHandler) gHandler(what, file, line);
  std::fprintf(stderr, "tscompile: internal error: %s (%s:%d)\n", what, file, line);
  std::abort();
}

void programError(const char* what) {
  if (gHandler) gHandler(what, "result.h", 0);
  std::fprintf(stderr, "tscompile: mistake of the program that calls this library: %s\n", what);
  std::abort();
}

}  // namespace tscompile
