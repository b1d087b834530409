// Diagnostics as JSON, one object a line.
#include "ir/support/diagnostic_printer.h"
#include "ir/support/error_kind.h"
#include "ir/support/json_fields.h"
#include "tools/session/session.h"

#include <sstream>

namespace tscompile {
namespace {

struct DiagnosticFields {
  DiagnosticFields(const Diagnostic& d, bool tagged = false) : d(d), tagged(tagged) {}  // NOLINT: as JSON has it
  const Diagnostic& d;
  bool tagged;

  template <class Visit>
  void fields(Visit&& visit) const {
    if (tagged) visit("schema", "tscompile.diagnostic/1");
    visit("severity", severityName(d.severity));
    if (d.severity == Severity::Error)
      visit("kind", d.message.starts_with(kInternalError) ? "internal" : errorKindName(d.kind));
    if (d.range.valid()) {
      LineColumn begin = d.range.file->lineColumn(d.range.begin), end = d.range.file->lineColumn(d.range.end);
      visit("path", d.range.file->path());
      visit("line", begin.line);
      visit("column", begin.column);
      visit("end_line", end.line);
      visit("end_column", end.column);
    } else if (!d.path.empty()) {
      visit("path", d.path);
      visit("offset", d.offset);
    }
    visit("message", d.message);
    if (!d.notes.empty()) visit("notes", std::vector<DiagnosticFields>(d.notes.begin(), d.notes.end()));
  }
};

}  // namespace

std::string diagnosticJson(const Diagnostic& diagnostic) {
  std::ostringstream text;
  writeJson(text, DiagnosticFields(diagnostic, true));
  return text.str();
}

}  // namespace tscompile
