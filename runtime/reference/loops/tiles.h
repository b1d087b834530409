// Elements of any storage dtype, as runs of a few compute types: operators are instantiated for these only.
#pragma once

#include "ir/values/dtype.h"

#include <complex>
#include <cstdint>

namespace tscompile {

// The C++ types that operators compute in. Bool is a byte that is 0 or 1.
enum class Compute : uint8_t { F32, F64, I64, C128, Bool };
template <class T>
inline constexpr Compute kComputeOf = Compute::I64;
template <>
inline constexpr Compute kComputeOf<float> = Compute::F32;
template <>
inline constexpr Compute kComputeOf<double> = Compute::F64;
template <>
inline constexpr Compute kComputeOf<std::complex<double>> = Compute::C128;
template <>
inline constexpr Compute kComputeOf<bool> = Compute::Bool;

// float for float32 and the 16-bit types, int64 for integers, double, complex<double>; bool counts as an integer.
Compute computeTypeOf(DType dtype);
size_t computeSize(Compute c);
// Whether elements of this dtype are of the compute type already, so that a contiguous run needs no conversion.
bool isStoredAs(DType dtype, Compute c);

// Elements that are converted at a time: a few operands of this length stay in the first-level cache.
inline constexpr int64_t kTile = 512;

// Reads `n` elements that lie `stride` bytes apart into a run of the compute type. Integers become floats by rounding;
// anything becomes Bool by comparing with zero.
using LoadTile = void (*)(const std::byte* from, int64_t stride, void* to, int64_t n);
LoadTile tileLoader(DType from, Compute to);
// The other way: floats become 16-bit floats by rounding to nearest, integers wrap, numbers become bool by comparing
// with zero. Floats that do not fit an integer type give what PyTorch's vector code gives on x86-64.
using StoreTile = void (*)(const void* from, std::byte* to, int64_t stride, int64_t n);
StoreTile tileStorer(Compute from, DType to);

}  // namespace tscompile
