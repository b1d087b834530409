// Internal errors: conditions that no input can make false. A failed check is a bug of ours.
#pragma once

namespace tscompile {

// Called with the failed expression and its place before the process aborts. The command line tool
// installs one that exits with 70.
using InternalErrorHandler = void (*)(const char* what, const char* file, int line);
void setInternalErrorHandler(InternalErrorHandler handler);

[[noreturn]] void internalError(const char* what, const char* file, int line);

// The same for a mistake of the program that calls the library.
[[noreturn]] void programError(const char* what);

}  // namespace tscompile

#define TS_CHECK(condition)                                            \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::tscompile::internalError(#condition, __FILE_NAME__, __LINE__); \
  } while (false)

#define TS_UNREACHABLE() ::tscompile::internalError("unreachable code", __FILE_NAME__, __LINE__)
