// What operators take that move elements or convert them, and compute nothing: carried dtypes as well.
#pragma once

#include "ir/operators/op_def.h"

namespace tscompile {

inline constexpr DTypeSet kMovedTypes =
    kAllTypes | DTypeSet{DType::Float8E5M2,    DType::Float8E4M3FN, DType::Float8E5M2FNUZ, DType::Float8E4M3FNUZ,
                         DType::Float8E8M0FNU, DType::UInt16,       DType::UInt32,         DType::UInt64};

}  // namespace tscompile
