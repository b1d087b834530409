// Elements that are moved without regard to what they mean: as unsigned integers of their size.
#pragma once

#include "ir/values/dtype.h"

#include <cstdint>

namespace tscompile {

struct Bits128 {
  uint64_t low, high;
};

// Calls f.operator()<Bits>() with the type that has the size of an element of `dtype`.
template <class F>
auto withItemBits(DType dtype, F&& f) {
  switch (itemSize(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    default:
      return f.template operator()<Bits128>();
  }
}

}  // namespace tscompile
