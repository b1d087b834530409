// Images read at the places that a grid tells: grid_sampler, and affine_grid_generator that makes such grids.
#include "runtime/call/kernel_call.h"
#include "runtime/engine/layers/sampling_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/grid_coordinates.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/matmul.h"
#include "runtime/reference/views.h"

#include <cmath>

namespace tscompile {
namespace {

using Mode = GridMode;
template <class T>
using Coordinates = GridCoordinates<T>;

template <size_t kRank>  // 0: 4 or 5
void inferGridSampler(InferCall& call) {
  TensorInfo x = call.rankedTensor(0), grid = call.rankedTensor(1);
  call.require((x.rank() == 4 || x.rank() == 5) && x.rank() == grid.rank() && (kRank == 0 || x.rank() == kRank),
               "expected an input and a grid of {} dimensions, but got sizes {} and {}",
               kRank == 0   ? "4 or 5"
               : kRank == 4 ? "4"
                            : "5",
               dimsText(x.sizes), dimsText(grid.sizes));
  call.require(x.dtype == grid.dtype || x.dtype == DType::Undefined || grid.dtype == DType::Undefined,
               "expected input and grid to have the same dtype, but got {} and {}", pythonName(x.dtype),
               pythonName(grid.dtype));
  call.require(!differ(x.sizes[0], grid.sizes[0]),
               "grid_sampler(): expected grid and input to have same batch size, but got input with sizes {} and grid "
               "with sizes {}",
               dimsText(x.sizes), dimsText(grid.sizes));
  auto spatial = static_cast<int64_t>(x.rank()) - 2;
  call.require(!differ(grid.sizes.back(), spatial), "expected grid to have size {} in last dimension, but got size {}",
               spatial, dimsText(grid.sizes));
  for (size_t d = 2; d < x.rank(); ++d)
    call.require(x.sizes[d] != 0, "expected input to have non-empty spatial dimensions, but got size {}",
                 dimsText(x.sizes));
  int64_t mode = call.integer(2), padding = call.integer(3);
  call.require(mode >= 0 && mode <= (x.rank() == 4 ? 2 : 1),
               "interpolation mode {} is not known for an input of size {}", mode, dimsText(x.sizes));
  call.require(padding >= 0 && padding <= 2, "padding mode {} is not known", padding);
  Dims sizes{x.sizes[0], x.sizes[1]};
  for (size_t d = 1; d + 1 < grid.rank(); ++d) sizes.push_back(grid.sizes[d]);
  call.result(x.dtype, sizes);
}

// An element of a plane, or 0 outside of it. Coordinates are whole numbers.
template <class T>
struct Plane {
  const T* data;
  int64_t depth, height, width;
  static bool inside(T v, int64_t size) { return v >= 0 && v <= static_cast<T>(size - 1); }
  T at(T y, T x) const {
    return inside(y, height) && inside(x, width) ? data[static_cast<int64_t>(y) * width + static_cast<int64_t>(x)]
                                                 : T(0);
  }
  bool holds(T z, T y, T x) const { return inside(z, depth) && inside(y, height) && inside(x, width); }
  T at(T z, T y, T x) const {
    return data[(static_cast<int64_t>(z) * height + static_cast<int64_t>(y)) * width + static_cast<int64_t>(x)];
  }
};

template <class T>
T sampleImage(const Plane<T>& p, Mode mode, const Coordinates<T>& c, T gx, T gy) {
  if (mode == Mode::Bicubic) {
    T x = c.scaled(gx, p.width), y = c.scaled(gy, p.height), x0 = std::floor(x), y0 = std::floor(y), wx[4], wy[4],
      sum = 0;
    cubicWeights(x - x0, wx);
    cubicWeights(y - y0, wy);
    for (int i = 0; i < 4; ++i) {
      T row = 0, yi = c.bounded(y0 + static_cast<T>(i - 1), p.height);
      for (int j = 0; j < 4; ++j) row += p.at(yi, c.bounded(x0 + static_cast<T>(j - 1), p.width)) * wx[j];
      sum += row * wy[i];
    }
    return sum;
  }
  T x = c.source(gx, p.width), y = c.source(gy, p.height);
  if (mode == Mode::Nearest) return p.at(std::nearbyint(y), std::nearbyint(x));
  T x0 = std::floor(x), y0 = std::floor(y), e = x - x0, w = 1 - e, s = y - y0, n = 1 - s;
  return p.at(y0, x0) * (n * w) + p.at(y0, x0 + 1) * (n * e) + p.at(y0 + 1, x0) * (s * w) +
         p.at(y0 + 1, x0 + 1) * (s * e);
}

template <class T>
T sampleVolume(const Plane<T>& p, Mode mode, const Coordinates<T>& c, T gx, T gy, T gz) {
  T x = c.source(gx, p.width), y = c.source(gy, p.height), z = c.source(gz, p.depth);
  if (mode == Mode::Nearest) {
    x = std::nearbyint(x), y = std::nearbyint(y), z = std::nearbyint(z);
    return p.holds(z, y, x) ? p.at(z, y, x) : T(0);
  }
  T x0 = std::floor(x), y0 = std::floor(y), z0 = std::floor(z), sum = 0;
  for (int corner = 0; corner < 8; ++corner) {
    T dx = static_cast<T>(corner & 1), dy = static_cast<T>(corner >> 1 & 1), dz = static_cast<T>(corner >> 2);
    if (!p.holds(z0 + dz, y0 + dy, x0 + dx)) continue;
    T weight = (dx != 0 ? x - x0 : x0 + 1 - x) * (dy != 0 ? y - y0 : y0 + 1 - y) * (dz != 0 ? z - z0 : z0 + 1 - z);
    sum += p.at(z0 + dz, y0 + dy, x0 + dx) * weight;
  }
  return sum;
}

void gridSamplerKernel(KernelCall& call) {
  Tensor x = denseTensor(call.tensor(0)), grid = denseTensor(call.tensor(1));
  DenseResult out(call.out());
  auto mode = static_cast<Mode>(call.integer(2));
  bool isVolume = x.rank() == 5;
  int64_t batch = x.size(0), channels = x.size(1), width = x.size(x.rank() - 1), height = x.size(x.rank() - 2),
          depth = isVolume ? x.size(2) : 1;
  int64_t places = channels ? out.tensor().numel() / std::max<int64_t>(batch * channels, 1) : 0, dims = x.rank() - 2;
  withFloating(x.dtype(), [&](auto sample) {
    using T = decltype(sample);
    Coordinates<T> coordinates{static_cast<GridPadding>(call.integer(3)), call.flag(4), isVolume};
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t c = 0; c < channels; ++c) {
        Plane<T> plane{x.data<T>() + (n * channels + c) * depth * height * width, depth, height, width};
        const T* g = grid.data<T>() + n * places * dims;
        T* to = out.data<T>() + (n * channels + c) * places;
        for (int64_t i = 0; i < places; ++i, g += dims)
          to[i] = isVolume ? sampleVolume(plane, mode, coordinates, g[0], g[1], g[2])
                           : sampleImage(plane, mode, coordinates, g[0], g[1]);
        call.context().checkInterrupt(places * 4);
      }
  });
  out.store();
}

// ---- affine_grid_generator ----

void inferAffineGrid(InferCall& call) {
  TensorInfo theta = call.rankedTensor(0);
  Dims size = call.sizes(1);
  call.require(size.size() == 4 || size.size() == 5,
               "affine grids need 4d (spatial) or 5d (volumetric) sizes, but got {}", dimsText(size));
  for (int64_t s : size) call.require(s >= 0 || !call.isRun(), "the size {} is negative", dimsText(size));
  auto spatial = static_cast<int64_t>(size.size()) - 2;
  call.require(theta.rank() == 3 && !differ(theta.sizes[0], size[0]) && !differ(theta.sizes[1], spatial) &&
                   !differ(theta.sizes[2], spatial + 1),
               "expected a batch of {}x{} matrices of size {}, but got {}", spatial, spatial + 1, size[0],
               dimsText(theta.sizes));
  Dims sizes{size[0]};
  for (size_t d = 2; d < size.size(); ++d) sizes.push_back(size[d]);
  sizes.push_back(spatial);
  call.result(theta.dtype, sizes);
}

// Element i of `count` from -1 to 1, the outer ones half a step inside if corners are not aligned.
template <class T>
T stepFromMinusOne(int64_t i, int64_t count, bool alignCorners) {
  if (count <= 1) return T(0);
  T step = T(2) / static_cast<T>(count - 1);
  T at = i < count / 2 ? -1 + step * static_cast<T>(i) : 1 - step * static_cast<T>(count - 1 - i);
  return alignCorners ? at : at * static_cast<T>(count - 1) / static_cast<T>(count);
}

// Every place of the image as (x, y, 1) or (x, y, z, 1): what the matrices are multiplied by.
Tensor placesOf(const KernelCall& call, DType dtype) {
  Dims size = call.integers(1);
  int64_t spatial = static_cast<int64_t>(size.size()) - 2, places = 1;
  for (int64_t d = 2; d < spatial + 2; ++d) places *= size[d];
  Tensor base = Tensor::empty(dtype, Dims{places, spatial + 1});
  withFloating(dtype, [&](auto sample) {
    using T = decltype(sample);
    T* to = base.data<T>();
    for (int64_t i = 0; i < places; ++i) {
      int64_t rest = i;
      for (int64_t d = 0; d < spatial; ++d) {  // x first
        int64_t count = size[spatial + 1 - d];
        *to++ = stepFromMinusOne<T>(rest % count, count, call.flag(2));
        rest /= count;
      }
      *to++ = T(1);
    }
  });
  return base;
}

void affineGridKernel(KernelCall& call) {
  Tensor theta = denseTensor(call.tensor(0));
  DenseResult out(call.out());
  if (out.tensor().numel() == 0) return out.store();
  const Tensor base = placesOf(call, theta.dtype());
  const int64_t count = theta.size(0), places = base.size(0), spatial = theta.size(1);
  matmulInto(reshaped(out.tensor(), Dims{count, places, spatial}), expandedTo(base, Dims{count, places, spatial + 1}),
             transposed(theta, 1, 2));
  out.store();
}

void convertAffineGrid(ConvertCall& call) {
  const Tensor theta = call.tensor(0);
  if (theta.dtype() != DType::Float32) return convertToKernel(call, "the matrices are not float32");
  if (checkedNumel(call.spec().sizes).value_or(0) == 0) return convertToKernel(call, "the grid has no elements");
  const IValue columns = call.compute("aten::transpose.int", {theta, int64_t{1}, int64_t{2}});
  const IValue made = call.compute("aten::matmul", {placesOf(call, DType::Float32), columns});
  call.setResult(0, call.compute("aten::reshape", {made, intList(call.spec().sizes)}));
}

}  // namespace

void registerSamplingOps(OpRegistry& ops) {
  auto add = [&](const char* schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert = nullptr) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = kFloatingTypes});
  };
  add("aten::grid_sampler", inferGridSampler<0>, gridSamplerKernel, convertGridSampler);
  add("aten::grid_sampler_2d", inferGridSampler<4>, gridSamplerKernel, convertGridSampler);
  add("aten::grid_sampler_3d", inferGridSampler<5>, gridSamplerKernel);
  add("aten::affine_grid_generator", inferAffineGrid, affineGridKernel, convertAffineGrid);
}

}  // namespace tscompile
