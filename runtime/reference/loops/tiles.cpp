#include "runtime/reference/loops/tiles.h"

#include "ir/support/check.h"
#include "runtime/kernels/elements/convert_element.h"

#include <cstring>
#include <type_traits>

namespace tscompile {
namespace {

using C128 = std::complex<double>;

template <class From, class To>
void load(const std::byte* from, int64_t stride, void* to, int64_t n) {
  To* out = static_cast<To*>(to);
  if (stride == static_cast<int64_t>(sizeof(From))) {
    const From* in = reinterpret_cast<const From*>(from);
    if constexpr (std::is_same_v<From, To>)
      std::memcpy(static_cast<void*>(out), in, static_cast<size_t>(n) * sizeof(To));
    else
      for (int64_t i = 0; i < n; ++i) out[i] = convertElement<To>(in[i]);
  } else if (stride == 0) {
    To v = convertElement<To>(*reinterpret_cast<const From*>(from));
    for (int64_t i = 0; i < n; ++i) out[i] = v;
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = convertElement<To>(*reinterpret_cast<const From*>(from + i * stride));
  }
}

template <class From, class To>
void store(const void* from, std::byte* to, int64_t stride, int64_t n) {
  const From* in = static_cast<const From*>(from);
  if (stride == static_cast<int64_t>(sizeof(To))) {
    To* out = reinterpret_cast<To*>(to);
    if constexpr (std::is_same_v<From, To>)
      std::memcpy(static_cast<void*>(out), in, static_cast<size_t>(n) * sizeof(To));
    else
      for (int64_t i = 0; i < n; ++i) out[i] = convertElement<To>(in[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) *reinterpret_cast<To*>(to + i * stride) = convertElement<To>(in[i]);
  }
}

template <class F>
void visitCompute(Compute c, F&& f) {
  switch (c) {
    case Compute::F32:
      return f(float{});
    case Compute::F64:
      return f(double{});
    case Compute::I64:
      return f(int64_t{});
    case Compute::C128:
      return f(C128{});
    case Compute::Bool:
      return f(bool{});
  }
}

}  // namespace

Compute computeTypeOf(DType dtype) {
  switch (dtype) {
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32:
      return Compute::F32;
    case DType::Float64:
      return Compute::F64;
    case DType::Complex64:
    case DType::Complex128:
      return Compute::C128;
    default:
      return isSmallFloat(dtype) ? Compute::F32 : Compute::I64;
  }
}

size_t computeSize(Compute c) {
  size_t size = 0;
  visitCompute(c, [&](auto sample) { size = sizeof(sample); });
  return size;
}

bool isStoredAs(DType dtype, Compute c) {
  switch (c) {
    case Compute::F32:
      return dtype == DType::Float32;
    case Compute::F64:
      return dtype == DType::Float64;
    case Compute::I64:
      return dtype == DType::Int64;
    case Compute::C128:
      return dtype == DType::Complex128;
    case Compute::Bool:
      return dtype == DType::Bool;
  }
  return false;
}

LoadTile tileLoader(DType from, Compute to) {
  LoadTile f = nullptr;
  visitCompute(to, [&](auto c) { visitStoredDType(from, [&](auto d) { f = load<decltype(d), decltype(c)>; }); });
  TS_CHECK(f);
  return f;
}

StoreTile tileStorer(Compute from, DType to) {
  StoreTile f = nullptr;
  visitCompute(from, [&](auto c) { visitStoredDType(to, [&](auto d) { f = store<decltype(c), decltype(d)>; }); });
  TS_CHECK(f);
  return f;
}

}  // namespace tscompile
