#include "ir/support/diagnostic_printer.h"

#include "ir/support/text.h"
#include "ir/support/unsafe_text.h"

#include <algorithm>

namespace tscompile {
namespace {

constexpr size_t kMaxShown = 160;  // bytes of a source line that are shown around the caret

void renderSnippet(const SourceRange& range, std::string& out) {
  LineColumn at = range.file->lineColumn(range.begin);
  std::string_view line = range.file->lineText(at.line);
  size_t column = std::min<size_t>(at.column - 1, line.size());
  size_t length = std::max<size_t>(1, range.end > range.begin ? range.end - range.begin : 1);

  std::string_view shown = line;
  std::string lead, tail;
  if (line.size() > kMaxShown) {
    size_t from = column > kMaxShown / 2 ? column - kMaxShown / 2 : 0;
    from = std::min(from, line.size() - kMaxShown);
    lead = from > 0 ? "..." : "";
    tail = from + kMaxShown < line.size() ? "..." : "";
    shown = line.substr(from, kMaxShown);
    column -= from;
  }
  length = std::min(length, std::max<size_t>(1, shown.size() - std::min(column, shown.size())));

  // Escaped control bytes are wider than one column, so the caret is placed after what precedes it as printed.
  std::string before = printable(shown.substr(0, column));
  std::string marked = printable(shown.substr(column, length));
  out += "  " + lead + printable(shown) + tail + "\n";
  out += "  " + std::string(lead.size() + displayWidth(before), ' ') + "^";
  size_t width = displayWidth(marked);
  if (width > 1) out += std::string(width - 1, '~');
  out += "\n";
}

void renderOne(const Diagnostic& d, std::string_view program, DiagnosticStyle style, std::string& out) {
  const char* color = d.severity == Severity::Error     ? "\x1b[1;31m"
                      : d.severity == Severity::Warning ? "\x1b[1;35m"
                                                        : "\x1b[1;36m";
  if (d.range.valid()) {
    LineColumn at = d.range.file->lineColumn(d.range.begin);
    out += printable(d.range.file->path()) + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
  } else if (!d.path.empty()) {
    out += printable(d.path) + ":";
    if (d.offset) out += "@" + std::to_string(*d.offset) + ":";
    out += " ";
  } else if (d.severity != Severity::Note) {
    out += std::string(program) + ": ";
  }
  if (style.color) out += color;
  out += severityName(d.severity);
  out += ": ";
  if (style.color) out += "\x1b[0m";
  out += printable(d.message) + "\n";
  if (d.range.valid()) renderSnippet(d.range, out);
  for (const Diagnostic& n : d.notes) renderOne(n, program, style, out);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  auto escape = [&](std::string_view lead, uint32_t code, int digits) {
    out += lead;
    while (digits-- > 0) out += "0123456789abcdef"[code >> 4 * digits & 15];
  };
  while (!text.empty()) {
    size_t length = utf8Length(text);
    auto c = static_cast<unsigned char>(text[0]);
    if (c == '\t')
      out += ' ';
    else if (length == 0 || c < 0x20 || c == 0x7f)
      escape("\\x", c, 2);
    else if (uint32_t code = unsafeCode(text.substr(0, length)))
      escape("\\u", code, 4);
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

const char* severityName(Severity severity) {
  switch (severity) {
    case Severity::Note:
      return "note";
    case Severity::Warning:
      return "warning";
    case Severity::Error:
      return "error";
  }
  TS_UNREACHABLE();
}

std::string renderDiagnostic(const Diagnostic& diagnostic, std::string_view program, DiagnosticStyle style) {
  std::string out;
  renderOne(diagnostic, program, style, out);
  return out;
}

std::string renderDiagnostics(const Diagnostics& diagnostics, std::string_view program, DiagnosticStyle style) {
  std::string out;
  for (const Diagnostic& d : diagnostics.list()) renderOne(d, program, style, out);
  if (size_t more = diagnostics.suppressedErrors())
    out += std::string(program) + ": note: " + std::to_string(more) + " more error" + (more == 1 ? "" : "s") +
           " not shown\n";
  return out;
}

}  // namespace tscompile
