// Loops over rows of floats of any length, a vector at a time. Included once per instruction set.
#if defined(TSCOMPILE_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TSCOMPILE_VECTORS_INL_H_
#undef TSCOMPILE_VECTORS_INL_H_
#else
#define TSCOMPILE_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// body(d, load, store) for each vector of `count` floats, the last one under a mask: load(p) is the part of a row,
// store(v, p) writes it.
template <class Body>
HWY_INLINE void overVectors(int64_t count, Body&& body) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    body(
        d, [&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); },
        [&](auto v, float* p) HWY_ATTR { hn::StoreU(v, d, p + i); });
  if (i == count) return;
  const auto some = hn::FirstN(d, static_cast<size_t>(count - i));
  body(
      d, [&](const float* p) HWY_ATTR { return hn::MaskedLoad(some, d, p + i); },
      [&](auto v, float* p) HWY_ATTR { hn::BlendedStore(v, some, d, p + i); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#endif
