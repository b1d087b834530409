#include "frontend/source/reader.h"

#include "frontend/source/grammar.h"
#include "ir/support/text.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace tscompile::source {

using Token = Parser::token;

const Slice<Stmt*>* Reader::read() { return parse(Token::TOK_START_FILE) ? result : nullptr; }

const Expr* Reader::readExpression() { return parse(Token::TOK_START_EXPR) ? expression : nullptr; }

bool Reader::parse(int start) {
  start_ = start;
  scanner_ = makeScanner(textOf(window_), this);
  Parser parser(*this);
  bool good = parser.parse() == 0;
  destroyScanner(scanner_);
  return good && !failed_;
}

// One message for a file: what follows a mistake is seldom worth reading.
Diagnostic& Reader::error(Span span, std::string message, ErrorKind kind) {
  if (failed_) return ignored_ = {};
  failed_ = true;
  return diagnostics_.error({&source_, span.begin, span.end}, std::move(message), kind);
}

void Reader::syntaxError(Span where, int found, const std::vector<int>& kinds) {
  auto name = [](int kind) -> std::string {
    return Parser::symbol_name(static_cast<Parser::symbol_kind::symbol_kind_type>(kind));
  };
  std::string list;
  for (size_t i = 0; kinds.size() <= 5 && i < kinds.size(); ++i)
    list += (i == 0 ? "" : i + 1 == kinds.size() ? " or " : ", ") + name(kinds[i]);
  error(where, list.empty() ? "unexpected " + name(found) : "expected " + list + " before " + name(found));
}

// ---- lines ----

bool Reader::endLine(std::string_view blanks) {
  if (brackets_) return false;
  wanted_ = blanks.size();
  atLineStart_ = true;
  return true;
}

// The token that the indentation of a line means, or -1.
int Reader::startLine(Span& span) {
  if (wanted_ > indents_.back()) {
    atLineStart_ = false;
    if (indents_.size() > kMaxDepth) error(span, "the statements are nested too deeply", ErrorKind::Limit);
    indents_.push_back(wanted_);
    return Token::TOK_INDENT;
  }
  if (wanted_ < indents_.back()) {
    indents_.pop_back();
    if (wanted_ > indents_.back()) error(span, "the indentation fits no line above");
    return Token::TOK_DEDENT;
  }
  atLineStart_ = false;
  return -1;
}

int Reader::nextToken(Semantic& value, Span& span) {
  if (failed_) return Token::TOK_END;
  if (start_) return std::exchange(start_, 0);
  if (heldToken_ < 0) {
    heldToken_ = scanToken(scanner_, heldValue_, heldSpan_);
    // The last line may lack its end.
    if (heldToken_ == Token::TOK_END && lastToken_ != Token::TOK_NEWLINE && lastToken_ != Token::TOK_DEDENT) {
      span = heldSpan_;
      wanted_ = 0;
      atLineStart_ = true;
      return lastToken_ = Token::TOK_NEWLINE;
    }
  }
  if (heldToken_ == Token::TOK_END) {
    wanted_ = 0;
    atLineStart_ = true;
  }
  span = heldSpan_;
  if (atLineStart_ && heldToken_ != Token::TOK_NEWLINE)
    if (int token = startLine(span); token >= 0) return lastToken_ = token;
  value = heldValue_;
  return lastToken_ = std::exchange(heldToken_, -1);
}

// ---- tokens ----

int Reader::word(std::string_view text, Semantic& value) const {
  static const std::unordered_map<std::string_view, int> kWords = {
      {"class", Token::TOK_CLASS},   {"def", Token::TOK_DEF},
      {"if", Token::TOK_IF},         {"elif", Token::TOK_ELIF},
      {"else", Token::TOK_ELSE},     {"for", Token::TOK_FOR},
      {"in", Token::TOK_IN},         {"while", Token::TOK_WHILE},
      {"break", Token::TOK_BREAK},   {"continue", Token::TOK_CONTINUE},
      {"return", Token::TOK_RETURN}, {"raise", Token::TOK_RAISE},
      {"assert", Token::TOK_ASSERT}, {"with", Token::TOK_WITH},
      {"as", Token::TOK_AS},         {"pass", Token::TOK_PASS},
      {"not", Token::TOK_NOT},       {"and", Token::TOK_AND},
      {"or", Token::TOK_OR},         {"is", Token::TOK_IS},
      {"True", Token::TOK_TRUE},     {"False", Token::TOK_FALSE},
      {"None", Token::TOK_NONE},     {"import", Token::TOK_IMPORT},
  };
  // Attributes may bear the name of a keyword.
  auto known = lastToken_ == Token::TOK_DOT ? kWords.end() : kWords.find(text);
  if (known != kWords.end()) return known->second;
  value.text = text;
  return Token::TOK_NAME;
}

int Reader::integerToken(std::string_view text, Semantic& value, Span span) {
  uint64_t number = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  // 2^63 may stand after a minus.
  if (code != std::errc() || number > uint64_t{1} << 63) error(span, "the integer does not fit in 64 bits");
  value.integer = static_cast<int64_t>(number);
  return Token::TOK_INTEGER;
}

int Reader::floatToken(std::string_view text, int token, Semantic& value) const {
  value.number = std::strtod(std::string(text).c_str(), nullptr);
  return token;
}

