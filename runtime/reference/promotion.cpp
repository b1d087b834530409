#include "runtime/reference/promotion.h"

namespace tscompile {
namespace {

DType promoteOrTake(DType a, DType b) {
  if (a == DType::Undefined) return b;
  if (b == DType::Undefined) return a;
  return promoteTypes(a, b);
}

// What `lower` adds to `higher`: only a higher category counts.
DType combine(DType higher, DType lower) {
  if (isComplex(higher)) return higher;
  if (isFloating(higher)) return isComplex(lower) ? complexOf(higher) : higher;
  if (higher == DType::Bool || isFloating(lower) || isComplex(lower)) return promoteOrTake(higher, lower);
  return higher != DType::Undefined ? higher : lower;
}

}  // namespace

void ResultType::add(const TensorInfo& t) {
  if (t.dtype == DType::Undefined) throw InferCall::NotKnown{};
  if (!t.hasRank) {
    // Whether it has dimensions matters only if the dtypes differ.
    if ((withDims_ != DType::Undefined && withDims_ != t.dtype) || withoutDims_ != DType::Undefined) throw InferCall::NotKnown{};
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

DType ResultType::get() const { return combine(withDims_, combine(withoutDims_, numbers_)); }

}  // namespace tscompile
