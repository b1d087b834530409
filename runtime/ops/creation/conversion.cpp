// Conversions between numbers, strings and tensors of one element; hashes.
#include "ir/support/text.h"
#include "runtime/call/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/scalars.h"

#include <charconv>
#include <cmath>

namespace tscompile {
namespace {

// ---- strings to numbers ----

// What C's number readers skip in front.
std::string_view withoutBlanks(std::string_view text) {
  size_t start = text.find_first_not_of(" \t\n\v\f\r");
  return start == std::string_view::npos ? std::string_view() : text.substr(start);
}

void intOfText(Arguments a, IValue& r) {
  const std::string& text = stringOf(*a[0]);
  std::string_view digits = withoutBlanks(text);
  if (startsWith(digits, "+") && !startsWith(digits, "+-")) digits.remove_prefix(1);
  int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range)
    failRun("int() of '" + abbreviate(text, 80) + "' does not fit into 64 bits");
  if (error != std::errc() || end != digits.data() + digits.size())
    failRun("invalid literal for int() with base 10: '" + abbreviate(text, 80) + "'");
  r = value;
}

void floatOfText(Arguments a, IValue& r) {
  const std::string& text = stringOf(*a[0]);
  std::string_view digits = withoutBlanks(text);
  bool negative = startsWith(digits, "-");
  if (negative || startsWith(digits, "+")) digits.remove_prefix(1);
  bool hexadecimal = startsWith(digits, "0x") || startsWith(digits, "0X");
  if (hexadecimal) digits.remove_prefix(2);
  double value = 0;
  bool isSigned = startsWith(digits, "-");
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value,
                                      hexadecimal ? std::chars_format::hex : std::chars_format::general);
  // A number that loses digits because it is too small is out of range, too.
  bool tooSmall = !hexadecimal && value != 0 && std::fpclassify(value) == FP_SUBNORMAL;
  if (isSigned || (error != std::errc() && error != std::errc::result_out_of_range) ||
      end != digits.data() + digits.size())
    failRun("could not convert string to float: '" + abbreviate(text, 80) + "'");
  if (error == std::errc::result_out_of_range || tooSmall)
    failRun("float() of '" + abbreviate(text, 80) + "' is out of range");
  r = negative ? -value : value;
}

// ---- numbers to numbers ----

void intOfNumber(Arguments a, IValue& r) {
  const IValue& v = *a[0];
  if (v.isFloat())
    r = truncatedInt(v.toFloat());
  else
    r = intOf(v);
}
// Of a Scalar: what does not fit is an error here.
int64_t checkedInt(const IValue& v) {
  if (v.isInt() || v.isBool()) return intOf(v);
  Complex128 number = complexOf(v);
  double value = number.real();
  if (number.imag() != 0 || !(value >= -9223372036854775808.0 && value < 9223372036854775808.0))
    failRun("value cannot be converted to type int64_t without overflow");
  return static_cast<int64_t>(value);
}
double checkedFloat(const IValue& v) {
  if (!v.isComplex()) return floatOf(v);
  if (v.toComplex().imag() != 0) failRun("value cannot be converted to type double without overflow");
  return v.toComplex().real();
}
// PyTorch takes floats through 32 bits here.
void intOfScalar(Arguments a, IValue& r) {
  int64_t value = checkedInt(*a[0]);
  if (!a[0]->isInt() && (checkedFloat(*a[0]) < INT32_MIN || checkedFloat(*a[0]) > INT32_MAX))
    failRun("value cannot be converted to type int without overflow");
  r = value;
}
void floatOfScalar(Arguments a, IValue& r) { r = a[0]->isComplex() ? a[0]->toComplex().real() : floatOf(*a[0]); }
void boolOfNumber(Arguments a, IValue& r) { r = a[0]->isFloat() ? a[0]->toFloat() != 0 : intOf(*a[0]) != 0; }
void complexOfScalar(Arguments a, IValue& r) { r = complexOf(*a[0]); }

const TensorImpl& oneElement(const IValue& v) {
  const TensorImpl& t = tensorOf(v);
  if (t.numel() != 1) failRun(fmt::format("a Tensor with {} elements cannot be converted to Scalar", t.numel()));
  return t;
}
double partOf(const IValue& v) {
  if (v.isTensor()) return checkedFloat(itemOf(oneElement(v)));
  // PyTorch takes ints through 32 bits.
  return v.isInt() ? static_cast<double>(static_cast<int32_t>(v.toInt())) : floatOf(v);
}
void complexOfParts(Arguments a, IValue& r) { r = Complex128(partOf(*a[0]), partOf(*a[1])); }

