// The syntax tree of TorchScript source, as PyTorch's serialiser writes it: one tree for a file, in an arena.
#pragma once

#include "frontend/text/syntax.h"

namespace tscompile::source {

using frontend::Slice;
using frontend::Span;

struct Def;
struct Class;

struct Expr {
  enum class Kind : uint8_t {
    Name,       // text
    Integer,    // integer
    Float,      // number
    Imaginary,  // number
    String,     // text, unescaped
    True,
    False,
    None,
    Ellipsis,
    Attribute,  // items[0].text
    Call,       // items[0](items[1], ...), keywords among them
    Keyword,    // text=items[0], inside a call
    Star,       // *items[0], inside a call
    Subscript,  // items[0][items[1], ...]
    Slice,      // items: from, to, step; null where left out
    Tuple,
    List,
    Set,
    Dict,    // key, value, key, value ...
    Unary,   // text: "-", "+", "~", "not"
    Binary,  // text: the operator
    And,
    Or,
    Conditional,  // items[0] if items[1] else items[2]
    ListOf,       // [items[0] for items[1] in items[2] if items[3]]
    DictOf,       // {items[0]: items[1] for items[2] in items[3] if items[4]}
    Format,       // an f-string: strings and expressions in turn
  };
  Expr(Kind kind, Span span) : kind(kind), span(span) {}
  Kind kind;
  uint16_t depth = 1;
  Span span;
  std::string_view text = {};
  union {
    int64_t integer = 0;
    double number;
  };
  Slice<Expr*> items = Slice<Expr*>::none();

  bool is(Kind k) const { return kind == k; }
  bool isName(std::string_view name) const { return kind == Kind::Name && text == name; }
  Expr* item(size_t i = 0) const { return items[i]; }
};

struct Stmt {
  enum class Kind : uint8_t {
    Expression,  // value
    Assign,      // targets[0] = targets[1] = value; without targets[0] : type
    Declare,     // targets[0] : value, without a value
    Augment,     // targets[0] op= value
    If,          // value: the condition; body, other
    For,         // targets[0] in value
    While,
    With,    // targets: the contexts, each Tuple(context, name) or the context alone
    Return,  // value or null
    Raise,   // value or null
    Assert,  // value, and the message or null in `type`
    Pass,
    Break,
    Continue,
    Define,  // def
    DefineClass,
  };
  Kind kind;
  Span span;
  std::string_view op = {};
  Slice<Expr*> targets = Slice<Expr*>::none();
  Expr* value = nullptr;
  Expr* type = nullptr;
  Slice<Stmt*> body = Slice<Stmt*>::none();
  Slice<Stmt*> other = Slice<Stmt*>::none();
  Def* def = nullptr;
  Class* made = nullptr;
};

struct Parameter {
  std::string_view name;
  Span span;
  Expr* type = nullptr;          // null: not given
  Expr* defaultValue = nullptr;  // null: none
  bool keywordOnly = false;
};

struct Def {
  std::string_view name;
  Span span;  // of its name
  Slice<Parameter> parameters = Slice<Parameter>::none();
  Expr* returns = nullptr;  // null: not given
  Slice<Stmt*> body = Slice<Stmt*>::none();
};

struct Class {
  std::string_view name;
  Span span;
  std::string_view base;  // "Module", "NamedTuple", "Enum", "Interface", "ModuleInterface"; "" for plain classes
  Slice<Stmt*> body = Slice<Stmt*>::none();
};

// What travels on the parser's stack.
union Semantic {
  Semantic() : integer(0) {}
  std::string_view text;
  int64_t integer;
  double number;
  Expr* expr;
  Stmt* stmt;
  Slice<Expr*>* exprs;
  Slice<Stmt*>* stmts;
  Slice<Parameter>* parameters;
  Parameter* parameter;
  Def* def;
};
static_assert(sizeof(Semantic) <= 16);

}  // namespace tscompile::source
