// Compiled for the oldest x86-64, and run before every other initialisation: nothing else of the program may execute
// before it. So it uses no headers with code that others share.
#include "tools/cpu_check.h"

#include "ir/support/cpu_features.h"

#include <unistd.h>

namespace tscompile {
namespace {

struct Name {
  unsigned bit;
  const char* name;
};
constexpr Name kNames[] = {{kCpuSse42, "SSE4.2"}, {kCpuPopcnt, "POPCNT"},    {kCpuAvx, "AVX"},
                           {kCpuAvx2, "AVX2"},    {kCpuFma, "FMA"},          {kCpuF16c, "F16C"},
                           {kCpuBmi, "BMI1"},     {kCpuBmi2, "BMI2"},        {kCpuLzcnt, "LZCNT"},
                           {kCpuMovbe, "MOVBE"},  {kCpuAvx512f, "AVX-512F"}, {kCpuAvx512vl, "AVX-512VL"}};

struct Text {
  char* at;
  char* end;
  void add(const char* text) {
    while (*text && at < end) *at++ = *text++;
  }
};

}  // namespace

unsigned cpuFeatures() {
  unsigned bits = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2")) bits |= kCpuSse42;
  if (__builtin_cpu_supports("popcnt")) bits |= kCpuPopcnt;
  if (__builtin_cpu_supports("avx")) bits |= kCpuAvx;
  if (__builtin_cpu_supports("avx2")) bits |= kCpuAvx2;
  if (__builtin_cpu_supports("fma")) bits |= kCpuFma;
  if (hasF16c()) bits |= kCpuF16c;
  if (__builtin_cpu_supports("bmi")) bits |= kCpuBmi;
  if (__builtin_cpu_supports("bmi2")) bits |= kCpuBmi2;
  if (hasLzcnt()) bits |= kCpuLzcnt;
  if (hasMovbe()) bits |= kCpuMovbe;
  if (__builtin_cpu_supports("avx512f")) bits |= kCpuAvx512f;
  if (__builtin_cpu_supports("avx512vl")) bits |= kCpuAvx512vl;
#endif
  return bits;
}

unsigned describeMissingCpuFeatures(unsigned missing, char* buffer, unsigned size) {
  Text text{buffer, buffer + size};
  text.add("tscompile: error: this processor lacks ");
  bool first = true;
  for (const Name& n : kNames) {
    if (!(missing & n.bit)) continue;
    if (!first) text.add(", ");
    text.add(n.name);
    first = false;
  }
  text.add(
      ", which this build uses\nnote: build for older machines with cmake -DTSCOMPILE_ARCH=x86-64-v2, or x86-64\n");
  return static_cast<unsigned>(text.at - buffer);
}

namespace {

// 101 is the first priority that programs may use: before all other constructors.
__attribute__((constructor(101))) void checkCpu() {
  unsigned missing = tscompileBuiltFor & ~cpuFeatures();
  if (!missing) return;
  char buffer[512];
  ssize_t ignored = write(STDERR_FILENO, buffer, describeMissingCpuFeatures(missing, buffer, sizeof buffer));
  static_cast<void>(ignored);
  _exit(7);  // as for engine files of another processor
}

}  // namespace
}  // namespace tscompile
