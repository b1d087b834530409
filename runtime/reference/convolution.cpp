#include "runtime/reference/convolution.h"

#include <algorithm>
#include <cstring>

#include "runtime/reference/copy.h"
#include "runtime/reference/loop.h"
#include "runtime/reference/matmul.h"
#include "runtime/reference/views.h"
#include "runtime/run_context.h"

namespace tscompile {
namespace {

constexpr int64_t kColumnBytes = int64_t{2} << 20;  // of the unfolded input that is multiplied at a time

// Three spatial dimensions; missing ones in front have size 1.
struct Geometry {
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  int64_t inCount() const { return in[0] * in[1] * in[2]; }
  int64_t outCount() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

Geometry geometryOf(DimSpan input, DimSpan output, DimSpan weight, const ConvolutionShape& shape) {
  Geometry g;
  auto spatial = static_cast<int>(input.size()) - 2;
  for (int i = 0; i < 3; ++i) {
    int d = i - (3 - spatial);
    bool has = d >= 0;
    g.in[i] = has ? input[d + 2] : 1;
    g.out[i] = has ? output[d + 2] : 1;
    g.kernel[i] = has ? weight[d + 2] : 1;
    g.stride[i] = has ? shape.stride[d] : 1;
    g.padding[i] = has ? shape.padding[d] : 0;
    g.dilation[i] = has ? shape.dilation[d] : 1;
  }
  return g;
}

// Writes the values that outputs first .. first + count - 1 (row-major) meet under each tap of one channel:
// columns[tap][output].
template <class T>
void unfold(const Geometry& g, const T* plane, int64_t first, int64_t count, T* columns, int64_t columnStride) {
  for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
    for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
      for (int64_t kw = 0; kw < g.kernel[2]; ++kw, columns += columnStride) {
        int64_t at = first, end = first + count;
        while (at < end) {
          // One output row at a time.
          int64_t ow = at % g.out[2], row = at / g.out[2], oh = row % g.out[1], od = row / g.out[1];
          int64_t n = std::min(g.out[2] - ow, end - at);
          T* to = columns + (at - first);
          at += n;
          int64_t d = od * g.stride[0] - g.padding[0] + kd * g.dilation[0];
          int64_t h = oh * g.stride[1] - g.padding[1] + kh * g.dilation[1];
          if (d < 0 || d >= g.in[0] || h < 0 || h >= g.in[1]) {
            std::fill_n(to, n, T(0));
            continue;
          }
          const T* from = plane + (d * g.in[1] + h) * g.in[2];
          int64_t w = ow * g.stride[2] - g.padding[2] + kw * g.dilation[2];
          if (g.stride[2] == 1) {
            int64_t before = std::clamp<int64_t>(-w, 0, n), inside = std::clamp<int64_t>(g.in[2] - w - before, 0, n - before);
            if (w >= g.in[2]) inside = 0;
            std::fill_n(to, before, T(0));
            std::memcpy(static_cast<void*>(to + before), from + w + before, static_cast<size_t>(inside) * sizeof(T));
            std::fill_n(to + before + inside, n - before - inside, T(0));
            continue;
          }
          for (int64_t i = 0; i < n; ++i, w += g.stride[2]) to[i] = w >= 0 && w < g.in[2] ? from[w] : T(0);
        }
      }
}

// The reverse: adds columns into the plane of the input.
template <class T>
void foldBack(const Geometry& g, const T* columns, int64_t columnStride, T* plane) {
  for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
    for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
      for (int64_t kw = 0; kw < g.kernel[2]; ++kw, columns += columnStride)
        for (int64_t od = 0; od < g.out[0]; ++od)
          for (int64_t oh = 0; oh < g.out[1]; ++oh) {
            int64_t d = od * g.stride[0] - g.padding[0] + kd * g.dilation[0];
            int64_t h = oh * g.stride[1] - g.padding[1] + kh * g.dilation[1];
            if (d < 0 || d >= g.in[0] || h < 0 || h >= g.in[1]) continue;
            T* to = plane + (d * g.in[1] + h) * g.in[2];
            const T* from = columns + (od * g.out[1] + oh) * g.out[2];
            int64_t w = kw * g.dilation[2] - g.padding[2];
            for (int64_t i = 0; i < g.out[2]; ++i, w += g.stride[2])
              if (w >= 0 && w < g.in[2]) to[w] = static_cast<T>(to[w] + from[i]);
          }
}

// ---- depthwise: one input channel for each output channel ----

// The plane of a channel with its padding, each row cut into `stride` runs of every stride-th element, so that every tap
// reads a run.
template <class T>
struct PaddedPlane {
  int64_t rows, phases, width;  // of one run
  std::vector<T> data;
  const T* run(int64_t row, int64_t phase) const { return data.data() + (row * phases + phase) * width; }
};

template <class T>
void padPlane(const Geometry& g, const T* plane, PaddedPlane<T>& p) {
  std::fill(p.data.begin(), p.data.end(), T(0));
  for (int64_t h = 0; h < g.in[1]; ++h) {
    const T* from = plane + h * g.in[2];
    T* to = p.data.data() + (h + g.padding[1]) * p.phases * p.width;
    if (p.phases == 1) {
      std::copy_n(from, g.in[2], to + g.padding[2]);
      continue;
    }
    for (int64_t w = 0; w < g.in[2]; ++w) {
      int64_t x = w + g.padding[2];
      to[x % p.phases * p.width + x / p.phases] = from[w];
    }
  }
}

template <class T>
void depthwiseRow(const T* const* taps, const T* weights, int64_t count, T bias, T* out, int64_t n) {
  constexpr int64_t kBlock = 32;  // accumulators that stay in registers
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    T acc[kBlock];
    for (int64_t j = 0; j < kBlock; ++j) acc[j] = bias;
    for (int64_t t = 0; t < count; ++t) {
      const T* p = taps[t] + i;
      T w = weights[t];
      for (int64_t j = 0; j < kBlock; ++j) acc[j] += w * p[j];
    }
    for (int64_t j = 0; j < kBlock; ++j) out[i + j] = acc[j];
  }
  for (; i < n; ++i) {
    T acc = bias;
    for (int64_t t = 0; t < count; ++t) acc += weights[t] * taps[t][i];
    out[i] = acc;
  }
}

template <class T>
void depthwise(const Geometry& g, const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  int64_t channels = input.size(1), multiplier = weight.size(0) / channels, taps = g.taps();
  PaddedPlane<T> plane;
  plane.phases = g.stride[2];
  plane.rows = std::max((g.out[1] - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1, g.in[1] + g.padding[1]);
  int64_t reach = std::max((g.out[2] - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1, g.in[2] + g.padding[2]);
  plane.width = reach / plane.phases + 1;
  plane.data.resize(static_cast<size_t>(plane.rows * plane.phases * plane.width));
  std::vector<const T*> pointers(static_cast<size_t>(taps));
  RunContext& context = RunContext::current();
  for (int64_t n = 0; n < input.size(0); ++n)
    for (int64_t c = 0; c < channels; ++c) {
      padPlane(g, input.data<T>() + (n * channels + c) * g.inCount(), plane);
      for (int64_t m = 0; m < multiplier; ++m) {
        int64_t o = c * multiplier + m;
        const T* w = weight.data<T>() + o * taps;
        T* to = out.data<T>() + (n * weight.size(0) + o) * g.outCount();
        T start = bias.defined() ? bias.data<T>()[o] : T(0);
        for (int64_t oh = 0; oh < g.out[1]; ++oh, to += g.out[2]) {
          size_t t = 0;
          for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
            for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
              int64_t x = kw * g.dilation[2];
              pointers[t++] = plane.run(oh * g.stride[1] + kh * g.dilation[1], x % plane.phases) + x / plane.phases;
            }
          depthwiseRow(pointers.data(), w, taps, start, to, g.out[2]);
        }
      }
      context.checkInterrupt(g.outCount() * taps * multiplier);
    }
}

// ---- the general case: unfold, multiply ----

void addBias(const Tensor& out, const Tensor& bias) {
  Dims sizes(static_cast<size_t>(out.rank()), 1);
  sizes[1] = bias.numel();
  copyTensor(out, reshaped(bias, sizes));
}

template <class T>
void unfoldAndMultiply(const Geometry& g, const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                       int64_t groups) {
  int64_t outputs = g.outCount(), taps = g.taps(), c = input.size(1) / groups, o = weight.size(0) / groups;
  int64_t rows = c * taps;
  bool plain = taps == 1 && g.stride[0] == 1 && g.stride[1] == 1 && g.stride[2] == 1 && g.padding[0] == 0 && g.padding[1] == 0 && g.padding[2] == 0;
  if (bias.defined()) addBias(out, bias);
  double beta = bias.defined() ? 1 : 0;
  Dims outSizes{out.size(0), groups, o, outputs}, inSizes{input.size(0), groups, c, g.inCount()};
  Tensor y = reshaped(out, outSizes), x = reshaped(input, inSizes), w = reshaped(weight, Dims{groups, o, rows});
  int64_t step = plain ? outputs : std::clamp<int64_t>(kColumnBytes / std::max<int64_t>(1, rows * static_cast<int64_t>(sizeof(T))), 64, std::max<int64_t>(outputs, 64));
  Tensor columns = plain ? Tensor() : Tensor::empty(input.dtype(), Dims{rows, std::min(step, outputs)});
  for (int64_t n = 0; n < input.size(0); ++n)
    for (int64_t k = 0; k < groups; ++k) {
      Tensor xs = selected(selected(x, 0, n), 0, k), ys = selected(selected(y, 0, n), 0, k), ws = selected(w, 0, k);
      if (plain) {
        matmulInto(ys, ws, xs, 1, beta);
        continue;
      }
      for (int64_t first = 0; first < outputs; first += step) {
        int64_t count = std::min(step, outputs - first);
        Tensor part = narrowed(columns, 1, 0, count);
        for (int64_t i = 0; i < c; ++i)
          unfold(g, xs.data<T>() + i * g.inCount(), first, count, part.data<T>() + i * taps * part.stride(0), part.stride(0));
        matmulInto(narrowed(ys, 1, first, count), ws, part, 1, beta);
      }
    }
}

template <class F>
void withStorage(DType dtype, F&& f) {
  visitDType(dtype, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, Half> && !std::is_same_v<T, BFloat16>) f(sample);
  });
}

// 16-bit floats are computed in float32 and rounded once.
template <class F>
bool inFloat32(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias, F&& f) {
  if (!isFloating(out.dtype()) || itemSize(out.dtype()) != 2) return false;
  Tensor aside = Tensor::empty(DType::Float32, out.sizes());
  f(aside, convertTensor(input, DType::Float32), convertTensor(weight, DType::Float32),
    bias.defined() ? convertTensor(bias, DType::Float32) : bias);
  copyTensor(out, aside);
  return true;
}

}  // namespace

