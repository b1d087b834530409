#include "runtime/engine/number_use.h"

#include <algorithm>

namespace tscompile {
namespace {

TypePtr withoutOptional(TypePtr t) { return t->is(TypeKind::Optional) ? t->element() : t; }

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

bool isOneOf(Symbol kind, std::initializer_list<Symbol> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

}  // namespace

NumberUse numberUse(const Operator& op, size_t argument) {
  using Kind = NumberUse::Kind;
  static const Symbol kSelect = Symbol::of("aten::select"), kFull = Symbol::of("aten::full"),
                      kTensor = Symbol::of("aten::tensor"), kScalarTensor = Symbol::of("aten::scalar_tensor"),
                      kNumToTensor = Symbol::of("prim::NumToTensor");
  const Schema& schema = op.schema();
  if (!op.isImplemented() || schema.isMutable() || schema.returns.size() != 1 || argument >= schema.arguments.size() ||
      !takesNumber(schema.arguments[argument]))
    return {};
  const std::string& name = schema.arguments[argument].name;
  if (op.kind() == kSelect && name == "index") return {Kind::Index};
  if (op.kind() == kFull) return {name == "fill_value" && op.overload().empty() ? Kind::Elements : Kind::None};
  if (isOneOf(op.kind(), {kTensor, kScalarTensor, kNumToTensor})) return {argument == 0 ? Kind::Elements : Kind::None};
  for (const Operator* other : op.registry().overloads(op.kind()))
    if (takesTensorsFor(op, *other, argument)) return {Kind::Operand, other};
  return {};
}

}  // namespace tscompile
