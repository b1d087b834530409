// Dictionaries: Python's methods. They keep the order of insertion.
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/scalars.h"
#include "runtime/reference/text_format.h"

namespace tscompile {
namespace {

[[noreturn]] void failKey(const IValue& key) { failRun("KeyError: " + shortText(key, 80)); }

const IValue& valueOf(const IValue& dict, const IValue& key) {
  IValue* value = dictOf(dict).find(key);
  if (!value) failKey(key);
  return *value;
}

// ---- items ----

void getDictItem(Arguments a, IValue& r) {
  IValue value = valueOf(*a[0], *a[1]);
  r = std::move(value);
}
void setDictItem(Arguments a, IValue&) { changedDict(*a[0]).set(*a[1], *a[2]); }
void get(Arguments a, IValue& r) {
  IValue* value = dictOf(*a[0]).find(*a[1]);
  IValue found = value ? *value : IValue();
  r = std::move(found);
}
void getOr(Arguments a, IValue& r) {
  IValue* value = dictOf(*a[0]).find(*a[1]);
  IValue found = value ? *value : *a[2];
  r = std::move(found);
}
void setDefault(Arguments a, IValue& r) {
  DictValue& dict = dictOf(*a[0]);
  IValue* value = dict.find(*a[1]);
  IValue found = value ? *value : *a[2];
  if (!value) changedDict(*a[0]).set(*a[1], found);
  r = std::move(found);
}
void isInDict(Arguments a, IValue& r) { r = dictOf(*a[0]).find(*a[1]) != nullptr; }

void erase(Arguments a, IValue&) {
  if (!changedDict(*a[0]).erase(*a[1])) failKey(*a[1]);
}
void popFromDict(Arguments a, IValue& r) {
  DictValue& dict = changedDict(*a[0]);
  IValue value = valueOf(*a[0], *a[1]);
  dict.erase(*a[1]);
  r = std::move(value);
}
void popOr(Arguments a, IValue& r) {
  DictValue& dict = changedDict(*a[0]);
  IValue* value = dict.find(*a[1]);
  IValue found = value ? *value : *a[2];
  if (value) dict.erase(*a[1]);
  r = std::move(found);
}
// PyTorch takes the oldest item; Python would take the newest.
void popItem(Arguments a, IValue& r) {
  DictValue& dict = changedDict(*a[0]);
  if (dict.size() == 0) failRun("popitem(): dictionary is empty");
  IValue key = dict.oldestKey();
  IValue value = valueOf(*a[0], key);  // fails for NaN, which is not even itself
  dict.erase(key);
  r = tuple({std::move(key), std::move(value)});
}

// ---- whole dicts ----

void dictLength(Arguments a, IValue& r) { r = static_cast<int64_t>(dictOf(*a[0]).size()); }
void clearDict(Arguments a, IValue&) { changedDict(*a[0]).clear(); }

void addItems(DictValue& dict, const DictValue& more) {
  if (&dict != &more) more.forEach([&](const IValue& key, const IValue& value) { dict.set(key, value); });
}
void update(Arguments a, IValue&) { addItems(changedDict(*a[0]), dictOf(*a[1])); }
void copyDict(Arguments a, IValue& r) {
  const DictValue& dict = dictOf(*a[0]);
  auto out = Ref<DictValue>::make(dict.keyType, dict.valueType);
  addItems(*out, dict);
  r = IValue(std::move(out));
}
void emptyDict(Arguments, IValue& r) { r = IValue(Ref<DictValue>::make(types().string, types().tensor)); }
void fromItems(Arguments a, IValue& r) {
  const ListValue& list = listOf(*a[0]);
  bool typed = list.elementType->is(TypeKind::Tuple) && list.elementType->elements().size() == 2;
  auto out = Ref<DictValue>::make(typed ? list.elementType->element(0) : types().any,
                                  typed ? list.elementType->element(1) : types().any);
  for (const IValue& item : list.items) {
    if (!item.isTuple() || item.toTuple().items.size() != 2) failArgument(item, "a pair");
    out->set(item.toTuple().items[0], item.toTuple().items[1]);
  }
  r = IValue(std::move(out));
}

template <class MakeItem>
void listOfItems(const DictValue& dict, TypePtr element, IValue& r, MakeItem makeItem) {
  auto out = Ref<ListValue>::make(element, std::vector<IValue>());
  out->grow(dict.size());
  dict.forEach([&](const IValue& key, const IValue& value) { out->items.push_back(makeItem(key, value)); });
  r = IValue(std::move(out));
}
void keys(Arguments a, IValue& r) {
  const DictValue& dict = dictOf(*a[0]);
  listOfItems(dict, dict.keyType, r, [](const IValue& key, const IValue&) { return key; });
}
void values(Arguments a, IValue& r) {
  const DictValue& dict = dictOf(*a[0]);
  listOfItems(dict, dict.valueType, r, [](const IValue&, const IValue& value) { return value; });
}
void items(Arguments a, IValue& r) {
  const DictValue& dict = dictOf(*a[0]);
  TypePtr pair[] = {dict.keyType, dict.valueType};
  listOfItems(dict, tupleType(pair), r, [](const IValue& key, const IValue& value) { return tuple({key, value}); });
}

struct DictMethod {
  const char* kind;
  const char* prefix;  // of the overload's name; the key type follows
  ScalarFunction function;
  ContainerUse container = ContainerUse::None;
  TraitSet traits = {};
};
using Use = ContainerUse;
constexpr DictMethod kDictMethods[] = {
    {"aten::__getitem__", "Dict_", getDictItem, Use::Take},
    {"aten::_set_item", "", setDictItem, Use::Put},
    {"aten::get", "", get, Use::Take},
    {"aten::get", "default_", getOr, Use::Take},
    {"aten::setdefault", "", setDefault, Use::Take},
    {"aten::__contains__", "", isInDict, Use::None, {Trait::DependsOnElements}},
    {"aten::Delete", "Dict_", erase},
    {"aten::pop", "Dict_", popFromDict, Use::Take},
    {"aten::pop", "Dict_default_", popOr, Use::Take},
    {"aten::popitem", "", popItem, Use::Rebuild},
    {"aten::len", "Dict_", dictLength, Use::None, {Trait::ReadsGeometry}},
    {"aten::clear", "", clearDict},
    {"aten::update", "", update, Use::PutAll},
    {"aten::copy", "Dict_", copyDict, Use::Rebuild},
    {"aten::dict", "Dict_", copyDict, Use::Rebuild},
    {"aten::dict", "", fromItems, Use::Rebuild},
    {"aten::keys", "", keys, Use::Rebuild},
    {"aten::values", "", values, Use::Rebuild},
    {"aten::items", "", items, Use::Rebuild},
};

}  // namespace

void registerDictOps(OpRegistry& ops) {
  for (const DictMethod& e : kDictMethods)
    for (const char* key : {"str", "int", "bool", "float", "complex", "Tensor"}) {
      std::string schema = std::string(e.kind) + "." + e.prefix + key;
      ops.add(
          {.schema = Symbol::of(schema).text(), .scalar = e.function, .traits = e.traits, .container = e.container});
    }
  ops.add({.schema = "aten::dict", .scalar = emptyDict});
}

}  // namespace tscompile
