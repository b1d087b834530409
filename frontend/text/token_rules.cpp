#include "frontend/text/token_rules.h"

#include "frontend/text/grammar.h"
#include "ir/graph/value_names.h"
#include "ir/support/text.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace tscompile::frontend {
namespace {

using Token = Parser::token;

bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isWordStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isWordByte(char c) { return isWordStart(c) || isDigit(c); }

size_t skipBlanks(std::string_view t, size_t i) {
  while (i < t.size() && isBlank(t[i])) ++i;
  return i;
}

// Blanks and joined lines.
size_t skipSpace(std::string_view t, size_t i) {
  while (i < t.size()) {
    if (isBlank(t[i])) {
      ++i;
    } else if (t[i] == '\\') {
      size_t j = skipBlanks(t, i + 1);
      if (j >= t.size() || t[j] != '\n') break;
      i = j + 1;
    } else {
      break;
    }
  }
  return i;
}

bool isHeader(std::string_view statement) {
  return startsWith(statement, "graph") || startsWith(statement, "block") || startsWith(statement, "with");
}

size_t lineEnd(std::string_view t, size_t i) {
  size_t end = t.find('\n', i);
  return end == std::string_view::npos ? t.size() : end;
}

}  // namespace

// ---- tokens ----

TokenRules::~TokenRules() {
  if (scanner_) destroyScanner(scanner_);
}

void TokenRules::begin() {
  attributesAt_ = state_.start() == StartAt::Value ? 1 : 0;
  scanner_ = makeScanner(text_, this, state_.start() == StartAt::Value);
}

int TokenRules::startToken() const {
  switch (state_.start()) {
    case StartAt::Schema:
      return Token::TOK_START_SCHEMA;
    case StartAt::Type:
      return Token::TOK_START_TYPE;
    case StartAt::Value:
      return Token::TOK_START_VALUE;
    default:
      return Token::TOK_START_TEXT;
  }
}

int TokenRules::next(Semantic& value, Span& span) {
  if (!std::exchange(started_, true)) {
    span = {0, 0};
    return startToken();
  }
  // Enough mistakes were shown: the rest of a hopeless text is not worth its time.
  if (state_.isFull()) state_.giveUp();
  if (state_.givenUp() || (lineStart_ && stop_ && stop_())) {
    span = {textSize(), textSize()};
    return Token::TOK_END;
  }
  int token = scanToken(scanner_, value, span);
  // Types and literals take at most two brackets for a level: `annotate(List[...], [`.
  if (brackets_.size() > 2 * state_.limits().typeDepth + 16) state_.limitError(span, &Limits::typeDepth);
  if (lineStart_) statementBegin_ = span.begin;
  tokenBeforeLast_ = lastToken_;
  lastToken_ = token;
  state_.setLastSpan(span);
  lineStart_ = token == Token::TOK_NEWLINE;
  if (token == Token::TOK_SCALARS || lineStart_) sawPython_ = false;
  return token;
}

int TokenRules::bad() {
  reportedHere_ = true;
  return Token::TOK_BAD;
}

void TokenRules::recover() {
  reportedHere_ = false;
  brackets_.clear();
  attributesAt_ = state_.start() == StartAt::Value ? 1 : 0;
  sawPython_ = false;
  if (state_.start() != StartAt::Text) return;
  recovering_ = true;
  recoveryBegin_ = statementBegin_;
  recoveringHeader_ = isHeader(text_.substr(recoveryBegin_, 8));
  resetScanner(scanner_);
}

// ---- lengths ----

size_t TokenRules::commentLength(uint32_t at) const { return lineEnd(text_, at) - at; }

