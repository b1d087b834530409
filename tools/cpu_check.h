// Refuses machines that lack instructions which this build uses.
#pragma once

namespace tscompile {

// One bit for each instruction set extension that the compiler was allowed to use; constant data, no code.
extern "C" const unsigned tscompileBuiltFor;

enum CpuFeature : unsigned {
  kCpuSse42 = 1u << 0,
  kCpuPopcnt = 1u << 1,
  kCpuAvx = 1u << 2,
  kCpuAvx2 = 1u << 3,
  kCpuFma = 1u << 4,
  kCpuF16c = 1u << 5,
  kCpuBmi = 1u << 6,
  kCpuBmi2 = 1u << 7,
  kCpuLzcnt = 1u << 8,
  kCpuMovbe = 1u << 9,
  kCpuAvx512f = 1u << 10,
  kCpuAvx512vl = 1u << 11,
};

// What this machine has, as bits.
unsigned cpuFeatures();
// Writes the message for a machine that lacks `missing` into `buffer`; its length.
unsigned describeMissingCpuFeatures(unsigned missing, char* buffer, unsigned size);

}  // namespace tscompile
