// The record of one operator: its schema and what it can do. Families fill these in; see docs/adding_an_operator.md.
#pragma once

#include "ir/values/dtype.h"

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace tscompile {

class ConvertCall;
class IValue;
class InferCall;
class KernelCall;
struct SessionFunctions;

// Checks the arguments and computes what the results are; runs when a graph is analysed and again before the kernel.
using InferFunction = void (*)(InferCall&);
// Computes the results; starts from checked arguments.
using KernelFunction = void (*)(KernelCall&);
// The whole of an operator on numbers and strings with one result: no checks come before it.
using ScalarFunction = void (*)(const IValue* const* arguments, IValue& result);

// Adds the layers that compute the results to the network of an engine (runtime/engine/network/convert_call.h).
using ConvertFunction = void (*)(ConvertCall&);

// How the variant with a trailing underscore (`aten::relu_`) is made.
enum class InPlace : uint8_t {
  No,
  Direct,  // the kernel may write the result over its first argument while it reads it
  ByCopy,  // the result is computed aside, then copied over the first argument
};

// What an operator is, beside what its schema says. Nobody else keeps lists of operators that are so.
enum class Trait : uint8_t {
  Elementwise,        // each element of the result comes from the same element of its tensors, broadcast to one shape
  Commutative,        // the first two arguments may change places
  SideEffects,        // prints, raises, or writes what its schema does not show
  Random,             // two runs may differ, unless an argument switches that off (Operator::drawsRandom)
  MayShare,           // a result may be an argument or share its memory, though the schema does not say so
  GivesViews,         // results may be views of the first argument, though the schema does not say so or other tensors
                      // lend their sizes; the kernel touches elements by shared loops and copies only
  TakesOverMemory,    // gives its first argument the memory of the second
  ChangesGeometry,    // gives its first argument other sizes or strides: what aliases it changes too
  ReadsSizes,         // asks for sizes of a tensor, and for nothing else: aten::size, aten::dim
  ReadsGeometry,      // looks at sizes, strides and dtypes of tensors only, never at elements, and gives no tensor that
                      // is not an argument or an item of one: aten::size, prim::dtype, aten::append of tensors
  ReadsStrides,       // what it gives depends on strides: aten::is_contiguous, aten::as_strided
  DependsOnElements,  // sizes of its results, or numbers that it gives, depend on elements: aten::nonzero, aten::item
  NumberIsElement,    // the first number among its arguments is each element of its result: aten::full
  NumberIsIndex,      // its last argument is a place along the dimension before it: aten::select
  MovesElements,      // gives elements of its first argument, in another order, some of them, some several times:
                      // aten::view, aten::split
  KeepsElements,    // gives each element of its first argument in its place, if in another dtype: aten::clone, aten::to
  ReadsOptions,     // asks for the dtype of a tensor, its device and the like, never for its sizes: prim::dtype
  LendsFirstForm,   // of its first argument it takes sizes and dtype, no elements: aten::ones_like
  LendsSecondForm,  // the same of its second: aten::expand_as
  Uninitialized,    // the elements of its result may be anything: aten::empty
  MindsStrides,     // fails by strides of its arguments, or shows them in its results, as ReadsStrides does: aten::view
  SetsStrides,      // its result lies in memory without gaps, however its arguments do: aten::mm
  OwnStrides,       // its result may lie otherwise than in rows though its arguments do: aten::linalg_inv, aten::rot90
  ComparesObjects,  // tells an object from another one with the same content: aten::__is__
  PassesNumber,     // gives the number that it is given, or that a tensor without dimensions holds: aten::item
  RoundsOnce,       // computes on halves as on floats, numbers among its arguments too, and rounds the result alone:
                    // aten::softmax
  ReadsLimits,      // gives what the dtype holds, beside elements: aten::nan_to_num
  ShowsConjugates,  // of complex tensors it gives what shows later writes to them, and is shown in them: aten::conj
};

class TraitSet {
 public:
  constexpr TraitSet() = default;
  constexpr TraitSet(std::initializer_list<Trait> traits) {
    for (Trait t : traits) bits_ |= bit(t);
  }
  constexpr bool contains(Trait t) const { return bits_ & bit(t); }
  friend constexpr TraitSet operator|(TraitSet a, TraitSet b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  static constexpr uint32_t bit(Trait t) { return uint32_t{1} << static_cast<int>(t); }
  uint32_t bits_ = 0;
};

// What an operator does with the containers that it takes, of which schemas say less.
enum class ContainerUse : uint8_t {
  None,
  Take,     // gives items of the first; its other arguments are put in before: aten::__getitem__, aten::setdefault
  Put,      // puts its other arguments into the first, which it gives: aten::append
  PutAll,   // puts the items of the second into the first, which it gives: aten::extend
  Rebuild,  // gives a new container with the same items, or with tuples of them: aten::slice, aten::items
};

// What the result costs, in multiplications and additions.
enum class Cost : uint8_t {
  Step,          // one for each element
  Function,      // about ten for each element: exp, softmax
  Reduction,     // one for each element of the arguments
  Product,       // for each element as many as the first argument has columns
  AddedProduct,  // as many as the second has
  Convolution,   // as many as the second argument has elements for one channel of the result
  Attention,     // twice as many as the second has rows
  Layers,        // for each row of the first argument as many as all matrices among the others have elements
};

// A set of dtypes.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(std::initializer_list<DType> dtypes) {
    for (DType d : dtypes) bits_ |= bit(d);
  }
  constexpr bool contains(DType d) const { return bits_ & bit(d); }
  constexpr bool empty() const { return bits_ == 0; }
  friend constexpr DTypeSet operator|(DTypeSet a, DTypeSet b) { return DTypeSet(a.bits_ | b.bits_); }
  friend constexpr DTypeSet operator-(DTypeSet a, DTypeSet b) { return DTypeSet(a.bits_ & ~b.bits_); }

 private:
  constexpr explicit DTypeSet(uint64_t bits) : bits_(bits) {}
  static constexpr uint64_t bit(DType d) { return uint64_t{1} << static_cast<int>(d); }
  uint64_t bits_ = 0;
};
inline constexpr DTypeSet kFloatingTypes{DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};
inline constexpr DTypeSet kIntegerTypes{DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64};
inline constexpr DTypeSet kComplexTypes{DType::Complex64, DType::Complex128};
inline constexpr DTypeSet kBoolType{DType::Bool};
inline constexpr DTypeSet kRealTypes = kFloatingTypes | kIntegerTypes;
inline constexpr DTypeSet kRealAndBool = kRealTypes | kBoolType;
inline constexpr DTypeSet kAllTypes = kRealAndBool | kComplexTypes;

