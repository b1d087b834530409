#include "ir/support/diagnostics.h"

#include "ir/support/remedy.h"
#include "ir/support/result.h"

#include <utility>

namespace tscompile {
namespace {
// Warnings and remarks have a bound of their own, so that a text cannot make the list grow without end.
constexpr size_t kMaxOthers = 1000;
}  // namespace

Diagnostic& Diagnostic::note(SourceRange where, std::string text) {
  Diagnostic n;
  n.severity = Severity::Note;
  n.range = where;
  if (where.file) n.source = where.file->shared_from_this();
  n.message = std::move(text);
  notes.push_back(std::move(n));
  return *this;
}

Diagnostic& Diagnostics::add(Diagnostic d) {
  bool keep;
  if (d.severity == Severity::Error) {
    if (errorCount_++ == 0) firstErrorKind_ = d.kind;
    rememberError(d.message);
    keep = maxErrors_ == 0 || errorCount_ <= maxErrors_;
    if (!keep) ++suppressedErrors_;
  } else {
    if (d.severity == Severity::Warning) ++warningCount_;
    keep = keptOthers_ < kMaxOthers;
    if (keep) ++keptOthers_;
  }
  lastIsKept_ = keep;
  if (!keep) {
    dropped_ = std::move(d);
    return dropped_;
  }
  if (d.range.file) d.source = d.range.file->shared_from_this();
  list_.push_back(std::move(d));
  return list_.back();
}

Diagnostic& Diagnostics::error(SourceRange where, std::string message, ErrorKind kind) {
  Diagnostic d;
  d.kind = kind;
  d.range = where;
  d.message = std::move(message);
  return add(std::move(d));
}

Diagnostic& Diagnostics::fileError(std::string path, std::optional<uint64_t> offset, std::string message,
                                   ErrorKind kind) {
  Diagnostic d;
  d.kind = kind;
  d.path = std::move(path);
  d.offset = offset;
  d.message = std::move(message);
  return add(std::move(d));
}

Diagnostic& Diagnostics::warning(SourceRange where, std::string message) {
  Diagnostic d;
  d.severity = Severity::Warning;
  d.range = where;
  d.message = std::move(message);
  return add(std::move(d));
}

Diagnostic& Diagnostics::remark(SourceRange where, std::string message) {
  Diagnostic d;
  d.severity = Severity::Note;
  d.range = where;
  d.message = std::move(message);
  return add(std::move(d));
}

void Diagnostics::noteLimit(std::string_view name) {
  Diagnostic& last = lastIsKept_ ? list_.back() : dropped_;
  last.note(textOf(Remedy(Remedy::Kind::RaiseLimit, {std::string(name)})));
}

void Diagnostics::keepAlive(SourcePtr source) {
  if (sources_.empty() || sources_.back() != source) sources_.push_back(std::move(source));
}

void Diagnostics::clear() {
  size_t maxErrors = maxErrors_;
  *this = Diagnostics(maxErrors);
}

}  // namespace tscompile