// ---- tensors to numbers ----

void item(Arguments a, IValue& r) { r = itemOf(oneElement(*a[0])); }
void intOfTensor(Arguments a, IValue& r) { r = checkedInt(itemOf(oneElement(*a[0]))); }
void floatOfTensor(Arguments a, IValue& r) { r = checkedFloat(itemOf(oneElement(*a[0]))); }
void boolOfTensor(Arguments a, IValue& r) {
  const TensorImpl& t = tensorOf(*a[0]);
  if (t.numel() != 1)
    failRun(fmt::format("Boolean value of Tensor with {} is ambiguous",
                        t.numel() == 0 ? "no values" : "more than one value"));
  IValue v = itemOf(t);
  r = v.isComplex() ? v.toComplex() != Complex128() : v.isFloat() ? v.toFloat() != 0 : intOf(v) != 0;
}

// Where a tensor stands for a number that the model's code passes on.
const TensorImpl& implicitNumber(const IValue& v) {
  const TensorImpl& t = tensorOf(v);
  if (t.rank() != 0) failRun("Cannot input a tensor of dimension other than 0 as a scalar argument");
  return t;
}
void intImplicit(Arguments a, IValue& r) {
  const TensorImpl& t = implicitNumber(*a[0]);
  if (!isIntegral(t.dtype(), false))
    failRun(fmt::format("Cannot input a tensor of type {} as an integral argument", graphName(t.dtype())));
  r = checkedInt(itemOf(t));
}
void floatImplicit(Arguments a, IValue& r) { r = checkedFloat(itemOf(implicitNumber(*a[0]))); }
void complexImplicit(Arguments a, IValue& r) { r = complexOf(itemOf(implicitNumber(*a[0]))); }
void scalarImplicit(Arguments a, IValue& r) { r = itemOf(implicitNumber(*a[0])); }

void numberToTensor(Arguments a, IValue& r) {
  if (!a[0]->isNumber()) failArgument(*a[0], "a number");
  r = IValue(scalarTensor(*a[0]));
}

// ---- ints and characters as text ----

template <int kBase>
void digitsOf(Arguments a, IValue& r) {
  int64_t v = intOf(*a[0]);
  uint64_t magnitude = v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, magnitude, kBase);
  std::string text = v < 0 ? "-0" : "0";
  text += kBase == 2 ? 'b' : kBase == 8 ? 'o' : 'x';
  r = IValue(text.append(buffer, end));
}
void ord(Arguments a, IValue& r) {
  const std::string& text = stringOf(*a[0]);
  if (text.size() != 1) failRun(fmt::format("String for ord() must be 1 character, found {}", text.size()));
  r = int64_t{static_cast<unsigned char>(text[0])};
}
// One byte, whatever the number.
void chr(Arguments a, IValue& r) {
  int64_t v = intOf(*a[0]);
  if (v < 0 || v >= 1114111) failRun(fmt::format("chr() arg not in range(0x110000), found {}", v));
  r = IValue(std::string(1, static_cast<char>(v)));
}

// ---- hashes ----

uint64_t hashOf(const IValue& top);

// PyTorch's numbers: those of the C++ library, combined as boost does it.
uint64_t hashOfOne(const IValue& v) {
  switch (v.tag()) {
    case IValue::Tag::None:
      return 0;
    case IValue::Tag::Bool:
      return v.toBool();
    case IValue::Tag::Int:
      return static_cast<uint64_t>(v.toInt());
    case IValue::Tag::Float:
      return std::hash<double>()(v.toFloat());
    case IValue::Tag::String:
      return std::hash<std::string_view>()(v.toString());
    case IValue::Tag::Device: {
      Device d = v.toDevice();
      return uint64_t{static_cast<uint8_t>(d.kind)} << 16 | static_cast<uint8_t>(d.index);
    }
    case IValue::Tag::Tensor:
      return reinterpret_cast<uintptr_t>(v.tensorImpl());
    default:
      failRun("unhashable type: '" + typeText(dynamicType(v), TypeStyle::Python) + "'");
  }
}

