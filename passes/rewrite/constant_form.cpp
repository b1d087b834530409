#include "passes/rewrite/constant_form.h"

namespace tscompile {
namespace {

bool isDefinedTensor(const IValue& v) { return v.isTensor() && v.tensorImpl(); }

// Weights of a built-in class, such as those of quantised layers: its methods change nothing.
bool isPackedWeights(const IValue& v) {
  return v.isObject() && v.toObject().type->name().starts_with("__torch__.torch.classes.");
}

bool isPlain(const IValue& v) { return v.isNone() || v.isNumber() || v.isString() || v.isDevice(); }

}  // namespace

bool fitsConstant(const IValue& value) {
  if (isDefinedTensor(value) || isPackedWeights(value) || value.isEnum()) return true;
  if (value.isList() && value.toList().elementType->is(TypeKind::Enum)) return true;
  if (value.isList() && value.toList().elementType->isTensor()) {
    for (const IValue& item : value.toList().items)
      if (!isDefinedTensor(item)) return false;
    return true;
  }
  // An explicit stack: values may be nested to any depth.
  std::vector<const IValue*> todo{&value};
  while (!todo.empty()) {
    const IValue& v = *todo.back();
    todo.pop_back();
    if (v.isList() || v.isTuple()) {
      for (const IValue& item : v.isList() ? v.toList().items : v.toTuple().items) todo.push_back(&item);
    } else if (!isPlain(v)) {
      return false;
    }
  }
  return true;
}

TypePtr constantType(const IValue& value, TypePtr declared) {
  if (value.isNone()) return declared->is(TypeKind::Optional) ? declared : types().none;
  if (declared->is(TypeKind::Optional)) declared = declared->element();
  bool isContainer = declared->is(TypeKind::List) || declared->is(TypeKind::Tuple);
  return isContainer ? declared : dynamicType(value);
}

}  // namespace tscompile
