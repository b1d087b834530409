// A value at run time or in a constant: tensors, numbers, strings, containers, objects. Containers are shared, as in
// Python: a copy of an IValue is another reference to the same list.
#pragma once

#include "ir/values/refcount.h"
#include "ir/values/tensor.h"
#include "ir/values/type.h"

#include <complex>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile {

class IValue;
class Graph;
struct StringValue;
struct ComplexValue;
struct ListValue;
struct TupleValue;
struct DictValue;
struct ObjectValue;
struct EnumValue;
struct FutureValue;
struct LiteralValue;
struct FunctionValue;

class IValue {
 public:
  enum class Tag : uint8_t {
    None,
    Bool,
    Int,
    Float,
    Device,
    Uninitialized,  // of prim::Uninitialized; never read by a valid program
    // From here on the payload is a reference.
    Tensor,  // may be undefined: a null reference
    Complex,
    String,
    List,
    Tuple,
    Dict,
    Object,
    Enum,
    Future,
    Function,
    Literal,  // a constant that the text does not carry in full, such as <Tensor>
  };

  IValue() = default;
  IValue(std::nullptr_t) = delete;
  template <std::same_as<bool> Bool>  // a pointer is none
  IValue(Bool v) : tag_(Tag::Bool) {
    payload_.boolean = v;
  }                                                             // NOLINT: implicit by design
  IValue(int v) : IValue(static_cast<int64_t>(v)) {}            // NOLINT
  IValue(int64_t v) : tag_(Tag::Int) { payload_.integer = v; }  // NOLINT
  // Those that int64_t holds.
  template <std::integral T>
  requires(sizeof(T) == 4 || (sizeof(T) == 8 && std::signed_integral<T>)) IValue(T v)
      : IValue(static_cast<int64_t>(v)) {}                                // NOLINT
  IValue(double v) : tag_(Tag::Float) { payload_.floating = v; }          // NOLINT
  IValue(Device v) : tag_(Tag::Device) { payload_.device = v; }           // NOLINT
  IValue(Tensor v) : tag_(Tag::Tensor) { payload_.object = v.detach(); }  // NOLINT
  IValue(std::complex<double> v);                                         // NOLINT
  IValue(std::string v);                                                  // NOLINT
  IValue(std::string_view v) : IValue(std::string(v)) {}                  // NOLINT
  IValue(const char* v) : IValue(std::string(v)) {}                       // NOLINT
  IValue(Ref<ListValue> v);                                               // NOLINT
  IValue(Ref<TupleValue> v);                                              // NOLINT
  IValue(Ref<DictValue> v);                                               // NOLINT
  IValue(Ref<ObjectValue> v);                                             // NOLINT
  IValue(Ref<EnumValue> v);                                               // NOLINT
  IValue(Ref<FutureValue> v);                                             // NOLINT
  IValue(Ref<LiteralValue> v);                                            // NOLINT
  IValue(Ref<FunctionValue> v);                                           // NOLINT
  static IValue uninitialized() {
    IValue v;
    v.tag_ = Tag::Uninitialized;
    return v;
  }

  IValue(const IValue& other) : tag_(other.tag_), payload_(other.payload_) {
    if (isReference() && payload_.object) payload_.object->retain();
  }
  IValue(IValue&& other) noexcept : tag_(other.tag_), payload_(other.payload_) { other.tag_ = Tag::None; }
  IValue& operator=(const IValue& other) {
    IValue copy(other);
    swap(copy);
    return *this;
  }
  IValue& operator=(IValue&& other) noexcept {
    IValue moved(std::move(other));
    swap(moved);
    return *this;
  }
  // Numbers are written in place: loops on scalars live on this. (Templates, so that nothing converts to them.)
  template <std::same_as<int64_t> T>
  IValue& operator=(T v) {
    drop();
    tag_ = Tag::Int;
    payload_.integer = v;
    return *this;
  }
  template <std::same_as<double> T>
  IValue& operator=(T v) {
    drop();
    tag_ = Tag::Float;
    payload_.floating = v;
    return *this;
  }
  template <std::same_as<bool> T>
  IValue& operator=(T v) {
    drop();
    tag_ = Tag::Bool;
    payload_.boolean = v;
    return *this;
  }
  ~IValue() { drop(); }
  void swap(IValue& other) noexcept {
    std::swap(tag_, other.tag_);
    std::swap(payload_, other.payload_);
  }
  // Makes this None, giving up what it held.
  void reset() {
    drop();
    tag_ = Tag::None;
  }

  Tag tag() const { return tag_; }
  bool isNone() const { return tag_ == Tag::None; }
  bool isBool() const { return tag_ == Tag::Bool; }
  bool isInt() const { return tag_ == Tag::Int; }
  bool isFloat() const { return tag_ == Tag::Float; }
  bool isComplex() const { return tag_ == Tag::Complex; }
  bool isNumber() const { return isInt() || isFloat() || isComplex() || isBool(); }
  bool isTensor() const { return tag_ == Tag::Tensor; }
  bool isString() const { return tag_ == Tag::String; }
  bool isDevice() const { return tag_ == Tag::Device; }
  bool isList() const { return tag_ == Tag::List; }
  bool isTuple() const { return tag_ == Tag::Tuple; }
  bool isDict() const { return tag_ == Tag::Dict; }
  bool isObject() const { return tag_ == Tag::Object; }
  bool isEnum() const { return tag_ == Tag::Enum; }
  bool isFuture() const { return tag_ == Tag::Future; }
  bool isLiteral() const { return tag_ == Tag::Literal; }

