#include "ir/values/ivalue.h"

#include "ir/values/error.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tscompile {

void IValue::failAsOther(Tag wanted) const {
  static constexpr std::string_view kNames[] = {"None",   "bool",    "int",    "float",    "Device", "uninitialized",
                                                "Tensor", "complex", "str",    "list",     "tuple",  "dict",
                                                "object", "enum",    "Future", "function", "literal"};
  auto name = [&](Tag tag) { return std::string(kNames[static_cast<size_t>(tag)]); };
  throw ExecutionError(ErrorKind::Model, "expected " + name(wanted) + ", found " + name(tag_));
}

IValue::IValue(std::complex<double> v) : IValue(Tag::Complex, new ComplexValue(v)) {}
IValue::IValue(std::string v) : IValue(Tag::String, new StringValue(std::move(v))) {}
IValue::IValue(Ref<ListValue> v) : IValue(Tag::List, v.detach()) {}
IValue::IValue(Ref<TupleValue> v) : IValue(Tag::Tuple, v.detach()) {}
IValue::IValue(Ref<DictValue> v) : IValue(Tag::Dict, v.detach()) {}
IValue::IValue(Ref<ObjectValue> v) : IValue(Tag::Object, v.detach()) {}
IValue::IValue(Ref<EnumValue> v) : IValue(Tag::Enum, v.detach()) {}
IValue::IValue(Ref<FutureValue> v) : IValue(Tag::Future, v.detach()) {}
IValue::IValue(Ref<LiteralValue> v) : IValue(Tag::Literal, v.detach()) {}
IValue::IValue(Ref<FunctionValue> v) : IValue(Tag::Function, v.detach()) {}

bool IValue::isSame(const IValue& other) const {
  // An undefined tensor is None.
  auto absent = [](const IValue& v) { return v.isNone() || (v.isTensor() && !v.tensorImpl()); };
  if (tag_ != other.tag_) return absent(*this) && absent(other);
  switch (tag_) {
    case Tag::None:
      return true;
    case Tag::Bool:
      return toBool() == other.toBool();
    case Tag::Int:
      return toInt() == other.toInt();
    case Tag::Float:
      return toFloat() == other.toFloat();
    case Tag::Device:
      return toDevice() == other.toDevice();
    case Tag::Uninitialized:
      return true;
    default:
      return payload_.object == other.payload_.object;
  }
}

void ContainerValue::destroy() const {
  // The outermost destruction of this thread takes the others one by one. They are their own list: what gives memory
  // back takes none.
  thread_local bool isRunning = false;
  thread_local const ContainerValue* waiting = nullptr;
  nextToDestroy_ = waiting;
  waiting = this;
  if (isRunning) return;
  isRunning = true;
  while (waiting) {
    const ContainerValue* next = waiting;
    waiting = next->nextToDestroy_;
    delete next;
  }
  isRunning = false;
}

void ListValue::growSlowly(size_t extra) {
  constexpr size_t kMaxItems = size_t{1} << 28;
  if (extra > kMaxItems || items.size() + extra > kMaxItems)
    throw ExecutionError(ErrorKind::Limit, "a list has at most 2^28 items");
  size_t capacity = std::max({items.size() + extra, 2 * items.capacity(), size_t{4}});
  chargeContents(capacity * bytesPerItem());
  items.reserve(capacity);
}

// ---- dicts ----

size_t DictValue::KeyHash::operator()(const IValue& key) const {
  switch (key.tag()) {
    case IValue::Tag::String:
      return hashText(key.toString());
    case IValue::Tag::Complex:
      return hashCombine(std::hash<double>()(key.toComplex().real()), std::hash<double>()(key.toComplex().imag()));
    case IValue::Tag::Device:
      return hashText(deviceText(key.toDevice()));
    case IValue::Tag::Enum:
      return hashText(key.toEnum().member);
    case IValue::Tag::Float:
      return std::hash<double>()(key.toFloat());
    case IValue::Tag::Int:
      return hashCombine(static_cast<uint64_t>(key.toInt()), 1);
    case IValue::Tag::Bool:
      return hashCombine(key.toBool(), 1);
    default:
      return reinterpret_cast<size_t>(key.object());  // identity; never visible in an order
  }
}

bool DictValue::KeyEqual::operator()(const IValue& a, const IValue& b) const {
  return a.isTensor() ? a.isSame(b) : valuesEqual(a, b);
}

IValue* DictValue::find(const IValue& key) {
  auto it = index_.find(key);
  return it == index_.end() ? nullptr : &entries_[it->second].value;
}

void DictValue::set(const IValue& key, IValue value) {
  if (entries_.size() == entries_.capacity()) {
    // What an entry takes here, in the index, as a node of it, and as a small object.
    constexpr size_t kBytesPerEntry = sizeof(Entry) + 72 + 64;
    size_t capacity = std::max<size_t>(4, 2 * entries_.size());
    chargeContents(capacity * kBytesPerEntry);
    entries_.reserve(capacity);
  }
  auto [it, isNew] = index_.try_emplace(key, entries_.size());
  if (isNew)
    entries_.push_back({key, std::move(value)});
  else
    entries_[it->second].value = std::move(value);
}

