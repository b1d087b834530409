#include "ir/support/result.h"

#include "ir/support/check.h"

#include <algorithm>
#include <cstring>

namespace tscompile {
namespace {

// Needs no destructor: to register one may fail where memory has run out, which is what errors tell.
struct LastError {
  char text[512];
  size_t size;
};
thread_local LastError gLastError{};

}  // namespace

void rememberError(std::string_view message) {
  gLastError.size = std::min(message.size(), sizeof gLastError.text);
  std::memcpy(gLastError.text, message.data(), gLastError.size);
}

void usedFailedResult() {
  constexpr std::string_view kSaid = "a failed Result was used", kOf = ": ";
  char said[sizeof gLastError.text + kSaid.size() + kOf.size() + 1];
  char* at = std::copy(kSaid.begin(), kSaid.end(), said);
  if (gLastError.size) {
    at = std::copy(kOf.begin(), kOf.end(), at);
    at = std::copy_n(gLastError.text, gLastError.size, at);
  }
  *at = '\0';
  programError(said);
}

}  // namespace tscompile
