#include "runtime/reference/resize.h"

#include "runtime/call/run_context.h"
#include "runtime/reference/dense.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tscompile {
namespace {

// The input's step from one output to the next.
template <class T>
T stepOf(int64_t in, int64_t out, const ResizeScale& scale) {
  if (scale.alignCorners) return out > 1 ? static_cast<T>(in - 1) / static_cast<T>(out - 1) : T(0);
  if (scale.factor && *scale.factor > 0) return static_cast<T>(1 / *scale.factor);
  return static_cast<T>(in) / static_cast<T>(out);
}

// Where output o lies in the input. In double whatever T is: with the last bits of a coordinate in float, weights would
// be wrong in their fourth digit.
template <class T>
double sourceOf(int64_t o, T step, bool alignCorners) {
  auto at = static_cast<double>(o), by = static_cast<double>(step);
  return alignCorners ? by * at : by * (at + 0.5) - 0.5;
}

// A float as an index of an input, also where it is out of range or NaN.
template <class T>
int64_t indexOf(T v, int64_t in) {
  if (!(v > 0)) return 0;
  return v < static_cast<T>(in - 1) ? static_cast<int64_t>(v) : in - 1;
}

// Output o is the sum of weights[o * width + k] * input[index[o * width + k]] for k < width, as far as the index is not
// negative.
template <class T>
struct Taps {
  int64_t width;
  bool full = true;  // no index is negative
  std::vector<int64_t> index;
  Tensor weights;
  Taps(int64_t out, int64_t width) : width(width), weights(Tensor::empty(kDTypeOf<T>, Dims{out, width})) {
    index.resize(static_cast<size_t>(weights.numel()));
  }
  void set(int64_t o, int64_t k, int64_t i, T weight) {
    index[o * width + k] = i;
    full &= i >= 0;
    weights.data<T>()[o * width + k] = weight;
  }
};

template <class T>
Taps<T> linearTaps(int64_t in, int64_t out, const ResizeScale& scale) {
  Taps<T> taps(out, 2);
  T step = stepOf<T>(in, out, scale);
  for (int64_t o = 0; o < out; ++o) {
    double at = in == out ? static_cast<double>(o) : std::max(sourceOf(o, step, scale.alignCorners), 0.0);
    int64_t i = indexOf(at, in);
    auto second = static_cast<T>(std::clamp(at - static_cast<double>(i), 0.0, 1.0));
    taps.set(o, 0, i, 1 - second);
    taps.set(o, 1, in == out ? i : std::min(i + 1, in - 1), second);
  }
  return taps;
}

// Keys' cubic convolution at distances below 1 and below 2; `a` is the slope at distance 1.
double cubicNear(double x, double a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
double cubicFar(double x, double a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

template <class T>
Taps<T> cubicTaps(int64_t in, int64_t out, const ResizeScale& scale) {
  constexpr double a = -0.75;
  Taps<T> taps(out, 4);
  T step = stepOf<T>(in, out, scale);
  for (int64_t o = 0; o < out; ++o) {
    const double at = sourceOf(o, step, scale.alignCorners), floor = std::floor(at), t = at - floor, rest = 1 - t;
    const double weights[] = {cubicFar(t + 1, a), cubicNear(t, a), cubicNear(rest, a), cubicFar(rest + 1, a)};
    for (int64_t k = 0; k < 4; ++k)
      taps.set(o, k, indexOf(floor + static_cast<double>(k - 1), in), static_cast<T>(weights[k]));
  }
  return taps;
}

// sin(pi x) / (pi x)
double cardinalSine(double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

// What an input at a distance that is not negative counts, and from which distance on it is nothing.
double antialiasFilter(Interpolation kind, double x) {
  constexpr double a = -0.5;
  if (kind == Interpolation::LinearAntialias) return x < 1 ? 1 - x : 0;
  if (kind == Interpolation::LanczosAntialias) return x < 3 ? cardinalSine(x) * cardinalSine(x / 3) : 0;
  return x < 1 ? cubicNear(x, a) : x < 2 ? cubicFar(x, a) : 0;
}
int reachOf(Interpolation kind) {
  return kind == Interpolation::LinearAntialias ? 1 : kind == Interpolation::CubicAntialias ? 2 : 3;
}

// A triangle, a cubic or Lanczos's window, as wide as the step from one output to the next where that is more than 1.
template <class T>
Taps<T> antialiasTaps(int64_t in, int64_t out, const ResizeScale& scale, Interpolation kind) {
  if (in == out) {  // what stays as long takes nothing of its neighbours, not even NaN times 0
    Taps<T> taps(out, 1);
    for (int64_t o = 0; o < out; ++o) taps.set(o, 0, o, T(1));
    return taps;
  }
  T step = stepOf<T>(in, out, scale), half = static_cast<T>(reachOf(kind));
  T support = step >= 1 ? half * step : half, inverse = step >= 1 ? 1 / step : T(1);
  auto filter = [&](double x) { return static_cast<T>(antialiasFilter(kind, std::abs(x))); };
  auto width = static_cast<int64_t>(std::min(std::ceil(support) * 2 + 1, static_cast<T>(in)));
  Taps<T> taps(out, std::max<int64_t>(width, 1));
  for (int64_t o = 0; o < out; ++o) {
    auto center = static_cast<T>(static_cast<double>(step) * (static_cast<double>(o) + 0.5));
    T total = 0;
    int64_t first = indexOf(static_cast<double>(center - support) + 0.5, in);
    int64_t count =
        std::min({indexOf(static_cast<double>(center + support) + 0.5, in + 1) - first, taps.width, in - first});
    for (int64_t k = 0; k < taps.width; ++k) {
      T weight = k < count ? filter(static_cast<T>((static_cast<double>(static_cast<T>(k + first) - center) + 0.5) *
                                                   static_cast<double>(inverse)))
                           : T(0);
      taps.set(o, k, k < count ? first + k : -1, weight);
      total += weight;
    }
    if (total != 0)
      for (int64_t k = 0; k < taps.width; ++k) taps.weights.template data<T>()[o * taps.width + k] /= total;
  }
  return taps;
}

template <class T>
Taps<T> tapsOf(Interpolation kind, int64_t in, int64_t out, const ResizeScale& scale) {
  switch (kind) {
    case Interpolation::Linear:
      return linearTaps<T>(in, out, scale);
    case Interpolation::Cubic:
      return cubicTaps<T>(in, out, scale);
    default:
      return antialiasTaps<T>(in, out, scale, kind);
  }
}

// PyTorch computes on bytes with weights of 16 bits, as many of them behind the point as the greatest weight leaves
// room for, and rounds to a byte along each dimension. What an output takes of one input counts as one weight.
struct ByteTaps {
  int64_t width;
  int precision = 0;
  std::vector<int64_t> index;  // negative: no more follow
  std::vector<int32_t> weights;
};
ByteTaps byteTaps(Taps<double> taps, int64_t out) {
  double* weights = taps.weights.data<double>();
  double greatest = 0;
  for (int64_t o = 0; o < out; ++o) {
    int64_t* index = taps.index.data() + o * taps.width;
    double* own = weights + o * taps.width;
    int64_t count = 0;
    for (int64_t k = 0; k < taps.width && index[k] >= 0; ++k) {
      if (count && index[count - 1] == index[k]) {
        own[count - 1] += own[k];
        continue;
      }
      index[count] = index[k];
      own[count++] = own[k];
    }
    if (count < taps.width) index[count] = -1;
    for (int64_t k = 0; k < count; ++k) greatest = std::max(greatest, own[k]);
  }
  ByteTaps made{taps.width, 0, std::move(taps.index), {}};
  while (made.precision < 22 && static_cast<int>(0.5 + greatest * (1 << (made.precision + 1))) < (1 << 15))
    ++made.precision;
  for (int64_t i = 0; i < taps.weights.numel(); ++i) {
    const double scaled = std::isfinite(weights[i]) ? weights[i] * (1 << made.precision) : 0;
    made.weights.push_back(static_cast<int16_t>(static_cast<int>(scaled < 0 ? scaled - 0.5 : scaled + 0.5)));
  }
  return made;
}

template <class T>
void resizeRow(const Taps<T>& taps, int64_t out, const T* in, T* to) {
  const T* weights = taps.weights.template data<T>();
  const int64_t* index = taps.index.data();
  if (taps.width == 2 && taps.full) {
    for (int64_t o = 0; o < out; ++o)
      to[o] = weights[2 * o] * in[index[2 * o]] + weights[2 * o + 1] * in[index[2 * o + 1]];
    return;
  }
  for (int64_t o = 0; o < out; ++o, weights += taps.width, index += taps.width) {
    T sum = 0;
    for (int64_t k = 0; k < taps.width && index[k] >= 0; ++k) sum += weights[k] * in[index[k]];
    to[o] = sum;
  }
}

}  // namespace

template <class T>
std::vector<int64_t> nearestIndices(Interpolation kind, int64_t in, int64_t out, const ResizeScale& scale) {
  std::vector<int64_t> index(static_cast<size_t>(out));
  T step = stepOf<T>(in, out, scale);
  bool exact = kind == Interpolation::NearestExact;
  for (int64_t o = 0; o < out; ++o) {
    T at = exact ? step * (static_cast<T>(o) + T(0.5)) : step * static_cast<T>(o);
    index[o] = indexOf(std::floor(static_cast<float>(at)), in);
  }
  return index;
}

ResizeTaps resizeTaps(Interpolation kind, int64_t in, int64_t out, const ResizeScale& scale) {
  Taps<float> taps = tapsOf<float>(kind, in, out, scale);
  const float* weights = taps.weights.data<float>();
  return {taps.width, std::move(taps.index), std::vector<float>(weights, weights + taps.weights.numel())};
}

template <class T>
Tensor interpolated(const Tensor& t, int64_t dim, int64_t out, Interpolation kind, const ResizeScale& scale) {
  SplitSizes sizes(t.sizes(), dim);
  Dims resized(t.sizes());
  resized[dim] = out;
  Tensor result = Tensor::empty(t.dtype(), resized);
  Taps<T> taps = tapsOf<T>(kind, sizes.size, out, scale);
  RunContext& context = RunContext::current();
  const T* in = t.data<T>();
  T* to = result.data<T>();
  int64_t n = sizes.inner;
  for (int64_t i = 0; i < sizes.outer; ++i, in += sizes.size * n) {
    context.checkInterrupt(out * n * taps.width);
    if (n == 1) {
      resizeRow(taps, out, in, to);
      to += out;
      continue;
    }
    for (int64_t o = 0; o < out; ++o, to += n) {
      std::fill_n(to, n, T(0));
      for (int64_t k = 0; k < taps.width && taps.index[o * taps.width + k] >= 0; ++k) {
        const T* row = in + taps.index[o * taps.width + k] * n;
        T weight = taps.weights.template data<T>()[o * taps.width + k];
        for (int64_t x = 0; x < n; ++x) to[x] += weight * row[x];
      }
    }
  }
  return result;
}

Tensor interpolatedBytes(const Tensor& t, int64_t dim, int64_t out, Interpolation kind, const ResizeScale& scale) {
  const SplitSizes sizes(t.sizes(), dim);
  if (out == sizes.size) return t;
  Dims resized(t.sizes());
  resized[dim] = out;
  const Tensor result = Tensor::empty(DType::UInt8, resized);
  const ByteTaps taps = byteTaps(tapsOf<double>(kind, sizes.size, out, scale), out);
  RunContext& context = RunContext::current();
  const auto* in = t.data<uint8_t>();
  auto* to = result.data<uint8_t>();
  const int64_t n = sizes.inner;
  for (int64_t i = 0; i < sizes.outer; ++i, in += sizes.size * n) {
    context.checkInterrupt(out * n * taps.width);
    for (int64_t o = 0; o < out; ++o, to += n)
      for (int64_t x = 0; x < n; ++x) {
        int32_t sum = 1 << (taps.precision - 1);
        for (int64_t k = o * taps.width; k < (o + 1) * taps.width && taps.index[k] >= 0; ++k)
          sum += taps.weights[k] * in[taps.index[k] * n + x];
        to[x] = static_cast<uint8_t>(std::clamp(sum >> taps.precision, 0, 255));
      }
  }
  return result;
}

template std::vector<int64_t> nearestIndices<float>(Interpolation, int64_t, int64_t, const ResizeScale&);
template std::vector<int64_t> nearestIndices<double>(Interpolation, int64_t, int64_t, const ResizeScale&);
template Tensor interpolated<float>(const Tensor&, int64_t, int64_t, Interpolation, const ResizeScale&);
template Tensor interpolated<double>(const Tensor&, int64_t, int64_t, Interpolation, const ResizeScale&);

}  // namespace tscompile
