// The scanner with the rules that need more than a regular expression: names, comments, strings, numbers, and the words
// that mean something by where they stand; where lines and statements end, also after a mistake.
#pragma once

#include "frontend/text/parse_state.h"

#include <functional>
#include <vector>

namespace tscompile::frontend {

struct Scanner;
class TokenRules;
Scanner* makeScanner(std::string_view text, TokenRules* rules, bool startInAttributes);
void destroyScanner(Scanner* scanner);
int scanToken(Scanner* scanner, Semantic& value, Span& span);
// Leaves brackets and special states behind after a mistake.
void resetScanner(Scanner* scanner);

class TokenRules {
 public:
  explicit TokenRules(ParseState& state) : state_(state), text_(state.text()) {}
  TokenRules(const TokenRules&) = delete;
  ~TokenRules();

  bool patterns = false;  // the text is a pattern: variables are attribute values
  // The text counts as ended as soon as this holds.
  void stopWhen(std::function<bool()> stop) { stop_ = std::move(stop); }

  // Before the first token.
  void begin();
  int next(Semantic& value, Span& span);
  // Whether the scanner has reported the token that it returned as BAD.
  bool reportedHere() const { return reportedHere_; }
  int tokenBeforeLast() const { return tokenBeforeLast_; }
  // After a syntax error: passes over the rest of the statement.
  void recover();
  // Where the statement begins that was passed over.
  uint32_t recoveryBegin() const { return recoveryBegin_; }

  // ---- called by the scanner ----
  void setBase(const char* base) { base_ = base; }
  uint32_t offset(const char* p) const { return static_cast<uint32_t>(p - base_); }
  uint32_t textSize() const { return state_.textSize(); }
  std::string_view textOf(Span span) const { return state_.textOf(span); }

  // Lengths of tokens that start at an offset.
  size_t commentLength(uint32_t at) const;
  size_t valueNameLength(uint32_t at) const;
  size_t scalarsLength(uint32_t at) const;  // 0: there is no end
  size_t scopeLength(uint32_t at, size_t prefix) const;
  size_t defaultLength(uint32_t at) const;
  size_t wordLength(Span span) const;  // reaches over `:: name`

  int valueName(std::string_view text, Semantic& value, Span span);
  int integer(std::string_view text, Semantic& value, Span span);
  int floating(std::string_view text, Semantic& value, Span span);
  int imaginary(std::string_view text, Semantic& value, Span span);
  int badNumber(Span span);
  int string(std::string_view body, size_t quote, Semantic& value, Span span);
  int unterminatedString(Span span);
  int badCharacter(Span span);
  int tensorText(std::string_view text, Semantic& value);
  int word(std::string_view text, Semantic& value);
  int attributeWord(std::string_view text, Semantic& value);
  int atEnd();
  bool takePlace(std::string_view comment, Semantic& value);

  bool insideBrackets() const { return !brackets_.empty(); }
  bool insideAttributes() const { return attributesAt_ != 0; }
  bool insideNamedTuple() const { return !brackets_.empty() && brackets_.back() == 'N'; }
  bool endsLine(uint32_t at);
  bool startsAttributes();
  void open(char bracket);
  bool close();  // true if that ended the attributes
  void openBrace();
  void closeBrace();
  bool wantsScalars() const { return sawPython_ && brackets_.empty(); }
  void sawPython() { sawPython_ = true; }
  bool startsSettings(const Semantic& value);
  bool endsSettings(std::string_view line) const;

 private:
  int startToken() const;
  int bad();
  // Whether the line that begins there is one that only a statement can begin with.
  bool beginsStatement(uint32_t at) const;
  bool decodeString(std::string_view body, std::string& out, Span span, size_t quote);

  ParseState& state_;
  std::string_view text_;
  std::function<bool()> stop_;
  const char* base_ = nullptr;
  Scanner* scanner_ = nullptr;

  bool started_ = false;
  int lastToken_ = 0, tokenBeforeLast_ = 0;
  uint32_t statementBegin_ = 0;  // of the line being read
  // After a syntax error, until its statement ends: brackets do not count, as they may have no partner.
  bool recovering_ = false;
  bool recoveringHeader_ = false;  // whose parameters may go on in further lines
  uint32_t recoveryBegin_ = 0;
  bool lineStart_ = true;
  bool sawPython_ = false;
  bool reportedHere_ = false;
  size_t attributesAt_ = 0;  // bracket depth of the attributes of the current node, plus one
  size_t settingsIndent_ = 0;
  std::vector<char> brackets_;  // '(', '[', '{', and 'N' for the parenthesis of a NamedTuple
};

}  // namespace tscompile::frontend
