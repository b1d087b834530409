#include "runtime/kernels/fourier.h"

#include "runtime/kernels/simd.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/fourier.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/rows-inl.h"
#include "runtime/kernels/transpose-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

using Tag = hn::CappedTag<float, kFourierLines>;
using V = hn::Vec<Tag>;

struct C {
  V re, im;
};
HWY_INLINE C operator+(C a, C b) { return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)}; }
HWY_INLINE C operator-(C a, C b) { return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)}; }
HWY_INLINE C times(C a, float s) {
  const auto v = hn::Set(Tag(), s);
  return {hn::Mul(a.re, v), hn::Mul(a.im, v)};
}
HWY_INLINE C times(C a, float re, float im) {
  const auto r = hn::Set(Tag(), re), i = hn::Set(Tag(), im);
  return {hn::MulSub(a.re, r, hn::Mul(a.im, i)), hn::MulAdd(a.re, i, hn::Mul(a.im, r))};
}
// a * i * sign
HWY_INLINE C turned(C a, float sign) {
  const auto v = hn::Set(Tag(), sign);
  return {hn::Mul(hn::Neg(a.im), v), hn::Mul(a.re, v)};
}

// Buffers of complex elements, [..][lanes].
struct Elements {
  float *re, *im;
  HWY_INLINE C load(int64_t at) const { return {hn::LoadU(Tag(), re + at), hn::LoadU(Tag(), im + at)}; }
  HWY_INLINE void store(C c, int64_t at) const {
    hn::StoreU(c.re, Tag(), re + at);
    hn::StoreU(c.im, Tag(), im + at);
  }
};

HWY_INLINE void transform2(C* a, float) {
  const C d = a[0] - a[1];
  a[0] = a[0] + a[1];
  a[1] = d;
}
HWY_INLINE void transform3(C* a, float sign) {
  constexpr float kSine = 0.86602540378443864676f;
  const C sum = a[1] + a[2], turn = times(turned(a[1] - a[2], sign), kSine), middle = a[0] - times(sum, 0.5f);
  a[0] = a[0] + sum;
  a[1] = middle + turn;
  a[2] = middle - turn;
}
HWY_INLINE void transform4(C* a, float sign) {
  const C s = a[0] + a[2], d = a[0] - a[2], t = a[1] + a[3], u = turned(a[1] - a[3], sign);
  a[0] = s + t;
  a[1] = d + u;
  a[2] = s - t;
  a[3] = d - u;
}
HWY_INLINE void transform5(C* a, float sign) {
  constexpr float kCos1 = 0.30901699437494742410f, kCos2 = -0.80901699437494742410f;
  constexpr float kSin1 = 0.95105651629515357212f, kSin2 = 0.58778525229247312917f;
  const C s1 = a[1] + a[4], s2 = a[2] + a[3], d1 = turned(a[1] - a[4], sign), d2 = turned(a[2] - a[3], sign);
  const C m1 = a[0] + times(s1, kCos1) + times(s2, kCos2), m2 = a[0] + times(s1, kCos2) + times(s2, kCos1);
  const C t1 = times(d1, kSin1) + times(d2, kSin2), t2 = times(d1, kSin2) - times(d2, kSin1);
  a[0] = a[0] + s1 + s2;
  a[1] = m1 + t1;
  a[4] = m1 - t1;
  a[2] = m2 + t2;
  a[3] = m2 - t2;
}

// Those at even and at odd places, which are turned by eighths of a circle.
HWY_INLINE void transform8(C* a, float sign) {
  constexpr float kHalfRoot = 0.70710678118654752440f;
  C even[] = {a[0], a[2], a[4], a[6]}, odd[] = {a[1], a[3], a[5], a[7]};
  transform4(even, sign);
  transform4(odd, sign);
  odd[1] = times(odd[1] + turned(odd[1], sign), kHalfRoot);
  odd[2] = turned(odd[2], sign);
  odd[3] = times(turned(odd[3], sign) - odd[3], kHalfRoot);
  for (int j = 0; j < 4; ++j) {
    a[j] = even[j] + odd[j];
    a[j + 4] = even[j] - odd[j];
  }
}