size_t TokenRules::valueNameLength(uint32_t at) const {
  size_t i = skipBlanks(text_, at + 1);
  auto run = [&](size_t j) {
    while (j < text_.size()) {
      if (isNameByte(text_[j]))
        ++j;
      else if (text_[j] == ':' && j + 2 < text_.size() && text_[j + 1] == ':' && isNameByte(text_[j + 2]))
        j += 2;
      else
        break;
    }
    return j;
  };
  size_t end = run(i);
  // PyTorch's reader lets blanks stand around the dots: `%x .1`, `%x. 1`.
  while (end > i && end < text_.size() && isBlank(text_[end])) {
    size_t next = skipBlanks(text_, end);
    if (next >= text_.size()) break;
    bool joins = text_[next] == '.' ? next + 1 < text_.size() && isNameByte(text_[next + 1]) && text_[next + 1] != '.'
                                    : text_[end - 1] == '.' && isNameByte(text_[next]) && text_[next] != '#';
    if (!joins) break;
    end = run(next);
  }
  return end - at;
}

// From "(" to the ")" that is followed by the list of inputs.
size_t TokenRules::scalarsLength(uint32_t at) const {
  size_t end = lineEnd(text_, at);
  for (size_t i = at; i + 2 < end; ++i)
    if (text_[i] == ')' && text_[i + 1] == '(' && (text_[i + 2] == '%' || text_[i + 2] == ')')) return i + 1 - at;
  return 0;
}

size_t TokenRules::scopeLength(uint32_t at, size_t prefix) const {
  size_t end = lineEnd(text_, at);
  size_t hash = text_.substr(0, end).find(" #", at + prefix);
  return (hash == std::string_view::npos ? end : hash) - at;
}

// A default of a named tuple's field is raw text: it ends before `, name : ` or an unbalanced parenthesis.
size_t TokenRules::defaultLength(uint32_t at) const {
  int depth = 0;
  for (size_t i = at; i < text_.size(); ++i) {
    char c = text_[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == ')' && depth-- == 0) return i - at;
    if (c == ',' && depth <= 0) {
      size_t j = skipBlanks(text_, i + 1), word = j;
      while (j < text_.size() && isWordByte(text_[j])) ++j;
      if (j > word && text_.substr(j, 3) == " : ") return i - at;
    }
  }
  return text_.size() - at;
}

size_t TokenRules::wordLength(Span span) const {
  size_t i = skipSpace(text_, span.end);
  if (i + 2 < text_.size() && text_[i] == ':' && text_[i + 1] == ':') {
    size_t j = skipSpace(text_, i + 2);
    if (j < text_.size() && isWordStart(text_[j])) {
      while (j < text_.size() && isWordByte(text_[j])) ++j;
      return j - span.begin;
    }
  }
  // Lines of module dumps go to their end: `module __torch__.Net {`.
  if (lineStart_ && brackets_.empty()) {
    std::string_view word = state_.textOf(span);
    size_t end = lineEnd(text_, span.end);
    std::string_view rest = trim(text_.substr(span.end, end - span.end));
    bool opens = !rest.empty() && rest.back() == '{';
    bool section = rest == "{" && (word == "parameters" || word == "attributes" || word == "methods" ||
                                   word == "submodules" || word == "functions");
    bool named = opens && rest.size() > 1 && isBlank(text_[span.end]) &&
                 (word == "module" || word == "method" || word == "function");
    if (section || named) return text_.substr(0, end).find_last_of('{') + 1 - span.begin;
  }
  return span.end - span.begin;
}

// ---- values of tokens ----

int TokenRules::valueName(std::string_view text, Semantic& value, Span span) {
  std::string_view name = trim(text.substr(1));
  if (name.empty()) {
    state_.error(span, "expected a value name after '%'");
    return bad();
  }
  if (name.size() > state_.limits().identifierBytes) {
    state_.limitError(span, &Limits::identifierBytes);
    return bad();
  }
  if (name.find_first_of(" \t\r\f\v") != std::string_view::npos) {
    std::string joined;
    for (char c : name)
      if (!isBlank(c)) joined += c;
    name = state_.arena.copy(joined);
  }
  value.text = name;
  return Token::TOK_VALUE;
}

