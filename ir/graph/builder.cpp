#include "ir/graph/builder.h"

namespace tscompile {

Node* Builder::insert(Symbol kind, std::span<Value* const> inputs, size_t outputs) {
  Node* n = graph_.create(kind, inputs, outputs);
  n->insertBefore(point_);
  if (!place_) return n;
  n->copyPlace(place_);
  if (const IValue* mark = place_->attributeValue(sym::toCompile); mark && kind != sym::Constant)
    n->setAttribute(sym::toCompile, *mark);
  return n;
}

Value* Builder::call(Symbol kind, std::initializer_list<Value*> inputs, TypePtr type) {
  Value* v = insert(kind, inputs)->output();
  if (type) v->setType(type);
  return v;
}

Value* Builder::constant(const IValue& value, TypePtr type) {
  Node* n = insert(sym::Constant, {});
  if (!value.isNone()) n->setAttribute(sym::value, value);
  n->output()->setType(type ? type : dynamicType(value));
  return n->output();
}

Value* Builder::list(std::span<Value* const> elements, TypePtr elementType) {
  Value* v = insert(sym::ListConstruct, elements)->output();
  v->setType(listType(elementType));
  return v;
}

Value* Builder::tuple(std::span<Value* const> elements) {
  Value* v = insert(sym::TupleConstruct, elements)->output();
  std::vector<TypePtr> types;
  for (Value* e : elements) types.push_back(e->type());
  v->setType(tupleType(types));
  return v;
}

}  // namespace tscompile
