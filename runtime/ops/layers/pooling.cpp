// Pooling: max_pool, avg_pool, their adaptive forms, max_unpool, fractional_max_pool.
#include "runtime/reference/pooling.h"

#include "ir/support/text.h"
#include "ir/values/size_expression.h"
#include "runtime/call/kernel_call.h"
#include "runtime/engine/layers/alone/pool_places_layer.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/row_layers.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/kept_format.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/reduce.h"

#include <cmath>
#include <cstring>

namespace tscompile {
namespace {

// The spatial dimensions of an input with or without a batch dimension; dimensions from `first` on must have elements.
DimSpan spatialSizes(const InferCall& call, const TensorInfo& x, size_t spatial, size_t first) {
  call.require(x.rank() == spatial + 1 || x.rank() == spatial + 2,
               "non-empty {}D or {}D (batch mode) tensor expected for input", spatial + 1, spatial + 2);
  for (size_t d = first; d < x.rank(); ++d)
    call.require(x.sizes[d] != 0, "expected an input with non-zero size for non-batch dimensions, but got size {}",
                 dimsText(x.sizes));
  return x.sizes.subspan(x.rank() - spatial);
}
// All but the batch dimension must have elements.
DimSpan spatialSizes(const InferCall& call, const TensorInfo& x, size_t spatial) {
  return spatialSizes(call, x, spatial, x.rank() == spatial + 2 ? 1 : 0);
}

// A list of one number stands for all dimensions.
Dims poolingSizes(const InferCall& call, const Dims& list, size_t spatial, const char* what) {
  call.require(list.size() == spatial || list.size() == 1,
               "{} must be a single integer or a list of {} integers, but got {}", what, spatial, dimsText(list));
  return list.size() == spatial ? list : Dims(spatial, list[0]);
}

// Three sizes, the missing ones in front being 1.
Dims inThree(DimSpan sizes, int64_t otherwise = 1) {
  Dims out(3 - sizes.size(), otherwise);
  out.append(sizes.begin(), sizes.end());
  return out;
}

Dims withSpatial(const TensorInfo& x, const Dims& spatial) {
  Dims sizes(x.sizes.first(x.rank() - spatial.size()));
  sizes.append(spatial.begin(), spatial.end());
  return sizes;
}

// ---- windows of a fixed size ----

struct Pooling {
  Dims kernel, stride, padding, dilation, out;
  bool ceil;
};

constexpr size_t kNowhere = 0;  // no such argument

// Arguments: kernel, stride, padding, and where the others stand.
// A window is left out that would start after the padding in front and the input.
int64_t symbolicPooledSize(int64_t in, const Pooling& p, size_t i) {
  SizeExpression size = SizeExpression::ofSize(in);
  SizeExpression room = size + 2 * p.padding[i] - p.dilation[i] * (p.kernel[i] - 1) - 1;
  if (!p.ceil) return (floorDiv(room, p.stride[i]) + 1).size();
  return (least(ceilDiv(room, p.stride[i]), floorDiv(size + p.padding[i] - 1, p.stride[i])) + 1).size();
}

// Sizes as PyTorch writes them: 1x3x3.
std::string crossed(DimSpan sizes) {
  return join(sizes, "x", [](int64_t s) { return std::to_string(s); });
}

void requireOutput(const InferCall& call, const TensorInfo& x, DimSpan in, const Dims& out) {
  bool fits = true;
  for (size_t i = 0; i < out.size(); ++i) fits &= !isKnownSize(in[i]) || out[i] > 0;
  if (fits) return;
  Dims given(x.sizes.last(out.size() + 1)), made(out);
  made.insert(0, given[0]);
  call.fail("given input size: ({}). Calculated output size: ({}). Output size is too small", crossed(given),
            crossed(made));
}

Pooling describe(const InferCall& call, size_t spatial, size_t dilationAt, size_t ceilAt) {
  TensorInfo x = call.rankedTensor(0);
  DimSpan in = spatialSizes(call, x, spatial);
  Pooling p;
  p.kernel = poolingSizes(call, call.integers(1), spatial, "kernel_size");
  Dims stride = call.integers(2);
  p.stride = stride.empty() ? p.kernel : poolingSizes(call, stride, spatial, "stride");
  p.padding = poolingSizes(call, call.integers(3), spatial, "padding");
  p.dilation =
      dilationAt == kNowhere ? Dims(spatial, 1) : poolingSizes(call, call.integers(dilationAt), spatial, "dilation");
  p.ceil = call.flag(ceilAt);
  for (size_t i = 0; i < spatial; ++i) {
    call.require(p.stride[i] != 0, "stride should not be zero");
    call.require(p.kernel[i] > 0, "kernel size should be greater than zero, but got {}", dimsText(p.kernel));
    call.require(p.stride[i] > 0, "stride should be greater than zero, but got {}", dimsText(p.stride));
    call.require(p.dilation[i] > 0, "dilation should be greater than zero, but got {}", dimsText(p.dilation));
    call.require(std::max({p.kernel[i], p.stride[i], p.padding[i], p.dilation[i]}) <= INT32_MAX,
                 "integer out of range");
    call.require(p.padding[i] >= 0, "pad must be non-negative, but got pad: {}", p.padding[i]);
    call.require(p.padding[i] <= ((p.kernel[i] - 1) * p.dilation[i] + 1) / 2,
                 "pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and dilation={}",
                 p.padding[i], p.kernel[i], p.dilation[i]);
    int64_t out = isKnownSize(in[i]) ? pooledSize(in[i], p.kernel[i], p.stride[i], p.padding[i], p.dilation[i], p.ceil)
                                     : symbolicPooledSize(in[i], p, i);
    p.out.push_back(out);
  }
  requireOutput(call, x, in, p.out);
  return p;
}

WindowGrid gridOf(const Pooling& p, const Tensor& x, bool countPadding) {
  size_t spatial = p.kernel.size();
  Dims in = inThree(x.sizes().subspan(x.sizes().size() - spatial)), out = inThree(p.out), kernel = inThree(p.kernel),
       stride = inThree(p.stride);
  Dims padding = inThree(p.padding, 0), dilation = inThree(p.dilation);
  WindowGrid grid;
  for (size_t i = 0; i < 3; ++i)
    grid[i] = slidingWindows(in[i], out[i], kernel[i], stride[i], padding[i], dilation[i], countPadding);
  return grid;
}

// Pools into the first result; with a second one, that takes the places of the maxima.
void poolMax(KernelCall& call, const WindowGrid& grid) {
  Tensor x = denseTensor(call.tensor(0)), indices = call.resultCount() > 1 ? call.out(1) : Tensor();
  DenseResult out(call.out());
  maxPool(grid, x, out.tensor(), indices);
  out.store();
}
void poolAverage(KernelCall& call, const WindowGrid& grid, int64_t divisor) {
  Tensor x = denseTensor(call.tensor(0));
  DenseResult out(call.out());
  averagePool(grid, x, out.tensor(), divisor);
  out.store();
}

template <size_t kSpatial>
void inferMaxPool(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  Dims sizes = withSpatial(x, describe(call, kSpatial, 4, 5).out);
  call.result(x.dtype, sizes);
  if (call.op().schema().returns.size() > 1) call.result(DType::Int64, sizes);
}
template <size_t kSpatial>
void maxPoolKernel(KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  poolMax(call, gridOf(describe(infer, kSpatial, 4, 5), call.tensor(0), false));
}

// Means of volumes look at sizes without what is padded.
void requireImage(const InferCall& call, const TensorInfo& x, const Dims& kernel) {
  const DimSpan in = x.sizes.subspan(x.rank() - 3);
  for (size_t i = 0; i < 3; ++i)
    call.require(!isKnownSize(in[i]) || in[i] >= kernel[i],
                 "input image (T: {} H: {} W: {}) smaller than kernel size (kT: {} kH: {} kW: {})", in[0], in[1], in[2],
                 kernel[0], kernel[1], kernel[2]);
}

template <size_t kSpatial>
void inferAveragePool(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  const Pooling pooling = describe(call, kSpatial, kNowhere, 4);
  if constexpr (kSpatial == 3) requireImage(call, x, pooling.kernel);
  Dims sizes = withSpatial(x, pooling.out);
  if (kSpatial > 1 && !call.isNone(6)) call.require(call.integer(6) != 0, "divisor must be not zero");
  call.result(x.dtype, sizes);
}
template <size_t kSpatial>
void averagePoolKernel(KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  WindowGrid grid = gridOf(describe(infer, kSpatial, kNowhere, 4), call.tensor(0), call.flag(5));
  poolAverage(call, grid, kSpatial > 1 && !call.isNone(6) ? call.integer(6) : 0);
}

// ---- as many windows as asked for ----

// Whether PyTorch computes an adaptive average by `mean`.
bool takesMean(const InferCall& call, const Dims& out) {
  const std::string_view name = call.op().kind().name();
  return (name == "adaptive_avg_pool2d" || name == "adaptive_avg_pool3d") &&
         std::ranges::all_of(out, [](int64_t o) { return o == 1; });
}

template <size_t kSpatial>
void inferAdaptivePool(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  Dims out = call.sizes(1);
  call.require(out.size() == kSpatial, "output_size must be {}", kSpatial);
  // One mean of all is a mean, which takes any rank and no elements as well.
  if (takesMean(call, out) && x.rank() >= kSpatial) return call.result(x.dtype, withSpatial(x, out));
  // Maxima, and averages of volumes, look at channels too.
  const bool looksAtChannels = kSpatial == 3 || call.op().kind().name().starts_with("adaptive_max");
  const size_t first = std::max(x.rank(), kSpatial) - kSpatial;
  spatialSizes(call, x, kSpatial, looksAtChannels && first == 2 ? 1 : first);
  for (int64_t o : out)
    call.require(o >= 0 || !call.isRun(), "elements of output_size must be greater than or equal to 0, but got {}",
                 dimsText(out));
  Dims sizes = withSpatial(x, out);
  call.result(x.dtype, sizes);
  if (call.op().schema().returns.size() > 1) call.result(DType::Int64, sizes);
}

WindowGrid adaptiveGrid(KernelCall& call, size_t spatial) {
  Tensor x = call.tensor(0);
  const Dims& sizes = call.spec().sizes;
  Dims in = inThree(x.sizes().subspan(x.sizes().size() - spatial)),
       out = inThree(DimSpan(sizes).subspan(sizes.size() - spatial));
  call.out();  // fails before anything else is made if it is too large
  WindowGrid grid;
  if (call.out().numel())
    for (size_t i = 0; i < 3; ++i) grid[i] = adaptiveWindows(in[i], out[i]);
  return grid;
}
template <size_t kSpatial>
void adaptiveMaxKernel(KernelCall& call) {
  poolMax(call, adaptiveGrid(call, kSpatial));
}
template <size_t kSpatial>
void adaptiveAverageKernel(KernelCall& call) {
  if (call.tensor(0).numel() == 0) return fillTensor(call.out(), std::numeric_limits<double>::quiet_NaN());
  poolAverage(call, adaptiveGrid(call, kSpatial), 0);
}

// ---- fractional_max_pool: windows at pseudo-random distances ----

template <size_t kSpatial>
void inferFractional(InferCall& call) {
  TensorInfo x = call.rankedTensor(0), samples = call.rankedTensor(3);
  DimSpan in = spatialSizes(call, x, kSpatial);
  Dims kernel = poolingSizes(call, call.integers(1), kSpatial, "kernel_size"),
       out = poolingSizes(call, call.integers(2), kSpatial, "output_size");
  for (size_t i = 0; i < kSpatial; ++i) {
    call.require(kernel[i] > 0 && out[i] > 0,
                 "kernel_size and output_size must be greater than zero, but got {} and {}", dimsText(kernel),
                 dimsText(out));
    call.require(!isKnownSize(in[i]) || (kernel[i] <= in[i] && out[i] <= in[i] - kernel[i] + 1),
                 "windows of size {} for an output of size {} do not fit an input of size {}", dimsText(kernel),
                 dimsText(out), dimsText(x.sizes));
  }
  bool batched = x.rank() == kSpatial + 2;
  call.require(samples.dtype == x.dtype || !call.isRun(), "expected random samples of dtype {}, but got {}",
               pythonName(x.dtype), pythonName(samples.dtype));
  call.require(samples.rank() == 3, "expected random samples of 3 dimensions, but got {}", samples.rank());
  if (call.isRun())
    call.require(samples.sizes[0] >= (batched ? x.sizes[0] : 1) && samples.sizes[1] >= x.sizes[batched ? 1 : 0] &&
                     samples.sizes[2] == static_cast<int64_t>(kSpatial),
                 "random samples of size {} do not fit an input of size {}", dimsText(samples.sizes),
                 dimsText(x.sizes));
  Dims sizes = withSpatial(x, out);
  call.result(x.dtype, sizes);
  call.result(DType::Int64, sizes);
}

// All windows but the last are spread evenly from a start that `sample` in [0, 1) gives.
template <class T>
Windows fractionalWindows(int64_t in, int64_t out, int64_t kernel, T sample) {
  Windows w{.in = in, .step = 1, .windows = {}};
  for (int64_t o = 0; o < out; ++o) {
    int64_t begin = in - kernel;
    if (o < out - 1) {
      T distance = static_cast<T>(in - kernel) / static_cast<T>(out - 1);
      T at = std::trunc((static_cast<T>(o) + sample) * distance) - std::trunc(sample * distance);
      begin = at >= 0 && at <= static_cast<T>(begin) ? static_cast<int64_t>(at) : begin;
    }
    w.windows.push_back({begin, begin + kernel, kernel});
  }
  return w;
}

template <size_t kSpatial>
void fractionalKernel(KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  Tensor x = denseTensor(call.tensor(0)), samples = denseTensor(call.tensor(3)), indices = call.out(1);
  DenseResult out(call.out());
  auto spatial = [](const Tensor& t) { return inThree(t.sizes().subspan(t.sizes().size() - kSpatial)); };
  Dims in = spatial(x), size = spatial(out.tensor()),
       kernel = inThree(poolingSizes(infer, call.integers(1), kSpatial, "kernel_size"));
  int64_t planeIn = in[0] * in[1] * in[2], planeOut = size[0] * size[1] * size[2], planes = x.numel() / planeIn;
  int64_t channels = x.size(x.rank() - static_cast<int>(kSpatial) - 1);
  withFloating(x.dtype(), [&](auto sample) {
    using T = decltype(sample);
    for (int64_t p = 0; p < planes; ++p) {
      const T* random =
          samples.data<T>() + (p / channels * samples.size(1) + p % channels) * static_cast<int64_t>(kSpatial);
      WindowGrid grid;
      // In two dimensions the first sample is for the width.
      for (size_t i = 0; i < 3; ++i)
        grid[i] = fractionalWindows<T>(in[i], size[i], kernel[i],
                                       i < 3 - kSpatial ? T(0) : random[kSpatial == 2 ? 2 - i : i]);
      auto planeOf = [](const Tensor& t, int64_t count, int64_t at) {
        return t.withGeometry(Dims{count}, Dims{1}, t.offset() + at * count);
      };
      maxPool(grid, planeOf(x, planeIn, p), planeOf(out.tensor(), planeOut, p), planeOf(indices, planeOut, p));
    }
  });
  out.store();
}

// ---- max_unpool: values go back to where they were the maximum ----

template <size_t kSpatial>
void inferUnpool(InferCall& call) {
  TensorInfo x = call.rankedTensor(0), indices = call.rankedTensor(1);
  spatialSizes(call, x, kSpatial);
  call.require(indices.dtype == DType::Int64 || indices.dtype == DType::Undefined,
               "elements in indices should be of type int64 but got {}", pythonName(indices.dtype));
  bool same = x.rank() == indices.rank();
  for (size_t d = 0; same && d < x.rank(); ++d)
    same = x.sizes[d] == indices.sizes[d] || !isKnownSize(x.sizes[d]) || !isKnownSize(indices.sizes[d]);
  call.require(same, "expected shape of indices to be the same as that of the input ({}) but got {}", dimsText(x.sizes),
               dimsText(indices.sizes));
  Dims out = call.sizes(2);
  call.require(out.size() == kSpatial, "there should be exactly {} elements in output_size, but got {}", kSpatial,
               out.size());
  for (int64_t o : out)
    call.require(o >= 0 || !call.isRun(), "output_size must not be negative, but got {}", dimsText(out));
  if (kSpatial == 3) {
    Dims stride = call.integers(3), padding = call.integers(4);
    call.require(stride.size() == 3 && padding.size() == 3,
                 "there should be exactly three elements in stride and padding, but got {} and {}", stride.size(),
                 padding.size());
    for (int64_t s : stride)
      call.require(s > 0, "strides should be greater than zero, but got stride: {}", dimsText(stride));
  }
  call.result(x.dtype, withSpatial(x, out));
}

template <size_t kSpatial>
void unpoolKernel(KernelCall& call) {
  Tensor x = denseTensor(call.tensor(0)), indices = contiguous(call.tensor(1));
  call.setResult(Tensor::zeros(call.spec().dtype, call.spec().sizes));
  Tensor result = call.out();
  DenseResult out(result);
  std::memset(out.tensor().raw(), 0, static_cast<size_t>(out.tensor().numel()) * itemSize(out.tensor().dtype()));
  int64_t planeIn = 1, planeOut = 1;
  for (int d = x.rank() - static_cast<int>(kSpatial); d < x.rank(); ++d) {
    planeIn *= x.size(d);
    planeOut *= result.size(d);
  }
  withRealCompute(x.dtype(), [&](auto sample) {
    using T = decltype(sample);
    for (int64_t i = 0; i < (planeOut ? x.numel() : 0); ++i) {
      int64_t at = indices.data<int64_t>()[i];
      call.require(at >= 0 && at < planeOut, "found an invalid max index: {} (output planes have {} elements)", at,
                   planeOut);
      out.data<T>()[i / planeIn * planeOut + at] = x.data<T>()[i];
    }
  });
  out.store();
}

// Whether somebody reads the places of maxima.
bool areAsked(const ConvertCall& call) {
  const Node* n = call.node();
  return !n || n->kind() != call.op().kind() || n->output(1)->useCount() > 0;
}
constexpr std::string_view kMaxPools[] = {"aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d"};

template <size_t kSpatial>
void convertMaxPlaces(ConvertCall& call) {
  InferCall sizes(call.op(), call.arguments(), call.size());
  if (areAsked(call))
    return addMaxPlaces(call, gridOf(describe(sizes, kSpatial, 4, 5), call.tensor(0), false), kSpatial);
  std::vector<IValue> arguments;
  for (size_t i = 0; i < call.size(); ++i) arguments.push_back(call.argument(i));
  call.setResult(0, call.compute(kMaxPools[kSpatial - 1], std::move(arguments)));
  call.setResult(1, Tensor());
}
template <size_t kSpatial>
void convertMaxUnpool(ConvertCall& call) {
  const Tensor x = call.tensor(0), places = call.tensor(1);
  const Dims& sizes = call.spec().sizes;
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (x.numel() == 0 || checkedNumel(sizes).value_or(0) == 0) return convertToKernel(call, kEmpty);
  int64_t planes = 1;
  for (size_t d = 0; d + kSpatial < sizes.size(); ++d) planes *= sizes[d];
  const IValue rows = intList(Dims{planes, *checkedNumel(sizes) / planes}), ownRows = intList(Dims{planes, -1});
  const IValue zeros = call.compute("aten::zeros", {rows, static_cast<int64_t>(x.dtype())});
  const IValue placed = call.compute("aten::scatter.src", {zeros, 1, call.compute("aten::reshape", {places, ownRows}),
                                                           call.compute("aten::reshape", {x, ownRows})});
  call.setResult(0, call.compute("aten::reshape", {placed, intList(sizes)}));
}

// Where the windows are all alike, and nobody asks for their places.
template <size_t kSpatial>
void convertAdaptiveMaxPool(ConvertCall& call) {
  const Tensor x = call.tensor(0);
  const Dims& out = call.spec().sizes;
  if (!isF32OrHalf(x) || x.numel() == 0) return convertToKernel(call, "it is neither float32 nor of 16 bits, or empty");
  if (checkedNumel(out) == 0) return convertToKernel(call, kEmpty);
  if (areAsked(call)) {
    const Dims from = inThree(x.sizes().subspan(out.size() - kSpatial)), to = inThree(DimSpan(out).last(kSpatial));
    return addMaxPlaces(
        call, {adaptiveWindows(from[0], to[0]), adaptiveWindows(from[1], to[1]), adaptiveWindows(from[2], to[2])},
        kSpatial);
  }
  Dims window, dims, none(kSpatial, 0), ones(kSpatial, 1);
  bool isWhole = true;
  for (size_t d = out.size() - kSpatial; d < out.size(); ++d) {
    const int64_t size = x.size(static_cast<int>(d));
    if (size % out[d] != 0) return convertToKernel(call, "its windows are of several sizes");
    window.push_back(size / out[d]);
    dims.push_back(static_cast<int64_t>(d));
    isWhole &= out[d] == 1;
  }
  const IValue sizes = intList(window);
  call.setResult(
      0, isWhole ? call.compute("aten::amax", {x, intList(dims), true})
                 : call.compute(kMaxPools[kSpatial - 1], {x, sizes, sizes, intList(none), intList(ones), false}));
  call.setResult(1, Tensor());
}

}  // namespace

void registerPoolingOps(OpRegistry& ops) {
  constexpr DTypeSet kAveraged = kFloatingTypes | DTypeSet{DType::Int64};
  constexpr DTypeSet kTotalled{DType::Float32, DType::Float64, DType::Int64};  // in their own dtype
  auto add = [&](const char* schema, InferFunction infer, KernelFunction kernel, DTypeSet dtypes = kRealTypes,
                 ConvertFunction convert = nullptr) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = dtypes,
             .traits = {Trait::RoundsOnce}});
  };
  add("aten::max_pool1d", inferMaxPool<1>, maxPoolKernel<1>, kFloatingTypes, convertMaxPool<1>);
  add("aten::max_pool1d_with_indices", inferMaxPool<1>, maxPoolKernel<1>, kRealTypes, convertMaxPlaces<1>);
  add("aten::max_pool2d", inferMaxPool<2>, keepingFormat<maxPoolKernel<2>, 2>, kRealTypes, convertMaxPool<2>);
  add("aten::max_pool2d_with_indices", inferMaxPool<2>, keepingFormat<maxPoolKernel<2>, 2>, kRealTypes,
      convertMaxPlaces<2>);
  for (const char* name : {"aten::max_pool3d", "aten::max_pool3d_with_indices"})
    add(name, inferMaxPool<3>, keepingFormat<maxPoolKernel<3>, 2>, kRealTypes,
        std::string_view(name).ends_with("3d") ? convertMaxPoolVolume : convertMaxPlaces<3>);
  add("aten::avg_pool1d", inferAveragePool<1>, keepingFormatOfSeries<averagePoolKernel<1>>, kAveraged,
      convertAveragePool<1>);
  add("aten::avg_pool2d", inferAveragePool<2>, keepingFormat<averagePoolKernel<2>>, kAveraged, convertAveragePool<2>);
  add("aten::avg_pool3d", inferAveragePool<3>, averagePoolKernel<3>, kTotalled, convertAveragePoolVolume);
  add("aten::adaptive_max_pool1d", inferAdaptivePool<1>, keepingFormatOfSeries<adaptiveMaxKernel<1>, 2>, kFloatingTypes,
      convertAdaptiveMaxPool<1>);
  add("aten::adaptive_max_pool2d", inferAdaptivePool<2>, keepingFormat<adaptiveMaxKernel<2>, 2>, kFloatingTypes,
      convertAdaptiveMaxPool<2>);
  add("aten::adaptive_max_pool3d", inferAdaptivePool<3>, adaptiveMaxKernel<3>, kFloatingTypes,
      convertAdaptiveMaxPool<3>);
  add("aten::adaptive_avg_pool1d", inferAdaptivePool<1>, keepingFormatOfSeries<adaptiveAverageKernel<1>>,
      kFloatingTypes, convertAdaptiveAveragePool<1>);
  for (const char* name : {"aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d"})
    add(name, inferAdaptivePool<2>, keepingFormat<adaptiveAverageKernel<2>>, kFloatingTypes,
        convertAdaptiveAveragePool<2>);
  for (const char* name : {"aten::adaptive_avg_pool3d", "aten::_adaptive_avg_pool3d"})
    add(name, inferAdaptivePool<3>, adaptiveAverageKernel<3>, kFloatingTypes, convertAdaptiveAveragePool<3>);
  add("aten::fractional_max_pool2d", inferFractional<2>, fractionalKernel<2>, kFloatingTypes);
  add("aten::fractional_max_pool3d", inferFractional<3>, fractionalKernel<3>, kFloatingTypes);
  add("aten::max_unpool2d", inferUnpool<2>, unpoolKernel<2>, kRealTypes, convertMaxUnpool<2>);
  add("aten::max_unpool3d", inferUnpool<3>, unpoolKernel<3>, kRealTypes, convertMaxUnpool<3>);
}

}  // namespace tscompile
