#include "runtime/kernels/complex_product.h"

#include "runtime/kernels/simd.h"

#include <algorithm>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/complex_product.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;
using Vec = hn::Vec<Floats>;

// The real and the imaginary parts of neighbours, each twice.
struct Numbers {
  Vec re, im;
};

// Reads `some` pairs from number `i` on.
template <bool kComplex, bool kMoves>
HWY_INLINE Numbers read(const float* from, int64_t i, size_t some) {
  const Floats d;
  if constexpr (!kMoves) return {hn::Set(d, from[0]), hn::Set(d, kComplex ? from[1] : 0)};
  if constexpr (kComplex) {
    const Vec pairs = hn::MaskedLoad(hn::FirstN(d, 2 * some), d, from + 2 * i);
    return {hn::DupEven(pairs), hn::DupOdd(pairs)};
  }
  const hn::RebindToUnsigned<Floats> du;
  const auto twice = hn::ShiftRight<1>(hn::Iota(du, 0));
  return {hn::TableLookupLanes(hn::MaskedLoad(hn::FirstN(d, some), d, from + i), hn::IndicesFromVec(d, twice)),
          hn::Zero(d)};
}

HWY_INLINE Vec product(const Numbers& a, const Numbers& b) {
  const Vec turned = hn::OddEven(b.re, hn::Neg(b.im)), pairs = hn::OddEven(b.im, b.re);
  return hn::Add(hn::Mul(a.re, pairs), hn::Mul(a.im, turned));
}
// By Smith's way of dividing: the divisor's imaginary part, 0, counts where it is infinite or NaN; each part is divided
// by a divisor of 0.
HWY_INLINE Vec quotient(const Numbers& a, const Numbers& b) {
  const Floats d;
  const Vec ratio = hn::Div(hn::Zero(d), b.re), pairs = hn::OddEven(a.im, a.re);
  const Vec turned = hn::OddEven(hn::Neg(a.re), a.im);
  const auto isZero = hn::Eq(b.re, hn::Zero(d));
  const Vec dividend = hn::IfThenElse(isZero, pairs, hn::Add(pairs, hn::Mul(turned, ratio)));
  return hn::Div(dividend, hn::IfThenElse(isZero, hn::Abs(b.re), b.re));
}

template <bool kDivide, bool kComplexA, bool kMovesA, bool kComplexB, bool kMovesB>
void rowsOf(const float* a, const float* b, int64_t count, float* out) {
  const Floats d;
  const auto pairs = static_cast<int64_t>(hn::Lanes(d) / 2);
  for (int64_t i = 0; i < count; i += pairs) {
    const auto some = static_cast<size_t>(std::min(pairs, count - i));
    const Numbers x = read<kComplexA, kMovesA>(a, i, some), y = read<kComplexB, kMovesB>(b, i, some);
    hn::BlendedStore(kDivide ? quotient(x, y) : product(x, y), hn::FirstN(d, 2 * some), d, out + 2 * i);
  }
}

template <bool kDivide, bool kComplexA, bool kMovesA>
void rowsBy(const ComplexRow& a, const ComplexRow& b, int64_t count, float* out) {
  if constexpr (!kDivide)
    if (b.isComplex)
      return b.moves ? rowsOf<kDivide, kComplexA, kMovesA, true, true>(a.data, b.data, count, out)
                     : rowsOf<kDivide, kComplexA, kMovesA, true, false>(a.data, b.data, count, out);
  b.moves ? rowsOf<kDivide, kComplexA, kMovesA, false, true>(a.data, b.data, count, out)
          : rowsOf<kDivide, kComplexA, kMovesA, false, false>(a.data, b.data, count, out);
}

template <bool kDivide>
void complexKernel(const ComplexRow& a, const ComplexRow& b, int64_t count, float* out) {
  if (a.isComplex)
    a.moves ? rowsBy<kDivide, true, true>(a, b, count, out) : rowsBy<kDivide, true, false>(a, b, count, out);
  else
    a.moves ? rowsBy<kDivide, false, true>(a, b, count, out) : rowsBy<kDivide, false, false>(a, b, count, out);
}

void productsKernel(const ComplexRow& a, const ComplexRow& b, int64_t count, float* out) {
  complexKernel<false>(a, b, count, out);
}
void quotientsKernel(const ComplexRow& a, const ComplexRow& b, int64_t count, float* out) {
  complexKernel<true>(a, b, count, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {

void complexProducts(const ComplexRow& a, const ComplexRow& b, int64_t count, float* out) {
  TS_SIMD(productsKernel)(a, b, count, out);
}

void complexQuotients(const ComplexRow& a, const ComplexRow& b, int64_t count, float* out) {
  TS_SIMD(quotientsKernel)(a, b, count, out);
}

}  // namespace tscompile
#endif
