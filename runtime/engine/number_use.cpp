#include "runtime/engine/number_use.h"

#include <algorithm>

namespace tscompile {
namespace {

bool takesNumber(const Argument& a) {
  TypePtr t = withoutOptional(a.type);
  return t->is(TypeKind::Number) || isNumber(t);
}

// Whether arguments differ by this alone: tensors in the places of numbers.
bool takesTensorsFor(const Operator& numbers, const Operator& tensors, size_t argument) {
  const Schema &from = numbers.schema(), &to = tensors.schema();
  if (!tensors.isImplemented() || to.isMutable() || to.arguments.size() != from.arguments.size()) return false;
  if (!withoutOptional(to.arguments[argument].type)->isTensor()) return false;
  for (size_t i = 0; i < to.arguments.size(); ++i) {
    const Argument &a = from.arguments[i], &b = to.arguments[i];
    const bool isReplaced = takesNumber(a) && withoutOptional(b.type)->isTensor() &&
                            a.type->is(TypeKind::Optional) == b.type->is(TypeKind::Optional);
    if (a.name != b.name || (a.type != b.type && !isReplaced)) return false;
  }
  return true;
}

bool isFirstNumber(const Schema& schema, size_t argument) {
  return std::find_if(schema.arguments.begin(), schema.arguments.end(), takesNumber) ==
         schema.arguments.begin() + static_cast<std::ptrdiff_t>(argument);
}

}  // namespace

NumberUse numberUse(const Operator& op, size_t argument) {
  using Kind = NumberUse::Kind;
  const Schema& schema = op.schema();
  if (!op.isImplemented() || schema.isMutable() || schema.returns.size() != 1 || argument >= schema.arguments.size() ||
      !takesNumber(schema.arguments[argument]))
    return {};
  // Numbers of tensors are no layers.
  if (isNumber(schema.returns[0].type)) return {};
  if (op.has(Trait::NumberIsIndex)) return {argument + 1 == schema.arguments.size() ? Kind::Index : Kind::None};
  if (op.has(Trait::NumberIsElement)) return {isFirstNumber(schema, argument) ? Kind::Elements : Kind::None};
  for (const Operator* other : op.registry().overloads(op.kind()))
    if (takesTensorsFor(op, *other, argument)) return {Kind::Operand, other};
  return {};
}

}  // namespace tscompile
