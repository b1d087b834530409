#include "api/support/fitted_values.h"

namespace tscompile {
namespace {

const std::vector<IValue>* itemsOf(const IValue& v) {
  return v.isList() ? &v.toList().items : v.isTuple() ? &v.toTuple().items : nullptr;
}

std::optional<std::vector<IValue>> fittedItems(const std::vector<IValue>& items, std::span<const TypePtr> types) {
  std::vector<IValue> out;
  out.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    std::optional<IValue> item = fitted(items[i], types[types.size() == 1 ? 0 : i]);
    if (!item) return std::nullopt;
    out.push_back(std::move(*item));
  }
  return out;
}

std::optional<IValue> fittedList(const IValue& v, TypePtr type) {
  const std::vector<IValue>* items = itemsOf(v);
  if (!items) return std::nullopt;
  const TypePtr element[] = {type->element()};
  std::optional<std::vector<IValue>> out = fittedItems(*items, element);
  if (!out) return std::nullopt;
  return IValue(Ref<ListValue>::make(type->element(), std::move(*out)));
}

std::optional<IValue> fittedTuple(const IValue& v, TypePtr type) {
  const std::vector<IValue>* items = itemsOf(v);
  if (!items || items->size() != type->elements().size()) return std::nullopt;
  std::optional<std::vector<IValue>> out = fittedItems(*items, type->elements());
  if (!out) return std::nullopt;
  return IValue(Ref<TupleValue>::make(std::move(*out), type->isNamedTuple() ? type : nullptr));
}

std::optional<IValue> fittedDict(const IValue& v, TypePtr type) {
  if (!v.isDict()) return std::nullopt;
  auto out = Ref<DictValue>::make(type->element(0), type->element(1));
  bool good = true;
  v.toDict().forEach([&](const IValue& key, const IValue& value) {
    std::optional<IValue> k = fitted(key, type->element(0)), x = fitted(value, type->element(1));
    good = good && k && x;
    if (good) out->set(*k, std::move(*x));
  });
  return good ? std::optional<IValue>(out) : std::nullopt;
}

std::optional<IValue> fittedMember(const IValue& v, TypePtr type) {
  for (TypePtr member : type->elements())
    if (isInstance(v, member)) return v;
  for (TypePtr member : type->elements())
    if (std::optional<IValue> out = fitted(v, member)) return out;
  return std::nullopt;
}

}  // namespace

std::optional<IValue> fitted(const IValue& v, TypePtr type) {
  switch (type->kind()) {
    case TypeKind::Any:
      return v;
    case TypeKind::Tensor:
      return v.isTensor() ? std::optional(v) : std::nullopt;
    case TypeKind::Float:
      if (v.isInt()) return IValue(static_cast<double>(v.toInt()));
      break;
    case TypeKind::Complex:
      if (v.isInt() || v.isFloat()) return IValue(std::complex<double>(v.toDouble()));
      break;
    case TypeKind::Optional:
      return v.isNone() ? std::optional(v) : fitted(v, type->element());
    case TypeKind::Union:
      return fittedMember(v, type);
    case TypeKind::List:
      if (isInstance(v, type)) break;
      return fittedList(v, type);
    case TypeKind::Tuple:
      if (isInstance(v, type)) break;
      return fittedTuple(v, type);
    case TypeKind::Dict:
      if (isInstance(v, type)) break;
      return fittedDict(v, type);
    default:
      break;
  }
  return isInstance(v, type) ? std::optional(v) : std::nullopt;
}

}  // namespace tscompile
