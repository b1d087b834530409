#include "runtime/reference/convolution.h"

#include "ir/values/error.h"
#include "runtime/call/run_context.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/loops/shifted_product.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

// The input of one group of channels is copied with the zeros around it, so that what a tap of the kernel meets for one
// output after the other is a run of memory; then all outputs are sums of products of weights and runs.
//
// Rows share the zeros between them, and so do planes and samples: what is computed where the kernel reaches from one
// row into the next is left out when results are brought to the output.
namespace tscompile {
namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// What one tap meets for result j of a phase: place j + shift of a phase of the input.
struct AxisTap {
  int64_t index, inputPhase, outputPhase, shift;
};

// One spatial dimension. Inputs or outputs (of transposed convolutions) that lie `stride` apart form a phase.
struct Axis {
  int64_t in, out;
  int64_t inputStep = 1, outputStep = 1;
  int64_t inputPhases = 1, outputPhases = 1;
  SmallVector<int64_t, 8> firstInput;  // of each input phase: what place 0 would be; negative in front of the input
  std::vector<AxisTap> taps;           // by output phase; those that meet the input at all
  int64_t pitch = 1;                   // places of a row
  int64_t reach = 0;                   // the largest shift

  int64_t results(int64_t phase = 0) const { return ceilDiv(out - phase, outputStep); }
  // The places of an input phase that hold inputs.
  int64_t begin(int64_t phase) const {
    return std::clamp<int64_t>(ceilDiv(-firstInput[phase], inputStep), 0, results() + reach);
  }
  int64_t end(int64_t phase) const {
    return std::clamp<int64_t>(ceilDiv(in - firstInput[phase], inputStep), 0, results() + reach);
  }

  void setPitch() {
    for (const AxisTap& t : taps) reach = std::max(reach, t.shift);
    pitch = results();
    int64_t zeros = results() + reach;
    for (int64_t p = 0; p < inputPhases; ++p) {
      zeros = std::min(zeros, begin(p));
      pitch = std::max(pitch, end(p));
    }
    pitch = std::max(pitch, results() + reach - zeros);
  }
};

// Output o meets input o * stride - padding + k * dilation under tap k.
Axis forwardAxis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  Axis a{.in = in, .out = out, .inputStep = stride, .firstInput = {}, .taps = {}};
  int64_t first = std::clamp<int64_t>(ceilDiv(padding - (out - 1) * stride, dilation), 0, kernel);
  int64_t end = std::clamp<int64_t>(ceilDiv(padding + in, dilation), first, kernel);
  a.inputPhases = std::clamp<int64_t>(stride / std::gcd(stride, dilation), 1, std::max<int64_t>(end - first, 1));
  for (int64_t p = 0; p < a.inputPhases; ++p)
    a.firstInput.push_back(first * dilation - padding + p * dilation % stride);
  for (int64_t k = 0; k < end - first; ++k) a.taps.push_back({first + k, k % a.inputPhases, 0, k * dilation / stride});
  a.setPitch();
  return a;
}

// Output i * stride - padding + k * dilation meets input i under tap k.
Axis transposedAxis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  Axis a{
      .in = in, .out = out, .outputStep = stride, .outputPhases = std::min(stride, out), .firstInput = {}, .taps = {}};
  int64_t least = 0;
  for (int64_t k = 0; k < kernel; ++k) {
    int64_t at = k * dilation - padding, block = floorDiv(at, stride), phase = at - block * stride;
    if (phase >= out || block >= a.results(phase) || block + in <= 0) continue;
    a.taps.push_back({k, 0, phase, -block});
    least = std::min(least, -block);
  }
  for (AxisTap& t : a.taps) t.shift -= least;
  std::stable_sort(a.taps.begin(), a.taps.end(),
                   [](const AxisTap& x, const AxisTap& y) { return x.outputPhase < y.outputPhase; });
  a.firstInput.push_back(least);
  a.setPitch();
  return a;
}

using Axes = std::array<Axis, 3>;

// Three spatial dimensions; missing ones in front have size 1.
Axes axesOf(DimSpan input, DimSpan output, DimSpan weight, const ConvolutionShape& shape, bool transposed) {
  Axes axes;
  for (int i = 0; i < 3; ++i) {
    int64_t d = i - (5 - static_cast<int64_t>(input.size()));
    if (d < 0)
      axes[i] = forwardAxis(1, 1, 1, 1, 0, 1);
    else
      axes[i] = (transposed ? transposedAxis : forwardAxis)(input[d + 2], output[d + 2], weight[d + 2], shape.stride[d],
                                                            shape.padding[d], shape.dilation[d]);
  }
  return axes;
}

// ---- the input among its zeros ----

