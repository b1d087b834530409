#include "passes/lowering/made_constants.h"

#include "passes/rewrite/constant_form.h"

namespace tscompile {

bool canMakeConstants(const IValue& value, bool fresh) {
  if (fitsConstant(value) && !(fresh && isContainer(value))) return true;
  bool all = isContainer(value);
  forEachItem(value, [&](const IValue& item) { all = all && canMakeConstants(item, fresh); });
  return all;
}

Value* makeConstants(Builder& b, const IValue& value, TypePtr type, bool fresh) {
  // Of None the plain type: nobody can take it to be a tensor that may be written.
  if (value.isNone()) return b.constant(value, types().none);
  while (type->is(TypeKind::Optional)) type = type->element();
  if (!isContainer(value) || (!fresh && fitsConstant(value))) return b.constant(value, constantType(value, type));
  std::vector<Value*> items;
  if (value.isList()) {
    for (const IValue& item : value.toList().items) items.push_back(makeConstants(b, item, type->element(), fresh));
    return b.list(items, type->element());
  }
  if (value.isTuple()) {
    const std::vector<IValue>& all = value.toTuple().items;
    for (size_t i = 0; i < all.size(); ++i) items.push_back(makeConstants(b, all[i], type->elements()[i], fresh));
    Value* tuple = b.tuple(items);
    tuple->setType(type);
    return tuple;
  }
  value.toDict().forEach([&](const IValue& key, const IValue& item) {
    items.push_back(makeConstants(b, key, type->elements()[0], fresh));
    items.push_back(makeConstants(b, item, type->elements()[1], fresh));
  });
  Node* dict = b.insert(sym::DictConstruct, items);
  dict->output()->setType(type);
  return dict->output();
}

}  // namespace tscompile
