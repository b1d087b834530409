// Which instruction set the SIMD kernels run on. A kernel file is compiled once per set through Highway's
// foreach_target; TS_SIMD picks the copy for this machine.
#pragma once

#include <cstddef>

namespace tscompile {

// Channels of a block of an activation, columns of a panel of packed weights. The same on every instruction set, so
// packed weights and blocked tensors do not depend on it: one vector of AVX-512, two of AVX2.
inline constexpr int kBlock = 16;

// Amx: AVX-512 with the dot products of bf16 and bytes, and matrix tiles of both.
enum class SimdLevel { Base, Avx2, Avx512, Amx };

// The best of those compiled in that this machine has, or what a test has set.
SimdLevel simdLevel();
// For tests: no more than this from now on. Not while kernels run.
void limitSimdLevel(SimdLevel highest);
const char* simdLevelName(SimdLevel level);

// The copy of a kernel for the current level; a null copy was not compiled.
template <class Function>
Function* chooseKernel(Function* avx512, Function* avx2, Function* base) {
  SimdLevel level = simdLevel();
  if (level >= SimdLevel::Avx512 && avx512) return avx512;
  if (level != SimdLevel::Base && avx2) return avx2;
  return base;
}

// After HWY_ONCE, at the namespace that holds HWY_NAMESPACE.
#define TS_SIMD(function)                                                                     \
  ::tscompile::chooseKernel<std::remove_pointer_t<decltype(&HWY_STATIC_DISPATCH(function))>>( \
      HWY_CHOOSE_AVX3(function), HWY_CHOOSE_AVX2(function), &HWY_STATIC_DISPATCH(function))

}  // namespace tscompile
