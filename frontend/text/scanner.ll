%top{
// The tokens of graph text, module dumps, schemas, types and values. Constructs that need more than a regular
// expression (value names, comments, raw text of Python operators) are found by the functions of token_rules.cpp.
}
%option reentrant noyywrap nodefault nounput noinput 8bit never-interactive
%option prefix="tsScan"
%option extra-type="tscompile::frontend::TokenRules*"

%{
#include "frontend/text/grammar.h"
#include "frontend/text/token_rules.h"
#include "ir/support/text.h"

#include <memory>
#include <new>

using namespace tscompile::frontend;
using Token = Parser::token;

// What flex would end the process for: memory that cannot be had.
#define YY_FATAL_ERROR(message) throw std::bad_alloc()

#define YY_DECL int tsScan(Semantic* value, Span* span, yyscan_t yyscanner)
#define YY_USER_ACTION                                             \
  span->begin = yyextra->offset(yytext);                           \
  span->end = span->begin + static_cast<uint32_t>(yyleng);
// Makes the token reach to `length` bytes; more than was matched is fine, as the whole text is in memory.
#define TAKE(length)                       \
  do {                                     \
    size_t taken = (length);               \
    yyless(static_cast<int>(taken));       \
    span->end = span->begin + static_cast<uint32_t>(taken); \
  } while (false)
// The token in the source text, which outlives the scanner; the scanner writes a NUL after its own copy.
#define TEXT yyextra->textOf(*span)
%}

%x ATTRIBUTES DEFAULT_TEXT SETTINGS

DIGIT     [0-9]
ID        [A-Za-z_][A-Za-z0-9_]*
BLANK     [ \t\r\f\v]
EXPONENT  [eE][-+]?{DIGIT}+
SHOWN     -?({DIGIT}+(\.{DIGIT}*)?([eE][-+]?{DIGIT}+)?|nan|inf)
INDEX     "("{DIGIT}+(","{DIGIT}+)*",.,.) ="
COLUMNS   "Columns "{DIGIT}+" to "{DIGIT}+
TENSOREND "[ "[A-Za-z0-9_]+"Type{"[0-9,]*"}"[^\]\n]*"]"

%%

<INITIAL,ATTRIBUTES>{
{BLANK}+                  { }
"\\"{BLANK}*\n            { }
"\xEF\xBB\xBF"            { if (span->begin != 0) return yyextra->badCharacter(*span); }
\n                        { if (yyextra->endsLine(span->begin)) return Token::TOK_NEWLINE; }
"#"                       { size_t n = yyextra->commentLength(span->begin); TAKE(n);
                            if (yyextra->takePlace(TEXT, *value)) return Token::TOK_PLACE; }
"%"                       { size_t n = yyextra->valueNameLength(span->begin); TAKE(n);
                            return yyextra->valueName(TEXT, *value, *span); }

{DIGIT}+                  { return yyextra->integer(TEXT, *value, *span); }
{DIGIT}+"."{DIGIT}*{EXPONENT}? |
"."{DIGIT}+{EXPONENT}?    |
{DIGIT}+{EXPONENT}        { return yyextra->floating(TEXT, *value, *span); }
{DIGIT}+"j"               |
{DIGIT}+"."{DIGIT}*{EXPONENT}?"j" |
"."{DIGIT}+{EXPONENT}?"j" |
{DIGIT}+{EXPONENT}"j"     { return yyextra->imaginary(TEXT, *value, *span); }
0[xX][0-9a-fA-F.]*([pP][-+]?[0-9]+)? { return yyextra->badNumber(*span); }

\"([^\"\\\n]|\\(.|\n))*\" { return yyextra->string(TEXT.substr(1, TEXT.size() - 2), 1, *value, *span); }
\'([^\'\\\n]|\\(.|\n))*\' { return yyextra->string(TEXT.substr(1, TEXT.size() - 2), 1, *value, *span); }
\"\"\"(\"{0,2}([^\"\\]|\\(.|\n)))*\"\"\" { return yyextra->string(TEXT.substr(3, TEXT.size() - 6), 3, *value, *span); }
\'\'\'(\'{0,2}([^\'\\]|\\(.|\n)))*\'\'\' { return yyextra->string(TEXT.substr(3, TEXT.size() - 6), 3, *value, *span); }
\"([^\"\\\n]|\\.)*        |
\'([^\'\\\n]|\\.)*        { return yyextra->unterminatedString(*span); }

"->"                      { return Token::TOK_ARROW; }
"..."                     { return Token::TOK_ELLIPSIS; }
"[Undefined]"             { return Token::TOK_UNDEFINED; }
"("                       { if (yyextra->wantsScalars()) {
                              size_t n = yyextra->scalarsLength(span->begin);
                              if (n) { TAKE(n); value->text = TEXT.substr(1, n - 2); return Token::TOK_SCALARS; }
                            }
                            yyextra->open('('); return Token::TOK_LPAREN; }
")"                       { yyextra->close(); return Token::TOK_RPAREN; }
"{"                       { yyextra->openBrace(); return Token::TOK_LBRACE; }
"}"                       { yyextra->closeBrace(); return Token::TOK_RBRACE; }
"<"                       { return Token::TOK_LESS; }
">"                       { return Token::TOK_GREATER; }
","                       { return Token::TOK_COMMA; }
":"                       { return Token::TOK_COLON; }
"="                       { if (yyextra->insideNamedTuple()) BEGIN(DEFAULT_TEXT); return Token::TOK_EQUAL; }
"$"{DIGIT}+               { return Token::TOK_UNNAMED_SET; }
"*"                       { return Token::TOK_STAR; }
"!"                       { return Token::TOK_BANG; }
"?"                       { return Token::TOK_QUESTION; }
"+"                       { return Token::TOK_PLUS; }
"-"                       { return Token::TOK_MINUS; }
"|"                       { return Token::TOK_BAR; }
"."                       { return Token::TOK_DOT; }
";"                       { return Token::TOK_SEMICOLON; }
}

