// What a pickle says, as values. Nothing of it is executed: classes and functions stay names.
#pragma once

#include "ir/values/tensor.h"

#include <complex>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

class PickleValue;
using PickleRef = const PickleValue*;

// How the integers of a quantised tensor stand for numbers.
struct Quantization {
  enum class Scheme : uint8_t { PerTensorAffine, PerChannelAffine, PerChannelAffineFloatParams };
  Scheme scheme = Scheme::PerTensorAffine;
  double scale = 1;  // per tensor
  int64_t zeroPoint = 0;
  Tensor scales, zeroPoints;  // per channel, along `axis`
  int64_t axis = 0;
};

struct PickleTensor {
  DType dtype = DType::Undefined;  // as the file has it: QInt8 where `tensor` is int8
  Dims sizes;
  // Read-only, a view of the storage that all tensors of this storage share; undefined if we do not compute with the
  // dtype. Of quantised tensors the integers (int8, uint8, int32).
  Tensor tensor;
  std::string_view storage;  // its name in the file
  std::optional<Quantization> quantization;
  bool requiresGrad = false;
  bool isParameter = false;
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

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  // The byte of the pickle behind the instruction that made the value.
  uint32_t offset() const { return offset_; }

  // The caller has looked at the kind.
  bool toBool() const { return number_.integer != 0; }
  int64_t toInt() const { return number_.integer; }
  double toFloat() const { return number_.real; }
  std::complex<double> toComplex() const { return {number_.real, imaginary_}; }
  // A string, bytes, device or name; of a Long its bytes, the lowest first, in two's complement.
  std::string_view text() const { return text_; }
  // What a list, tuple or set holds.
  const std::vector<PickleRef>& items() const { return items_; }
  // What a dict holds, in its order; string and integer keys are unique.
  const std::vector<Entry>& entries() const { return entries_; }
  // The type that a list or dict of TorchScript was saved with, "List[int]" or "Dict[str, Tensor]"; or "".
  std::string_view typeTag() const { return text_; }
  const PickleTensor& tensor() const { return *tensor_; }
  const PickleObject& object() const { return object_; }

  bool isString(std::string_view text) const { return kind_ == Kind::String && text_ == text; }
  bool isNone() const { return kind_ == Kind::None; }
  // The value of a string key of a dict, or of an object that was built from a dict; null if there is none. Looks at
  // all keys.
  PickleRef find(std::string_view key) const;

 private:
  friend class PickleReader;
  Kind kind_ = Kind::None;
  uint32_t offset_ = 0;
  double imaginary_ = 0;
  union {
    int64_t integer = 0;
    double real;
  } number_;
  std::string_view text_;
  std::vector<PickleRef> items_;
  std::vector<Entry> entries_;
  std::unique_ptr<PickleTensor> tensor_;
  PickleObject object_;
};

// "a list", "None": for messages.
std::string_view describe(PickleValue::Kind kind);

// The values of one pickle and the bytes that their texts point into.
class PickleTree {
 public:
  PickleRef root() const { return root_; }

 private:
  friend class PickleReader;
  std::deque<PickleValue> values_;
  std::deque<std::string> texts_;
  std::string bytes_;
  PickleRef root_ = nullptr;
};

}  // namespace tscompile
