#include "ir/support/error_kind.h"

#include "ir/support/check.h"

namespace tscompile {

const char* errorKindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Input:
      return "input";
    case ErrorKind::Unsupported:
      return "unsupported";
    case ErrorKind::Io:
      return "io";
    case ErrorKind::Limit:
      return "limit";
    case ErrorKind::Incompatible:
      return "incompatible";
    case ErrorKind::Model:
      return "model";
    case ErrorKind::Interrupted:
      return "interrupted";
  }
  TS_UNREACHABLE();
}

}  // namespace tscompile