int TokenRules::integer(std::string_view text, Semantic& value, Span span) {
  uint64_t number = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || number > uint64_t{1} << 63) {
    state_.error(span, "integer does not fit in 64 bits");
    number = 0;
  }
  // 2^63 is legal only after a minus sign; integerLiteral() refuses it otherwise.
  value.integer = static_cast<int64_t>(number);
  return Token::TOK_INTEGER;
}

namespace {
// False if the number is too large for a double. Numbers too small for one are zero, as in C.
bool toDouble(std::string_view text, double& out) {
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (failure != std::errc::result_out_of_range) return true;
  // Tell 1e999 from 1e-999 by the exponent, or by the digits before the point.
  size_t e = text.find_first_of("eE");
  if (e != std::string_view::npos && e + 1 < text.size() && text[e + 1] == '-') {
    out = 0;
    return true;
  }
  if (e == std::string_view::npos && text.find_first_not_of("0.") > text.find('.')) {
    out = 0;
    return true;
  }
  return false;
}
}  // namespace

int TokenRules::floating(std::string_view text, Semantic& value, Span span) {
  value.number = 0;
  if (text.size() > state_.limits().numberBytes)
    state_.limitError(span, &Limits::numberBytes);
  else if (!toDouble(text, value.number))
    state_.error(span, "number does not fit in a double");
  return Token::TOK_FLOAT;
}

int TokenRules::imaginary(std::string_view text, Semantic& value, Span span) {
  floating(text.substr(0, text.size() - 1), value, span);
  return Token::TOK_IMAGINARY;
}

int TokenRules::badNumber(Span span) {
  state_.error(span, "hexadecimal numbers are not supported");
  return bad();
}

bool TokenRules::decodeString(std::string_view body, std::string& out, Span span, size_t quote) {
  auto octal = [](char c) { return c >= '0' && c <= '7'; };
  auto hex = [](char c) {
    return isDigit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
  };
  // Bytes from 0x80 as PyTorch prints them on x86-64: the octal digits of a negative char, all below '0'.
  auto damaged = [](char c) { return c >= '0' - 7 && c <= '0'; };
  bool good = true;
  for (size_t i = 0; i < body.size(); ++i) {
    char c = body[i];
    if (c != '\\' || i + 1 >= body.size()) {
      out += c;
      continue;
    }
    char next = body[++i];
    static constexpr std::string_view kLetters = "\\'\"\nabfnrtv", kMeanings = "\\'\"\n\a\b\f\n\r\t\v";
    if (size_t k = kLetters.find(next); k != std::string_view::npos) {
      out += kMeanings[k];
      continue;
    }
    std::string_view three = body.substr(i, 3);
    if (three.size() == 3 && octal(three[0]) && octal(three[1]) && octal(three[2]) && three[0] <= '3') {
      out += static_cast<char>((three[0] - '0') * 64 + (three[1] - '0') * 8 + (three[2] - '0'));
      i += 2;
      continue;
    }
    if (three.size() == 3 && damaged(three[0]) && damaged(three[1]) && damaged(three[2]) && three[0] >= '0' - 2) {
      out += static_cast<char>(256 + (three[0] - '0') * 64 + (three[1] - '0') * 8 + (three[2] - '0'));
      i += 2;
      continue;
    }
    if (next == 'x' && i + 2 < body.size() && hex(body[i + 1]) >= 0 && hex(body[i + 2]) >= 0) {
      out += static_cast<char>(hex(body[i + 1]) * 16 + hex(body[i + 2]));
      i += 2;
      continue;
    }
    auto at = static_cast<uint32_t>(span.begin + quote + i - 1);
    state_.error({at, at + 2}, "unknown escape in string");
    good = false;
  }
  return good;
}

