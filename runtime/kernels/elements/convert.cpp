#include "runtime/kernels/elements/convert.h"

#include "runtime/kernels/elements/convert_element.h"
#include "runtime/kernels/pointwise_ops.h"
#include "runtime/kernels/simd.h"

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/elements/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// A loop that the compiler makes vectors of.
template <class From, class To>
void convertLoop(const std::byte* from, std::byte* to, int64_t count) {
  const auto* source = reinterpret_cast<const From*>(from);
  auto* target = reinterpret_cast<To*>(to);
  for (int64_t i = 0; i < count; ++i) target[i] = convertElement<To>(source[i]);
}

template <class F>
void visitCommon(DType type, F f) {
  switch (type) {
    case DType::Bool:
      return f(bool{});
    case DType::UInt8:
      return f(uint8_t{});
    case DType::Int32:
      return f(int32_t{});
    case DType::Int64:
      return f(int64_t{});
    case DType::Float32:
      return f(float{});
    case DType::Float64:
      return f(double{});
    default:
      return;
  }
}
// Between the dtypes that models convert most; null for others.
ElementConversion commonConversion(DType from, DType to) {
  ElementConversion function = nullptr;
  visitCommon(from, [&]<class From>(From) {
    visitCommon(to, [&]<class To>(To) {
      if constexpr (!std::is_same_v<From, To>) function = convertLoop<From, To>;
    });
  });
  return function;
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

template <DType kFrom>
void toFloats(const std::byte* from, std::byte* to, int64_t count) {
  loadPointwise(kFrom, from, count, reinterpret_cast<float*>(to));
}
template <DType kTo>
void fromFloats(const std::byte* from, std::byte* to, int64_t count) {
  storePointwise(kTo, reinterpret_cast<const float*>(from), count, to);
}

}  // namespace

ElementConversion elementConversion(DType from, DType to) {
  if (to == DType::Float32 && from == DType::BFloat16) return toFloats<DType::BFloat16>;
  if (to == DType::Float32 && from == DType::Float16) return toFloats<DType::Float16>;
  if (from == DType::Float32 && to == DType::BFloat16) return fromFloats<DType::BFloat16>;
  if (from == DType::Float32 && to == DType::Float16) return fromFloats<DType::Float16>;
  ElementConversion function = TS_SIMD(commonConversion)(from, to);
  if (function) return function;
  visitDType(from, [&]<class From>(From) {
    visitDType(to, [&]<class To>(To) {
      if constexpr (!kIsComplex<From> && !kIsComplex<To>) function = HWY_NAMESPACE::convertLoop<From, To>;
    });
  });
  return function;
}

}  // namespace tscompile
#endif