// A run of a channel's input, each inputStep-th element of it, and where it goes.
struct RowMove {
  int64_t from, to, count;
};

// A channel: input phases, then samples, depth, height, width.
struct Layout {
  const Axes& axes;
  int64_t samples;
  int64_t phase = 0, channel = 0;  // places of one input phase and of one channel
  std::vector<RowMove> rows;       // of one sample

  int64_t place(int64_t sample, int64_t z, int64_t y, int64_t x) const {
    return ((sample * axes[0].pitch + z) * axes[1].pitch + y) * axes[2].pitch + x;
  }
  int64_t phaseStart(int64_t z, int64_t y, int64_t x) const {
    return ((z * axes[1].inputPhases + y) * axes[2].inputPhases + x) * phase;
  }
};

Layout layoutOf(const Axes& axes, int64_t samples, int64_t slack) {
  const auto& [d, h, w] = axes;
  Layout l{.axes = axes, .samples = samples, .rows = {}};
  int64_t phases = d.inputPhases * h.inputPhases * w.inputPhases;
  if (!checkedNumel(Dims{samples, d.pitch + d.reach, h.pitch + h.reach, w.pitch + w.reach, phases}))
    throw ExecutionError(ErrorKind::Limit, "the padded input of the convolution is too large");
  l.phase = l.place(samples - 1, d.results() + d.reach, h.results() + h.reach, w.results() + w.reach) + slack;
  l.channel = l.phase * phases;
  for (int64_t pd = 0; pd < d.inputPhases; ++pd)
    for (int64_t ph = 0; ph < h.inputPhases; ++ph)
      for (int64_t pw = 0; pw < w.inputPhases; ++pw) {
        int64_t begin = w.begin(pw), count = w.end(pw) - begin;
        for (int64_t z = d.begin(pd); z < d.end(pd) && count > 0; ++z)
          for (int64_t y = h.begin(ph); y < h.end(ph); ++y) {
            int64_t row = (z * d.inputStep + d.firstInput[pd]) * h.in + y * h.inputStep + h.firstInput[ph];
            l.rows.push_back({row * w.in + begin * w.inputStep + w.firstInput[pw],
                              l.phaseStart(pd, ph, pw) + l.place(0, z, y, begin), count});
          }
      }
  return l;
}

template <int kCount, class T>
inline void copyFixed(const T* from, T* to) {
  std::memcpy(static_cast<void*>(to), from, kCount * sizeof(T));
}
// As memcpy, a call of which would cost more than most rows. The last piece may overlap the one before.
template <class T>
inline void copyRow(const T* from, int64_t n, T* to) {
  if (n >= 16) {
    for (int64_t i = 0; i + 16 <= n; i += 16) copyFixed<16>(from + i, to + i);
    copyFixed<16>(from + n - 16, to + n - 16);
  } else if (n >= 8) {
    copyFixed<8>(from, to);
    copyFixed<8>(from + n - 8, to + n - 8);
  } else if (n >= 4) {
    copyFixed<4>(from, to);
    copyFixed<4>(from + n - 4, to + n - 4);
  } else if (n > 0) {
    to[0] = from[0];
    if (n > 1) to[1] = from[1];
    if (n > 2) to[2] = from[2];
  }
}

template <class T>
inline void copyEverySecond(const T* from, int64_t n, T* to) {
  auto four = [](const T* p, T* q) {
    T a = p[0], b = p[2], c = p[4], d = p[6];
    q[0] = a, q[1] = b, q[2] = c, q[3] = d;
  };
  for (int64_t i = 0; i + 4 <= n; i += 4) four(from + 2 * i, to + i);
  four(from + 2 * (n - 4), to + n - 4);
}

// Copies one sample of one channel to its places; the zeros between them are there already.
template <class T>
void layOut(const Layout& l, const T* from, T* to) {
  int64_t step = l.axes[2].inputStep;
  for (const RowMove& r : l.rows) {
    const T* row = from + r.from;
    T* target = to + r.to;
    if (step == 1)
      copyRow(row, r.count, target);
    else if (step == 2 && r.count >= 4)
      copyEverySecond(row, r.count, target);
    else
      for (int64_t x = 0; x < r.count; ++x) target[x] = row[x * step];
  }
}

// ---- sums of products over it ----

// Positions that are computed together, and where the results among them go: each outputStep-th element from `output`
// on, counted from the first sample's first element of a channel.
struct Segment {
  int64_t position, count, output;
};
struct PositionTile {
  int64_t first, vectors;
  size_t segments, endSegments;
};
// All that is to be computed for one output phase.
struct PhasePlan {
  std::vector<KernelTap> taps;
  std::vector<PositionTile> tiles;
  std::vector<Segment> segments;
};

