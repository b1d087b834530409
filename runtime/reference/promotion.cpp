#include "runtime/reference/promotion.h"

#include "ir/values/carried_types.h"
#include "runtime/reference/loops/cpp_types.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <string>

namespace tscompile {
namespace {

DType promoteOrTake(DType a, DType b) {
  if (a == DType::Undefined) return b;
  if (b == DType::Undefined) return a;
  const DType both = promoteTypes(a, b);
  if (both == DType::Undefined && (isCarried(a) || isCarried(b)))
    throw ExecutionError(
        ErrorKind::Model,
        fmt::format("Promotion for {} is not supported, attempted to promote {} and {}",
                    isSmallFloat(a) || isSmallFloat(b) ? "Float8 Types" : "uint16, uint32, uint64 types", graphName(a),
                    graphName(b)));
  return both;
}

DType complexBeside(DType parts) {
  if (parts == DType::Float16 || parts == DType::BFloat16)
    throw ExecutionError(ErrorKind::Unsupported, "complex numbers of 16-bit parts are not supported");
  return complexOf(parts);
}

// What `lower` adds to `higher`: only a higher category counts.
DType combine(DType higher, DType lower) {
  if (isComplex(higher)) return higher;
  if (isFloating(higher)) return isComplex(lower) ? complexBeside(higher) : higher;
  if (isSmallFloat(higher) && !isComplex(lower)) return higher;
  if (isWideUnsigned(higher) && isComplex(lower)) return lower;
  if (higher == DType::Bool || isFloating(lower) || isComplex(lower)) return promoteOrTake(higher, lower);
  return higher != DType::Undefined ? higher : lower;
}

}  // namespace

void ResultType::add(const TensorInfo& t) {
  if (t.dtype == DType::Undefined) throw InferCall::NotKnown{};
  if (!t.hasRank) {
    // Whether it has dimensions matters only if the dtypes differ.
    if ((withDims_ != DType::Undefined && withDims_ != t.dtype) || withoutDims_ != DType::Undefined)
      throw InferCall::NotKnown{};
    withDims_ = t.dtype;
    return;
  }
  DType& slot = t.rank() > 0 ? withDims_ : withoutDims_;
  slot = promoteOrTake(slot, t.dtype);
}

void ResultType::addNumber(DType category) {
  // Numbers count as the default dtypes of their category.
  if (category == DType::Float64) category = DType::Float32;
  if (category == DType::Complex128) category = DType::Complex64;
  numbers_ = promoteOrTake(numbers_, category);
}

void ResultType::add(const InferCall& call, size_t i) {
  if (call.isTensor(i))
    add(call.tensor(i));
  else if (!call.isNone(i))
    addNumber(call.scalarType(i));
}

namespace {

template <class T>
bool fitsReal(double v) {
  return !std::isfinite(v) || std::fabs(v) <= static_cast<double>(std::numeric_limits<T>::max());
}

}  // namespace

bool isInRange(double v, DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return !std::isfinite(v) || std::fabs(v) <= 65504;
    case DType::Float32:
    case DType::BFloat16:
    case DType::Complex64:
      return fitsReal<float>(v);
    case DType::UInt8:
      return std::fabs(v) < 256;
    case DType::Int8:
      return v > -129 && v < 128;
    case DType::Int16:
      return v > -32769 && v < 32768;
    case DType::Int32:
      return v > -2147483649.0 && v < 2147483648.0;
    case DType::Int64:
      return v >= -0x1p63 && v < 0x1p63;
    default:
      return true;
  }
}

IValue numberFor(const IValue& number, DType dtype) {
  auto require = [&](bool good) {
    if (!good) refuseOverflow(dtype);
  };
  if (number.isComplex()) {
    std::complex<double> z = number.toComplex();
    require(isInRange(z.real(), dtype));
    if (isComplex(dtype)) {
      require(isInRange(z.imag(), dtype));
      return number;
    }
    require(z.imag() == 0);
    return numberFor(z.real(), dtype);
  }
  require(number.isNumber());
  if (number.isBool()) return number;
  if (number.isInt()) {
    if (dtype != DType::Int64) require(isInRange(static_cast<double>(number.toInt()), dtype));
    return number;
  }
  double v = number.toFloat();
  require(isInRange(v, dtype) && (dtype != DType::UInt8 || (v >= 0 && v <= 255)));
  return isIntegral(dtype, false) ? IValue(static_cast<int64_t>(v)) : number;
}

DType ResultType::get() const { return combine(withDims_, combine(withoutDims_, numbers_)); }

}  // namespace tscompile
