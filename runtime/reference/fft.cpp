#include "runtime/reference/fft.h"

#include "runtime/reference/loops/arithmetic.h"
#include "runtime/reference/loops/lanes.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tscompile {
namespace {

using Complex = Fft::Complex;
constexpr double kPi = std::numbers::pi;
// Factors up to this one are transformed by the definition.
constexpr int64_t kLargestRadix = 31;

Complex turn(double numerator, double denominator) {
  double angle = 2 * kPi * (numerator / denominator);
  return {std::cos(angle), std::sin(angle)};
}

// Fours first: they are the cheapest.
std::vector<int64_t> factorsOf(int64_t n) {
  std::vector<int64_t> factors;
  for (; n % 4 == 0; n /= 4) factors.push_back(4);
  for (int64_t p = 2; p <= kLargestRadix; ++p)
    for (; n % p == 0; n /= p) factors.push_back(p);
  if (n > 1) factors.push_back(n);
  return factors;
}

Complex timesI(Complex x) { return {-x.imag(), x.real()}; }

// ---- transforms of a few elements; `sign` is that of the exponents ----

void transform2(Complex* a, double) {
  Complex d = a[0] - a[1];
  a[0] += a[1];
  a[1] = d;
}

void transform3(Complex* a, double sign) {
  constexpr double kSine = 0.86602540378443864676;
  Complex sum = a[1] + a[2], turned = timesI(a[1] - a[2]) * (sign * kSine), middle = a[0] - 0.5 * sum;
  a[0] += sum;
  a[1] = middle + turned;
  a[2] = middle - turned;
}

void transform4(Complex* a, double sign) {
  Complex s = a[0] + a[2], d = a[0] - a[2], t = a[1] + a[3], u = timesI(a[1] - a[3]) * sign;
  a[0] = s + t;
  a[1] = d + u;
  a[2] = s - t;
  a[3] = d - u;
}

void transform5(Complex* a, double sign) {
  constexpr double kCos1 = 0.30901699437494742410, kCos2 = -0.80901699437494742410;
  constexpr double kSin1 = 0.95105651629515357212, kSin2 = 0.58778525229247312917;
  Complex s1 = a[1] + a[4], s2 = a[2] + a[3], d1 = timesI(a[1] - a[4]) * sign, d2 = timesI(a[2] - a[3]) * sign;
  Complex m1 = a[0] + kCos1 * s1 + kCos2 * s2, m2 = a[0] + kCos2 * s1 + kCos1 * s2;
  Complex t1 = kSin1 * d1 + kSin2 * d2, t2 = kSin2 * d1 - kSin1 * d2;
  a[0] += s1 + s2;
  a[1] = m1 + t1;
  a[4] = m1 - t1;
  a[2] = m2 + t2;
  a[3] = m2 - t2;
}

// The runs of one pass: in[k][m][i] -> out[j][k][i], turned by root[i * j * before].
template <int kRadix, class F>
void runPass(const Complex* in, Complex* out, int64_t before, int64_t after, const Complex* roots, F&& transform) {
  for (int64_t k = 0; k < before; ++k) {
    for (int64_t i = 0; i < after; ++i) {
      Complex a[kRadix];
      for (int m = 0; m < kRadix; ++m) a[m] = in[i + after * (m + kRadix * k)];
      transform(a);
      out[i + after * k] = a[0];
      for (int j = 1; j < kRadix; ++j)
        out[i + after * (k + before * j)] = i ? times(a[j], roots[i * j * before]) : a[j];
    }
  }
}

void runAnyPass(int64_t radix, const Complex* in, Complex* out, int64_t before, int64_t after, const Complex* roots,
                int64_t n) {
  int64_t step = n / radix;
  for (int64_t k = 0; k < before; ++k) {
    for (int64_t i = 0; i < after; ++i) {
      const Complex* a = in + i + after * radix * k;
      for (int64_t j = 0; j < radix; ++j) {
        Complex sum = a[0];
        for (int64_t m = 1; m < radix; ++m) sum += times(a[after * m], roots[j * m % radix * step]);
        out[i + after * (k + before * j)] = times(sum, roots[i * j * before]);
      }
    }
  }
}

}  // namespace

