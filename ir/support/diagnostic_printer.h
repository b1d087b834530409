// Renders diagnostics as text with carets; nothing else in the libraries prints.
#pragma once

#include "ir/support/diagnostics.h"

#include <string>

namespace tscompile {

struct DiagnosticStyle {
  bool color = false;
};

// `path:line:col: error: message`, the source line with a caret and tildes, then the notes. `program` names the speaker
// where a diagnostic has no place.
std::string renderDiagnostic(const Diagnostic& diagnostic, std::string_view program, DiagnosticStyle style = {});
std::string renderDiagnostics(const Diagnostics& diagnostics, std::string_view program, DiagnosticStyle style = {});

const char* severityName(Severity severity);

// Texts of files come from anybody: control bytes as \xHH and tabs as spaces, so that none reaches a terminal.
std::string printable(std::string_view text);

}  // namespace tscompile