// kRadix 0: that of the pass, up to kLargestRadix.
template <int kRadix, class F>
HWY_INLINE void runPass(Elements in, Elements out, const FourierPlan::Pass& p, const float* cosines, const float* sines,
                        int64_t lane, F&& transform) {
  const int64_t radix = kRadix ? kRadix : p.radix;
  for (int64_t k = 0; k < p.before; ++k)
    for (int64_t i = 0; i < p.after; ++i) {
      C a[kRadix ? kRadix : kLargestRadix];
      auto load = [&](int64_t m) HWY_ATTR { return in.load((i + p.after * (m + radix * k)) * kFourierLines + lane); };
      a[0] = load(0);
      for (int64_t m = 1; m < radix; ++m) a[m] = load(m);
      transform(a);
      for (int64_t j = 0; j < radix; ++j) {
        const int64_t root = i * j * p.before;
        out.store(root == 0 ? a[j] : times(a[j], cosines[root], sines[root]),
                  (i + p.after * (k + p.before * j)) * kFourierLines + lane);
      }
    }
}

// Elements at equal distances from the ends share their factors, which are roots p.before * p.after apart.
template <int kRadix>
HWY_INLINE void runOddPass(Elements in, Elements out, const FourierPlan::Pass& p, const float* cosines,
                           const float* sines, int64_t lane) {
  constexpr int kMostHalf = (kRadix ? kRadix : kLargestRadix) / 2;
  const int64_t radix = kRadix ? kRadix : p.radix, half = radix / 2, step = p.before * p.after;
  runPass<kRadix>(in, out, p, cosines, sines, lane, [=](C* a) HWY_ATTR {
    C sums[kMostHalf], turns[kMostHalf], first = a[0];
    for (int64_t m = 1; m <= half; ++m) {
      sums[m - 1] = a[m] + a[radix - m];
      turns[m - 1] = turned(a[m] - a[radix - m], 1);
      first = first + sums[m - 1];
    }
    for (int64_t j = 1; j <= half; ++j) {
      C middle = a[0], turn = times(turns[0], sines[j * step]);
      int64_t at = 0;  // j m modulo the radix
      for (int64_t m = 1; m <= half; ++m) {
        at += at + j < radix ? j : j - radix;
        middle = middle + times(sums[m - 1], cosines[at * step]);
        if (m > 1) turn = turn + times(turns[m - 1], sines[at * step]);
      }
      a[j] = middle + turn;
      a[radix - j] = middle - turn;
    }
    a[0] = first;
  });
}

void fourierPass(const FourierPlan::Pass& p, float sign, const float* cosines, const float* sines, float* re, float* im,
                 float* toRe, float* toIm) {
  const Elements in{re, im}, out{toRe, toIm};
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  for (int64_t lane = 0; lane < kFourierLines; lane += lanes) {
    switch (p.radix) {
      case 2:
        runPass<2>(in, out, p, cosines, sines, lane, [=](C* a) HWY_ATTR { transform2(a, sign); });
        break;
      case 3:
        runPass<3>(in, out, p, cosines, sines, lane, [=](C* a) HWY_ATTR { transform3(a, sign); });
        break;
      case 4:
        runPass<4>(in, out, p, cosines, sines, lane, [=](C* a) HWY_ATTR { transform4(a, sign); });
        break;
      case 5:
        runPass<5>(in, out, p, cosines, sines, lane, [=](C* a) HWY_ATTR { transform5(a, sign); });
        break;
      case 7:
        runOddPass<7>(in, out, p, cosines, sines, lane);
        break;
      case 8:
        runPass<8>(in, out, p, cosines, sines, lane, [=](C* a) HWY_ATTR { transform8(a, sign); });
        break;
      case 11:
        runOddPass<11>(in, out, p, cosines, sines, lane);
        break;
      case 13:
        runOddPass<13>(in, out, p, cosines, sines, lane);
        break;
      default:
        runOddPass<0>(in, out, p, cosines, sines, lane);
    }
  }
}