int TokenRules::string(std::string_view body, size_t quote, Semantic& value, Span span) {
  value.text = body;
  if (body.size() > state_.limits().stringBytes) {
    state_.limitError(span, &Limits::stringBytes);
    value.text = {};
  } else if (body.find('\\') != std::string_view::npos) {
    std::string decoded;
    decodeString(body, decoded, span, quote);
    value.text = state_.arena.copy(decoded);
  }
  return Token::TOK_STRING;
}

int TokenRules::unterminatedString(Span span) {
  state_.error({span.begin, span.begin + 1}, "string has no end on this line");
  return bad();
}

int TokenRules::badCharacter(Span span) {
  auto c = static_cast<unsigned char>(text_[span.begin]);
  char buffer[40];
  if (c >= 0x21 && c < 0x7f)
    std::snprintf(buffer, sizeof buffer, "invalid character '%c'", c);
  else
    std::snprintf(buffer, sizeof buffer, "invalid byte 0x%02x", c);
  state_.error(span, buffer);
  return bad();
}

int TokenRules::tensorText(std::string_view text, Semantic& value) {
  value.text = text;
  return Token::TOK_TENSOR;
}

int TokenRules::word(std::string_view text, Semantic& value) {
  value.text = text;
  if (text.find("::") != std::string_view::npos) {
    if (text.find_first_of(" \t\r\f\v\\\n") != std::string_view::npos) {
      std::string joined;
      for (char c : text)
        if (!isBlank(c) && c != '\\' && c != '\n') joined += c;
      value.text = state_.arena.copy(joined);
    }
    return Token::TOK_KIND;
  }
  if (lineStart_ && brackets_.empty()) {
    if (text == "return") return Token::TOK_RETURN;
    if (text == "with") return Token::TOK_WITH;
    if (text.back() == '{') {
      if (text.substr(0, 7) == "module " || text.substr(0, 7) == "module\t") return Token::TOK_MODULE;
      if (text.substr(0, 7) == "method " || text.substr(0, 7) == "method\t") return Token::TOK_METHOD;
      if (text.substr(0, 9) == "function " || text.substr(0, 9) == "function\t") return Token::TOK_METHOD;
      return Token::TOK_SECTION;
    }
  }
  if (text.find('.') != std::string_view::npos) return Token::TOK_QUALIFIED;
  switch (text.size()) {
    case 2:
      if (text == "SS") return Token::TOK_SYMBOL;
      break;
    case 4:
      if (text == "Dict" || text == "RRef") return Token::TOK_PARAMETRIC;
      if (text == "None") return Token::TOK_NONE;
      if (text == "True") return Token::TOK_TRUE;
      break;
    case 5:
      if (text == "Union" || text == "Await") return Token::TOK_PARAMETRIC;
      if (text == "False") return Token::TOK_FALSE;
      break;
    case 6:
      if (text == "Future") return Token::TOK_PARAMETRIC;
      break;
    case 10:
      if (text == "NamedTuple") return Token::TOK_NAMEDTUPLE;
      break;
    default:
      break;
  }
  return Token::TOK_IDENT;
}

int TokenRules::attributeWord(std::string_view text, Semantic& value) {
  if (text == "inf") return Token::TOK_INF;
  if (text == "nan") return Token::TOK_NAN;
  if (text == "annotate") return Token::TOK_ANNOTATE;
  if (text == "torch.device") return Token::TOK_DEVICE;
  if (text == "torch.Generator") return Token::TOK_GENERATOR;
  return word(text, value);
}

// ---- lines and brackets ----

bool TokenRules::endsLine(uint32_t at) {
  if (recovering_) {
    if (lineStart_) return false;
    size_t begin = at == 0 ? 0 : text_.rfind('\n', at - 1) + 1;
    std::string_view line = text_.substr(begin, at - begin);
    line = trim(line.substr(0, line.find('#')));
    if (recoveringHeader_ && !line.empty() && line.back() == ',') return false;
    recovering_ = false;
    return true;
  }
  // A bracket that was never closed does not swallow the statements after it.
  if (!brackets_.empty() && state_.start() == StartAt::Text && beginsStatement(at + 1)) {
    brackets_.clear();
    attributesAt_ = 0;
  }
  return brackets_.empty() && !lineStart_;
}

