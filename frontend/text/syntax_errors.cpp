// Messages of syntax errors: what was expected, in words that a writer of graph text would use.
#include "frontend/text/grammar.h"
#include "frontend/text/parse_context.h"
#include "ir/support/text.h"

#include <algorithm>

namespace tscompile::frontend {
namespace {

using Kind = Parser::symbol_kind;

// The tokens that could stand at a place, boiled down to what is worth saying.
class Expected {
 public:
  explicit Expected(const std::vector<int>& kinds) : kinds_(kinds) {
    if (has(Kind::S_STRING) && has(Kind::S_INTEGER) && has(Kind::S_LBRACE)) {
      words_.push_back("a value");
      drop({Kind::S_STRING,    Kind::S_TRUE,       Kind::S_FALSE,      Kind::S_NONE,    Kind::S_TENSOR,
            Kind::S_TENSORS,   Kind::S_GRAPHS,     Kind::S_OBJECT,     Kind::S_DEVICE,  Kind::S_GENERATOR,
            Kind::S_LBRACKET,  Kind::S_LPAREN,     Kind::S_LBRACE,     Kind::S_MINUS,   Kind::S_QUALIFIED,
            Kind::S_IDENT,     Kind::S_PARAMETRIC, Kind::S_NAMEDTUPLE, Kind::S_INTEGER, Kind::S_FLOAT,
            Kind::S_IMAGINARY, Kind::S_INF,        Kind::S_NAN,        Kind::S_ANNOTATE});
    } else if (has(Kind::S_PARAMETRIC) && has(Kind::S_NAMEDTUPLE)) {
      words_.push_back("a type");
      drop({Kind::S_IDENT, Kind::S_QUALIFIED, Kind::S_PARAMETRIC, Kind::S_NONE, Kind::S_NAMEDTUPLE, Kind::S_LPAREN});
    }
    // What could go on after a complete part is hardly what is missing.
    if (has(Kind::S_UNDEFINED)) dropUnlessLast({Kind::S_UNDEFINED, Kind::S_LBRACKET, Kind::S_QUESTION});
    if (has(Kind::S_LESS)) dropUnlessLast({Kind::S_LESS, Kind::S_LPAREN});
    if (has(Kind::S_COLON)) dropUnlessLast({Kind::S_LBRACE});
    if (has(Kind::S_KIND)) dropUnlessLast({Kind::S_PYTHON});
    if (has(Kind::S_COMMA)) dropUnlessLast({Kind::S_VALUE});  // only PyTorch 1.0 leaves the comma out
    dropUnlessLast({Kind::S_PLUS, Kind::S_MINUS, Kind::S_SYMBOL, Kind::S_SEMICOLON, Kind::S_PLACE, Kind::S_BAD});
    for (int kind : kinds_) words_.emplace_back(Parser::symbol_name(static_cast<Kind::symbol_kind_type>(kind)));
  }

  bool has(int kind) const { return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end(); }

  // "a, b or c"; empty if there are too many.
  std::string text() const {
    constexpr size_t kMost = 6;
    std::string out;
    for (size_t i = 0; words_.size() <= kMost && i < words_.size(); ++i)
      out += (i == 0 ? "" : i + 1 == words_.size() ? " or " : ", ") + words_[i];
    return out;
  }

 private:
  void drop(std::initializer_list<int> kinds) {
    std::erase_if(kinds_, [&](int k) { return std::find(kinds.begin(), kinds.end(), k) != kinds.end(); });
  }
  void dropUnlessLast(std::initializer_list<int> kinds) {
    std::vector<int> before = kinds_;
    drop(kinds);
    if (kinds_.empty() && words_.empty()) kinds_ = before;
  }

  std::vector<int> kinds_;
  std::vector<std::string> words_;
};

bool isLiteral(int kind) {
  return kind == Kind::S_INTEGER || kind == Kind::S_FLOAT || kind == Kind::S_STRING || kind == Kind::S_TRUE ||
         kind == Kind::S_FALSE || kind == Kind::S_NONE;
}

}  // namespace

void ParseContext::syntaxError(Span where, int found, const std::vector<int>& kinds) {
  fail();
  if (!tokens.reportedHere() && !givenUp()) {
    Expected expected(kinds);
    std::string name = Parser::symbol_name(static_cast<Kind::symbol_kind_type>(found)), list = expected.text();
    Diagnostic& d = error(where, list.empty() ? "unexpected " + name : "expected " + list + " before " + name);
    auto isKind = [&](int k) { return std::find(kinds.begin(), kinds.end(), k) != kinds.end(); };
    if (found == Kind::S_DOT && tokens.tokenBeforeLast() == Parser::token::TOK_KIND)
      d.note("graph text does not name overloads: the types of the inputs select them");
    else if (found == Kind::S_IDENT && isKind(Kind::S_KIND))
      d.note("operators have a namespace, as in aten::" + abbreviate(textOf(where), 80));
    else if (isLiteral(found) && isKind(Kind::S_VALUE))
      d.note("inputs are values; prim::Constant[value=...]() makes one of a literal");
  }
  tokens.recover();
}

}  // namespace tscompile::frontend
