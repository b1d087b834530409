// What all parts of reading a text share: the text, the arena of the current statement, the sink for mistakes.
#pragma once

#include "frontend/text/syntax.h"
#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"

#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tscompile::frontend {

enum class StartAt : uint8_t { Text, Schema, Type, Value };

class ParseState {
 public:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

  // Must not outlive the source, the diagnostics and the limits.
  ParseState(const SourceFile& source, Diagnostics& diagnostics, const Limits& limits)
      : source_(source), text_(source.text()), diagnostics_(diagnostics), limits_(limits) {}
  ParseState(const ParseState&) = delete;

  std::string_view text() const { return text_; }
  uint32_t textSize() const { return static_cast<uint32_t>(text_.size()); }
  std::string_view textOf(Span span) const { return text_.substr(span.begin, span.end - span.begin); }
  SourceRange range(Span span) const { return {&source_, span.begin, span.end}; }
  const Limits& limits() const { return limits_; }
  StartAt start() const { return start_; }
  void setStart(StartAt start) { start_ = start; }

  Diagnostic& error(Span span, std::string message, ErrorKind kind = ErrorKind::Input);
  void limitError(Span span, uint64_t Limits::*limit);
  // An error that was reported elsewhere.
  void fail() { failed_ = true; }
  bool failed() const { return failed_; }
  bool isFull() const { return diagnostics_.full(); }
  // The rest of the text is not read: a limit was hit, or enough was reported.
  bool givenUp() const { return givenUp_; }
  void giveUp() { givenUp_ = true; }
  // Of the token that was read last.
  void setLastSpan(Span span) { lastSpan_ = span; }

  Arena arena;
  template <class T, class... Args>
  T* make(Args&&... args) {
    return new (arena.allocate(sizeof(T))) T(std::forward<Args>(args)...);
  }
  template <class T>
  Slice<T>* list() {
    return make<Slice<T>>(Slice<T>::none());
  }
  template <class T>
  Slice<T>* list(const std::type_identity_t<T>& first) {
    auto* s = list<T>();
    s->push(arena, first);
    return s;
  }
  // Lists stop growing at their bound, so that no statement costs much more memory than its text.
  template <class T>
  Slice<T>* append(Slice<T>* s, const std::type_identity_t<T>& item) {
    uint64_t Limits::*limit = std::is_same_v<T, Literal*> ? &Limits::listItems : &Limits::arguments;
    if (s->size >= limits_.*limit) [[unlikely]]
      limitError(lastSpan_, limit);
    else
      s->push(arena, item);
    return s;
  }

 private:
  const SourceFile& source_;
  std::string_view text_;
  Diagnostics& diagnostics_;
  const Limits& limits_;
  StartAt start_ = StartAt::Text;
  Span lastSpan_{0, 0};
  bool failed_ = false;
  bool givenUp_ = false;
};

}  // namespace tscompile::frontend