bool DictValue::erase(const IValue& key) {
  auto it = index_.find(key);
  if (it == index_.end()) return false;
  Entry& e = entries_[it->second];
  index_.erase(it);
  e.live = false;
  e.key.reset();
  e.value.reset();
  if (entries_.size() > 32 && index_.size() * 2 < entries_.size()) dropDead();
  return true;
}

void DictValue::dropDead() {
  std::vector<size_t> places;  // NaN is a key that is not found again
  size_t live = 0;
  for (const Entry& e : entries_) places.push_back(e.live ? live++ : live);
  for (auto& [key, place] : index_) place = places[place];
  std::erase_if(entries_, [](const Entry& e) { return !e.live; });
  oldest_ = 0;
}

const IValue& DictValue::oldestKey() const {
  while (!entries_[oldest_].live) ++oldest_;
  return entries_[oldest_].key;
}

void DictValue::clear() {
  index_.clear();
  entries_.clear();
  oldest_ = 0;
}

// ---- construction and conversion ----

namespace {
template <class T>
IValue listOf(TypePtr element, std::span<const T> values) {
  std::vector<IValue> items;
  items.reserve(values.size());
  for (const T& v : values) items.emplace_back(v);
  return Ref<ListValue>::make(element, std::move(items));
}
}  // namespace

IValue intList(DimSpan values) { return listOf<int64_t>(types().integer, values); }
IValue floatList(std::span<const double> values) { return listOf<double>(types().floating, values); }
IValue boolList(std::span<const bool> values) { return listOf<bool>(types().boolean, values); }
IValue tensorList(std::vector<Tensor> values) {
  std::vector<IValue> items;
  items.reserve(values.size());
  for (Tensor& v : values) items.emplace_back(std::move(v));
  return Ref<ListValue>::make(types().tensor, std::move(items));
}
IValue tuple(std::vector<IValue> items) { return Ref<TupleValue>::make(std::move(items)); }

IValue copyContainers(const IValue& value, bool shared) {
  // An explicit stack: the values may be nested to any depth. What is held twice, or holds itself, is copied once.
  IValue top = value;
  std::vector<IValue*> todo{&top};
  std::unordered_map<const RefCounted*, IValue> copies;
  while (!todo.empty()) {
    IValue& v = *todo.back();
    todo.pop_back();
    if (!v.isList() && !v.isTuple() && !v.isDict()) continue;
    IValue original = v;
    if (auto known = copies.find(original.object()); known != copies.end()) {
      v = known->second;
      continue;
    }
    if (v.isList()) {
      auto copy = Ref<ListValue>::make(v.toList().elementType, v.toList().items);
      copy->shared = shared;
      for (IValue& item : copy->items) todo.push_back(&item);
      v = IValue(std::move(copy));
    } else if (v.isTuple()) {
      auto copy = Ref<TupleValue>::make(v.toTuple().items, v.toTuple().type);
      for (IValue& item : copy->items) todo.push_back(&item);
      v = IValue(std::move(copy));
    } else {
      auto copy = Ref<DictValue>::make(v.toDict().keyType, v.toDict().valueType);
      copy->shared = shared;
      v.toDict().forEach([&](const IValue& key, const IValue& item) { copy->set(key, item); });
      copy->forEachValue([&](IValue& item) { todo.push_back(&item); });
      v = IValue(std::move(copy));
    }
    copies.emplace(original.object(), v);
  }
  return top;
}

namespace {

// Tuples may be nested to any depth; below kMaxDepth they are described as Any.
TypePtr typeAt(const IValue& v, int depth) {
  constexpr int kMaxDepth = 64;
  switch (v.tag()) {
    case IValue::Tag::None:
      return types().none;
    case IValue::Tag::Bool:
      return types().boolean;
    case IValue::Tag::Int:
      return types().integer;
    case IValue::Tag::Float:
      return types().floating;
    case IValue::Tag::Complex:
      return types().complex;
    case IValue::Tag::String:
      return types().string;
    case IValue::Tag::Device:
      return types().device;
    case IValue::Tag::Function:
      return types().function;
    case IValue::Tag::Tensor: {
      TensorFacts f;
      if (TensorImpl* t = v.tensorImpl()) {
        f.dtype = t->dtype();
        f.hasRank = f.hasStrides = f.hasDevice = true;
        f.sizes = t->sizes();
        f.strides = t->strides();
        f.requiresGrad = 0;
      } else {
        f.undefinedTensor = true;
      }
      return tensorType(f);
    }
    case IValue::Tag::List:
      return listType(v.toList().elementType);
    case IValue::Tag::Dict:
      return dictType(v.toDict().keyType, v.toDict().valueType);
    case IValue::Tag::Tuple: {
      if (v.toTuple().type) return v.toTuple().type;
      std::vector<TypePtr> elements;
      for (const IValue& item : v.toTuple().items)
        elements.push_back(depth < kMaxDepth ? typeAt(item, depth + 1) : types().any);
      return tupleType(elements);
    }
    case IValue::Tag::Object:
      return v.toObject().type;
    case IValue::Tag::Enum:
      return v.toEnum().type;
    case IValue::Tag::Future:
      return futureType(types().any);
    default:
      return types().any;
  }
}

}  // namespace

