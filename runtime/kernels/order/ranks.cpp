#include "runtime/kernels/order/ranks.h"

#include "runtime/kernels/simd.h"

#include <limits>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/order/ranks.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// Of kRows elements how many of `count` come before each: of equal ones none.
template <bool kWithEqual, int kRows>
HWY_INLINE void countBefore(const int32_t* keys, int64_t begin, int64_t end, const hn::Vec<hn::ScalableTag<int32_t>>* x,
                            hn::Vec<hn::ScalableTag<int32_t>>* ranks) {
  const hn::ScalableTag<int32_t> d;
  const auto one = hn::Set(d, 1);
  for (int64_t j = begin; j < end; ++j) {
    const auto y = hn::Load(d, keys + j * kRankedLanes);
    for (int r = 0; r < kRows; ++r) {
      const auto more = hn::Add(ranks[r], one);
      ranks[r] = kWithEqual ? hn::IfThenElse(hn::Lt(x[r], y), ranks[r], more)
                            : hn::IfThenElse(hn::Lt(y, x[r]), more, ranks[r]);
    }
  }
}

// Of elements i, i + 1, .. of the lanes from `keys` on.
template <int kRows>
HWY_INLINE void rankRows(const int32_t* keys, int64_t count, int64_t i, int32_t* to) {
  const hn::ScalableTag<int32_t> d;
  hn::Vec<decltype(d)> x[kRows], ranks[kRows];
  for (int r = 0; r < kRows; ++r) x[r] = hn::Load(d, keys + (i + r) * kRankedLanes), ranks[r] = hn::Zero(d);
  countBefore<true, kRows>(keys, 0, i, x, ranks);
  countBefore<false, kRows>(keys, i + kRows, count, x, ranks);
  for (int r = 0; r < kRows; ++r) {
    countBefore<true, 1>(keys, i, i + r, x + r, ranks + r);
    countBefore<false, 1>(keys, i + r + 1, i + kRows, x + r, ranks + r);
    hn::StoreU(ranks[r], d, to + (i + r) * kRankedLanes);
  }
}

void rankKernel(bool isDescending, const float* columns, int64_t count, int32_t* ranks) {
  constexpr int kRows = 4;
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  HWY_ALIGN int32_t keys[kMostRanked * kRankedLanes];
  const auto most = hn::Set(di, std::numeric_limits<int32_t>::max());
  const auto turn = hn::Set(di, isDescending ? -1 : 0);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count * kRankedLanes; i += lanes) {
    const auto x = hn::Add(hn::LoadU(d, columns + i), hn::Zero(d));  // -0 becomes 0
    const auto bits = hn::BitCast(di, x);
    const hn::RebindToUnsigned<decltype(di)> du;
    const auto key = hn::Xor(bits, hn::BitCast(di, hn::ShiftRight<1>(hn::BitCast(du, hn::BroadcastSignBit(bits)))));
    hn::Store(hn::Xor(hn::IfThenElse(hn::RebindMask(di, hn::IsNaN(x)), most, key), turn), di, keys + i);
  }
  for (int64_t lane = 0; lane < kRankedLanes; lane += lanes) {
    int64_t i = 0;
    for (; i + kRows <= count; i += kRows) rankRows<kRows>(keys + lane, count, i, ranks + lane);
    for (; i < count; ++i) rankRows<1>(keys + lane, count, i, ranks + lane);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {

void rankColumns(bool isDescending, const float* columns, int64_t count, int32_t* ranks) {
  TS_SIMD(rankKernel)(isDescending, columns, count, ranks);
}

}  // namespace tscompile
#endif
