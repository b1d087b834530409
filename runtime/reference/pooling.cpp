#include "runtime/reference/pooling.h"

#include "runtime/call/run_context.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/loops/reduce.h"

#include <Eigen/Core>

#include <algorithm>
#include <limits>
#include <type_traits>

namespace tscompile {

int64_t pooledSize(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil) {
  int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1 + (ceil ? stride - 1 : 0);
  int64_t out = floorDiv(room, stride) + 1;
  if (ceil && (out - 1) * stride >= in + padding) --out;
  return out;
}

Windows slidingWindows(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                       bool countPadding) {
  Windows w{.in = in, .step = dilation, .windows = {}, .kernel = kernel, .stride = stride, .padding = padding};
  w.windows.reserve(static_cast<size_t>(out));
  for (int64_t o = 0; o < out; ++o) {
    int64_t begin = o * stride - padding, end = std::min(begin + (kernel - 1) * dilation + 1, in + padding);
    int64_t size = end - begin;
    if (begin < 0) begin += (-begin + dilation - 1) / dilation * dilation;
    end = std::min(end, in);
    w.windows.push_back({begin, end, countPadding ? size : std::max<int64_t>(end - begin, 0)});
  }
  return w;
}

Windows adaptiveWindows(int64_t in, int64_t out) {
  Windows w{.in = in, .step = 1, .windows = {}};
  w.windows.reserve(static_cast<size_t>(out));
  for (int64_t o = 0; o < out; ++o) {
    auto begin = static_cast<int64_t>(static_cast<__int128>(o) * in / out);
    auto end = static_cast<int64_t>((static_cast<__int128>(o + 1) * in + out - 1) / out);
    w.windows.push_back({begin, end, end - begin});
  }
  return w;
}

namespace {

// What joins two elements, or a run of them, from `start` on.
template <class T>
struct Max {
  static T start() {
    if constexpr (std::numeric_limits<T>::has_infinity) return -std::numeric_limits<T>::infinity();
    return std::numeric_limits<T>::lowest();
  }
  static bool replaces(T v, T most) { return (v > most) | (v != v); }  // no branch: vectorized
  static T join(T most, T v) { return replaces(v, most) ? v : most; }
  static T run(const T* p, int64_t n) {
    return Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>(p, n).template maxCoeff<Eigen::PropagateNaN>();
  }
};
template <class T>
struct Sum {
  using Wrapping = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>;
  static T start() { return T(0); }
  static T join(T sum, T v) { return static_cast<T>(static_cast<Wrapping>(sum) + static_cast<Wrapping>(v)); }
  static T run(const T* p, int64_t n) {
    return static_cast<T>(
        Eigen::Map<const Eigen::Array<Wrapping, Eigen::Dynamic, 1>>(reinterpret_cast<const Wrapping*>(p), n).sum());
  }
};

// Calls visit(plane, z, y, x windows) in the order of the output.
template <class Visit>
void forEachRow(const WindowGrid& grid, const Tensor& in, Visit&& visit) {
  const Windows &d = grid[0], &h = grid[1], &w = grid[2];
  int64_t size = d.in * h.in * w.in, planes = size ? in.numel() / size : 0;
  RunContext& context = RunContext::current();
  for (int64_t p = 0; p < planes; ++p)
    for (const Window& z : d.windows)
      for (const Window& y : h.windows) {
        visit(p * size, z, y);
        context.checkInterrupt((z.end - z.begin + 1) * (y.end - y.begin + 1) * w.in);
      }
}

// Joins the columns that the windows of a row cover, one tap after the other if the windows are regular.
template <class T, class Op>
void joinColumns(const Windows& w, const T* row, T* out) {
  if (w.stride == 0) {
    for (int64_t o = 0; o < w.out(); ++o) {
      out[o] = Op::start();
      for (int64_t i = w.windows[o].begin; i < w.windows[o].end; ++i) out[o] = Op::join(out[o], row[i]);
    }
    return;
  }
  std::fill_n(out, w.out(), Op::start());
  // Taps outside of these meet only padding.
  int64_t lastAt = (w.out() - 1) * w.stride - w.padding;
  int64_t first = lastAt < 0 ? (-lastAt + w.step - 1) / w.step : 0,
          end = std::min(w.kernel, (w.in + w.padding - 1) / w.step + 1);
  for (int64_t k = first; k < end; ++k) {
    int64_t at = k * w.step - w.padding;  // of window 0
    int64_t begin = at < 0 ? (-at + w.stride - 1) / w.stride : 0,
            stop = std::min(w.out(), at < w.in ? (w.in - 1 - at) / w.stride + 1 : 0);
    const T* from = row + at;
    if (w.stride == 1)
      for (int64_t o = begin; o < stop; ++o) out[o] = Op::join(out[o], from[o]);
    else if (w.stride == 2)
      for (int64_t o = begin; o < stop; ++o) out[o] = Op::join(out[o], from[o * 2]);
    else
      for (int64_t o = begin; o < stop; ++o) out[o] = Op::join(out[o], from[o * w.stride]);
  }
}

// Joins the rows of each window first, which are runs, and then the columns of what comes of it.
template <class T, class Op, class Finish>
void poolRows(const WindowGrid& grid, const Tensor& in, const Tensor& out, Finish&& finish) {
  const Windows &d = grid[0], &h = grid[1], &w = grid[2];
  std::vector<T> joined(static_cast<size_t>(w.in));
  T* to = out.data<T>();
  bool wholeRows = w.out() == 1 && w.windows[0].begin == 0 && w.windows[0].end == w.in && w.step == 1 && h.step == 1;
  forEachRow(grid, in, [&](int64_t plane, const Window& z, const Window& y) {
    const T* from = in.data<T>() + plane;
    int64_t rows = y.end - y.begin;
    if (wholeRows && rows > 0) {
      T result = Op::start();
      for (int64_t iz = z.begin; iz < z.end; iz += d.step)
        result = Op::join(result, Op::run(from + (iz * h.in + y.begin) * w.in, rows * w.in));
      *to++ = finish(result, z, y, w.windows[0]);
      return;
    }
    const T* row = joined.data();
    if (rows == 1 && z.end - z.begin == 1) {
      row = from + (z.begin * h.in + y.begin) * w.in;
    } else {
      std::fill(joined.begin(), joined.end(), Op::start());
      for (int64_t iz = z.begin; iz < z.end; iz += d.step)
        for (int64_t iy = y.begin; iy < y.end; iy += h.step) {
          const T* next = from + (iz * h.in + iy) * w.in;
          for (int64_t x = 0; x < w.in; ++x) joined[x] = Op::join(joined[x], next[x]);
        }
    }
    joinColumns<T, Op>(w, row, to);
    for (const Window& x : w.windows) {
      *to = finish(*to, z, y, x);
      ++to;
    }
  });
}

template <class T>
void maxWithIndices(const WindowGrid& grid, const Tensor& in, T* out, int64_t* indices) {
  const Windows &d = grid[0], &h = grid[1], &w = grid[2];
  forEachRow(grid, in, [&](int64_t plane, const Window& z, const Window& y) {
    const T* from = in.data<T>() + plane;
    for (const Window& x : w.windows) {
      T most = Max<T>::start();
      int64_t at = (z.begin * h.in + y.begin) * w.in + x.begin;
      for (int64_t iz = z.begin; iz < z.end; iz += d.step)
        for (int64_t iy = y.begin; iy < y.end; iy += h.step)
          for (int64_t ix = x.begin; ix < x.end; ix += w.step) {
            int64_t i = (iz * h.in + iy) * w.in + ix;
            if (!Max<T>::replaces(from[i], most)) continue;
            most = from[i];
            at = i;
          }
      *out++ = most;
      *indices++ = at;
    }
  });
}

}  // namespace

void maxPool(const WindowGrid& grid, const Tensor& in, const Tensor& out, const Tensor& indices) {
  withRealCompute(in.dtype(), [&](auto sample) {
    using T = decltype(sample);
    if (indices.defined())
      maxWithIndices<T>(grid, in, out.data<T>(), indices.data<int64_t>());
    else
      poolRows<T, Max<T>>(grid, in, out, [](T most, const Window&, const Window&, const Window&) { return most; });
  });
}

void averagePool(const WindowGrid& grid, const Tensor& in, const Tensor& out, int64_t divisor) {
  withRealCompute(in.dtype(), [&](auto sample) {
    using T = decltype(sample);
    poolRows<T, Sum<T>>(grid, in, out, [&](T sum, const Window& z, const Window& y, const Window& x) {
      bool empty = z.begin >= z.end || y.begin >= y.end || x.begin >= x.end;
      if (empty) return T(0);
      int64_t count = divisor ? divisor : z.count * y.count * x.count;
      if constexpr (std::is_same_v<T, int64_t>) return truncDiv(sum, count);
      return static_cast<T>(sum / static_cast<T>(count));
    });
  });
}

}  // namespace tscompile
