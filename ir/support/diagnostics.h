// Diagnostics: what is wrong with an input, where, and what may help.
#pragma once

#include "ir/support/source.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

enum class Severity : uint8_t { Note, Warning, Error };

// Why an error stops the work. The command line tool turns the kind of the first error into its exit code.
enum class ErrorKind : uint8_t {
  Input,         // the text, weights or tensor file is wrong
  Unsupported,   // an operator or feature that we do not have
  Io,            // a file cannot be read or written
  Limit,         // a configured limit was reached
  Incompatible,  // an engine file of another version, or for another processor
  Model,         // the model failed while it ran (an exception it raises, an index out of range)
  Interrupted,   // the caller asked to stop
};

struct Diagnostic {
  Severity severity = Severity::Error;
  ErrorKind kind = ErrorKind::Input;
  SourceRange range;               // a place in a text, or
  SourcePtr source;                // that text: messages outlive what was read from it
  std::string path;                // a file without lines, with
  std::optional<uint64_t> offset;  // the byte at fault, if one is
  std::string message;             // lower case, one sentence, no full stop
  std::vector<Diagnostic> notes;

  Diagnostic& note(SourceRange where, std::string text);
  Diagnostic& note(std::string text) { return note(SourceRange{}, std::move(text)); }
};

// The sink that all readers and checkers report to. Keeps the first `maxErrors` errors and counts the rest. What is
// told adds up: one is made, or cleared, for each call whose errors are to be told apart.
class Diagnostics {
 public:
  explicit Diagnostics(size_t maxErrors = 20) : maxErrors_(maxErrors) {}

  // The returned reference takes notes; it is valid until the next report.
  Diagnostic& error(SourceRange where, std::string message, ErrorKind kind = ErrorKind::Input);
  Diagnostic& error(std::string message, ErrorKind kind) { return error(SourceRange{}, std::move(message), kind); }
  Diagnostic& fileError(std::string path, std::optional<uint64_t> offset, std::string message,
                        ErrorKind kind = ErrorKind::Input);
  Diagnostic& warning(SourceRange where, std::string message);
  // A remark that stands by itself.
  Diagnostic& remark(SourceRange where, std::string message);
  Diagnostic& add(Diagnostic diagnostic);
  // Adds to the last report which of Limits was met; gives back what the reader returns then.
  template <class T>
  T metLimit(std::string_view name, T failed) {
    noteLimit(name);
    return failed;
  }

  bool hasErrors() const { return errorCount_ != 0; }
  size_t errorCount() const { return errorCount_; }
  size_t warningCount() const { return warningCount_; }
  // Errors that were counted but not kept.
  size_t suppressedErrors() const { return suppressedErrors_; }
  // Input if there is no error.
  ErrorKind firstErrorKind() const { return firstErrorKind_; }
  const std::vector<Diagnostic>& list() const { return list_; }
  // True once no further error would be kept: readers may stop.
  bool full() const { return maxErrors_ != 0 && errorCount_ >= maxErrors_; }
  // Ranges of reports point into texts; this text lives as long as they do.
  void keepAlive(SourcePtr source);
  void clear();

 private:
  void noteLimit(std::string_view name);

  std::vector<Diagnostic> list_;
  std::vector<SourcePtr> sources_;
  Diagnostic dropped_;  // what callers annotate when a report is not kept
  bool lastIsKept_ = false;
  size_t maxErrors_;  // 0: no limit
  size_t errorCount_ = 0, warningCount_ = 0, suppressedErrors_ = 0, keptOthers_ = 0;
  ErrorKind firstErrorKind_ = ErrorKind::Input;
};

}  // namespace tscompile