// Element k of all lines times factor k.
void fourierTimes(const float* factorRe, const float* factorIm, int64_t count, float* re, float* im) {
  const Elements all{re, im};
  for (int64_t k = 0; k < count; ++k)
    for (int64_t at = k * kFourierLines; at < (k + 1) * kFourierLines; at += static_cast<int64_t>(hn::Lanes(Tag())))
      all.store(times(all.load(at), factorRe[k], factorIm[k]), at);
}

// With the spectra E and O of the elements at even and odd places, the spectrum of pairs is Z = E + i O, and that of
// all X[k] = E[k] + root[k] O[k].
void fourierParts(int64_t half, const float* cosines, const float* sines, const float* pairRe, const float* pairIm,
                  float* re, float* im) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto h = hn::Set(d, 0.5f);
  for (int64_t k = 0; k <= half; ++k) {
    const auto c = hn::Set(d, cosines[k]), s = hn::Set(d, sines[k]);
    const int64_t at = (k == half ? 0 : k) * kFourierLines, mirrored = (k == 0 ? 0 : half - k) * kFourierLines;
    for (int64_t l = 0; l < kFourierLines; l += lanes) {
      const auto a = hn::LoadU(d, pairRe + at + l), b = hn::LoadU(d, pairIm + at + l);
      const auto e = hn::LoadU(d, pairRe + mirrored + l), f = hn::LoadU(d, pairIm + mirrored + l);
      const auto evenRe = hn::Mul(h, hn::Add(a, e)), evenIm = hn::Mul(h, hn::Sub(b, f));
      const auto oddRe = hn::Mul(h, hn::Add(b, f)), oddIm = hn::Mul(h, hn::Sub(e, a));
      hn::StoreU(hn::Add(evenRe, hn::MulSub(oddRe, c, hn::Mul(oddIm, s))), d, re + k * kFourierLines + l);
      hn::StoreU(hn::Add(evenIm, hn::MulAdd(oddRe, s, hn::Mul(oddIm, c))), d, im + k * kFourierLines + l);
    }
  }
}
// Back, twice as large: E[k] = X[k] + conj(X[half - k]), O[k] = (X[k] - conj(X[half - k])) root[k].
void fourierPairs(int64_t half, const float* cosines, const float* sines, const float* re, const float* im,
                  float* pairRe, float* pairIm) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < half; ++k) {
    const auto c = hn::Set(d, cosines[k]), s = hn::Set(d, sines[k]);
    const int64_t at = k * kFourierLines, mirrored = (half - k) * kFourierLines;
    for (int64_t l = 0; l < kFourierLines; l += lanes) {
      const auto a = hn::LoadU(d, re + at + l), b = hn::LoadU(d, im + at + l);
      const auto e = hn::LoadU(d, re + mirrored + l), f = hn::LoadU(d, im + mirrored + l);
      const auto apartRe = hn::Sub(a, e), apartIm = hn::Add(b, f);
      const auto turnRe = hn::MulSub(apartRe, c, hn::Mul(apartIm, s));
      const auto turnIm = hn::MulAdd(apartRe, s, hn::Mul(apartIm, c));
      hn::StoreU(hn::Sub(hn::Add(a, e), turnIm), d, pairRe + at + l);
      hn::StoreU(hn::Add(hn::Sub(b, f), turnRe), d, pairIm + at + l);
    }
  }
}

// Where the float `f` of a line goes: element f, or the real or the imaginary part of element f / 2.
template <class T>
HWY_INLINE T* partOf(const FourierLines& lines, T* re, T* im, int64_t f) {
  return lines.isComplex ? (f % 2 ? im : re) + f / 2 * kFourierLines : re + f * kFourierLines;
}

