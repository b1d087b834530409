#include "runtime/reference/loops/copy.h"

#include "ir/values/carried_types.h"
#include "ir/values/error.h"
#include "ir/values/quantization.h"
#include "runtime/reference/loops/cpp_types.h"
#include "runtime/reference/loops/dtype_range.h"
#include "runtime/reference/loops/loop.h"
#include "runtime/reference/loops/memory_format.h"
#include "runtime/reference/loops/strided_copy.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>

namespace tscompile {
namespace {

// A compute type that holds every value of `from`, by which it becomes `to` as fast as may be.
Compute bridge(DType from, DType to) {
  if (isComplex(from)) return Compute::C128;
  if (from == DType::Float64) return Compute::F64;
  if (isFloating(from) || isSmallFloat(from)) return Compute::F32;
  if (isFloating(to) || isSmallFloat(to)) {
    // Integers of up to 16 bits are exact as float, those of 32 bits as double: rounding happens once.
    if (itemSize(from) <= 2) return Compute::F32;
    if (itemSize(from) == 4) return Compute::F64;
    // Not all of them fit into 64 bits with a sign.
    if (from == DType::UInt64) return to == DType::Float64 ? Compute::F64 : Compute::F32;
  }
  if (isComplex(to) && from == DType::UInt64) return Compute::C128;
  return Compute::I64;
}

template <class T>
void moveTile(const Tile& t) {
  std::memcpy(t.operand[0], t.operand[1], static_cast<size_t>(t.n) * sizeof(T));
}

TileFunction mover(Compute c) {
  switch (c) {
    case Compute::F32:
      return moveTile<float>;
    case Compute::F64:
      return moveTile<double>;
    case Compute::I64:
      return moveTile<int64_t>;
    case Compute::C128:
      return moveTile<std::complex<double>>;
    case Compute::Bool:
      return moveTile<bool>;
  }
  TS_UNREACHABLE();
}

// Byte strides over `sizes`, to which `t` is broadcast. Sizes of 1 have none: what their strides are may not fit.
Dims byteStrides(const Tensor& t, DimSpan sizes) {
  Dims strides(sizes.size(), 0);
  size_t skip = sizes.size() - t.sizes().size();
  for (size_t d = 0; d < t.sizes().size(); ++d)
    if (t.sizes()[d] != 1) strides[skip + d] = t.strides()[d] * static_cast<int64_t>(itemSize(t.dtype()));
  return strides;
}

bool sameGeometry(const Tensor& a, const Tensor& b) {
  return std::equal(a.sizes().begin(), a.sizes().end(), b.sizes().begin(), b.sizes().end()) &&
         std::equal(a.strides().begin(), a.strides().end(), b.strides().begin());
}

}  // namespace

void copyTensor(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  requireElements(from);
  requireElements(to);
  bool same = to.raw() == from.raw() && itemSize(to.dtype()) == itemSize(from.dtype()) && sameGeometry(to, from);
  if (!same && boundsOverlap(to, from)) return copyTensor(to, cloneTensor(from));
  if (to.dtype() != from.dtype()) {
    // The integers of a quantised tensor mean nothing without its grid.
    if (isQuantized(to.dtype()) || isQuantized(from.dtype()))
      throw ExecutionError(ErrorKind::Unsupported,
                           fmt::format("{} cannot be copied to {}", pythonName(from.dtype()), pythonName(to.dtype())));
    Compute c = bridge(from.dtype(), to.dtype());
    Operand operands[] = {{to, c}, {from, c}};
    return loopTiles(to.sizes(), operands, 1, mover(c));
  }
  if (same) return;
  if (sameGeometry(to, from) && isNonOverlappingAndDense(to.sizes(), to.strides())) {
    std::memcpy(to.raw(), from.raw(), static_cast<size_t>(to.numel()) * itemSize(to.dtype()));
    return;
  }
  copyStrided(itemSize(to.dtype()), to.sizes(), to.raw(), byteStrides(to, to.sizes()), from.raw(),
              byteStrides(from, to.sizes()));
}

namespace {
// Copies `from`, and what its integers stand for if it is quantised.
Tensor filled(const Tensor& to, const Tensor& from) {
  copyTensor(to, from);
  if (const Quantization* q = from.storage()->quantization()) to.storage()->setQuantization(*q);
  return to;
}
}  // namespace

Tensor contiguous(const Tensor& t) { return t.isContiguous() ? t : filled(Tensor::empty(t.dtype(), t.sizes()), t); }

Tensor cloneTensor(const Tensor& t) { return filled(emptyLike(t, t.dtype()), t); }

Tensor convertTensor(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return contiguous(t);
  Tensor out = Tensor::empty(dtype, t.sizes());
  copyTensor(out, t);
  return out;
}

namespace {

// Whether elements that are read into the compute type of `to` are what they would be after a conversion to `to`.
bool keepsValues(DType from, DType to) {
  if (from == to || from == DType::Bool) return true;
  switch (to) {
    case DType::Float32:
    case DType::Float64:
    case DType::Int64:
    case DType::Complex128:
      return true;
    case DType::Complex64:
      return isFloating(from) && from != DType::Float64;
    case DType::Float16:
    case DType::BFloat16:
      return false;
    default:
      return itemSize(from) < itemSize(to);
  }
}

}  // namespace

Tensor convertedFor(const Tensor& t, DType dtype) {
  return keepsValues(t.dtype(), dtype) ? t : convertTensor(t, dtype);
}

Tensor scalarTensor(const IValue& v) {
  Tensor t;
  if (v.isInt()) {
    t = Tensor::empty(DType::Int64, {});
    *t.data<int64_t>() = v.toInt();
  } else if (v.isBool()) {
    t = Tensor::empty(DType::Bool, {});
    *t.data<bool>() = v.toBool();
  } else if (v.isComplex()) {
    t = Tensor::empty(DType::Complex128, {});
    *t.data<std::complex<double>>() = v.toComplex();
  } else if (v.isFloat()) {
    t = Tensor::empty(DType::Float64, {});
    *t.data<double>() = v.toFloat();
  } else {
    throw ExecutionError(ErrorKind::Model, "expected a number");
  }
  return t;
}

namespace {

// PyTorch's check of a number that becomes an element. Infinities and NaN fit floating types; an integer may wrap once
// around a type without negative elements.
bool fits(const IValue& number, DType dtype) {
  if (dtype == DType::Bool || number.isBool()) return true;
  if (number.isComplex() && !isComplex(dtype) && number.toComplex().imag() != 0) return false;
  double v = number.isComplex() ? number.toComplex().real() : number.toDouble();
  if (isFloating(realPart(dtype))) return !std::isfinite(v) || std::fabs(v) <= largestNumber(dtype);
  auto [least, most] = integerRange(dtype);
  if (number.isInt()) return number.toInt() <= most && number.toInt() >= (least == 0 ? -most : least);
  return v >= static_cast<double>(least) && v < static_cast<double>(most) + 1;  // what is behind the point is cut off
}

}  // namespace

Tensor elementOf(const IValue& number, DType dtype) {
  const Tensor scalar = scalarTensor(number);
  if (!fits(number, dtype)) refuseOverflow(dtype);
  Tensor element = Tensor::empty(dtype, {});
  copyTensor(element, scalar);
  return element;
}

IValue numberOf(const Tensor& t) {
  if (t.numel() != 1)
    throw ExecutionError(ErrorKind::Model,
                         "a tensor with " + std::to_string(t.numel()) + " elements cannot be converted to Scalar");
  if (isComplex(t.dtype())) return t.complex(0);
  if (isFloating(t.dtype()) || isSmallFloat(t.dtype())) return t.real(0);
  return t.dtype() == DType::Bool ? IValue(t.integer(0) != 0) : IValue(t.integer(0));
}

void fillTensor(const Tensor& t, const IValue& number) {
  // PyTorch writes a single half without asking whether it holds the number, which is infinite then.
  const bool isHalf = t.dtype() == DType::Float16 || t.dtype() == DType::BFloat16;
  const bool isChecked = t.numel() != 1 || !isHalf || (number.isComplex() && number.toComplex().imag() != 0);
  copyTensor(t, isChecked ? elementOf(number, t.dtype()) : scalarTensor(number));
}

}  // namespace tscompile
