#include "runtime/kernels/sampling/taps.h"

#include "runtime/kernels/simd.h"

#include <algorithm>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/sampling/taps.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

void tapsKernel(const float* plane, const int32_t* index, const float* weights, int64_t stride, int taps, int64_t count,
                float* out) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    const size_t some = static_cast<size_t>(std::min(lanes, count - i));
    const auto wanted = hn::FirstN(d, some);
    auto sum = hn::Zero(d);
    for (int t = 0; t < taps; ++t) {
      const auto at = hn::MaskedLoad(hn::FirstN(di, some), di, index + t * stride + i);
      const auto inside = hn::RebindMask(d, hn::Gt(at, hn::Set(di, kNoTap)));
      const auto from = hn::GatherIndex(d, plane, hn::Max(at, hn::Zero(di)));
      const auto part = hn::Mul(hn::IfThenElseZero(inside, from), hn::MaskedLoad(wanted, d, weights + t * stride + i));
      sum = t == 0 ? part : hn::Add(sum, part);
    }
    hn::BlendedStore(sum, wanted, d, out + i);
  }
}

void blockTapsKernel(const float* block, const int32_t* index, const float* weights, int64_t stride, int taps,
                     int64_t count, float* out) {
  const hn::CappedTag<float, kBlock> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; ++i, out += kBlock)
    for (int64_t lane = 0; lane < kBlock; lane += lanes) {
      auto sum = hn::Zero(d);
      for (int t = 0; t < taps; ++t) {
        const int32_t at = index[t * stride + i];
        const auto from = at == kNoTap ? hn::Zero(d) : hn::LoadU(d, block + int64_t{at} * kBlock + lane);
        const auto part = hn::Mul(from, hn::Set(d, weights[t * stride + i]));
        sum = t == 0 ? part : hn::Add(sum, part);
      }
      hn::StoreU(sum, d, out + lane);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {

void sumTaps(const float* plane, const int32_t* index, const float* weights, int64_t stride, int taps, int64_t count,
             float* out) {
  TS_SIMD(tapsKernel)(plane, index, weights, stride, taps, count, out);
}

void sumTapsOfBlock(const float* block, const int32_t* index, const float* weights, int64_t stride, int taps,
                    int64_t count, float* out) {
  TS_SIMD(blockTapsKernel)(block, index, weights, stride, taps, count, out);
}

}  // namespace tscompile
#endif
