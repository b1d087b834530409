#include "api/c/handles.h"
#include "api/engine_file.h"
#include "ir/support/text.h"

#include <cstdlib>

using namespace tscompile;

namespace tscompile::c {

tscompile_status statusOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Input:
      return TSCOMPILE_INPUT;
    case ErrorKind::Unsupported:
      return TSCOMPILE_UNSUPPORTED;
    case ErrorKind::Io:
      return TSCOMPILE_IO;
    case ErrorKind::Limit:
      return TSCOMPILE_LIMIT;
    case ErrorKind::Incompatible:
      return TSCOMPILE_INCOMPATIBLE;
    case ErrorKind::Model:
      return TSCOMPILE_MODEL;
    case ErrorKind::Interrupted:
      return TSCOMPILE_INTERRUPTED;
  }
  TS_UNREACHABLE();
}

void fail(const Diagnostics& diagnostics, const SourceName& name) {
  throw Failure{statusOf(diagnostics.firstErrorKind()), problemsOf(diagnostics, name)};
}

void failUsage(std::string message) {
  Diagnostics diagnostics;
  diagnostics.error(std::move(message), ErrorKind::Input);
  throw Failure{TSCOMPILE_USAGE, problemsOf(diagnostics)};
}

std::unique_ptr<tscompile_error> errorOf(tscompile_status status, Problems problems) {
  auto made = std::make_unique<tscompile_error>(status, std::move(problems));
  for (const Problem& p : made->problems.list)
    made->notes.push_back(join(p.notes, "\n", [](const std::string& n) { return n; }));
  return made;
}

tscompile_status hand(Failure failure, tscompile_error** error) noexcept {
  const tscompile_status status = failure.status;
  if (!error) return status;
  *error = nullptr;
  try {
    *error = errorOf(status, std::move(failure.problems)).release();
  } catch (...) {  // no memory: the status alone tells it
  }
  return status;
}

char* copied(const std::string& text) {
  char* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!out) throw std::bad_alloc();
  std::memcpy(out, text.c_str(), text.size() + 1);
  return out;
}

}  // namespace tscompile::c

uint32_t tscompile_c_version(void) { return TSCOMPILE_C_VERSION; }
const char* tscompile_version(void) { return libraryVersion().data(); }

tscompile_status tscompile_error_status(const tscompile_error* error) { return error ? error->status : TSCOMPILE_OK; }
const char* tscompile_error_text(const tscompile_error* error) { return error ? error->problems.text.c_str() : ""; }
size_t tscompile_error_count(const tscompile_error* error) { return error ? error->problems.list.size() : 0; }

int tscompile_error_problem(const tscompile_error* error, size_t index, tscompile_problem* out) {
  if (index >= tscompile_error_count(error)) return 0;
  const Problem& p = error->problems.list[index];
  tscompile_problem from{};
  // What the call itself did wrong is told as an error of the input.
  const bool isUsage = error->status == TSCOMPILE_USAGE || error->status == TSCOMPILE_INTERNAL;
  from.status = p.severity == Severity::Warning ? TSCOMPILE_OK : isUsage ? error->status : c::statusOf(p.kind);
  from.message = p.message.c_str();
  from.file = p.file.empty() ? nullptr : p.file.c_str();
  from.line = p.line, from.column = p.column, from.end_line = p.endLine, from.end_column = p.endColumn;
  from.notes = error->notes[index].c_str();
  return c::fill(out, from);
}

void tscompile_error_free(tscompile_error* error) { delete error; }
void tscompile_string_free(char* text) { std::free(text); }
