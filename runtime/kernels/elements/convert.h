// Elements of one dtype as another one, side by side.
#pragma once

#include "ir/values/dtype.h"

#include <cstddef>
#include <cstdint>

namespace tscompile {

using ElementConversion = void (*)(const std::byte* from, std::byte* to, int64_t count);

// What converts `from` to `to` as PyTorch does (convert_element.h); null if either is complex or quantized.
ElementConversion elementConversion(DType from, DType to);

}  // namespace tscompile
