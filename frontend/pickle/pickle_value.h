// What a pickle says, as values. Nothing of it is executed: classes and functions stay names.
#pragma once

#include "ir/values/quantization.h"

#include <complex>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tscompile {

class PickleValue;
using PickleRef = const PickleValue*;

struct PickleTensor {
  DType dtype = DType::Undefined;  // as the file has it: QInt8 where `tensor` is int8
  Dims sizes;
  // Read-only, a view of the storage that all tensors of this storage share; undefined if we do not compute with the
  // dtype. Of quantised tensors the integers (int8, uint8, int32).
  Tensor tensor;
  std::string_view storage;        // its name in the file
  Ref<Quantization> quantization;  // null if it is not quantised
  bool requiresGrad = false;
  bool isParameter = false;
};

// A storage by itself, before it is a tensor's.
struct PickleStorage {
  DType dtype = DType::Undefined;  // undefined: just bytes
  std::string_view key;
  uint64_t begin = 0, count = 0;  // elements
  Ref<Storage> storage;           // null if we do not compute with the dtype
};

// An instance of a class, or what a function that we do not know would have made.
struct PickleObject {
  std::string_view name;          // "__torch__.torch.nn.modules.conv.Conv2d"
  PickleRef arguments = nullptr;  // what it was called with; usually a tuple
  PickleRef state = nullptr;      // what it is built from: a dict of attributes, or what __setstate__ gets; may be null
};

// Values are shared and may even hold themselves: two references to one list are two equal pointers. They live as long
// as their tree.
class PickleValue {
 public:
  enum class Kind : uint8_t {
    None,
    Bool,
    Int,
    Long,  // an integer that 64 bits do not hold
    Float,
    Complex,
    String,
    Bytes,
    Device,  // "cuda:0"
    Name,    // a class, function, dtype or other thing that is named: "torch.float32"
    Storage,
    Tensor,
    List,
    Tuple,
    Set,
    Dict,
    Object,
  };
  struct Entry {
    PickleRef key, value;
  };

  explicit PickleValue(Kind kind, uint64_t offset = 0) : kind_(kind), offset_(offset) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool isNone() const { return kind_ == Kind::None; }
  bool isString(std::string_view s) const { return kind_ == Kind::String && text() == s; }
  // The instruction that made the value, or a value that is equal: its byte in the file.
  uint64_t offset() const { return offset_; }

  // The caller has looked at the kind.
  bool toBool() const { return std::get<bool>(payload_); }
  int64_t toInt() const { return std::get<int64_t>(payload_); }
  double toFloat() const { return std::get<double>(payload_); }
  std::complex<double> toComplex() const { return std::get<std::complex<double>>(payload_); }
  // A string, bytes, device or name; of a Long its bytes, the lowest first, in two's complement.
  std::string_view text() const { return std::get<std::string_view>(payload_); }
  // What a list, tuple or set holds.
  const std::vector<PickleRef>& items() const { return std::get<Items>(payload_).items; }
  // What a dict holds, in its order; string and integer keys are unique.
  const std::vector<Entry>& entries() const { return std::get<Entries>(payload_).entries; }
  // The type that a list or dict of TorchScript was saved with, "List[int]" or "Dict[str, Tensor]"; or "".
  std::string_view typeTag() const {
    return kind_ == Kind::Dict ? std::get<Entries>(payload_).tag : std::get<Items>(payload_).tag;
  }
  const PickleTensor& tensor() const { return *std::get<std::unique_ptr<PickleTensor>>(payload_); }
  const PickleStorage& storage() const { return *std::get<std::unique_ptr<PickleStorage>>(payload_); }
  const PickleObject& object() const { return std::get<PickleObject>(payload_); }

  // The value of a string key of a dict, or of an object that was built from a dict; null if there is none. Looks at
  // all keys.
  PickleRef find(std::string_view key) const;
  // Calls f(const PickleValue&) for each value that this one holds, in order.
  template <class F>
  void forEachPart(F&& f) const;

 private:
  friend class PickleReader;
  struct Items {
    std::vector<PickleRef> items;
    std::string_view tag;
  };
  struct Entries {
    std::vector<Entry> entries;
    std::string_view tag;
  };
  Kind kind_;
  bool seen_ = false;  // for the reader
  uint64_t offset_;
  std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string_view, Items, Entries,
               std::unique_ptr<PickleTensor>, std::unique_ptr<PickleStorage>, PickleObject>
      payload_;
};

template <class F>
void PickleValue::forEachPart(F&& f) const {
  if (kind_ == Kind::Dict) {
    for (const Entry& e : entries()) {
      f(*e.key);
      f(*e.value);
    }
  } else if (kind_ == Kind::Object) {
    if (object().arguments) f(*object().arguments);
    if (object().state) f(*object().state);
  } else if (const Items* list = std::get_if<Items>(&payload_)) {
    for (PickleRef item : list->items) f(*item);
  }
}

// "a list", "None": for messages.
std::string_view describe(PickleValue::Kind kind);

// The values of one pickle, and what else their texts point into.
class PickleTree {
 public:
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleReader;
  std::deque<PickleValue> values_;
  std::deque<std::string> texts_;
  std::shared_ptr<const void> owner_;
  PickleRef root_ = nullptr;
};

}  // namespace tscompile