<INITIAL>{
"["                       { if (yyextra->startsAttributes()) BEGIN(ATTRIBUTES);
                            yyextra->open('['); return Token::TOK_LBRACKET; }
"]"                       { yyextra->close(); return Token::TOK_RBRACKET; }
","{BLANK}*"scope:"       { if (yyextra->insideBrackets()) { TAKE(1); return Token::TOK_COMMA; }
                            size_t start = static_cast<size_t>(yyleng);
                            size_t n = yyextra->scopeLength(span->begin, start); TAKE(n);
                            value->text = tscompile::trim(TEXT.substr(start)); return Token::TOK_SCOPE; }
"^"[^ \t\r\n()\[\]{}"'%,]+ { value->text = TEXT.substr(1); yyextra->sawPython(); return Token::TOK_PYTHON; }
{ID}("."{ID})*            { size_t n = yyextra->wordLength(*span); TAKE(n);
                            int token = yyextra->word(TEXT, *value);
                            if (token == Token::TOK_SECTION && yyextra->startsSettings(*value)) BEGIN(SETTINGS);
                            return token; }
}

<ATTRIBUTES>{
("MKLDNN Tensor: ")?([ ]+|{SHOWN}|"*"|{INDEX}|{COLUMNS})*{TENSOREND} |
"[ Tensor (undefined) ]"  |
"<Tensor>"                { return yyextra->tensorText(TEXT, *value); }
"[<Tensors>]"             { value->text = TEXT; return Token::TOK_TENSORS; }
"<Graph>"                 |
"[<Graphs>]"              { value->text = TEXT; return Token::TOK_GRAPHS; }
"object("[^)\n]*")"       { value->text = TEXT; return Token::TOK_OBJECT; }
"$"{ID}                   |
"~"\"([^\"\\\n]|\\.)*\"   { if (!yyextra->patterns) return yyextra->badCharacter(*span);
                            value->text = TEXT; return Token::TOK_VARIABLE; }
"["                       { yyextra->open('['); return Token::TOK_LBRACKET; }
"]"                       { if (yyextra->close()) BEGIN(INITIAL); return Token::TOK_RBRACKET; }
"infj"|"nanj"             { value->number = *yytext == 'i' ? ParseState::kInfinity : ParseState::kNaN;
                            return Token::TOK_IMAGINARY; }
{ID}("."{ID})*            { return yyextra->attributeWord(TEXT, *value); }
}

<DEFAULT_TEXT>.|\n        { BEGIN(yyextra->insideAttributes() ? ATTRIBUTES : INITIAL);
                            size_t n = yyextra->defaultLength(span->begin); TAKE(n);
                            value->text = tscompile::trim(TEXT); return Token::TOK_RAW; }

<SETTINGS>{
\n                        { if (yyextra->endsLine(span->begin)) return Token::TOK_NEWLINE; }
[^\n]+                    { value->text = TEXT;
                            if (yyextra->endsSettings(TEXT)) { BEGIN(INITIAL); return Token::TOK_RBRACE; }
                            return Token::TOK_SETTING; }
}

<*>.|\n                   { return yyextra->badCharacter(*span); }
<<EOF>>                   { span->begin = span->end = yyextra->textSize();
                            BEGIN(INITIAL);
                            return yyextra->atEnd(); }

%%

namespace tscompile::frontend {

// The scanner of one text. It works on its own copy, as flex wants two NUL bytes after it and writes between tokens.
struct Scanner {
  yyscan_t handle = nullptr;
  std::string text;
};

Scanner* makeScanner(std::string_view text, TokenRules* rules, bool startInAttributes) {
  auto s = std::make_unique<Scanner>();
  s->text.reserve(text.size() + 2);
  s->text = text;
  s->text.append(2, '\0');
  if (tsScanlex_init_extra(rules, &s->handle) != 0) throw std::bad_alloc();
  rules->setBase(s->text.data());
  tsScan_scan_buffer(s->text.data(), s->text.size(), s->handle);
  if (startInAttributes) {
    auto* yyg = static_cast<struct yyguts_t*>(s->handle);
    BEGIN(ATTRIBUTES);
  }
  return s.release();
}

void destroyScanner(Scanner* s) {
  tsScanlex_destroy(s->handle);
  delete s;
}

void resetScanner(Scanner* s) {
  auto* yyg = static_cast<struct yyguts_t*>(s->handle);
  BEGIN(INITIAL);
}

int scanToken(Scanner* s, Semantic& value, Span& span) { return tsScan(&value, &span, s->handle); }

}  // namespace tscompile::frontend
