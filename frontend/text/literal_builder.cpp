#include "frontend/text/literal_builder.h"

#include <algorithm>
#include <vector>

namespace tscompile::frontend {

Literal* LiteralBuilder::literal(Literal::Kind kind, Span span) {
  auto* l = state_.make<Literal>();
  l->kind = kind;
  l->span = span;
  return l;
}

Literal* LiteralBuilder::textLiteral(Literal::Kind kind, std::string_view text, Span span) {
  Literal* l = literal(kind, span);
  l->text = text;
  return l;
}

Literal* LiteralBuilder::boolLiteral(bool v, Span span) {
  Literal* l = literal(Literal::Kind::Bool, span);
  l->boolean = v;
  return l;
}

Literal* LiteralBuilder::integerLiteral(int64_t v, Span span) {
  // The scanner hands 2^63 on as the least integer; without its sign it does not fit.
  if (v == INT64_MIN && state_.textOf(span).find('-') == std::string_view::npos)
    state_.error(span, "integer does not fit in 64 bits");
  Literal* l = literal(Literal::Kind::Integer, span);
  l->integer = v;
  return l;
}

Literal* LiteralBuilder::floatLiteral(double v, Span span) {
  Literal* l = literal(Literal::Kind::Float, span);
  l->number = v;
  return l;
}

Literal* LiteralBuilder::complexLiteral(Literal* real, double imaginary, Span span) {
  Literal* l = literal(Literal::Kind::Imaginary, span);
  l->number = imaginary;
  if (real) l->real = real->kind == Literal::Kind::Integer ? static_cast<double>(real->integer) : real->number;
  return l;
}

Literal* LiteralBuilder::container(Literal::Kind kind, Slice<Literal*>* items, Span span) {
  Literal* l = literal(kind, span);
  l->items = *items;
  for (Literal* item : l->items) l->depth = std::max<uint16_t>(l->depth, static_cast<uint16_t>(item->depth + 1));
  if (l->depth > state_.limits().typeDepth) {
    state_.limitError(span, &Limits::typeDepth);
    l->items = Slice<Literal*>::none();
    l->depth = 0;
  }
  return l;
}

Literal* LiteralBuilder::pair(Literal* key, Literal* value, Span span) {
  auto* items = state_.list<Literal*>(key);
  state_.append(items, value);
  return container(Literal::Kind::Tuple, items, span);
}

Literal* LiteralBuilder::scalarTensor(Literal* number, Span span) {
  auto isNumber = [](const Literal* l) { return l->kind == Literal::Kind::Integer || l->kind == Literal::Kind::Float; };
  bool isComplex = number->kind == Literal::Kind::Tuple && number->items.size == 2 && isNumber(number->items[0]) &&
                   isNumber(number->items[1]);
  if (!isNumber(number) && !isComplex) state_.error(number->span, "expected a number in a tensor of one element");
  Literal* l = textLiteral(Literal::Kind::Scalar, state_.textOf(span), span);
  l->items.push(state_.arena, number);
  return l;
}

Literal* LiteralBuilder::typeLiteral(TypePtr type, Span span) {
  Literal* l = textLiteral(Literal::Kind::Type, state_.textOf(span), span);
  l->type = type;
  return l;
}

TypePtr literalAsType(const Literal& l) {
  if (l.kind == Literal::Kind::Type) return l.type;
  if (l.kind == Literal::Kind::None) return types().none;
  if (l.kind == Literal::Kind::Qualified) return classType(std::string(l.text));
  if (l.kind != Literal::Kind::Tuple) return nullptr;
  std::vector<TypePtr> elements;
  for (Literal* item : l.items) {
    TypePtr t = literalAsType(*item);
    if (!t) return nullptr;
    elements.push_back(t);
  }
  return tupleType(elements);
}

Literal* LiteralBuilder::suffixedType(Literal* l, char suffix, Span span) {
  TypePtr type = literalAsType(*l);
  if (!type) {
    state_.error(span, "expected a type before this suffix");
    type = types().any;
  }
  if (suffix == '?') return typeLiteral(types_.optionalOf(type, span), span);
  if (suffix == '[') return typeLiteral(types_.listOf(type, span), span);
  return typeLiteral(types_.undefinedTensor(type, span), span);
}

Literal* LiteralBuilder::annotated(TypePtr annotation, Literal* value, Span span) {
  value->type = annotation;
  value->span = span;
  return value;
}

}  // namespace tscompile::frontend