Fft::Fft(int64_t n, bool forward) : n_(n) {
  std::vector<int64_t> factors = factorsOf(n);
  if (factors.empty() || factors.back() <= kLargestRadix)
    planMixed(std::move(factors), forward);
  else
    planChirp(forward);
}

void Fft::planMixed(std::vector<int64_t> factors, bool forward) {
  int64_t before = 1;
  for (int64_t radix : factors) {
    passes_.push_back({radix, before, n_ / before / radix});
    before *= radix;
  }
  roots_ = Tensor::empty(DType::Complex128, Dims{n_});
  scratch_ = Tensor::empty(DType::Complex128, Dims{n_});
  double sign = forward ? -1 : 1;
  for (int64_t k = 0; k < n_; ++k)
    roots_.data<Complex>()[k] = turn(sign * static_cast<double>(k), static_cast<double>(n_));
}

// n x m = (n^2 + m^2 - (n - m)^2) / 2 makes the transform a convolution with a chirp.
void Fft::planChirp(bool forward) {
  int64_t length = 1;
  while (length < 2 * n_ - 1) length *= 2;
  convolution_.emplace_back(length, true);
  convolution_.emplace_back(length, false);
  roots_ = Tensor::empty(DType::Complex128, Dims{n_});
  kernel_ = Tensor::zeros(DType::Complex128, Dims{length});
  scratch_ = Tensor::empty(DType::Complex128, Dims{length});
  auto* chirp = roots_.data<Complex>();
  auto* kernel = kernel_.data<Complex>();
  double sign = forward ? -1 : 1, period = static_cast<double>(2 * n_);
  int64_t square = 0;  // k^2 mod 2n
  for (int64_t k = 0; k < n_; ++k) {
    chirp[k] = turn(sign * static_cast<double>(square), period);
    kernel[k] = kernel[k ? length - k : 0] = std::conj(chirp[k]) / static_cast<double>(length);
    square = (square + 2 * k + 1) % (2 * n_);
  }
  convolution_[0].run(kernel);
}

void Fft::run(Complex* x) const { convolution_.empty() ? runPasses(x) : runChirp(x); }

void Fft::runPasses(Complex* x) const {
  const auto* roots = roots_.data<Complex>();
  double sign = n_ > 1 && roots[1].imag() > 0 ? 1 : -1;
  Complex *in = x, *out = scratch_.data<Complex>();
  for (const Pass& p : passes_) {
    RunContext::current().checkInterrupt(n_);
    switch (p.radix) {
      case 2:
        runPass<2>(in, out, p.before, p.after, roots, [=](Complex* a) { transform2(a, sign); });
        break;
      case 3:
        runPass<3>(in, out, p.before, p.after, roots, [=](Complex* a) { transform3(a, sign); });
        break;
      case 4:
        runPass<4>(in, out, p.before, p.after, roots, [=](Complex* a) { transform4(a, sign); });
        break;
      case 5:
        runPass<5>(in, out, p.before, p.after, roots, [=](Complex* a) { transform5(a, sign); });
        break;
      default:
        runAnyPass(p.radix, in, out, p.before, p.after, roots, n_);
    }
    std::swap(in, out);
  }
  if (in != x) std::copy_n(in, n_, x);
}

void Fft::runChirp(Complex* x) const {
  const auto* chirp = roots_.data<Complex>();
  const auto* kernel = kernel_.data<Complex>();
  auto* y = scratch_.data<Complex>();
  int64_t length = scratch_.numel();
  for (int64_t k = 0; k < n_; ++k) y[k] = times(x[k], chirp[k]);
  std::fill(y + n_, y + length, Complex());
  convolution_[0].run(y);
  for (int64_t k = 0; k < length; ++k) y[k] = times(y[k], kernel[k]);
  convolution_[1].run(y);
  for (int64_t k = 0; k < n_; ++k) x[k] = times(y[k], chirp[k]);
}