  // Throw ExecutionError for a value that is something else.
  bool toBool() const { return of(Tag::Bool).boolean; }
  int64_t toInt() const { return of(Tag::Int).integer; }
  double toFloat() const { return of(Tag::Float).floating; }
  Device toDevice() const { return of(Tag::Device).device; }
  const std::complex<double>& toComplex() const;
  const std::string& toString() const;
  Tensor toTensor() const { return Tensor::share(static_cast<TensorImpl*>(of(Tag::Tensor).object)); }
  // The tensor without taking a reference; null if undefined. The caller has looked at the tag.
  TensorImpl* tensorImpl() const { return static_cast<TensorImpl*>(payload_.object); }
  ListValue& toList() const { return *reinterpret_cast<ListValue*>(of(Tag::List).object); }
  TupleValue& toTuple() const { return *reinterpret_cast<TupleValue*>(of(Tag::Tuple).object); }
  DictValue& toDict() const { return *reinterpret_cast<DictValue*>(of(Tag::Dict).object); }
  ObjectValue& toObject() const { return *reinterpret_cast<ObjectValue*>(of(Tag::Object).object); }
  EnumValue& toEnum() const { return *reinterpret_cast<EnumValue*>(of(Tag::Enum).object); }
  FutureValue& toFuture() const { return *reinterpret_cast<FutureValue*>(of(Tag::Future).object); }
  LiteralValue& toLiteral() const { return *reinterpret_cast<LiteralValue*>(of(Tag::Literal).object); }
  FunctionValue& toFunction() const { return *reinterpret_cast<FunctionValue*>(of(Tag::Function).object); }
  RefCounted* object() const { return payload_.object; }

  // A bool, int or float as a double.
  double toDouble() const {
    return tag_ == Tag::Float ? payload_.floating
           : tag_ == Tag::Int ? static_cast<double>(payload_.integer)
                              : static_cast<double>(payload_.boolean);
  }
  bool isReference() const { return tag_ >= Tag::Tensor; }
  // The same object (`is` in Python); numbers by value.
  bool isSame(const IValue& other) const;

 private:
  union Payload {
    bool boolean;
    int64_t integer;
    double floating;
    Device device;
    RefCounted* object;
  };

  IValue(Tag tag, RefCounted* object) : tag_(tag) { payload_.object = object; }
  void drop() {
    if (isReference() && payload_.object) payload_.object->release();
  }
  const Payload& of(Tag wanted) const {
    if (tag_ != wanted) [[unlikely]]
      failAsOther(wanted);
    return payload_;
  }
  [[noreturn]] void failAsOther(Tag wanted) const;

  Tag tag_ = Tag::None;
  Payload payload_ = {.integer = 0};
};
static_assert(sizeof(IValue) == 16);

// Containers may be nested as deep as a program likes, so their destruction is queued instead of recursive.
class ContainerValue : public RefCounted {
 public:
  bool shared = false;  // belongs to a program or a loaded module: runs do not change it

 protected:
  ContainerValue() { charge_.raiseAlways(kOwnBytes); }
  void destroy() const override;
  // Counts what the container holds besides itself, within the run's memory limit.
  void chargeContents(uint64_t bytes) { charge_.raiseAlways(kOwnBytes + bytes); }

 private:
  static constexpr uint64_t kOwnBytes = 96;
  MemoryCharge charge_;
  mutable const ContainerValue* nextToDestroy_ = nullptr;
};

struct StringValue : RefCounted {
  explicit StringValue(std::string v) : text(std::move(v)) { charge.raise(text.capacity()); }
  std::string text;
  MemoryCharge charge;
};

struct ComplexValue : RefCounted {
  explicit ComplexValue(std::complex<double> v) : number(v) {}
  std::complex<double> number;
};

struct ListValue : ContainerValue {
  ListValue(TypePtr element, std::vector<IValue> items) : elementType(element), items(std::move(items)) {
    chargeContents(this->items.capacity() * bytesPerItem());
  }
  // Makes room for items that are about to be added, within the run's memory limit.
  void grow(size_t extra) {
    if (extra > items.capacity() - items.size()) growSlowly(extra);
  }
  TypePtr elementType;
  std::vector<IValue> items;

 private:
  void growSlowly(size_t extra);
  // With the small object that most items other than numbers are; what is large after it counts itself.
  size_t bytesPerItem() const {
    constexpr size_t kObject = 64;
    bool isNumber =
        elementType->is(TypeKind::Int) || elementType->is(TypeKind::Float) || elementType->is(TypeKind::Bool);
    return sizeof(IValue) + (isNumber ? 0 : kObject);
  }
};

