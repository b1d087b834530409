#include "runtime/kernels/simd.h"

#include "ir/support/cpu_features.h"

#include <atomic>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tscompile {
namespace {

// Matrix tiles are large, so that a process has to ask for them.
bool mayUseMatrixTiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kAskForState = 0x1023, kTileData = 18;
  return hasAmx() && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") &&
         syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
#else
  return false;
#endif
}

SimdLevel detect() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
    return mayUseMatrixTiles() ? SimdLevel::Amx : SimdLevel::Avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") && hasF16c())
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
  static const SimdLevel best = detect();
  current().store(highest < best ? highest : best);
}
const char* simdLevelName(SimdLevel level) {
  switch (level) {
    case SimdLevel::Amx:
      return "AVX-512 with matrix tiles";
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
