// A place in a text that is read by hand, and reports about it: for the value grammar of the command line.
#pragma once

#include "ir/support/diagnostics.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace tscompile {

class TextCursor {
 public:
  // Reads the bytes [begin, end) of the source.
  TextCursor(SourcePtr source, Diagnostics& diagnostics, size_t begin, size_t end)
      : source_(std::move(source)), diagnostics_(diagnostics), text_(source_->text().substr(0, end)), at_(begin) {}
  TextCursor(SourcePtr source, Diagnostics& diagnostics) : TextCursor(source, diagnostics, 0, source->text().size()) {}

  size_t at() const { return at_; }
  void moveTo(size_t at) { at_ = at; }
  bool atEnd() const { return at_ >= text_.size(); }
  // A byte from here on, or 0 after the end.
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  std::string_view rest() const { return text_.substr(at_); }
  std::string_view from(size_t begin) const { return text_.substr(begin, at_ - begin); }

  void skip(size_t count) { at_ = std::min(at_ + count, text_.size()); }
  void skipBlanks();
  // Passes what is here if it is that.
  bool take(char c);
  bool take(std::string_view word);
  // Passes a run of letters, digits and underscores that begins with a letter; empty if there is none.
  std::string_view takeWord();

  // Reports about [begin, where the cursor stands), or about the byte here.
  Diagnostic& error(size_t begin, std::string message, ErrorKind kind = ErrorKind::Input);
  // The same; false.
  bool fail(size_t begin, std::string message, ErrorKind kind = ErrorKind::Input);
  bool failLimit(size_t begin, std::string message, std::string_view limit);  // one of kLimitNames
  // "expected a value, found ']'"; false.
  bool expected(std::string_view what);

  Diagnostics& diagnostics() const { return diagnostics_; }
  const SourcePtr& source() const { return source_; }

 private:
  SourcePtr source_;
  Diagnostics& diagnostics_;
  std::string_view text_;
  size_t at_;
};

inline bool isDigit(char c) { return c >= '0' && c <= '9'; }
inline bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace tscompile
