#include "api/binding/problem.h"

#include "ir/support/diagnostic_printer.h"

namespace tscompile {

std::string SourceName::in(std::string text) const {
  if (path.empty()) return text;
  for (size_t at = text.find(path); at != std::string::npos; at = text.find(path, at + name.size()))
    text.replace(at, path.size(), name);
  return text;
}

namespace {

Problem problemOf(const Diagnostic& d, const SourceName& name) {
  Problem out;
  out.severity = d.severity, out.kind = d.kind;
  out.message = name.in(d.message), out.file = name.in(d.path);
  if (d.range.valid()) {
    LineColumn begin = d.range.file->lineColumn(d.range.begin), end = d.range.file->lineColumn(d.range.end);
    out.file = name.in(d.range.file->path());
    out.line = begin.line, out.column = begin.column, out.endLine = end.line, out.endColumn = end.column;
  }
  for (const Diagnostic& note : d.notes) out.notes.push_back(name.in(note.message));
  return out;
}

}  // namespace

Problems problemsOf(const Diagnostics& diagnostics, const SourceName& name) {
  Problems out;
  out.kind = diagnostics.firstErrorKind();
  out.text = name.in(renderDiagnostics(diagnostics, "tscompile"));
  while (out.text.ends_with('\n')) out.text.pop_back();
  for (const Diagnostic& d : diagnostics.list())
    if (d.severity != Severity::Note) out.list.push_back(problemOf(d, name));
  return out;
}

}  // namespace tscompile
