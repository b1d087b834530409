#include "runtime/kernels/simd.h"

#include <atomic>

namespace tscompile {
namespace {

SimdLevel detect() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
    return SimdLevel::Avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
      __builtin_cpu_supports("f16c"))
    return SimdLevel::Avx2;
#endif
  return SimdLevel::Base;
}

std::atomic<SimdLevel>& current() {
  static std::atomic<SimdLevel> level{detect()};
  return level;
}

}  // namespace

SimdLevel simdLevel() { return current().load(std::memory_order_relaxed); }
void limitSimdLevel(SimdLevel highest) {
  SimdLevel best = detect();
  current().store(highest < best ? highest : best);
}
const char* simdLevelName(SimdLevel level) {
  switch (level) {
    case SimdLevel::Avx512:
      return "AVX-512";
    case SimdLevel::Avx2:
      return "AVX2";
    case SimdLevel::Base:
      break;
  }
  return "baseline";
}

}  // namespace tscompile
