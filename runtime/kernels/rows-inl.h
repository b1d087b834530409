// Row kernels that softmax, normalisation and attention share. Included once per instruction set.
#if defined(TSCOMPILE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TSCOMPILE_ROWS_INL_H_
#undef TSCOMPILE_ROWS_INL_H_
#else
#define TSCOMPILE_ROWS_INL_H_
#endif

#include "runtime/kernels/simd_math-inl.h"

#include <algorithm>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// sum of f(d, x) over a row, from four partial sums of vectors.
template <class F>
HWY_INLINE float sumOver(const float* row, int64_t count, F f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Add(a, f(d, hn::LoadU(d, row + i)));
    b = hn::Add(b, f(d, hn::LoadU(d, row + i + lanes)));
    c = hn::Add(c, f(d, hn::LoadU(d, row + i + 2 * lanes)));
    e = hn::Add(e, f(d, hn::LoadU(d, row + i + 3 * lanes)));
  }
  for (; i + lanes <= count; i += lanes) a = hn::Add(a, f(d, hn::LoadU(d, row + i)));
  if (i < count) {
    auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
    b = hn::Add(b, hn::IfThenElseZero(mask, f(d, hn::MaskedLoad(mask, d, row + i))));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

// out = f(d, in, index of the first lane) over a row.
template <class F>
HWY_INLINE void mapRow(const float* in, float* out, int64_t count, F f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(f(d, hn::LoadU(d, in + i), [&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); }), d, out + i);
  if (i < count) {
    auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
    auto load = [&](const float* p) HWY_ATTR { return hn::MaskedLoad(mask, d, p + i); };
    hn::BlendedStore(f(d, load(in), load), mask, d, out + i);
  }
}

// out = f(d, in) over a row, and the sum of that.
template <class F>
HWY_INLINE float mapAndSum(const float* in, float* out, int64_t count, F f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto x = f(d, hn::LoadU(d, in + i)), y = f(d, hn::LoadU(d, in + i + lanes));
    hn::StoreU(x, d, out + i);
    hn::StoreU(y, d, out + i + lanes);
    a = hn::Add(a, x);
    b = hn::Add(b, y);
  }
  for (; i < count; i += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, count - i)));
    const auto x = f(d, hn::MaskedLoad(mask, d, in + i));
    hn::BlendedStore(x, mask, d, out + i);
    a = hn::Add(a, hn::IfThenElseZero(mask, x));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
}

// The largest; what NaN does to it does not matter to softmax, whose sum is NaN then.
HWY_INLINE float maxOver(const float* row, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto low = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto a = low, b = low;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Max(a, hn::LoadU(d, row + i));
    b = hn::Max(b, hn::LoadU(d, row + i + lanes));
  }
  for (; i < count; i += lanes) {
    const auto some = hn::FirstN(d, static_cast<size_t>(std::min(lanes, count - i)));
    a = hn::Max(a, hn::IfThenElse(some, hn::MaskedLoad(some, d, row + i), low));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

// softmax of a row of kVectors vectors, the last of which may be a part of one: it stays in registers.
template <int kVectors>
HWY_INLINE void softmaxShort(const float* in, float* out, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), last = (kVectors - 1) * lanes;
  const auto there = hn::FirstN(d, static_cast<size_t>(count - last));
  const auto low = hn::Set(d, -std::numeric_limits<float>::infinity());
  hn::Vec<decltype(d)> x[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v + 1 < kVectors; ++v) x[v] = hn::LoadU(d, in + v * lanes);
  x[kVectors - 1] = hn::IfThenElse(there, hn::MaskedLoad(there, d, in + last), low);
  auto largest = x[0];
#pragma GCC unroll 4
  for (int v = 1; v < kVectors; ++v) largest = hn::Max(largest, x[v]);
  const auto shift = hn::MaxOfLanes(d, largest);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) x[v] = expOfNegative(d, hn::Sub(x[v], shift));
  x[kVectors - 1] = hn::IfThenElseZero(there, x[kVectors - 1]);
  auto sum = x[0];
#pragma GCC unroll 4
  for (int v = 1; v < kVectors; ++v) sum = hn::Add(sum, x[v]);
  const auto inverse = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, sum));
#pragma GCC unroll 4
  for (int v = 0; v + 1 < kVectors; ++v) hn::StoreU(hn::Mul(x[v], inverse), d, out + v * lanes);
  hn::BlendedStore(hn::Mul(x[kVectors - 1], inverse), there, d, out + last);
}

// softmax(row) in place or not; a row of -inf alone gives NaN, as PyTorch's.
HWY_INLINE void softmaxRow(const float* in, float* out, int64_t count) {
  switch (const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
          (count + lanes - 1) / lanes) {
    case 1:
      return softmaxShort<1>(in, out, count);
    case 2:
      return softmaxShort<2>(in, out, count);
    case 3:
      return softmaxShort<3>(in, out, count);
    case 4:
      return softmaxShort<4>(in, out, count);
    default:
      break;
  }
  const float largest = maxOver(in, count);
  const hn::ScalableTag<float> d0;
  const auto shift = hn::Set(d0, largest);
  // What is stored is not read again for the sum: a part of a vector would have to reach memory first.
  const float sum =
      mapAndSum(in, out, count, [&](auto d, auto x) HWY_ATTR { return expOfNegative(d, hn::Sub(x, shift)); });
  const auto inverse = hn::Set(d0, 1.0f / sum);
  mapRow(out, out, count, [&](auto, auto x, auto&&) HWY_ATTR { return hn::Mul(x, inverse); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#endif