using Four = hn::FixedTag<float, 4>;
using Eight = hn::CappedTag<float, 8>;

// Runs of four floats `step` apart, one in each block.
HWY_INLINE hn::Vec<Four> loadBlocks(Four d, const float* from, int64_t) { return hn::LoadU(d, from); }
template <class D>
HWY_INLINE hn::Vec<D> loadBlocks(D d, const float* from, int64_t step) {
  const hn::Half<D> half;
  const int64_t blocks = static_cast<int64_t>(hn::Lanes(half)) / 4;
  return hn::Combine(d, loadBlocks(half, from + blocks * step, step), loadBlocks(half, from, step));
}
HWY_INLINE void storeBlocks(Four d, hn::Vec<Four> v, float* to, int64_t) { hn::StoreU(v, d, to); }
template <class D>
HWY_INLINE void storeBlocks(D, hn::Vec<D> v, float* to, int64_t step) {
  const hn::Half<D> half;
  const int64_t blocks = static_cast<int64_t>(hn::Lanes(half)) / 4;
  storeBlocks(half, hn::LowerHalf(half, v), to, step);
  storeBlocks(half, hn::UpperHalf(half, v), to + blocks * step, step);
}

// Calls squares(tag, f, l) for floats f ... f + 3 of as many lines from l on as the tag has lanes, and one(f, l) for
// those that are left. Lines may be so far apart that a cache keeps few of them: then it is four, and some squares of
// these follow each other.
template <class Squares, class One>
HWY_INLINE void overSquares(const FourierLines& lines, Squares&& squares, One&& one) {
  constexpr int64_t kRun = 16, kFar = 512;
  const int64_t lanes = lines.step <= kFar ? static_cast<int64_t>(hn::Lanes(Tag())) : kFourierLines + 1;
  const int64_t floats = lines.count * (lines.isComplex ? 2 : 1);
  const int64_t wholeFloats = floats / 4 * 4;
  for (int64_t first = 0; first < wholeFloats; first += kRun) {
    const int64_t end = std::min(first + kRun, wholeFloats);
    int64_t l = 0;
    for (; l + lanes <= lines.lines; l += lanes)
      for (int64_t f = first; f < end; f += 4) squares(Tag(), f, l);
    for (; l + 4 <= lines.lines; l += 4)
      for (int64_t f = first; f < end; f += 4) squares(Four(), f, l);
    for (; l < lines.lines; ++l)
      for (int64_t f = first; f < end; ++f) one(f, l);
  }
  for (int64_t f = wholeFloats; f < floats; ++f)
    for (int64_t l = 0; l < lines.lines; ++l) one(f, l);
}

// Calls some(tag, l) for as many lines from l on as the tag has lanes, and one(l) for those that are left.
template <class Some, class One>
HWY_INLINE void overLines(int64_t lines, Some&& some, One&& one) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  int64_t l = 0;
  for (; l + lanes <= lines; l += lanes) some(Tag(), l);
  if (const auto eight = static_cast<int64_t>(hn::Lanes(Eight())); l + eight <= lines) some(Eight(), l), l += eight;
  for (; l + 4 <= lines; l += 4) some(Four(), l);
  for (; l < lines; ++l) one(l);
}