// ---- along one dimension ----

namespace {

Tensor resultLike(const Tensor& t, int64_t dim, int64_t size, DType dtype) {
  Dims sizes(t.sizes());
  sizes[static_cast<size_t>(dim)] = size;
  return Tensor::empty(dtype, sizes);
}

// f(lane, its length, buffer of n) fills the buffer, which is transformed; g(buffer, lane of the result) takes the
// result.
template <class In, class Out, class F, class G>
void transformLanes(const Tensor& in, const Tensor& out, int64_t dim, const Fft& fft, F&& fill, G&& take) {
  Tensor buffer = Tensor::empty(DType::Complex128, Dims{fft.length()});
  auto* x = buffer.data<Complex>();
  mapLanes<In, Out>(in, out, dim, [&](const In* lane, int64_t length, Out* result) {
    fill(lane, length, x);
    fft.run(x);
    take(x, result);
  });
}

template <class In>
void fillPlain(const In* lane, int64_t length, Complex* x, int64_t n) {
  int64_t count = std::min(length, n);
  std::copy_n(lane, count, x);
  std::fill(x + count, x + n, Complex());
}

}  // namespace

Tensor transformed(const Tensor& t, int64_t dim, int64_t n, bool forward, double scale) {
  Tensor out = resultLike(t, dim, n, complexOf(toFloating(t.dtype())));
  if (out.numel() == 0) return out;
  transformLanes<Complex, Complex>(
      t, out, dim, Fft(n, forward),
      [=](const Complex* lane, int64_t length, Complex* x) { fillPlain(lane, length, x, n); },
      [=](const Complex* x, Complex* result) {
        for (int64_t k = 0; k < n; ++k) result[k] = x[k] * scale;
      });
  return out;
}

// The second half mirrors the first, and what is its own mirror image is real to the bit: its imaginary part is the
// zero that the conjugation of a backward transform leaves.
Tensor transformedReal(const Tensor& t, int64_t dim, int64_t n, bool forward, double scale, bool half) {
  int64_t count = half ? n / 2 + 1 : n;
  Tensor out = resultLike(t, dim, count, complexOf(toFloating(t.dtype())));
  if (out.numel() == 0) return out;
  transformLanes<double, Complex>(
      t, out, dim, Fft(n, forward),
      [=](const double* lane, int64_t length, Complex* x) { fillPlain(lane, length, x, n); },
      [=](const Complex* x, Complex* result) {
        const int64_t computed = std::min(count, n / 2 + 1);
        for (int64_t k = 0; k < computed; ++k)
          result[k] = 2 * k % n ? x[k] * scale : Complex(x[k].real() * scale, forward ? 0.0 : -0.0);
        for (int64_t k = computed; k < count; ++k) result[k] = std::conj(result[n - k]);
      });
  return out;
}

Tensor transformedHermitian(const Tensor& t, int64_t dim, int64_t n, bool forward, double scale) {
  Tensor out = resultLike(t, dim, n, realPart(complexOf(toFloating(t.dtype()))));
  if (out.numel() == 0) return out;
  auto fill = [=](const Complex* lane, int64_t length, Complex* x) {
    int64_t half = n / 2 + 1;
    fillPlain(lane, length, x, half);
    x[0] = x[0].real();
    if (n % 2 == 0) x[n / 2] = x[n / 2].real();
    for (int64_t k = half; k < n; ++k) x[k] = std::conj(x[n - k]);
  };
  transformLanes<Complex, double>(t, out, dim, Fft(n, forward), fill, [=](const Complex* x, double* result) {
    for (int64_t k = 0; k < n; ++k) result[k] = x[k].real() * scale;
  });
  return out;
}

}  // namespace tscompile
