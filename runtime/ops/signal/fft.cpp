// Fourier transforms along one dimension or several, of complex, real and Hermitian input.
#include "runtime/reference/fft.h"

#include "ir/values/size_expression.h"
#include "runtime/engine/layers/fourier_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"

#include <algorithm>

namespace tscompile {
namespace {

// What goes in and comes out: complex to complex, real to complex (of which half is computed), complex (of which half
// is given) to real.
enum class Kind { Complex, Real, Hermitian };

DType resultDType(Kind kind, DType d) {
  if (d == DType::Undefined) return d;
  d = complexOf(toFloating(d));
  return kind == Kind::Hermitian ? realPart(d) : d;
}

// The dimensions that a call transforms and how many points each has; kUnknownSize where that is not known.
struct Axes {
  Dims dims, points;

  double count() const {
    double n = 1;
    for (int64_t p : points) n *= static_cast<double>(p);
    return n;
  }
  void check(const InferCall& call) const {
    for (int64_t n : points) call.require(n > 0 || !isKnownSize(n), "invalid number of data points ({}) specified", n);
  }
};

int64_t defaultPoints(Kind kind, int64_t size, bool isLast) {
  if (kind != Kind::Hermitian || !isLast) return size;
  return greatest((SizeExpression::ofSize(size) - 1) * SizeExpression(2), 0).size();
}

void checkInput(const InferCall& call, Kind kind, DType dtype) {
  call.require(kind != Kind::Real || !isComplex(dtype), "{} expects a real input tensor, but got {}",
               call.op().kind().text(), pythonName(dtype));
}

// (self, int? n, int dim, ...)
Axes axisOf(const InferCall& call, Kind kind) {
  TensorInfo t = call.rankedTensor(0);
  checkInput(call, kind, t.dtype);
  call.require(t.rank() > 0, "a tensor without dimensions has none to transform");
  int64_t dim = call.dim(2, t.rank());
  int64_t size = t.sizes[static_cast<size_t>(dim)];
  Axes axes{{dim}, {call.isNone(1) ? defaultPoints(kind, size, true) : call.integer(1)}};
  call.require(call.isNone(1) || axes.points[0] > 0, "invalid number of data points ({}) specified", axes.points[0]);
  axes.check(call);
  return axes;
}

// (self, int[]? s, int[]? dim, ...)
Axes axesOf(const InferCall& call, Kind kind) {
  TensorInfo t = call.rankedTensor(0);
  checkInput(call, kind, t.dtype);
  Axes axes;
  Dims sizes;
  bool sized = !call.isNone(1), placed = !call.isNone(2);
  if (sized) sizes = call.integers(1);
  if (placed) {
    axes.dims = call.dims(2, t.rank(), false);
    // Tensors without dimensions take 0 and -1 as dimensions elsewhere.
    call.require(t.rank() > 0 || axes.dims.empty(), "a tensor without dimensions has none to transform");
    call.require(!sized || sizes.size() == axes.dims.size(), "dim and s must have the same length, not {} and {}",
                 axes.dims.size(), sizes.size());
  } else {
    size_t count = sized ? sizes.size() : t.rank();
    call.require(count <= t.rank(), "got {} sizes but the input tensor only has {} dimensions", count, t.rank());
    for (size_t d = t.rank() - count; d < t.rank(); ++d) axes.dims.push_back(static_cast<int64_t>(d));
  }
  call.require(kind == Kind::Complex || !axes.dims.empty(), "{} must transform at least one axis",
               call.op().kind().text());
  for (size_t i = 0; i < axes.dims.size(); ++i) {
    bool given = sized && sizes[i] != -1;
    call.require(!given || sizes[i] > 0, "invalid number of data points ({}) specified", given ? sizes[i] : 0);
    axes.points.push_back(
        given ? sizes[i] : defaultPoints(kind, t.sizes[static_cast<size_t>(axes.dims[i])], i + 1 == axes.dims.size()));
  }
  axes.check(call);
  return axes;
}

template <bool kSeveral>
Axes parseAxes(const InferCall& call, Kind kind) {
  return kSeveral ? axesOf(call, kind) : axisOf(call, kind);
}

void resultOf(InferCall& call, Kind kind, const Axes& axes) {
  TensorInfo t = call.tensor(0);
  Dims sizes(t.sizes);
  for (size_t i = 0; i < axes.dims.size(); ++i) {
    int64_t n = axes.points[i];
    bool halved = kind == Kind::Real && i + 1 == axes.dims.size();
    sizes[static_cast<size_t>(axes.dims[i])] = halved ? (floorDiv(SizeExpression::ofSize(n), 2) + 1).size() : n;
  }
  call.result(resultDType(kind, t.dtype), sizes);
}

// What the result is multiplied by under a mode of normalization.
double scaleOf(const KernelCall& call, size_t norm, bool forward, double count) {
  std::string mode = call.isNone(norm) ? "backward" : call.text(norm);
  if (mode == "ortho") return 1 / std::sqrt(count);
  call.require(mode == "forward" || mode == "backward", "invalid normalization mode: '{}'", mode);
  return (mode == "forward") == forward ? 1 / count : 1;
}

// One dimension after the other. The one that is real at one end is the last of the list; `half` as transformedReal has
// it.
Tensor transformAll(Tensor t, Kind kind, const Axes& axes, bool forward, double scale, bool half = true) {
  if (axes.dims.empty()) {
    DType dtype = complexOf(toFloating(t.dtype()));
    return t.dtype() == dtype ? cloneTensor(t) : convertTensor(t, dtype);  // never the argument itself
  }
  size_t last = axes.dims.size() - 1;
  if (kind == Kind::Real) t = transformedReal(t, axes.dims[last], axes.points[last], forward, scale, half);
  for (size_t i = 0; i < last; ++i) t = transformed(t, axes.dims[i], axes.points[i], forward, 1);
  switch (kind) {
    case Kind::Complex:
      return transformed(t, axes.dims[last], axes.points[last], forward, scale);
    case Kind::Real:
      return t;
    case Kind::Hermitian:
      return transformedHermitian(t, axes.dims[last], axes.points[last], forward, scale);
  }
  return t;
}

// ---- how results lie: as PyTorch's, which are made in rows of dimensions that it orders by the strides of the input
// ----

Dims byFallingStride(Dims dims, DimSpan strides) {
  std::ranges::stable_sort(dims, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return dims;
}

// Of a transform along `dims`, which come after all others.
Dims stridesOfResult(DimSpan sizes, DimSpan input, const Dims& dims) {
  Dims order;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (std::ranges::find(dims, static_cast<int64_t>(d)) == dims.end()) order.push_back(static_cast<int64_t>(d));
  order = byFallingStride(std::move(order), input);
  for (int64_t d : dims) order.push_back(d);
  Dims strides(sizes);
  int64_t next = 1;
  for (size_t i = order.size(); i-- > 0; next *= std::max<int64_t>(sizes[order[i]], 1)) strides[order[i]] = next;
  return strides;
}

// Where more points are asked for than there are, the input is padded, which puts it into rows.
Dims stridesOfInput(const Tensor& t, Kind kind, const Axes& axes) {
  Dims sizes(t.sizes());
  bool isPadded = false;
  for (size_t i = 0; i < axes.dims.size(); ++i) {
    const bool isHalf = kind == Kind::Hermitian && i + 1 == axes.dims.size();
    const int64_t wanted = isHalf ? axes.points[i] / 2 + 1 : axes.points[i];
    int64_t& size = sizes[axes.dims[i]];
    isPadded |= wanted > size;
    size = std::max(size, wanted);
  }
  return isPadded ? contiguousStrides(sizes) : Dims(t.strides());
}

Tensor laidAsPyTorch(const Tensor& result, const Tensor& from, Kind kind, const Axes& axes) {
  if (axes.dims.empty() || result.numel() == 0) return result;
  const Dims input = stridesOfInput(from, kind, axes);
  Dims others = axes.dims, strides;
  const int64_t last = others.back();
  others.pop_back();
  if (kind == Kind::Complex) {
    strides = stridesOfResult(result.sizes(), input, byFallingStride(axes.dims, input));
  } else if (kind == Kind::Real || others.empty()) {
    Dims dims = byFallingStride(std::move(others), input);
    dims.push_back(last);
    strides = stridesOfResult(result.sizes(), input, dims);
  } else {
    Dims sizes(result.sizes());
    sizes[last] = sizes[last] / 2 + 1;
    const Dims between = stridesOfResult(sizes, input, byFallingStride(std::move(others), input));
    strides = stridesOfResult(result.sizes(), between, Dims{last});
  }
  if (std::ranges::equal(strides, result.strides())) return result;
  Tensor laid = Tensor::emptyStrided(result.dtype(), result.sizes(), strides);
  copyTensor(laid, result);
  return laid;
}

template <Kind kKind, bool kSeveral>
void inferTransform(InferCall& call) {
  if (!call.tensor(0).hasRank) return call.resultOfUnknownRank(resultDType(kKind, call.tensor(0).dtype));
  resultOf(call, kKind, parseAxes<kSeveral>(call, kKind));
}

template <Kind kKind, bool kForward, bool kSeveral>
void transformKernel(KernelCall& call) {
  Axes axes = parseAxes<kSeveral>(InferCall(call.op(), call.arguments(), call.size()), kKind);
  double scale = scaleOf(call, 3, kForward, axes.count());
  Tensor t = call.tensor(0);
  // One dimension of real elements is transformed as such, several are not.
  const bool isReal = kKind == Kind::Complex && !kSeveral && !isComplex(t.dtype());
  Tensor result = transformAll(t, isReal ? Kind::Real : kKind, axes, kForward, scale, !isReal);
  call.setResult(laidAsPyTorch(result, t, kKind, axes));
}

// One dimension after the other, as transformAll does it.
void convertAll(ConvertCall& call, Kind kind, const Axes& axes, bool forward, double scale, bool half = true) {
  Tensor t = call.tensor(0);
  const bool real = t.dtype() == DType::Float32, complex = t.dtype() == DType::Complex64;
  if (kind == Kind::Hermitian ? !complex : kind == Kind::Real ? !real : !real && !complex)
    return convertToKernel(call, "the elements are neither float32 nor complex64");
  if (t.numel() == 0 || checkedNumel(call.spec().sizes) == 0) return convertToKernel(call, "a tensor has no elements");
  if (axes.dims.empty()) return convertToKernel(call, "no dimension is transformed");
  for (size_t i = 0; i < axes.dims.size(); ++i) {
    const int64_t lines = t.numel() / t.size(static_cast<int>(axes.dims[i]));
    if (std::string_view why = fourierProblem(axes.points[i], lines); !why.empty()) return convertToKernel(call, why);
  }
  const size_t last = axes.dims.size() - 1;
  auto along = [&](size_t i, int64_t made, double by, DType dtype) {
    t = addFourier(call, t, {axes.dims[i], axes.points[i], made, forward, by, dtype});
  };
  const int64_t points = axes.points[last];
  if (kind == Kind::Real) along(last, half ? points / 2 + 1 : points, scale, DType::Complex64);
  for (size_t i = 0; i < last; ++i) along(i, axes.points[i], 1, DType::Complex64);
  if (kind != Kind::Real) along(last, points, scale, kind == Kind::Complex ? DType::Complex64 : DType::Float32);
  call.setResult(0, t);
}

template <Kind kKind, bool kForward, bool kSeveral>
void convertTransform(ConvertCall& call) {
  Axes axes = parseAxes<kSeveral>(InferCall(call.op(), call.arguments(), call.size()), kKind);
  convertAll(call, kKind, axes, kForward, scaleOf(call, 3, kForward, axes.count()));
}

// ---- _fft_*: dim, normalization (0 none, 1 by the root, 2 by the count), and what differs ----

Axes plainAxes(const InferCall& call, Kind kind) {
  TensorInfo t = call.rankedTensor(0);
  call.require(kind == Kind::Real ? !isComplex(t.dtype) : isComplex(t.dtype) || t.dtype == DType::Undefined,
               "{} expects a {} input tensor, but got {}", call.op().kind().text(),
               kind == Kind::Real ? "real" : "complex", pythonName(t.dtype));
  Axes axes;
  axes.dims = call.dims(1, t.rank(), false);
  call.require(t.rank() > 0 || axes.dims.empty(), "a tensor without dimensions has none to transform");
  call.require(kind == Kind::Complex || !axes.dims.empty(), "{} must transform at least one axis",
               call.op().kind().text());
  for (int64_t d : axes.dims) axes.points.push_back(t.sizes[static_cast<size_t>(d)]);
  if (kind == Kind::Hermitian) axes.points.back() = call.integer(3);
  axes.check(call);
  return axes;
}

template <Kind kKind>
void inferPlain(InferCall& call) {
  if (!call.tensor(0).hasRank) return call.resultOfUnknownRank(resultDType(kKind, call.tensor(0).dtype));
  Axes axes = plainAxes(call, kKind);
  resultOf(call, kKind == Kind::Real && !call.flag(3) ? Kind::Complex : kKind, axes);
}

template <Kind kKind, class Transform>
void plainTransform(KernelCall& call, Transform&& transform) {
  Axes axes = plainAxes(InferCall(call.op(), call.arguments(), call.size()), kKind);
  int64_t mode = call.integer(2);
  call.require(mode >= 0 && mode <= 2, "{} is not a number of a normalization mode", mode);
  double scale = mode == 0 ? 1 : mode == 1 ? 1 / std::sqrt(axes.count()) : 1 / axes.count();
  bool forward = kKind == Kind::Complex ? call.flag(3) : kKind == Kind::Real;
  transform(axes, forward, scale, kKind != Kind::Real || call.flag(3));
}

template <Kind kKind>
void plainKernel(KernelCall& call) {
  plainTransform<kKind>(call, [&](const Axes& axes, bool forward, double scale, bool half) {
    Tensor t = call.tensor(0);
    call.setResult(laidAsPyTorch(transformAll(t, kKind, axes, forward, scale, half), t, kKind, axes));
  });
}
template <Kind kKind>
void convertPlain(ConvertCall& call) {
  plainTransform<kKind>(call, [&](const Axes& axes, bool forward, double scale, bool half) {
    convertAll(call, kKind, axes, forward, scale, half);
  });
}

// ---- shifts ----

// Rolls the element of frequency 0 to the middle, or back.
template <class Call, bool kInverse>
void shift(Call& call) {
  const Tensor t = call.tensor(0);
  Dims dims = call.dims(1, t.rank(), call.isNone(1));
  call.require(!dims.empty() && t.rank() > 0, "no dimension to shift");
  Dims shifts;
  for (int64_t d : dims) shifts.push_back((t.size(static_cast<int>(d)) + kInverse) / 2);
  if constexpr (std::is_same_v<Call, KernelCall>)
    call.setResult(invoke(call, "aten::roll", {t, intList(shifts), intList(dims)}));
  else
    call.setResult(0, call.compute("aten::roll", {t, intList(shifts), intList(dims)}));
}

}  // namespace

void registerFftOps(OpRegistry& ops) {
  constexpr DTypeSet kReal = kRealAndBool - DTypeSet{DType::Float16, DType::BFloat16}, kAny = kReal | kComplexTypes;
  constexpr TraitSet kOwn{Trait::OwnStrides};
#define TS_TRANSFORM(name, kind, forward)                                         \
  ops.add({.schema = "aten::fft_" name,                                           \
           .infer = inferTransform<kind, false>,                                  \
           .kernel = transformKernel<kind, forward, false>,                       \
           .convert = convertTransform<kind, forward, false>,                     \
           .dtypes = kAny,                                                        \
           .traits = kOwn});                                                      \
  for (std::string_view several : {"aten::fft_" name "2", "aten::fft_" name "n"}) \
  ops.add({.schema = several,                                                     \
           .infer = inferTransform<kind, true>,                                   \
           .kernel = transformKernel<kind, forward, true>,                        \
           .convert = convertTransform<kind, forward, true>,                      \
           .dtypes = kAny,                                                        \
           .traits = kOwn})
  TS_TRANSFORM("fft", Kind::Complex, true);
  TS_TRANSFORM("ifft", Kind::Complex, false);
  TS_TRANSFORM("rfft", Kind::Real, true);
  TS_TRANSFORM("irfft", Kind::Hermitian, false);
  TS_TRANSFORM("hfft", Kind::Hermitian, true);
  TS_TRANSFORM("ihfft", Kind::Real, false);
#undef TS_TRANSFORM
  ops.add({.schema = "aten::_fft_c2c",
           .infer = inferPlain<Kind::Complex>,
           .kernel = plainKernel<Kind::Complex>,
           .convert = convertPlain<Kind::Complex>,
           .dtypes = kAny,
           .traits = kOwn});
  ops.add({.schema = "aten::_fft_r2c",
           .infer = inferPlain<Kind::Real>,
           .kernel = plainKernel<Kind::Real>,
           .convert = convertPlain<Kind::Real>,
           .dtypes = kAny,
           .traits = kOwn});
  ops.add({.schema = "aten::_fft_c2r",
           .infer = inferPlain<Kind::Hermitian>,
           .kernel = plainKernel<Kind::Hermitian>,
           .convert = convertPlain<Kind::Hermitian>,
           .dtypes = kAny,
           .traits = kOwn});
  auto addShift = [&](std::string_view schema, KernelFunction kernel, ConvertFunction convert) {
    ops.add({.schema = schema, .infer = inferSameAsSelf, .kernel = kernel, .convert = convert, .dtypes = kAllTypes});
  };
  addShift("aten::fft_fftshift", shift<KernelCall, false>, shift<ConvertCall, false>);
  addShift("aten::fft_ifftshift", shift<KernelCall, true>, shift<ConvertCall, true>);
}

}  // namespace tscompile
