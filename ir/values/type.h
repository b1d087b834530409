// TorchScript types: interned, immutable, compared by pointer, never freed.
#pragma once

#include "ir/values/device.h"
#include "ir/values/dtype.h"
#include "ir/values/symbol.h"
#include "ir/values/tensor.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// In PyTorch's order, which sorts the members of unions.
enum class TypeKind : uint8_t {
  Any,
  Enum,
  AnyEnum,
  Tensor,
  Storage,
  Tuple,
  List,
  Dict,
  Number,  // int, float or complex; prints as "Scalar"
  Float,
  Complex,
  Future,
  Await,
  RRef,
  Int,
  None,
  String,
  Generator,
  Quantizer,
  Bool,
  Optional,
  Variable,  // a type variable of a schema: t, tVal
  Device,
  Stream,
  Function,
  Class,
  PyObject,
  Capsule,
  Interface,
  QScheme,
  AnyList,
  AnyTuple,
  AnyClass,
  Union,
  // Only schemas name these; in graphs all are int (SymInt, ScalarType, Layout, MemoryFormat) or str (Dimname).
  SymInt,
  ScalarType,
  Layout,
  MemoryFormat,
  DeviceIndex,
  ConstQuantizerPtr,
  Dimname,
};

class Type;
using TypePtr = const Type*;

// A size that graph text leaves open ("*"). Sizes below are symbols: -2 is "SS(-1)", -3 is "SS(-2)" ...
inline constexpr int64_t kUnknownSize = -1;

// What is known of a tensor. Everything may be missing.
struct TensorFacts {
  DType dtype = DType::Undefined;  // Undefined: not known
  bool hasRank = false;
  bool hasStrides = false;
  bool undefinedTensor = false;  // "Tensor[Undefined]"
  int8_t requiresGrad = -1;      // -1: not known
  bool hasDevice = false;
  Device device;
  Dims sizes;    // if hasRank; kUnknownSize or a symbol where open
  Dims strides;  // if hasStrides, as many as sizes

  bool hasAllSizes() const;
  friend bool operator==(const TensorFacts&, const TensorFacts&) = default;
};

class Type {
 public:
  Type(const Type&) = delete;

  TypeKind kind() const { return kind_; }
  // Elements: of a list, optional or future (one), a dict (key, value), a tuple or union (all).
  std::span<const TypePtr> elements() const { return elements_; }
  TypePtr element(size_t i = 0) const { return elements_[i]; }
  // The qualified name of a class, enum, interface or named tuple, or the name of a type variable.
  const std::string& name() const { return name_; }
  const std::vector<std::string>& fields() const { return fields_; }      // of a named tuple
  const std::vector<std::string>& defaults() const { return defaults_; }  // raw text after " = ", or empty
  const TensorFacts& tensor() const { return tensor_; }
  bool isNamedTuple() const { return kind_ == TypeKind::Tuple && !fields_.empty(); }
  // One more than that of the deepest element.
  uint32_t depth() const { return depth_; }
  // Whether a type variable occurs inside.
  bool hasVariables() const { return hasVariables_; }
  uint64_t hash() const { return hash_; }

  bool is(TypeKind k) const { return kind_ == k; }
  bool isTensor() const { return kind_ == TypeKind::Tensor; }
  bool isListOf(TypeKind k) const { return kind_ == TypeKind::List && elements_[0]->kind_ == k; }

 private:
  friend class TypeTable;
  Type() = default;
  TypeKind kind_ = TypeKind::Any;
  bool hasVariables_ = false;
  uint32_t depth_ = 1;
  uint64_t hash_ = 0;
  std::vector<TypePtr> elements_;
  std::string name_;
  std::vector<std::string> fields_, defaults_;
  TensorFacts tensor_;
};

// ---- making types ----

// A kind without elements: int, Device, Any ... For Tensor: nothing known.
TypePtr simpleType(TypeKind kind);
TypePtr tensorType(const TensorFacts& facts);
TypePtr listType(TypePtr element);
TypePtr optionalType(TypePtr element);  // T?? is T?, None? is None, Any? is Any
TypePtr withoutOptional(TypePtr t);     // what an optional type holds; any other as it is
TypePtr tupleType(std::span<const TypePtr> elements);
TypePtr namedTupleType(std::string name, std::span<const TypePtr> elements, std::vector<std::string> fields,
                       std::vector<std::string> defaults);
TypePtr dictType(TypePtr key, TypePtr value);
TypePtr unionType(std::span<const TypePtr> members);  // flattened, merged by subtyping, sorted
TypePtr futureType(TypePtr element);
TypePtr awaitType(TypePtr element);
TypePtr rrefType(TypePtr element);
TypePtr classType(std::string qualifiedName);
TypePtr interfaceType(std::string name);
TypePtr enumType(std::string qualifiedName);
TypePtr variableType(std::string name);
// What values of a pattern have whose text gives no type: any fits.
TypePtr untypedInPattern();
// Types that programs name often.
struct CommonTypes {
  TypePtr any, none, tensor, integer, floating, boolean, string, complex, number, device, generator, tensorList,
      intList, floatList, boolList, function;
};
const CommonTypes& types();

// ---- relations ----

// S <: T as PyTorch resolves operators by it: tensors by what is known of them, optionals and unions by their members,
// tuples and futures element by element; lists and dicts only if they are the same. Any class fits any interface.
bool isSubtype(TypePtr s, TypePtr t);
// The least type that both fit, or null.
TypePtr unifyTypes(TypePtr a, TypePtr b);
// The type as graphs have it: SymInt, ScalarType, Layout and MemoryFormat become int, Dimname str.
TypePtr graphType(TypePtr type);
// The tensor type with the same dtype, rank and sizes but without strides, gradient or device.
TypePtr withoutRefinement(TypePtr type);

// ---- text ----

enum class TypeStyle {
  Graph,   // as values are annotated in graph text
  Schema,  // as schemas and the insides of Dict and Union print
  Python,  // as inside annotate(...): List[int], Optional[Tensor]
};
void appendType(TypePtr type, TypeStyle style, std::string& out);
std::string typeText(TypePtr type, TypeStyle style = TypeStyle::Graph);
// 0: as nothing, 1: no strides, gradient or device, 2: no gradient or device, 3: everything.
void appendTensorType(const TensorFacts& facts, int verbosity, std::string& out);
void appendTypeAtVerbosity(TypePtr type, int verbosity, std::string& out);

}  // namespace tscompile
