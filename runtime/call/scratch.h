// Memory of a thread that kernels use within one chunk of work. It grows to the largest size asked for and stays.
#pragma once

#include <cstdint>

namespace tscompile {

// At least `floats` floats, aligned to 64 bytes; valid until the thread's next call.
float* threadScratch(int64_t floats);

}  // namespace tscompile