// The taps of an output phase.
std::span<const AxisTap> tapsOf(const Axis& a, int64_t phase) {
  auto [begin, end] =
      std::equal_range(a.taps.begin(), a.taps.end(), AxisTap{0, 0, phase, 0},
                       [](const AxisTap& x, const AxisTap& y) { return x.outputPhase < y.outputPhase; });
  return {begin, end};
}

// `lanes` positions a vector, at most `most` vectors a tile; `sampleSize` is the number of outputs of a sample.
PhasePlan planPhase(const Layout& l, const std::array<int64_t, 3>& phase, DimSpan kernel, int64_t lanes, int64_t most,
                    int64_t sampleSize) {
  const auto& [d, h, w] = l.axes;
  PhasePlan plan;
  for (const AxisTap& z : tapsOf(d, phase[0]))
    for (const AxisTap& y : tapsOf(h, phase[1]))
      for (const AxisTap& x : tapsOf(w, phase[2]))
        plan.taps.push_back(
            {l.phaseStart(z.inputPhase, y.inputPhase, x.inputPhase) + l.place(0, z.shift, y.shift, x.shift),
             (z.index * kernel[1] + y.index) * kernel[2] + x.index});
  int64_t depth = d.results(phase[0]), height = h.results(phase[1]), width = w.results(phase[2]);
  int64_t positions = l.place(l.samples - 1, depth - 1, height - 1, width - 1) + 1;
  int64_t vectors = ceilDiv(positions, lanes), tiles = ceilDiv(vectors, most);
  for (int64_t t = 0; t < tiles; ++t) {
    // Tiles of like widths: narrow ones are slow.
    int64_t first = vectors * t / tiles * lanes, end = vectors * (t + 1) / tiles * lanes;
    size_t segments = plan.segments.size();
    for (int64_t at = first; at < std::min(end, positions);) {
      int64_t x = at % w.pitch, row = at / w.pitch, y = row % h.pitch, plane = row / h.pitch, z = plane % d.pitch;
      if (x < width && y < height && z < depth) {
        int64_t output =
            ((phase[0] + z * d.outputStep) * h.out + phase[1] + y * h.outputStep) * w.out + phase[2] + x * w.outputStep;
        plan.segments.push_back({at - first, std::min(width - x, end - at), plane / d.pitch * sampleSize + output});
      }
      at += w.pitch - x;
    }
    plan.tiles.push_back({first, (end - first) / lanes, segments, plan.segments.size()});
  }
  return plan;
}

template <class T>
struct Channels {
  T* out;
  int64_t count, size, step;  // step: from one output of a segment to the next
  const T* bias;              // may be null
};

template <class T>
void computePhase(const ShiftedProductLoops<T>& loops, const PhasePlan& plan, ShiftedProduct<T> product,
                  const Channels<T>& to) {
  alignas(64) T sums[kMaxTileElements];
  int64_t pitch = loops.lanes() * loops.vectors();
  const T *x = product.x, *weights = product.weights;
  product.taps = plan.taps;
  RunContext& context = RunContext::current();
  for (const PositionTile& tile : plan.tiles) {
    product.x = x + tile.first;
    for (int64_t o = 0; o < to.count; o += loops.rows()) {
      int64_t rows = std::min(loops.rows(), to.count - o);
      product.weights = weights + o * product.weightRow;
      loops.run(product, to.bias ? to.bias + o : nullptr, rows, tile.vectors, sums);
      for (int64_t m = 0; m < rows; ++m)
        for (size_t i = tile.segments; i < tile.endSegments; ++i) {
          const Segment& s = plan.segments[i];
          const T* from = sums + m * pitch + s.position;
          T* target = to.out + (o + m) * to.size + s.output;
          if (to.step == 1)
            copyRow(from, s.count, target);
          else
            for (int64_t k = 0; k < s.count; ++k) target[k * to.step] = from[k];
        }
      context.checkInterrupt(rows * product.channels * static_cast<int64_t>(plan.taps.size()));
    }
  }
}

// ---- whole convolutions ----

struct Convolution {
  Axes axes;
  Dims kernel;  // three sizes
  bool transposed;
  Tensor out, input, weight, bias;
  int64_t groups;
  int64_t inputs() const { return input.size(1) / groups; }  // channels of a group
  int64_t outputs() const { return out.size(1) / groups; }
};

constexpr int64_t kLaidOutBytes = int64_t{512} << 10;  // stay in the second-level cache

