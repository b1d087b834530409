// Arguments of operators on numbers, strings and containers. A graph's types promise what they are, but text can lie:
// every access looks at the tag first.
#pragma once

#include "ir/values/error.h"
#include "ir/values/ivalue.h"

#include <complex>
#include <string>

namespace tscompile {

using Arguments = const IValue* const*;
using Complex128 = std::complex<double>;

[[noreturn]] void failRun(std::string message);  // ExecutionError (Model)
[[noreturn]] void failArgument(const IValue& value, const char* expected);

inline int64_t intOf(const IValue& v) {
  if (v.isInt()) [[likely]]
    return v.toInt();
  if (v.isBool()) return v.toBool();
  failArgument(v, "an int");
}
inline double floatOf(const IValue& v) {
  if (v.isFloat()) [[likely]]
    return v.toFloat();
  if (v.isInt() || v.isBool()) return v.toDouble();
  failArgument(v, "a float");
}
inline bool boolOf(const IValue& v) {
  if (v.isBool()) [[likely]]
    return v.toBool();
  if (v.isInt()) return v.toInt() != 0;
  failArgument(v, "a bool");
}
inline Complex128 complexOf(const IValue& v) { return v.isComplex() ? v.toComplex() : Complex128(floatOf(v)); }
inline const std::string& stringOf(const IValue& v) {
  if (!v.isString()) failArgument(v, "a str");
  return v.toString();
}
inline Device deviceOf(const IValue& v) {
  if (!v.isDevice()) failArgument(v, "a Device");
  return v.toDevice();
}
inline const TensorImpl& tensorOf(const IValue& v) {
  if (!v.isTensor() || !v.tensorImpl()) failArgument(v, "a tensor");
  return *v.tensorImpl();
}
inline ListValue& listOf(const IValue& v) {
  if (!v.isList()) failArgument(v, "a list");
  return v.toList();
}
inline DictValue& dictOf(const IValue& v) {
  if (!v.isDict()) failArgument(v, "a dict");
  return v.toDict();
}
// Containers that an operator is about to change: constants and module attributes are refused.
ListValue& changedList(const IValue& v);
DictValue& changedDict(const IValue& v);

// The number in a tensor of one element: bool, int, float or complex.
IValue itemOf(const TensorImpl& tensor);

// By the school formula: infinities are not recovered.
Complex128 multiplyComplex(Complex128 a, Complex128 b);
// As numpy divides: the part that is greater goes out first, so that squares do not overflow.
Complex128 divideComplex(Complex128 a, Complex128 b);

// As the x86 instruction converts: what does not fit, and NaN, becomes the smallest int.
inline int64_t truncatedInt(double v) {
  return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? static_cast<int64_t>(v) : INT64_MIN;
}

// Whole operators. The interpreter knows some of them by these addresses and gives them instructions of their own.
template <auto kF>
void intOperator(Arguments a, IValue& result) {
  result = kF(intOf(*a[0]), intOf(*a[1]));
}
template <auto kF>
void floatOperator(Arguments a, IValue& result) {
  result = kF(floatOf(*a[0]), floatOf(*a[1]));
}

}  // namespace tscompile