void gatherLines(const FourierLines& lines, const float* from, float* re, float* im) {
  if (!lines.areSideBySide)
    return overSquares(
        lines,
        [&](auto d, int64_t f, int64_t l) HWY_ATTR {
          const float* line = from + l * lines.step + f;
          auto row = [&](int64_t j) HWY_ATTR { return loadBlocks(d, line + j * lines.step, 4 * lines.step); };
          transposedBlocks(d, row(0), row(1), row(2), row(3),
                           [&](int64_t i, auto v) HWY_ATTR { hn::StoreU(v, d, partOf(lines, re, im, f + i) + l); });
        },
        [&](int64_t f, int64_t l) HWY_ATTR { partOf(lines, re, im, f)[l] = from[l * lines.step + f]; });
  for (int64_t k = 0; k < lines.count; ++k, from += lines.step, re += kFourierLines, im += kFourierLines) {
    if (lines.isComplex)
      overLines(
          lines.lines,
          [&](auto d, int64_t l) HWY_ATTR {
            hn::Vec<decltype(d)> a, b;
            hn::LoadInterleaved2(d, from + 2 * l, a, b);
            hn::StoreU(a, d, re + l), hn::StoreU(b, d, im + l);
          },
          [&](int64_t l) HWY_ATTR { re[l] = from[2 * l], im[l] = from[2 * l + 1]; });
    else
      std::copy_n(from, lines.lines, re);
  }
}

