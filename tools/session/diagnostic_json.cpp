// Diagnostics as JSON, one object a line.
#include "ir/support/diagnostic_printer.h"
#include "ir/support/json_writer.h"
#include "tools/session/session.h"

#include <sstream>

namespace tscompile {
namespace {

const char* kindName(ErrorKind kind) {
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

void write(JsonWriter& json, const Diagnostic& d) {
  json.beginObject();
  json.field("severity", severityName(d.severity));
  if (d.severity == Severity::Error) json.field("kind", kindName(d.kind));
  if (d.range.valid()) {
    LineColumn begin = d.range.file->lineColumn(d.range.begin), end = d.range.file->lineColumn(d.range.end);
    json.field("path", d.range.file->path());
    json.field("line", begin.line);
    json.field("column", begin.column);
    json.field("endLine", end.line);
    json.field("endColumn", end.column);
  } else if (!d.path.empty()) {
    json.field("path", d.path);
    if (d.offset) json.field("offset", *d.offset);
  }
  json.field("message", d.message);
  if (!d.notes.empty()) {
    json.key("notes");
    json.beginArray();
    for (const Diagnostic& note : d.notes) write(json, note);
    json.endArray();
  }
  json.endObject();
}

}  // namespace

std::string diagnosticJson(const Diagnostic& diagnostic) {
  std::ostringstream text;
  JsonWriter json(text);
  write(json, diagnostic);
  json.finish();
  return text.str();
}

}  // namespace tscompile
