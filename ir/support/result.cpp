#include "ir/support/result.h"

#include "ir/support/check.h"

#include <string>

namespace tscompile {
namespace {

std::string& lastError() {
  thread_local std::string message;
  return message;
}

}  // namespace

void rememberError(std::string_view message) { lastError() = message; }

void usedFailedResult() {
  std::string said = "a failed Result was used";
  if (!lastError().empty()) said += ": " + lastError();
  programError(said.c_str());
}

}  // namespace tscompile
