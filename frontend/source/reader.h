// What scanner and grammar of TorchScript source share: indentation, brackets, the arena, the sink for mistakes.
#pragma once

#include "frontend/source/syntax.h"
#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"

#include <memory>
#include <vector>

namespace tscompile::source {

struct Scanner;
class Reader;
Scanner* makeScanner(std::string_view text, Reader* reader);
void destroyScanner(Scanner* scanner);
int scanToken(Scanner* scanner, Semantic& value, Span& span);

// Statements inside each other, and expressions inside each other: what walks over a tree may recurse.
inline constexpr size_t kMaxDepth = 400;

class Reader {
 public:
  Reader(const SourceFile& source, Diagnostics& diagnostics, const Limits& limits, Arena& arena)
      : Reader(source, {0, static_cast<uint32_t>(source.text().size())}, diagnostics, limits, arena) {}

  // The statements of the file; null after a report.
  const Slice<Stmt*>* read();
  const Expr* readExpression();

  Arena& arena;
  Slice<Stmt*>* result = nullptr;
  Expr* expression = nullptr;

  Diagnostic& error(Span span, std::string message, ErrorKind kind = ErrorKind::Input);
  std::string_view textOf(Span span) const { return source_.text().substr(span.begin, span.end - span.begin); }

  // ---- called by the grammar ----
  int nextToken(Semantic& value, Span& span);
  void syntaxError(Span where, int found, const std::vector<int>& expected);
  template <class T>
  T* make(const T& value) {
    return new (arena.allocate(sizeof(T))) T(value);
  }
  template <class T>
  Slice<T>* list() {
    return make(Slice<T>::none());
  }
  template <class T>
  Slice<T>* list(const std::type_identity_t<T>& first) {
    return append(list<T>(), first);
  }
  template <class T>
  Slice<T>* append(Slice<T>* s, const std::type_identity_t<T>& item) {
    s->push(arena, item);
    return s;
  }
  Expr* expr(Expr::Kind kind, Span span, std::initializer_list<Expr*> items = {}, std::string_view text = {});
  Expr* exprOf(Expr::Kind kind, Span span, const Slice<Expr*>& items);
  Expr* integer(int64_t value, Span span);
  Expr* number(Expr::Kind kind, double value, Span span);
  // items[0](rest...)
  Expr* withFirst(Expr::Kind kind, Span span, Expr* first, const Slice<Expr*>& rest);
  Expr* format(std::string_view body, Span span);
  Slice<Parameter>* parameter(Slice<Parameter>* list, Parameter parameter);
  Stmt* stmt(Stmt::Kind kind, Span span, Expr* value = nullptr);
  Stmt* assign(Expr* target, Expr* value, Span span);
  Stmt* ifOf(Expr* condition, const Slice<Stmt*>& body, const Slice<Stmt*>& other, Span span);

  // ---- called by the scanner ----
  void setBase(const char* base) { base_ = base; }
  uint32_t offset(const char* p) const { return window_.begin + static_cast<uint32_t>(p - base_); }
  uint32_t textSize() const { return window_.end; }
  void open() { ++brackets_; }
  void close() { brackets_ -= brackets_ > 0; }
  // At the end of a line; false inside brackets. `blanks`: those in front of the next statement.
  bool endLine(std::string_view blanks);
  int word(std::string_view text, Semantic& value) const;
  int integerToken(std::string_view text, Semantic& value, Span span);
  int floatToken(std::string_view text, int token, Semantic& value) const;
  int stringToken(std::string_view body, int token, Semantic& value, Span span);
  int badCharacter(Span span);

 private:
  Reader(const SourceFile& source, Span window, Diagnostics& diagnostics, const Limits& limits, Arena& arena)
      : arena(arena), source_(source), window_(window), diagnostics_(diagnostics), limits_(limits) {}
  bool parse(int start);
  int startLine(Span& span);
  int takeToken(Semantic& value, Span& span);
  std::string_view unescaped(std::string_view body);

  const SourceFile& source_;
  Span window_;
  Diagnostics& diagnostics_;
  const Limits& limits_;
  Scanner* scanner_ = nullptr;
  const char* base_ = nullptr;
  size_t brackets_ = 0;
  std::vector<size_t> indents_{0};
  size_t wanted_ = 0;         // indentation of the line that follows
  bool atLineStart_ = false;  // its tokens were not asked for
  int start_ = 0;             // the token that selects what the text is, until it is taken
  int lastToken_ = 0, heldToken_ = -1;
  Semantic heldValue_;
  Span heldSpan_{0, 0};
  bool failed_ = false;
  Diagnostic ignored_;  // what follows a mistake
};

}  // namespace tscompile::source
