#include "runtime/reference/copy.h"

#include <cstring>

#include "ir/error.h"
#include "runtime/reference/loop.h"

namespace tscompile {
namespace {

// A compute type that holds every value of both dtypes.
Compute bridge(DType from, DType to) {
  if (isComplex(from)) return Compute::C128;
  if (from == DType::Float64) return Compute::F64;
  if (isFloating(from)) return Compute::F32;
  if (from == DType::Bool && to == DType::Bool) return Compute::Bool;
  return Compute::I64;
}

template <class T>
void moveTile(const Tile& t) {
  std::memcpy(t.operand[0], t.operand[1], static_cast<size_t>(t.n) * sizeof(T));
}

TileFunction mover(Compute c) {
  switch (c) {
    case Compute::F32: return moveTile<float>;
    case Compute::F64: return moveTile<double>;
    case Compute::I64: return moveTile<int64_t>;
    case Compute::C128: return moveTile<std::complex<double>>;
    case Compute::Bool: return moveTile<bool>;
  }
  TS_UNREACHABLE();
}

// A tensor seen as one of unsigned integers of the same size, so that copies of equal dtypes move bits.
Tensor asBits(const Tensor& t, DType dtype) {
  return Tensor::view(dtype, t.storage(), t.sizes(), t.strides(), t.offset());
}

}  // namespace

void copyTensor(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  if (to.impl() == from.impl()) return;
  bool sameSizes = std::equal(to.sizes().begin(), to.sizes().end(), from.sizes().begin(), from.sizes().end());
  if (to.dtype() == from.dtype() && sameSizes && to.isContiguous() && from.isContiguous()) {
    std::memmove(to.raw(), from.raw(), static_cast<size_t>(to.numel()) * itemSize(to.dtype()));
    return;
  }
  if (to.dtype() == from.dtype()) {
    // Equal dtypes of up to 8 bytes move as integers.
    switch (itemSize(to.dtype())) {
      case 8:
        if (!isComplex(to.dtype())) {
          Operand operands[] = {{asBits(to, DType::Int64), Compute::I64}, {asBits(from, DType::Int64), Compute::I64}};
          return loopTiles(to.sizes(), operands, 1, moveTile<int64_t>);
        }
        break;
      case 4: {
        Operand operands[] = {{asBits(to, DType::Float32), Compute::F32}, {asBits(from, DType::Float32), Compute::F32}};
        return loopTiles(to.sizes(), operands, 1, moveTile<float>);
      }
      case 1: {
        Operand operands[] = {{asBits(to, DType::Bool), Compute::Bool}, {asBits(from, DType::Bool), Compute::Bool}};
        if (to.dtype() == DType::Bool) return loopTiles(to.sizes(), operands, 1, moveTile<bool>);
        break;
      }
      default: break;
    }
  }
  Compute c = bridge(from.dtype(), to.dtype());
  Operand operands[] = {{to, c}, {from, c}};
  loopTiles(to.sizes(), operands, 1, mover(c));
}

Tensor contiguous(const Tensor& t) {
  if (t.isContiguous()) return t;
  Tensor out = Tensor::empty(t.dtype(), t.sizes());
  copyTensor(out, t);
  return out;
}

Tensor cloneTensor(const Tensor& t) {
  Tensor out = isNonOverlappingAndDense(t.sizes(), t.strides()) ? Tensor::emptyStrided(t.dtype(), t.sizes(), t.strides())
                                                               : Tensor::empty(t.dtype(), t.sizes());
  if (t.numel() && std::equal(t.strides().begin(), t.strides().end(), out.strides().begin()) &&
      isNonOverlappingAndDense(t.sizes(), t.strides()))
    std::memcpy(out.raw(), t.raw(), static_cast<size_t>(t.numel()) * itemSize(t.dtype()));
  else
    copyTensor(out, t);
  return out;
}

Tensor convertTensor(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return contiguous(t);
  Tensor out = Tensor::empty(dtype, t.sizes());
  copyTensor(out, t);
  return out;
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

void fillTensor(const Tensor& t, const IValue& number) { copyTensor(t, scalarTensor(number)); }

bool memoryOverlaps(const Tensor& a, const Tensor& b) {
  if (a.storage() != b.storage() || a.numel() == 0 || b.numel() == 0) return false;
  auto bounds = [](const Tensor& t) {
    int64_t low = 0, high = 0;
    for (int d = 0; d < t.rank(); ++d) {
      int64_t reach = (t.size(d) - 1) * t.stride(d);
      (reach < 0 ? low : high) += reach;
    }
    auto item = static_cast<int64_t>(itemSize(t.dtype()));
    int64_t start = t.raw() - t.storage()->data();
    return std::pair(start + low * item, start + (high + 1) * item);
  };
  auto [a0, a1] = bounds(a);
  auto [b0, b1] = bounds(b);
  if (a1 <= b0 || b1 <= a0) return false;
  // Interleaved columns of one matrix do not meet; PyTorch answers "too hard" for them and lets them pass.
  return isNonOverlappingAndDense(a.sizes(), a.strides()) && isNonOverlappingAndDense(b.sizes(), b.strides());
}

}  // namespace tscompile