int64_t convolvedSize(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? -1 : room / stride + 1;
}

void convolve(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvolutionShape& shape) {
  if (out.numel() == 0) return;
  if (inFloat32(out, input, weight, bias, [&](auto& o, auto i, auto w, auto b) { convolve(o, i, w, b, shape); })) return;
  Geometry g = geometryOf(input.sizes(), out.sizes(), weight.sizes(), shape);
  bool depthwiseFits = shape.groups == input.size(1) && weight.size(1) == 1 && g.kernel[0] == 1 && g.in[0] == 1 && g.padding[0] == 0;
  if (depthwiseFits && out.dtype() == DType::Float32) return depthwise<float>(g, out, input, weight, bias);
  if (depthwiseFits && out.dtype() == DType::Float64) return depthwise<double>(g, out, input, weight, bias);
  withStorage(out.dtype(), [&](auto sample) {
    unfoldAndMultiply<decltype(sample)>(g, out, input, weight, bias, shape.groups);
  });
}

void convolveTransposed(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvolutionShape& shape) {
  if (out.numel() == 0) return;
  if (inFloat32(out, input, weight, bias, [&](auto& o, auto i, auto w, auto b) { convolveTransposed(o, i, w, b, shape); })) return;
  // The output takes the part that the input has in the convolution which this is the transpose of.
  Geometry g = geometryOf(out.sizes(), input.sizes(), weight.sizes(), shape);
  int64_t groups = shape.groups, c = input.size(1) / groups, o = weight.size(1), rows = o * g.taps(), inputs = g.outCount();
  if (bias.defined())
    addBias(out, bias);
  else
    std::memset(out.raw(), 0, static_cast<size_t>(out.numel()) * itemSize(out.dtype()));
  Tensor x = reshaped(input, Dims{input.size(0), groups, c, inputs}), w = reshaped(weight, Dims{groups, c, rows});
  Tensor columns = Tensor::empty(out.dtype(), Dims{rows, inputs});
  withStorage(out.dtype(), [&](auto sample) {
    using T = decltype(sample);
    for (int64_t n = 0; n < input.size(0); ++n)
      for (int64_t k = 0; k < groups; ++k) {
        matmulInto(columns, transposed(selected(w, 0, k), 0, 1), selected(selected(x, 0, n), 0, k));
        for (int64_t i = 0; i < o; ++i)
          foldBack(g, columns.data<T>() + i * g.taps() * inputs, inputs,
                   out.data<T>() + ((n * groups + k) * o + i) * g.inCount());
      }
  });
}

}  // namespace tscompile
