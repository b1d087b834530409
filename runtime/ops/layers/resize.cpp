// The upsample operators: nearest, linear and cubic resizing of the last one to three dimensions.
#include "runtime/reference/resize.h"

#include "ir/values/size_expression.h"
#include "runtime/call/kernel_call.h"
#include "runtime/engine/layers/resize_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/kept_format.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/item_bits.h"

#include <cmath>
#include <cstring>

namespace tscompile {
namespace {

constexpr bool isNearest(Interpolation kind) {
  return kind == Interpolation::Nearest || kind == Interpolation::NearestExact;
}

constexpr bool isAntialiased(Interpolation kind) {
  return kind == Interpolation::LinearAntialias || kind == Interpolation::CubicAntialias ||
         kind == Interpolation::LanczosAntialias;
}

// What an overload takes, and where: align_corners stands at 2 where the kind has it.
struct Overload {
  Interpolation kind;
  size_t spatial;
  bool isVec;  // lists that may be None, instead of a size and one factor for each dimension
  size_t factorsAt() const { return isNearest(kind) ? 2 : 3; }
  constexpr bool takesBytes() const { return isNearest(kind) || spatial == 2; }
};

struct Resize {
  Dims out;
  std::vector<ResizeScale> scales;  // of each spatial dimension
};

// An int that a size times a factor comes to.
int64_t scaledSize(const InferCall& call, int64_t size, double factor) {
  if (!isKnownSize(size)) {
    // Exact where the product is: of whole numbers and powers of two.
    int exponent;
    SizeExpression symbol = SizeExpression::ofSize(size);
    if (factor >= 1 && factor < 0x1p20 && factor == std::floor(factor))
      return (symbol * SizeExpression(static_cast<int64_t>(factor))).size();
    if (std::frexp(factor, &exponent) == 0.5 && exponent <= 0 && exponent > -20)
      return floorDiv(symbol, int64_t{1} << (1 - exponent)).size();
    return kUnknownSize;
  }
  double out = static_cast<double>(size) * factor;
  call.require(out >= 0 && out < 0x1p62, "a size of {} cannot be scaled by {}", size, factor);
  return static_cast<int64_t>(out);
}

// Images that stay as large are not sampled by a factor that comes to it, where PyTorch looks at the sizes first, nor
// those of which each pixel is there twice.
bool goesBySizes(const Overload& overload, DType dtype, int64_t in, int64_t out) {
  if (overload.spatial != 2 || !isKnownSize(in) || !isKnownSize(out)) return false;
  if (overload.kind == Interpolation::Nearest) return out == in || out == 2 * in;
  return out == in && (isAntialiased(overload.kind) || (dtype == DType::UInt8 && !isNearest(overload.kind)));
}

Resize describe(const InferCall& call, const Overload& overload) {
  TensorInfo x = call.rankedTensor(0);
  size_t spatial = overload.spatial;
  call.require(x.rank() == spatial + 2, "expected an input of {} dimensions, but got size {}", spatial + 2,
               dimsText(x.sizes));
  for (size_t d = 1; d < x.rank(); ++d)
    call.require(x.sizes[d] != 0, "expected a non-empty {}D tensor, but got size {}", spatial + 2, dimsText(x.sizes));
  Resize r;
  r.scales.resize(spatial);
  if (!isNearest(overload.kind))
    for (ResizeScale& s : r.scales) s.alignCorners = call.flag(2);
  if (!overload.isVec || !call.isNone(1)) {
    r.out = call.sizes(1);
    call.require(r.out.size() == spatial, "expected {} numbers in output_size, but got {}", spatial, dimsText(r.out));
  }
  auto factor = [&](size_t at) -> std::optional<double> {
    return call.isNone(at) ? std::nullopt : std::optional<double>(call.number(at));
  };
  if (!overload.isVec) {
    for (size_t i = 0; i < spatial; ++i) r.scales[i].factor = factor(overload.factorsAt() + i);
  } else {
    bool hasFactors = !call.isNone(overload.factorsAt());
    call.require(hasFactors != (r.out.size() > 0), "must specify exactly one of output_size and scale_factors");
    const IValue* factors = hasFactors ? call.constant(overload.factorsAt()) : nullptr;
    if (hasFactors && !factors) throw InferCall::NotKnown{};
    if (factors) {
      call.require(factors->isList() && factors->toList().items.size() == spatial,
                   "expected {} numbers in scale_factors", spatial);
      for (size_t i = 0; i < spatial; ++i) {
        const IValue& item = factors->toList().items[i];
        call.require(item.isNumber() && !item.isComplex(), "expected numbers in scale_factors");
        r.scales[i].factor = item.toDouble();
        r.out.push_back(scaledSize(call, x.sizes[i + 2], item.toDouble()));
      }
    }
  }
  for (size_t i = 0; i < spatial; ++i)
    if (goesBySizes(overload, x.dtype, x.sizes[i + 2], r.out[i])) r.scales[i].factor.reset();
  for (int64_t o : r.out)
    call.require(o > 0 || (!call.isRun() && o < 0),
                 "input and output sizes should be greater than 0, but got {} and {}", dimsText(x.sizes),
                 dimsText(r.out));
  return r;
}

void inferResize(InferCall& call, const Overload& overload) {
  TensorInfo x = call.rankedTensor(0);
  Dims sizes(x.sizes.first(std::min<size_t>(2, x.rank())));
  for (int64_t o : describe(call, overload).out) sizes.push_back(o < INT64_MIN / 2 ? integerAsSize(o) : o);
  call.result(x.dtype, sizes);
}

// ---- nearest: elements of any dtype are moved as they are ----

template <class Bits>
void moveNearest(const Tensor& in, const Tensor& out, const std::array<std::vector<int64_t>, 3>& index) {
  const auto& [depth, height, width] = index;
  int64_t rank = in.rank(), w = in.size(static_cast<int>(rank) - 1),
          h = rank > 3 ? in.size(static_cast<int>(rank) - 2) : 1;
  int64_t planes = in.size(0) * in.size(1), plane = planes ? in.numel() / planes : 0;
  auto n = static_cast<int64_t>(width.size());
  const Bits* from = reinterpret_cast<const Bits*>(in.raw());
  Bits* to = reinterpret_cast<Bits*>(out.raw());
  for (int64_t p = 0; p < planes; ++p, from += plane)
    for (int64_t z : depth) {
      const Bits* previous = nullptr;
      for (int64_t y : height) {
        const Bits* row = from + (z * h + y) * w;
        if (row == previous)
          std::memcpy(to, to - n, static_cast<size_t>(n) * sizeof(Bits));
        else
          for (int64_t x = 0; x < n; ++x) to[x] = row[width[x]];
        previous = row;
        to += n;
        RunContext::current().checkInterrupt(n);
      }
    }
}

void resizeNearest(KernelCall& call, Interpolation kind, const Resize& r) {
  Tensor in = contiguous(call.tensor(0)), out = call.out();
  std::array<std::vector<int64_t>, 3> index;
  index.fill({0});
  size_t spatial = r.out.size();
  for (size_t i = 0; i < spatial; ++i) {
    int64_t size = in.size(static_cast<int>(i) + 2);
    index[3 - spatial + i] = in.dtype() == DType::Float64 ? nearestIndices<double>(kind, size, r.out[i], r.scales[i])
                                                          : nearestIndices<float>(kind, size, r.out[i], r.scales[i]);
  }
  withItemBits(in.dtype(), [&]<class Bits>() { moveNearest<Bits>(in, out, index); });
}

void resize(KernelCall& call, const Overload& overload) {
  InferCall infer(call.op(), call.arguments(), call.size());
  Resize r = describe(infer, overload);
  if (call.out().numel() == 0) return;  // of no images: sizes may be any
  if (isNearest(overload.kind)) {
    resizeNearest(call, overload.kind, r);
  } else {
    if (call.tensor(0).dtype() == DType::UInt8) {
      Tensor bytes = contiguous(call.tensor(0));
      for (size_t i = overload.spatial; i-- > 0;)
        bytes = interpolatedBytes(bytes, static_cast<int64_t>(i) + 2, r.out[i], overload.kind, r.scales[i]);
      return copyTensor(call.out(), bytes);
    }
    Tensor t = denseTensor(call.tensor(0));
    call.out();
    withFloating(t.dtype(), [&](auto sample) {
      using T = decltype(sample);
      for (size_t i = overload.spatial; i-- > 0;)
        t = interpolated<T>(t, static_cast<int64_t>(i) + 2, r.out[i], overload.kind, r.scales[i]);
    });
    copyTensor(call.out(), t);
  }
}

void convertToLayer(ConvertCall& call, const Overload& overload) {
  InferCall infer(call.op(), call.arguments(), call.size());
  Resize r = describe(infer, overload);
  convertResize(call, overload.kind, r.out, r.scales);
}

template <Overload kOverload>
void resizeKernel(KernelCall& call) {
  resize(call, kOverload);
}
template <Overload kOverload>
void addOverload(OpRegistry& ops, std::string_view schema) {
  ops.add({.schema = schema,
           .infer = [](InferCall& call) { inferResize(call, kOverload); },
           .kernel = keepingFormat<resizeKernel<kOverload>>,
           .convert = [](ConvertCall& call) { convertToLayer(call, kOverload); },
           .dtypes = kOverload.takesBytes() ? kFloatingTypes | DTypeSet{DType::UInt8} : kFloatingTypes,
           .traits = isAntialiased(kOverload.kind) ? TraitSet{} : TraitSet{Trait::RoundsOnce}});
}
template <Interpolation kKind, size_t kSpatial>
void addResize(OpRegistry& ops, std::string_view sized, std::string_view vec) {
  addOverload<Overload{kKind, kSpatial, false}>(ops, sized);
  addOverload<Overload{kKind, kSpatial, true}>(ops, vec);
}

}  // namespace

void registerResizeOps(OpRegistry& ops) {
  addResize<Interpolation::Nearest, 1>(ops, "aten::upsample_nearest1d", "aten::upsample_nearest1d.vec");
  addResize<Interpolation::Nearest, 2>(ops, "aten::upsample_nearest2d", "aten::upsample_nearest2d.vec");
  addResize<Interpolation::Nearest, 3>(ops, "aten::upsample_nearest3d", "aten::upsample_nearest3d.vec");
  addResize<Interpolation::NearestExact, 1>(ops, "aten::_upsample_nearest_exact1d",
                                            "aten::_upsample_nearest_exact1d.vec");
  addResize<Interpolation::NearestExact, 2>(ops, "aten::_upsample_nearest_exact2d",
                                            "aten::_upsample_nearest_exact2d.vec");
  addResize<Interpolation::NearestExact, 3>(ops, "aten::_upsample_nearest_exact3d",
                                            "aten::_upsample_nearest_exact3d.vec");
  addResize<Interpolation::Linear, 1>(ops, "aten::upsample_linear1d", "aten::upsample_linear1d.vec");
  addResize<Interpolation::Linear, 2>(ops, "aten::upsample_bilinear2d", "aten::upsample_bilinear2d.vec");
  addResize<Interpolation::Linear, 3>(ops, "aten::upsample_trilinear3d", "aten::upsample_trilinear3d.vec");
  addResize<Interpolation::Cubic, 2>(ops, "aten::upsample_bicubic2d", "aten::upsample_bicubic2d.vec");
  addResize<Interpolation::LinearAntialias, 2>(ops, "aten::_upsample_bilinear2d_aa",
                                               "aten::_upsample_bilinear2d_aa.vec");
  addResize<Interpolation::CubicAntialias, 2>(ops, "aten::_upsample_bicubic2d_aa", "aten::_upsample_bicubic2d_aa.vec");
  addResize<Interpolation::LanczosAntialias, 2>(ops, "aten::_upsample_lanczos2d_aa",
                                                "aten::_upsample_lanczos2d_aa.vec");
}

}  // namespace tscompile