void scatterLines(const FourierLines& lines, const float* re, const float* im, float scale, float* to) {
  auto scaled = [=](auto d, auto v) HWY_ATTR { return hn::Mul(v, hn::Set(d, scale)); };
  if (!lines.areSideBySide)
    return overSquares(
        lines,
        [&](auto d, int64_t f, int64_t l) HWY_ATTR {
          auto row = [&](int64_t i) HWY_ATTR { return hn::LoadU(d, partOf(lines, re, im, f + i) + l); };
          transposedBlocks(d, row(0), row(1), row(2), row(3), [&](int64_t j, auto v) HWY_ATTR {
            storeBlocks(d, scaled(d, v), to + (l + j) * lines.step + f, 4 * lines.step);
          });
        },
        [&](int64_t f, int64_t l) HWY_ATTR { to[l * lines.step + f] = partOf(lines, re, im, f)[l] * scale; });
  for (int64_t k = 0; k < lines.count; ++k, to += lines.step, re += kFourierLines, im += kFourierLines) {
    if (lines.isComplex)
      overLines(
          lines.lines,
          [&](auto d, int64_t l) HWY_ATTR {
            hn::StoreInterleaved2(scaled(d, hn::LoadU(d, re + l)), scaled(d, hn::LoadU(d, im + l)), d, to + 2 * l);
          },
          [&](int64_t l) HWY_ATTR { to[2 * l] = re[l] * scale, to[2 * l + 1] = im[l] * scale; });
    else
      for (int64_t l = 0; l < lines.lines; ++l) to[l] = re[l] * scale;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

// Eights first, which walk through memory least often, then fours: two of them rather than an eight and a two. What is
// left of n stands at the end.
std::vector<int64_t> radicesOf(int64_t n) {
  std::vector<int64_t> radices;
  for (; n % 8 == 0 && (n % 32 == 0 || n % 16 != 0); n /= 8) radices.push_back(8);
  for (; n % 4 == 0; n /= 4) radices.push_back(4);
  for (int64_t p = 2; p <= kLargestRadix; ++p)
    for (; n % p == 0; n /= p) radices.push_back(p);
  radices.push_back(n);
  return radices;
}

}  // namespace

void gatherFourier(const FourierLines& lines, const float* from, float* re, float* im) {
  TS_SIMD(gatherLines)(lines, from, re, im);
}
void scatterFourier(const FourierLines& lines, const float* re, const float* im, float scale, float* to) {
  TS_SIMD(scatterLines)(lines, re, im, scale, to);
}

FourierPlan::FourierPlan(int64_t n, bool forward) : n_(n), forward_(forward) {
  for (int64_t k = 0; k < n; ++k) {
    const double angle = 2 * std::numbers::pi * (static_cast<double>(k) / static_cast<double>(n));
    cosines_.push_back(static_cast<float>(std::cos(angle)));
    sines_.push_back(static_cast<float>(forward ? -std::sin(angle) : std::sin(angle)));
  }
  std::vector<int64_t> radices = radicesOf(n);
  if (radices.back() > 1) {
    convolve();
    return;
  }
  radices.pop_back();
  int64_t before = 1;
  for (int64_t radix : radices) {
    passes_.push_back({radix, before, n / before / radix});
    before *= radix;
  }
}

// Bluestein's algorithm: with j k = (j^2 + k^2 - (k - j)^2) / 2 the transform is a convolution with exp(+- i pi k^2 /
// n) of what is multiplied by its conjugate, which is multiplied so again.
void FourierPlan::convolve() {
  constexpr int64_t kStep = 8;  // as a radix it costs least, and those above most
  int64_t length = (2 * n_ - 1 + kStep - 1) / kStep * kStep;
  while (std::ranges::max(radicesOf(length)) > kStep) length += kStep;
  inner_ = std::make_unique<FourierPlan>(length, true);
  const auto size = static_cast<size_t>(length * kFourierLines);
  std::vector<float> re(size), im(size), otherRe(size), otherIm(size);
  int64_t square = 0;  // k^2 modulo 2 n
  for (int64_t k = 0; k < n_; ++k) {
    const double angle = std::numbers::pi * (static_cast<double>(square) / static_cast<double>(n_));
    square = (square + 2 * k + 1) % (2 * n_);
    chirpRe_.push_back(static_cast<float>(std::cos(angle)));
    chirpIm_.push_back(static_cast<float>(forward_ ? -std::sin(angle) : std::sin(angle)));
    for (int64_t at : {k, k == 0 ? 0 : length - k}) {
      re[static_cast<size_t>(at * kFourierLines)] = chirpRe_.back();
      im[static_cast<size_t>(at * kFourierLines)] = -chirpIm_.back();
    }
  }
  const bool isInOther = inner_->run(re.data(), im.data(), otherRe.data(), otherIm.data());
  const float scale = 1 / static_cast<float>(length);
  for (size_t at = 0; at < size; at += kFourierLines) {
    spectrumRe_.push_back((isInOther ? otherRe : re)[at] * scale);
    spectrumIm_.push_back((isInOther ? otherIm : im)[at] * scale);
  }
}

void FourierPlan::partsOfPairs(const float* pairRe, const float* pairIm, float* re, float* im) const {
  TS_SIMD(fourierParts)(n_ / 2, cosines_.data(), sines_.data(), pairRe, pairIm, re, im);
}
void FourierPlan::pairsOfParts(const float* re, const float* im, float* pairRe, float* pairIm) const {
  TS_SIMD(fourierPairs)(n_ / 2, cosines_.data(), sines_.data(), re, im, pairRe, pairIm);
}

bool FourierPlan::run(float* re, float* im, float* otherRe, float* otherIm) const {
  if (inner_) {
    auto multiply = TS_SIMD(fourierTimes);
    multiply(chirpRe_.data(), chirpIm_.data(), n_, re, im);
    const int64_t taken = n_ * kFourierLines, all = inner_->length() * kFourierLines;
    std::fill(re + taken, re + all, 0.0f);
    std::fill(im + taken, im + all, 0.0f);
    const bool isInOther = inner_->run(re, im, otherRe, otherIm);
    if (isInOther) std::swap(re, otherRe), std::swap(im, otherIm);
    multiply(spectrumRe_.data(), spectrumIm_.data(), inner_->length(), re, im);
    inner_->run(im, re, otherIm, otherRe);  // exchanged parts turn it round
    if (isInOther) std::swap(re, otherRe), std::swap(im, otherIm);
    multiply(chirpRe_.data(), chirpIm_.data(), n_, re, im);
    return false;
  }
  auto pass = TS_SIMD(fourierPass);
  for (const Pass& p : passes_) {
    pass(p, forward_ ? -1.0f : 1.0f, cosines_.data(), sines_.data(), re, im, otherRe, otherIm);
    std::swap(re, otherRe);
    std::swap(im, otherIm);
  }
  return passes_.size() % 2 != 0;
}

}  // namespace tscompile
#endif
