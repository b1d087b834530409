// What the compiler was allowed to use, as data: compiled with the flags of the whole build.
#include "tools/cpu_check.h"

extern "C" const unsigned tscompileBuiltFor = 0
#ifdef __SSE4_2__
                                              | tscompile::kCpuSse42
#endif
#ifdef __POPCNT__
                                              | tscompile::kCpuPopcnt
#endif
#ifdef __AVX__
                                              | tscompile::kCpuAvx
#endif
#ifdef __AVX2__
                                              | tscompile::kCpuAvx2
#endif
#ifdef __FMA__
                                              | tscompile::kCpuFma
#endif
#ifdef __F16C__
                                              | tscompile::kCpuF16c
#endif
#ifdef __BMI__
                                              | tscompile::kCpuBmi
#endif
#ifdef __BMI2__
                                              | tscompile::kCpuBmi2
#endif
#ifdef __LZCNT__
                                              | tscompile::kCpuLzcnt
#endif
#ifdef __MOVBE__
                                              | tscompile::kCpuMovbe
#endif
#ifdef __AVX512F__
                                              | tscompile::kCpuAvx512f
#endif
#ifdef __AVX512VL__
                                              | tscompile::kCpuAvx512vl
#endif
    ;