bool TokenRules::beginsStatement(uint32_t at) const {
  const std::string_view line = trim(text_.substr(at, lineEnd(text_, at) - at));
  if (startsWith(line, "-> (") || startsWith(line, "return (") || startsWith(line, "= ")) return true;
  if (startsWith(line, "block") && line.size() > 5 && isDigit(line[5])) return true;
  if (line.empty() || line[0] != '%') return false;
  const size_t equal = line.find(" = ");
  if (equal == std::string_view::npos) return false;
  // An operator, unlike the default of a named tuple's field.
  size_t end = equal + 3;
  while (end < line.size() && isWordByte(line[end])) ++end;
  return startsWith(line.substr(end), "::") || startsWith(line.substr(equal + 3), "^");
}

bool TokenRules::startsAttributes() {
  if (!brackets_.empty() || recovering_ || (lastToken_ != Token::TOK_KIND && lastToken_ != Token::TOK_PYTHON))
    return false;
  attributesAt_ = 1;
  return true;
}

void TokenRules::open(char bracket) {
  if (recovering_) return;
  brackets_.push_back(bracket == '(' && lastToken_ == Token::TOK_NAMEDTUPLE ? 'N' : bracket);
}

bool TokenRules::close() {
  if (recovering_) return false;
  if (!brackets_.empty()) brackets_.pop_back();
  if (attributesAt_ == 0 || !brackets_.empty() || state_.start() == StartAt::Value) return false;
  attributesAt_ = 0;
  return true;
}

// Braces of old graph text and module dumps hold statements, so their line ends count.
void TokenRules::openBrace() {
  if (insideAttributes()) brackets_.push_back('{');
}
void TokenRules::closeBrace() {
  if (insideAttributes()) close();
}

bool TokenRules::takePlace(std::string_view comment, Semantic& value) {
  if (lineStart_ || !brackets_.empty()) return false;
  while (!comment.empty() && isBlank(comment.back())) comment.remove_suffix(1);
  // From the right: file names hold blanks, colons, anything.
  auto number = [&](uint32_t& out) {
    size_t start = comment.size();
    while (start > 0 && isDigit(comment[start - 1])) --start;
    if (start == comment.size() || start == 0 || comment[start - 1] != ':') return false;
    std::string_view digits = comment.substr(start);
    if (digits.size() > 1 && digits[0] == '0') return false;
    auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    comment = comment.substr(0, start - 1);
    return failure == std::errc();
  };
  PlaceSyntax place;
  if (comment.substr(0, 2) != "# " || !number(place.column) || !number(place.line) || comment.size() < 2) return false;
  place.file = comment.substr(2);
  place.present = true;
  value.place = state_.make<PlaceSyntax>(place);
  return true;
}

bool TokenRules::startsSettings(const Semantic& value) {
  if (value.text.substr(0, 10) != "parameters" && value.text.substr(0, 10) != "attributes") return false;
  size_t at = static_cast<size_t>(value.text.data() - text_.data());
  size_t line = at == 0 ? 0 : text_.rfind('\n', at - 1) + 1;
  settingsIndent_ = at - line;
  return true;
}

bool TokenRules::endsSettings(std::string_view line) const {
  size_t indent = line.find_first_not_of(' ');
  return indent == settingsIndent_ && trim(line) == "}";
}

int TokenRules::atEnd() {
  // Every statement is ended by a line end, also the last one; brackets left open are an error at the end of the text.
  if (state_.start() == StartAt::Text && !lineStart_ && brackets_.empty()) return Token::TOK_NEWLINE;
  return Token::TOK_END;
}

}  // namespace tscompile::frontend
