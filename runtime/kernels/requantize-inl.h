// Rounding of sums to the integers of a quantised tensor, a vector at a time. Included once per instruction set.
#if defined(TSCOMPILE_REQUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TSCOMPILE_REQUANTIZE_INL_H_
#undef TSCOMPILE_REQUANTIZE_INL_H_
#else
#define TSCOMPILE_REQUANTIZE_INL_H_
#endif

#include "runtime/kernels/requantize.h"
#include "runtime/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE V rounded(D d, V x, StepRange range) {
  const V least = hn::Set(d, range.least);
  const V step = hn::Min(hn::Max(hn::Round(x), least), hn::Set(d, range.most));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, 0x1p63f)), step, least);
}

// Rows that lie `distance` floats apart, with a factor for each column.
HWY_INLINE void requantizeTile(float* x, int64_t distance, int64_t rows, int64_t columns, const float* factors,
                               StepRange range) {
  for (int64_t r = 0; r < rows; ++r, x += distance)
    overVectors(columns, [&](auto d, auto load, auto store)
                             HWY_ATTR { store(rounded(d, hn::Mul(load(x), load(factors)), range), x); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#endif
