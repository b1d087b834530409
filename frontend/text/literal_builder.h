// The grammar's actions for the values of attributes and the defaults of schemas.
#pragma once

#include "frontend/text/type_builder.h"

namespace tscompile::frontend {

class LiteralBuilder {
 public:
  LiteralBuilder(ParseState& state, TypeBuilder& types) : state_(state), types_(types) {}

  int64_t negated(int64_t v) { return static_cast<int64_t>(-static_cast<uint64_t>(v)); }
  Literal* literal(Literal::Kind kind, Span span);
  Literal* textLiteral(Literal::Kind kind, std::string_view text, Span span);
  Literal* boolLiteral(bool v, Span span);
  Literal* integerLiteral(int64_t v, Span span);
  Literal* floatLiteral(double v, Span span);
  Literal* complexLiteral(Literal* real, double imaginary, Span span);
  Literal* container(Literal::Kind kind, Slice<Literal*>* items, Span span);
  Literal* pair(Literal* key, Literal* value, Span span);
  Literal* scalarTensor(Literal* number, Span span);
  Literal* typeLiteral(TypePtr type, Span span);
  // A type that began like a value: `(int, Tensor)?`, `Tensor[]`.
  Literal* suffixedType(Literal* literal, char suffix, Span span);
  Literal* annotated(TypePtr annotation, Literal* value, Span span);

 private:
  ParseState& state_;
  TypeBuilder& types_;
};

// A literal as a type, or null: `None`, `int`, `(int, Tensor)`.
TypePtr literalAsType(const Literal& literal);

}  // namespace tscompile::frontend