// The samples first .. end - 1, `count` of them at a time, which divides their number.
template <class T>
void convolveSamples(const Convolution& c, int64_t first, int64_t end, int64_t count) {
  int64_t inCount = c.axes[0].in * c.axes[1].in * c.axes[2].in,
          outCount = c.axes[0].out * c.axes[1].out * c.axes[2].out;
  int64_t inputs = c.inputs(), outputs = c.outputs(), taps = c.kernel[0] * c.kernel[1] * c.kernel[2];
  ShiftedProductLoops<T> loops(outputs);
  Layout l = layoutOf(c.axes, count, loops.lanes());
  std::vector<PhasePlan> phases;
  for (int64_t z = 0; z < c.axes[0].outputPhases; ++z)
    for (int64_t y = 0; y < c.axes[1].outputPhases; ++y)
      for (int64_t x = 0; x < c.axes[2].outputPhases; ++x)
        phases.push_back(planPhase(l, {z, y, x}, c.kernel, loops.lanes(), loops.vectors(), c.out.size(1) * outCount));

  Tensor laidOut = Tensor::zeros(c.input.dtype(), Dims{inputs, l.channel});
  T* x = laidOut.data<T>();
  for (int64_t n = first; n < end; n += count)
    for (int64_t k = 0; k < c.groups; ++k) {
      for (int64_t s = 0; s < count; ++s)
        for (int64_t i = 0; i < inputs; ++i)
          layOut(l, c.input.data<T>() + ((n + s) * c.input.size(1) + k * inputs + i) * inCount,
                 x + i * l.channel + l.place(s, 0, 0, 0));
      ShiftedProduct<T> product{.x = x,
                                .channels = inputs,
                                .channel = l.channel,
                                .weights = c.weight.data<T>() + k * inputs * outputs * taps,
                                .weightRow = c.transposed ? taps : inputs * taps,
                                .weightChannel = c.transposed ? outputs * taps : taps,
                                .taps = {}};
      Channels<T> to{.out = c.out.data<T>() + (n * c.out.size(1) + k * outputs) * outCount,
                     .count = outputs,
                     .size = outCount,
                     .step = c.axes[2].outputStep,
                     .bias = c.bias.defined() ? c.bias.data<T>() + k * outputs : nullptr};
      for (const PhasePlan& plan : phases) computePhase(loops, plan, product, to);
    }
}

template <class T>
void convolveAll(const Convolution& c) {
  // Several samples at a time if they are small.
  int64_t batch = c.input.size(0),
          bytes = c.inputs() * layoutOf(c.axes, 1, 0).channel * static_cast<int64_t>(sizeof(T));
  int64_t count = std::clamp<int64_t>(kLaidOutBytes / std::max<int64_t>(1, bytes), 1, batch),
          whole = batch - batch % count;
  convolveSamples<T>(c, 0, whole, count);
  if (whole < batch) convolveSamples<T>(c, whole, batch, batch - whole);
}

void run(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
         const ConvolutionShape& shape, bool transposed) {
  if (out.numel() == 0) return;
  const bool isHalf = isFloating(out.dtype()) && itemSize(out.dtype()) == 2;
  if (isHalf || (isIntegral(out.dtype(), false) && out.dtype() != DType::Int64)) {
    // 16-bit floats are computed in float32 and rounded once; of integers the lowest bits are the same.
    const DType wide = isHalf ? DType::Float32 : DType::Int64;
    Tensor aside = Tensor::empty(wide, out.sizes());
    run(aside, convertTensor(input, wide), convertTensor(weight, wide),
        bias.defined() ? convertTensor(bias, wide) : bias, shape, transposed);
    return copyTensor(out, aside);
  }
  Dims kernel{1, 1, 1};
  for (int d = 2; d < weight.rank(); ++d) kernel[static_cast<size_t>(d + 5 - weight.rank() - 2)] = weight.size(d);
  Convolution c{axesOf(input.sizes(), out.sizes(), weight.sizes(), shape, transposed),
                kernel,
                transposed,
                out,
                input,
                weight,
                bias,
                shape.groups};
  switch (out.dtype()) {
    case DType::Float32:
      return convolveAll<float>(c);
    case DType::Float64:
      return convolveAll<double>(c);
    case DType::Int64:
      return convolveAll<uint64_t>(c);
    case DType::Complex64:
      return convolveAll<std::complex<float>>(c);
    case DType::Complex128:
      return convolveAll<std::complex<double>>(c);
    default:
      throw ExecutionError(ErrorKind::Unsupported,
                           fmt::format("convolutions are not implemented for {}", pythonName(out.dtype())));
  }
}

}  // namespace

int64_t convolvedSize(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? -1 : room / stride + 1;
}

void convolve(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
              const ConvolutionShape& shape) {
  run(out, input, weight, bias, shape, false);
}

void convolveTransposed(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvolutionShape& shape) {
  run(out, input, weight, bias, shape, true);
}

}  // namespace tscompile