uint64_t hashOf(const IValue& top) {
  if (!top.isTuple()) return hashOfOne(top);
  // Tuples inside of tuples wait on a stack.
  struct Open {
    const IValue* tuple;
    size_t next = 0;
    uint64_t seed = 0;
  };
  std::vector<Open> stack{{&top}};
  while (true) {
    Open& open = stack.back();
    const std::vector<IValue>& items = open.tuple->toTuple().items;
    uint64_t part;
    if (open.next == items.size()) {
      part = open.seed;
      stack.pop_back();
      if (stack.empty()) return part;
    } else if (const IValue& item = items[open.next++]; item.isTuple()) {
      stack.push_back({&item});
      continue;
    } else {
      part = hashOfOne(item);
    }
    uint64_t& seed = stack.back().seed;
    seed ^= part + 0x9e3779b9 + (seed << 6) + (seed >> 2);
  }
}
void hash(Arguments a, IValue& r) { r = static_cast<int64_t>(hashOf(*a[0])); }

struct Entry {
  const char* schema;
  ScalarFunction function;
  TraitSet traits = {};
};
constexpr TraitSet kAsks{Trait::DependsOnElements}, kPasses{Trait::DependsOnElements, Trait::PassesNumber};
constexpr Entry kTable[] = {
    {"aten::Int.Tensor", intOfTensor, kPasses},
    {"aten::Int.bool", intOfNumber},
    {"aten::Int.float", intOfNumber},
    {"aten::Int.Scalar", intOfScalar, {Trait::PassesNumber}},
    {"aten::Int.str", intOfText},
    {"aten::Float.Tensor", floatOfTensor, kAsks},
    {"aten::Float.Scalar", floatOfScalar},
    {"aten::Float.int", floatOfScalar},
    {"aten::Float.bool", floatOfScalar},
    {"aten::Float.str", floatOfText},
    {"aten::Bool.Tensor", boolOfTensor, kAsks},
    {"aten::is_nonzero", boolOfTensor, kAsks},
    {"aten::Bool.int", boolOfNumber},
    {"aten::Bool.float", boolOfNumber},
    {"aten::Complex.Scalar", complexOfScalar},
    {"aten::Complex.Tensor_Tensor", complexOfParts, kAsks},
    {"aten::Complex.int_bool", complexOfParts},
    {"aten::Complex.bool_int", complexOfParts},
    {"aten::Complex.float_bool", complexOfParts},
    {"aten::Complex.bool_float", complexOfParts},
    {"aten::Complex.float_int", complexOfParts},
    {"aten::Complex.int_float", complexOfParts},
    {"aten::Complex.int_int", complexOfParts},
    {"aten::Complex.bool_bool", complexOfParts},
    {"aten::Complex.float_float", complexOfParts},
    {"aten::Complex.Tensor_float", complexOfParts, kAsks},
    {"aten::Complex.float_Tensor", complexOfParts, kAsks},
    {"aten::Complex.Tensor_int", complexOfParts, kAsks},
    {"aten::Complex.int_Tensor", complexOfParts, kAsks},
    {"aten::Complex.Tensor_bool", complexOfParts, kAsks},
    {"aten::Complex.bool_Tensor", complexOfParts, kAsks},
    {"aten::IntImplicit", intImplicit, kPasses},
    {"aten::FloatImplicit", floatImplicit, kAsks},
    {"aten::ComplexImplicit", complexImplicit, kAsks},
    {"aten::ScalarImplicit", scalarImplicit, kPasses},
    {"aten::item", item, kPasses},
    {"aten::_local_scalar_dense", item, kPasses},
    {"prim::NumToTensor.Scalar", numberToTensor, {Trait::NumberIsElement, Trait::PassesNumber}},
    {"prim::NumToTensor.bool", numberToTensor, {Trait::NumberIsElement, Trait::PassesNumber}},
    {"aten::bin", digitsOf<2>},
    {"aten::oct", digitsOf<8>},
    {"aten::hex", digitsOf<16>},
    {"aten::ord", ord},
    {"aten::chr", chr},
    {"aten::hash.generic", hash, {Trait::ComparesObjects}},
};

}  // namespace

void registerConversionOps(OpRegistry& ops) {
  for (const Entry& e : kTable) ops.add({.schema = e.schema, .scalar = e.function, .traits = e.traits});
}

}  // namespace tscompile