TypePtr dynamicType(const IValue& value) { return typeAt(value, 0); }

bool isInstance(const IValue& v, TypePtr type) {
  switch (type->kind()) {
    case TypeKind::Any:
      return true;
    case TypeKind::Optional:
      return v.isNone() || isInstance(v, type->element());
    case TypeKind::Union:
      return std::any_of(type->elements().begin(), type->elements().end(), [&](TypePtr m) { return isInstance(v, m); });
    case TypeKind::Tensor:
      if (v.isTensor() && type != types().tensor) return isSubtype(dynamicType(v), type);
      return v.isTensor() || (v.isLiteral() && v.toLiteral().kind != LiteralValue::Kind::Object);
    case TypeKind::Number:
      return v.isInt() || v.isFloat() || v.isComplex();
    case TypeKind::Tuple: {
      if (!v.isTuple() || v.toTuple().items.size() != type->elements().size()) return false;
      for (size_t i = 0; i < type->elements().size(); ++i)
        if (!isInstance(v.toTuple().items[i], type->element(i))) return false;
      return true;
    }
    case TypeKind::List:
      return v.isList() && isSubtype(listType(withoutRefinement(v.toList().elementType)), withoutRefinement(type));
    case TypeKind::Generator:
    case TypeKind::Storage:
    case TypeKind::Stream:
    case TypeKind::Capsule:
    case TypeKind::PyObject:
      return v.isLiteral();
    case TypeKind::Class:
      return (v.isObject() && v.toObject().type == type) || v.isLiteral();
    case TypeKind::Interface:
      return v.isObject();
    case TypeKind::Future:
    case TypeKind::Await:
      return v.isFuture();
    case TypeKind::Variable:
      return true;
    default:
      return isSubtype(dynamicType(v), type);
  }
}

static bool numbersEqual(const IValue& a, const IValue& b) {
  if (a.isInt() && b.isInt()) return a.toInt() == b.toInt();
  if (!a.isComplex() && !b.isComplex()) return a.toDouble() == b.toDouble();
  auto wide = [](const IValue& v) { return v.isComplex() ? v.toComplex() : std::complex<double>(v.toDouble()); };
  return wide(a) == wide(b);
}

bool valuesEqual(const IValue& first, const IValue& second) {
  // Keys of dicts and items of lists are mostly these.
  if (first.isNumber() && second.isNumber()) return numbersEqual(first, second);
  if (first.isString() && second.isString()) return first.toString() == second.toString();
  // An explicit stack: the values may be nested to any depth. A pair of containers is looked at once, however often it
  // is held, also by itself: if it differs the answer is known.
  std::vector<std::pair<const IValue*, const IValue*>> todo{{&first, &second}};
  std::set<std::pair<const RefCounted*, const RefCounted*>> seen;
  auto isNew = [&](const IValue& a, const IValue& b) {
    return (a.object()->unique() && b.object()->unique()) || seen.emplace(a.object(), b.object()).second;
  };
  while (!todo.empty()) {
    const IValue& a = *todo.back().first;
    const IValue& b = *todo.back().second;
    todo.pop_back();
    if (a.isNumber() && b.isNumber()) {
      if (!numbersEqual(a, b)) return false;
      continue;
    }
    if (a.tag() != b.tag()) return false;
    switch (a.tag()) {
      case IValue::Tag::String:
        if (a.toString() != b.toString()) return false;
        break;
      case IValue::Tag::List:
      case IValue::Tag::Tuple: {
        const auto& x = a.isList() ? a.toList().items : a.toTuple().items;
        const auto& y = b.isList() ? b.toList().items : b.toTuple().items;
        if (x.size() != y.size()) return false;
        if (!isNew(a, b)) break;
        for (size_t i = 0; i < x.size(); ++i) todo.emplace_back(&x[i], &y[i]);
        break;
      }
      case IValue::Tag::Dict: {
        if (a.toDict().size() != b.toDict().size()) return false;
        if (!isNew(a, b)) break;
        bool same = true;
        a.toDict().forEach([&](const IValue& key, const IValue& value) {
          IValue* other = b.toDict().find(key);
          if (other)
            todo.emplace_back(&value, other);
          else
            same = false;
        });
        if (!same) return false;
        break;
      }
      case IValue::Tag::Enum:
        if (a.toEnum().type != b.toEnum().type || a.toEnum().member != b.toEnum().member) return false;
        break;
      case IValue::Tag::Literal:
        if (a.object() != b.object() && a.toLiteral().text != b.toLiteral().text) return false;
        break;
      case IValue::Tag::Function:
        if (a.toFunction().name != b.toFunction().name) return false;
        break;
      default:
        if (!a.isSame(b)) return false;
    }
  }
  return true;
}

}  // namespace tscompile
