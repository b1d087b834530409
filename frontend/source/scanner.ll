%top{
// The tokens of TorchScript source. Indentation becomes tokens in Reader::nextToken.
}
%option reentrant noyywrap nodefault nounput noinput 8bit never-interactive
%option prefix="tsSource"
%option extra-type="tscompile::source::Reader*"

%{
#include "frontend/source/reader.h"
#include "frontend/source/grammar.h"

#include <memory>
#include <new>

using namespace tscompile::source;
using Token = Parser::token;

// What flex would end the process for: memory that cannot be had.
#define YY_FATAL_ERROR(message) throw std::bad_alloc()

#define YY_DECL int tsSource(Semantic* value, Span* span, yyscan_t yyscanner)
#define YY_USER_ACTION                          \
  span->begin = yyextra->offset(yytext);        \
  span->end = span->begin + static_cast<uint32_t>(yyleng);
// The token in the source text, which outlives the scanner; the scanner writes a NUL after its own copy.
#define TEXT yyextra->textOf(*span)
%}

DIGIT     [0-9]
ID        [A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*
BLANK     [ \t\r\f]
EXPONENT  [eE][-+]?{DIGIT}+
FLOAT     ({DIGIT}+"."{DIGIT}*{EXPONENT}?|"."{DIGIT}+{EXPONENT}?|{DIGIT}+{EXPONENT})
NEWLINE   {BLANK}*("#"[^\n]*)?\n

%%

{BLANK}+                  { }
"\\"{BLANK}*\n            { }
"#"[^\n]*                 { }
{NEWLINE}+{BLANK}*        { std::string_view t = TEXT;
                            if (yyextra->endLine(t.substr(t.rfind('\n') + 1))) return Token::TOK_NEWLINE; }
{DIGIT}+                  { return yyextra->integerToken(TEXT, *value, *span); }
{FLOAT}                   { return yyextra->floatToken(TEXT, Token::TOK_FLOAT, *value); }
({DIGIT}+|{FLOAT})"j"     { return yyextra->floatToken(TEXT.substr(0, TEXT.size() - 1), Token::TOK_IMAGINARY, *value); }
f\"([^\"\\\n]|\\(.|\n))*\" |
f\'([^\'\\\n]|\\(.|\n))*\' { return yyextra->stringToken(TEXT.substr(2, TEXT.size() - 3), Token::TOK_FORMAT, *value, *span); }
\"([^\"\\\n]|\\(.|\n))*\" |
\'([^\'\\\n]|\\(.|\n))*\' { return yyextra->stringToken(TEXT.substr(1, TEXT.size() - 2), Token::TOK_STRING, *value, *span); }
{ID}                      { return yyextra->word(TEXT, *value); }
"("                       { yyextra->open(); return Token::TOK_LPAREN; }
")"                       { yyextra->close(); return Token::TOK_RPAREN; }
"["                       { yyextra->open(); return Token::TOK_LBRACKET; }
"]"                       { yyextra->close(); return Token::TOK_RBRACKET; }
"{"                       { yyextra->open(); return Token::TOK_LBRACE; }
"}"                       { yyextra->close(); return Token::TOK_RBRACE; }
"+="|"-="|"*="|"/="|"//="|"%="|"**="|"|="|"&="|"^="|"<<="|">>="|"@=" {
                            value->text = TEXT.substr(0, TEXT.size() - 1); return Token::TOK_AUGMENT; }
"=="|"!="|"<="|">="|"<"|">" { value->text = TEXT; return Token::TOK_COMPARE; }
"<<"|">>"                 { value->text = TEXT; return Token::TOK_SHIFT; }
"**"                      { return Token::TOK_POWER; }
"//"|"/"|"%"|"@"          { value->text = TEXT; return Token::TOK_DIVIDE; }
"*"                       { return Token::TOK_STAR; }
"->"                      { return Token::TOK_ARROW; }
"..."                     { return Token::TOK_ELLIPSIS; }
"+"                       { return Token::TOK_PLUS; }
"-"                       { return Token::TOK_MINUS; }
"~"                       { return Token::TOK_TILDE; }
"&"                       { return Token::TOK_AMPERSAND; }
"|"                       { return Token::TOK_BAR; }
"^"                       { return Token::TOK_CARET; }
","                       { return Token::TOK_COMMA; }
":"                       { return Token::TOK_COLON; }
";"                       { return Token::TOK_SEMICOLON; }
"."                       { return Token::TOK_DOT; }
"="                       { return Token::TOK_EQUAL; }
.|\n                      { return yyextra->badCharacter(*span); }
<<EOF>>                   { span->begin = span->end = yyextra->textSize(); return Token::TOK_END; }

%%

namespace tscompile::source {

// The scanner of one text. It works on its own copy, as flex wants two NUL bytes after it and writes between tokens.
struct Scanner {
  yyscan_t handle = nullptr;
  std::string text;
};

Scanner* makeScanner(std::string_view text, Reader* reader) {
  auto s = std::make_unique<Scanner>();
  s->text.reserve(text.size() + 2);
  s->text = text;
  s->text.append(2, '\0');
  if (tsSourcelex_init_extra(reader, &s->handle) != 0) throw std::bad_alloc();
  reader->setBase(s->text.data());
  tsSource_scan_buffer(s->text.data(), s->text.size(), s->handle);
  return s.release();
}

void destroyScanner(Scanner* s) {
  tsSourcelex_destroy(s->handle);
  delete s;
}

int scanToken(Scanner* s, Semantic& value, Span& span) { return tsSource(&value, &span, s->handle); }

}  // namespace tscompile::source