inline constexpr DTypeSet kQuantizedTypes{DType::QInt8, DType::QUInt8, DType::QInt32};

// Arguments that are written though the schema does not say so: running statistics, while a model is trained, or what
// quantized::relu6 is to overwrite.
struct TrainedArguments {
  uint8_t first = 0, end = 0;  // none if they are equal
  uint8_t training = 0;        // the argument that switches it on
};

struct OpDef {
  std::string_view schema = {};  // aten's own text; must outlive the registry

  InferFunction infer = nullptr;
  KernelFunction kernel = nullptr;
  ScalarFunction scalar = nullptr;
  ConvertFunction convert = nullptr;  // null: engines call the kernel, on memory that they plan

  // What the first tensor argument may be; others are refused before the kernel. Empty: every dtype.
  DTypeSet dtypes = kRealAndBool;
  InPlace inplace = InPlace::No;
  TraitSet traits = {};
  ContainerUse container = ContainerUse::None;
  Cost cost = Cost::Step;
  TrainedArguments trained = {};

  bool inEngines = true;  // false: stays out of engines as if nothing could convert it
  const SessionFunctions* session =
      nullptr;  // what infer, kernel or convert hand on to (runtime/call/session_functions.h)

  bool has(Trait t) const { return traits.contains(t); }
  bool isForQuantized() const { return !dtypes.empty() && (dtypes - kQuantizedTypes).empty(); }
  // Such a converter is asked for every node; where ours stand, shorter ways are tried first.
  bool hasSessionConverter() const { return session && convert; }
};

}  // namespace tscompile
