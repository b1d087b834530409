#include "frontend/files/text_cursor.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {

void TextCursor::skipBlanks() {
  while (!atEnd() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
}

bool TextCursor::take(char c) {
  if (atEnd() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool TextCursor::take(std::string_view word) {
  if (!startsWith(rest(), word)) return false;
  at_ += word.size();
  return true;
}

std::string_view TextCursor::takeWord() {
  size_t begin = at_;
  if (isLetter(peek()))
    while (isLetter(peek()) || isDigit(peek()) || peek() == '_') ++at_;
  return from(begin);
}

Diagnostic& TextCursor::error(size_t begin, std::string message, ErrorKind kind) {
  size_t end = std::min(std::max(at_, begin + 1), source_->text().size());
  SourceRange range{source_.get(), static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  return diagnostics_.error(range, std::move(message), kind);
}

bool TextCursor::fail(size_t begin, std::string message, ErrorKind kind) {
  error(begin, std::move(message), kind);
  return false;
}

bool TextCursor::failLimit(size_t begin, std::string message, std::string_view limit) {
  return diagnostics_.metLimit(limit, fail(begin, std::move(message), ErrorKind::Limit));
}

bool TextCursor::expected(std::string_view what) {
  if (atEnd()) return fail(at_, fmt::format("expected {}, found the end", what));
  size_t length = std::max<size_t>(1, utf8Length(rest()));
  return fail(at_, fmt::format("expected {}, found '{}'", what, rest().substr(0, length)));
}

}  // namespace tscompile