struct TupleValue : ContainerValue {
  explicit TupleValue(std::vector<IValue> items, TypePtr type = nullptr) : items(std::move(items)), type(type) {
    chargeContents(this->items.capacity() * sizeof(IValue));
  }
  std::vector<IValue> items;
  TypePtr type;  // of a named tuple; else null
};

// Keeps insertion order. Keys are compared by value: int, float, bool, complex, str, Device, enum, or tensor identity.
struct DictValue : ContainerValue {
  DictValue(TypePtr key, TypePtr value) : keyType(key), valueType(value) {}

  size_t size() const { return index_.size(); }
  // The value for a key, or null.
  IValue* find(const IValue& key);
  void set(const IValue& key, IValue value);
  bool erase(const IValue& key);
  void clear();
  // The oldest key of a dict that is not empty.
  const IValue& oldestKey() const;
  // Calls f(key, value) in insertion order.
  template <class F>
  void forEach(F&& f) const {
    for (const Entry& e : entries_)
      if (e.live) f(e.key, e.value);
  }
  template <class F>
  void forEachValue(F&& f) {
    for (Entry& e : entries_)
      if (e.live) f(e.value);
  }

  TypePtr keyType, valueType;

 private:
  struct Entry {
    IValue key, value;
    bool live = true;
  };
  struct KeyHash {
    size_t operator()(const IValue& key) const;
  };
  struct KeyEqual {
    bool operator()(const IValue& a, const IValue& b) const;
  };
  void dropDead();

  std::vector<Entry> entries_;
  mutable size_t oldest_ = 0;  // entries before it are not live
  std::unordered_map<IValue, size_t, KeyHash, KeyEqual> index_;
};

// An instance of a class or module. Attributes keep their order.
struct ObjectValue : ContainerValue {
  explicit ObjectValue(TypePtr type) : type(type) {}
  IValue* find(Symbol attribute) {
    for (auto& [name, value] : attributes)
      if (name == attribute) return &value;
    return nullptr;
  }
  void set(Symbol attribute, IValue value) {
    if (IValue* old = find(attribute)) {
      *old = std::move(value);
    } else {
      chargeContents((attributes.size() + 1) * 2 * sizeof(attributes[0]));
      attributes.emplace_back(attribute, std::move(value));
    }
  }
  TypePtr type;
  std::vector<std::pair<Symbol, IValue>> attributes;
  Ref<ObjectValue> sameAs;  // of one that was made again for what a text calls by the same path; else null
};

struct EnumValue : ContainerValue {
  EnumValue(TypePtr type, std::string member, IValue value)
      : type(type), member(std::move(member)), value(std::move(value)) {}
  TypePtr type;
  std::string member;
  IValue value;
};

struct FutureValue : ContainerValue {
  explicit FutureValue(IValue v) : value(std::move(v)) {}
  IValue value;
};

// A function by name (`prim::Constant[name="relu"]`); what it does is looked up in the module.
struct FunctionValue : RefCounted {
  explicit FunctionValue(std::string v) : name(std::move(v)) {}
  std::string name;
};

// A constant as the text shows it: `<Tensor>`, `[<Tensors>]`, an inline tensor, `{1.5}`, `object(0x1)`.
struct LiteralValue : RefCounted {
  enum class Kind : uint8_t {
    MissingTensor,  // no data: must come from a weights file where it is needed
    RoundedTensor,  // data as printed, to about four digits
    ExactTensor,    // the text determines the data
    Object,
    Variable,  // of a pattern
  };
  LiteralValue(std::string text, Kind kind, Tensor data = {})
      : text(std::move(text)), kind(kind), data(std::move(data)) {}
  std::string text;
  Kind kind;
  Tensor data;  // defined for RoundedTensor and ExactTensor once the type of the constant is known
};

inline const std::complex<double>& IValue::toComplex() const {
  return static_cast<ComplexValue*>(of(Tag::Complex).object)->number;
}
inline const std::string& IValue::toString() const { return static_cast<StringValue*>(of(Tag::String).object)->text; }

// ---- construction and conversion ----

IValue intList(DimSpan values);
inline IValue intList(std::initializer_list<int64_t> values) { return intList(DimSpan(values.begin(), values.size())); }
IValue floatList(std::span<const double> values);
IValue boolList(std::span<const bool> values);
IValue tensorList(std::vector<Tensor> values);
IValue tuple(std::vector<IValue> items);
// The value with copies of its lists, dicts and tuples, at any depth; everything else is the same object. `shared` is
// what the copies say of themselves.
IValue copyContainers(const IValue& value, bool shared);

// The type of a value as far as it can be known: tensors with dtype, sizes and strides.
TypePtr dynamicType(const IValue& value);
// Whether the value is of this type (`isinstance`), looking at elements only as far as lists and dicts declare theirs.
bool isInstance(const IValue& value, TypePtr type);
// Equality by value as TorchScript's == on scalars, strings, lists, tuples and dicts; tensors by identity.
bool valuesEqual(const IValue& a, const IValue& b);

}  // namespace tscompile
