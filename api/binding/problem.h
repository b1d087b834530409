// Diagnostics as other languages take them: each with its place in numbers, and all as one text.
#pragma once

#include "ir/support/diagnostics.h"

#include <string>
#include <vector>

namespace tscompile {

// Of what was loaded from memory: the name that stands for its path in messages.
struct SourceName {
  std::string path, name;  // `path` empty: nothing is replaced

  std::string in(std::string text) const;
};

struct Problem {
  Severity severity = Severity::Error;
  ErrorKind kind = ErrorKind::Input;
  std::string message;
  std::string file;               // empty: no place is known
  uint32_t line = 0, column = 0;  // from 1; 0: the file has no lines
  uint32_t endLine = 0, endColumn = 0;
  std::vector<std::string> notes;
};

struct Problems {
  ErrorKind kind = ErrorKind::Input;  // of the first error
  std::string text;                   // as the command line tool prints them, without a line end
  std::vector<Problem> list;
};
// Errors and warnings; remarks stand in the text alone.
Problems problemsOf(const Diagnostics& diagnostics, const SourceName& name = {});

}  // namespace tscompile
