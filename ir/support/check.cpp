#include "ir/support/check.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace tscompile {
namespace {
InternalErrorHandler gHandler = nullptr;
}

void setInternalErrorHandler(InternalErrorHandler handler) { gHandler = handler; }

void internalError(const char* what, const char* file, int line) {
  // Where it was built is nobody's business: the path below the project's root is enough.
  constexpr std::string_view kHere = "ir/support/check.cpp", kThis = __FILE__;
  constexpr std::string_view kRoot = kThis.substr(0, kThis.size() - kHere.size());
  if (std::string_view(file).substr(0, kRoot.size()) == kRoot) file += kRoot.size();
  if (gHandler) gHandler(what, file, line);
  std::fprintf(stderr, "tscompile: internal error: %s (%s:%d)\n", what, file, line);
  std::abort();
}

}  // namespace tscompile
