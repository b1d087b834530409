#include "api/binding/foreign_values.h"

#include "ir/values/error.h"

#include <algorithm>

namespace tscompile {

Tensor borrowTensor(DType dtype, DimSpan sizes, DimSpan strides, void* data, bool readOnly, Storage::Release release,
                    void* context) {
  std::optional<int64_t> count = checkedNumel(sizes);
  if (!count || sizes.size() > static_cast<size_t>(kMaxRank))
    throw ExecutionError(ErrorKind::Input, "a tensor cannot have these sizes");
  if (!isSupported(dtype)) throw ExecutionError(ErrorKind::Unsupported, "tensors cannot have this dtype");
  const Dims rowMajor = strides.empty() ? contiguousStrides(sizes) : Dims(strides.begin(), strides.end());
  // Of the elements that lie first and last, relative to `data`.
  int64_t first = 0, last = 0;
  for (size_t d = 0; *count != 0 && d < sizes.size(); ++d) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(sizes[d] - 1, rowMajor[d], &reach) ||
        __builtin_add_overflow(reach < 0 ? first : last, reach, reach < 0 ? &first : &last) ||
        std::max(-first, last) >= kMaxElements)
      throw ExecutionError(ErrorKind::Input, "a tensor cannot have these strides");
  }
  const auto item = static_cast<int64_t>(itemSize(dtype));
  const size_t bytes = *count == 0 ? 0 : static_cast<size_t>((last - first + 1) * item);
  char* begin = static_cast<char*>(data) + first * item;
  Ref<Storage> storage = Storage::borrow(begin, bytes, nullptr, nullptr, readOnly);
  Tensor checked = Tensor::view(dtype, std::move(storage), sizes, rowMajor, -first);
  if (!release) return checked;
  // Nothing can fail any more, so that it is released once.
  return Tensor::view(dtype, Storage::borrow(begin, bytes, release, context, readOnly), sizes, rowMajor, -first);
}

namespace {

TypePtr commonType(const std::vector<IValue>& items) {
  if (items.empty()) return types().tensor;
  TypePtr out = nullptr;
  for (const IValue& v : items) {
    TypePtr type = v.isTensor() ? types().tensor : dynamicType(v);
    out = out ? unifyTypes(out, type) : type;
    if (!out) return types().any;
  }
  return out;
}

bool canBeKey(const IValue& v) {
  return v.isInt() || v.isFloat() || v.isBool() || v.isComplex() || v.isString() || v.isDevice() || v.isTensor() ||
         v.isEnum();
}

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

IValue listOf(std::vector<IValue> items) {
  TypePtr element = commonType(items);
  return Ref<ListValue>::make(element, std::move(items));
}

IValue dictOf(std::vector<std::pair<IValue, IValue>> items) {
  std::vector<IValue> keys, values;
  for (const auto& [key, value] : items) {
    if (!canBeKey(key)) throw ExecutionError(ErrorKind::Input, "a dict cannot have such a key");
    keys.push_back(key);
    values.push_back(value);
  }
  auto out = Ref<DictValue>::make(items.empty() ? types().string : commonType(keys), commonType(values));
  for (auto& [key, value] : items) out->set(key, std::move(value));
  return out;
}

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
