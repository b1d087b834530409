// Features of x86 processors that __builtin_cpu_supports() has no names for before clang 17: from CPUID.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>

namespace tscompile {

// Static: sources that include this are compiled for different processors.
static inline bool hasCpuidBits(unsigned leaf, unsigned ecxBits, unsigned edxBits) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(leaf, 0, &eax, &ebx, &ecx, &edx) && (ecx & ecxBits) == ecxBits && (edx & edxBits) == edxBits;
}
static inline bool hasF16c() { return hasCpuidBits(1, 1U << 29, 0); }
static inline bool hasMovbe() { return hasCpuidBits(1, 1U << 22, 0); }
static inline bool hasLzcnt() { return hasCpuidBits(0x80000001, 1U << 5, 0); }
// AMX-BF16, AMX-TILE and AMX-INT8.
static inline bool hasAmx() { return hasCpuidBits(7, 0, 1U << 22 | 1U << 24 | 1U << 25); }

}  // namespace tscompile
#endif