int Reader::stringToken(std::string_view body, int token, Semantic& value, Span span) {
  if (body.size() > limits_.stringBytes) error(span, "the string is too long", ErrorKind::Limit);
  value.text = token == Token::TOK_FORMAT ? body : unescaped(body);
  return token;
}

int Reader::badCharacter(Span span) {
  error(span, "unexpected character");
  return Token::TOK_BAD;
}

std::string_view Reader::unescaped(std::string_view body) {
  if (body.find('\\') == std::string_view::npos) return body;
  static constexpr std::string_view kNames = "abfnrtv\\'\"", kMeant = "\a\b\f\n\r\t\v\\'\"";
  std::string out;
  auto number = [&](size_t& i, size_t most, int base) {
    unsigned code = 0;
    auto [end, error] = std::from_chars(body.data() + i, body.data() + std::min(body.size(), i + most), code, base);
    i = static_cast<size_t>(end - body.data());
    out += static_cast<char>(code);
  };
  for (size_t i = 0; i < body.size();) {
    char c = body[i++];
    if (c != '\\' || i == body.size()) {
      out += c;
    } else if (size_t known = kNames.find(body[i]); known != std::string_view::npos) {
      out += kMeant[known];
      ++i;
    } else if (body[i] >= '0' && body[i] <= '7') {
      number(i, 3, 8);
    } else if (body[i] == 'x') {
      number(++i, 2, 16);
    } else if (body[i] != '\n') {
      out += c;
    } else {
      ++i;
    }
  }
  return arena.copy(out);
}

// ---- the tree ----

Expr* Reader::exprOf(Expr::Kind kind, Span span, const Slice<Expr*>& items) {
  Expr* e = new (arena.allocate(sizeof(Expr))) Expr(kind, span);
  e->items = items;
  size_t depth = 0;
  for (Expr* i : items)
    if (i) depth = std::max<size_t>(depth, i->depth);
  if (depth >= kMaxDepth) error(span, "the expressions are nested too deeply", ErrorKind::Limit);
  e->depth = static_cast<uint16_t>(depth + 1);
  return e;
}

Expr* Reader::expr(Expr::Kind kind, Span span, std::initializer_list<Expr*> items, std::string_view text) {
  Slice<Expr*> list = Slice<Expr*>::none();
  for (Expr* i : items) list.push(arena, i);
  Expr* e = exprOf(kind, span, list);
  e->text = text;
  return e;
}

Expr* Reader::integer(int64_t value, Span span) {
  Expr* e = expr(Expr::Kind::Integer, span);
  e->integer = value;
  return e;
}

Expr* Reader::number(Expr::Kind kind, double value, Span span) {
  Expr* e = expr(kind, span);
  e->number = value;
  return e;
}

Expr* Reader::withFirst(Expr::Kind kind, Span span, Expr* first, const Slice<Expr*>& rest) {
  Slice<Expr*> list = Slice<Expr*>::none();
  list.push(arena, first);
  for (Expr* e : rest) list.push(arena, e);
  return exprOf(kind, span, list);
}

// `text {expression} text`
Expr* Reader::format(std::string_view body, Span span) {
  Slice<Expr*> parts = Slice<Expr*>::none();
  auto begin = span.begin + 2;
  std::string text;
  for (size_t i = 0; i <= body.size(); ++i) {
    bool doubled = i + 1 < body.size() && body[i] == body[i + 1];
    bool opens = i < body.size() && body[i] == '{' && !doubled;
    if (i < body.size() && !opens) {
      text += body[i];
      i += doubled && (body[i] == '{' || body[i] == '}');
      continue;
    }
    parts.push(arena, expr(Expr::Kind::String, span, {}, unescaped(arena.copy(text))));
    if (!opens) break;
    text.clear();
    size_t end = body.find('}', i);
    Span inside{begin + static_cast<uint32_t>(i) + 1, begin + static_cast<uint32_t>(std::min(end, body.size()))};
    Reader reader(source_, inside, diagnostics_, limits_, arena);
    if (end == std::string_view::npos || !reader.parse(Token::TOK_START_EXPR)) {
      if (!reader.failed_) error(span, "an f-string holds an expression that does not end");
      failed_ = true;
      break;
    }
    parts.push(arena, reader.expression);
    i = end;
  }
  return exprOf(Expr::Kind::Format, span, parts);
}

Stmt* Reader::stmt(Stmt::Kind kind, Span span, Expr* value) {
  Stmt* s = make(Stmt{.kind = kind, .span = span});
  s->value = value;
  return s;
}

Stmt* Reader::assign(Expr* target, Expr* value, Span span) {
  Stmt* s = stmt(Stmt::Kind::Assign, span, value);
  s->targets.push(arena, target);
  return s;
}

Stmt* Reader::ifOf(Expr* condition, const Slice<Stmt*>& body, const Slice<Stmt*>& other, Span span) {
  Stmt* s = stmt(Stmt::Kind::If, span, condition);
  s->body = body;
  s->other = other;
  return s;
}

Slice<Parameter>* Reader::parameter(Slice<Parameter>* list, Parameter parameter) {
  if (list->size) parameter.keywordOnly = (*list)[list->size - 1].keywordOnly || (*list)[list->size - 1].name == "*";
  if (list->size && (*list)[list->size - 1].name == "*") --list->size;
  return append(list, parameter);
}

}  // namespace tscompile::source
