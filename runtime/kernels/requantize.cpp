#include "runtime/kernels/requantize.h"

#include "runtime/kernels/simd.h"

#include <cmath>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/requantize.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/requantize-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

void requantizeRun(const float* x, int64_t count, float factor, StepRange range, float* y) {
  overVectors(count, [&](auto d, auto load, auto store)
                         HWY_ATTR { store(rounded(d, hn::Mul(load(x), hn::Set(d, factor)), range), y); });
}

void requantizeRows(const float* x, int64_t rows, int64_t columns, const float* factors, StepRange range, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns)
    overVectors(columns, [&](auto d, auto load, auto store)
                             HWY_ATTR { store(rounded(d, hn::Mul(load(x), load(factors)), range), y); });
}

void extremesRun(const float* x, int64_t count, StepRange& range) {
  const hn::ScalableTag<float> d;
  auto least = hn::Set(d, x[0]), most = least, unordered = hn::Zero(d);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto take = [&](auto v) HWY_ATTR {
    least = hn::Min(least, v);
    most = hn::Max(most, v);
    unordered = hn::Or(unordered, hn::VecFromMask(d, hn::IsNaN(v)));
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) take(hn::LoadU(d, x + i));
  for (; i < count; ++i) take(hn::Set(d, x[i]));
  const bool isNan = !hn::AllFalse(d, hn::IsNaN(unordered));
  range = isNan ? StepRange{NAN, NAN}
                : StepRange{hn::GetLane(hn::MinOfLanes(d, least)), hn::GetLane(hn::MaxOfLanes(d, most))};
}

// The sum over 2^shift, rounded.
template <class D, class V>
HWY_INLINE V shifted(D d, const FixedPointSum& f, V sum) {
  if (f.roundsUp) return hn::ShiftRightSame(hn::Add(sum, hn::Set(d, 1 << (f.shift - 1))), f.shift);
  const int32_t mask = (1 << f.shift) - 1;
  // A mask of a vector is -1 where it is true.
  const V negative = hn::VecFromMask(d, hn::Lt(sum, hn::Zero(d)));
  const V rest = hn::Add(hn::And(sum, hn::Set(d, mask)), negative);
  const V more = hn::VecFromMask(d, hn::Gt(rest, hn::Set(d, mask >> 1)));
  return hn::Sub(hn::ShiftRightSame(sum, f.shift), more);
}

void addRun(const FixedPointSum& f, const float* x, const float* y, int64_t count, StepRange range, float* out) {
  overVectors(count, [&](auto d, auto load, auto store) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const auto sum = hn::Add(hn::Mul(hn::ConvertTo(di, load(x)), hn::Set(di, f.a)),
                             hn::Mul(hn::ConvertTo(di, load(y)), hn::Set(di, f.b)));
    const auto step = hn::ConvertTo(d, shifted(di, f, sum));
    store(hn::Min(hn::Max(step, hn::Set(d, range.least)), hn::Set(d, range.most)), out);
  });
}

void lookUpRun(const float* table, StepRange range, const float* x, int64_t count, float* y) {
  overVectors(count, [&](auto d, auto load, auto store) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const auto least = hn::Set(d, range.least);
    const auto bounded = hn::Min(hn::Max(load(x), least), hn::Set(d, range.most));
    store(hn::GatherIndex(d, table, hn::ConvertTo(di, hn::Sub(bounded, least))), y);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {

void requantize(const float* x, int64_t count, float factor, StepRange range, float* y) {
  TS_SIMD(requantizeRun)(x, count, factor, range, y);
}
void requantizeColumns(const float* x, int64_t rows, int64_t columns, const float* factors, StepRange range, float* y) {
  TS_SIMD(requantizeRows)(x, rows, columns, factors, range, y);
}
StepRange extremes(const float* x, int64_t count) {
  StepRange range{};
  TS_SIMD(extremesRun)(x, count, range);
  return range;
}
void addSteps(const FixedPointSum& sum, const float* x, const float* y, int64_t count, StepRange range, float* out) {
  TS_SIMD(addRun)(sum, x, y, count, range, out);
}
void lookUpSteps(const float* table, StepRange range, const float* x, int64_t count, float* y) {
  TS_SIMD(lookUpRun)(table, range, x, count, y);
}

}  // namespace tscompile
#endif
