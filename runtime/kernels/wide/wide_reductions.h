// Sums, products, extremes and truth over one dimension of integers, bools and f64. Results do not depend on the number
// of threads.
#pragma once

#include "ir/values/dtype.h"

#include <cstdint>

namespace tscompile {

enum class WideReduction : uint8_t { Sum, Mean, Product, Max, Min, Any, All, Count, LogSumExp };

// [outer][count][inner] -> [outer][inner]. Sums of integers wrap, NaN wins over other extremes, any value but 0 is
// true.
using WideReducer = void (*)(int64_t outer, int64_t count, int64_t inner, const void* input, void* output, int threads);
// Null where there is none for these dtypes: sums and products of integers and bools are int64, counts are as well, any
// and all are bool, all others have the dtype of the input. There is none for LogSumExp.
WideReducer wideReducer(WideReduction kind, DType input, DType output);

}  // namespace tscompile
