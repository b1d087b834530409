#include "frontend/text/parse_state.h"

#include "ir/support/remedy.h"

namespace tscompile::frontend {

Diagnostic& ParseState::error(Span span, std::string message, ErrorKind kind) {
  failed_ = true;
  return diagnostics_.error(range(span), std::move(message), kind);
}

void ParseState::limitError(Span span, uint64_t Limits::*limit) {
  if (givenUp_) return;
  givenUp_ = true;
  for (const LimitName& name : kLimitNames) {
    if (name.field != limit) continue;
    error(span, "more than " + std::to_string(limits_.*limit) + " " + name.what, ErrorKind::Limit)
        .note(tscompile::textOf(Remedy(Remedy::Kind::RaiseLimit, {name.name})));
  }
}

}  // namespace tscompile::frontend
