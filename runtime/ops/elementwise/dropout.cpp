// Dropout: the very same tensor without training; else elements or whole channels are zeroed at random.
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/memory_format.h"
#include "runtime/reference/random.h"

#include <cmath>

namespace tscompile {
namespace {

void checkProbability(const InferCall& call) {
  if (!call.constant(1)) return;
  double p = call.number(1);
  call.require(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got {}", p);
}

void inferDropout(InferCall& call) {
  checkProbability(call);
  call.result(call.tensor(0));
}

// One number for each element, or for each channel of each sample.
template <bool kFeatures>
Tensor drawNoise(const KernelCall& call, const Tensor& in, double keep) {
  Dims sizes(in.sizes());
  if (kFeatures) {
    call.require(in.rank() >= 2, "feature dropout takes at least 2 dimensions, but the input has {}", in.rank());
    for (size_t d = 2; d < sizes.size(); ++d) sizes[d] = 1;
  }
  Tensor noise = Tensor::empty(in.dtype(), sizes);
  drawBernoulli(noise, call.context().random(), keep);
  return noise;
}

// What is kept is scaled by `scale`; `offset` is added everywhere, and `dropped` where the noise is 0.
struct Blend {
  double scale = 1, dropped = 0, offset = 0;
};

// The parameters that keep mean and variance of what went through SELU.
Blend alphaBlend(double p) {
  constexpr double kAlpha = 1.7580993408473766;
  double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  return {a, -kAlpha * a, kAlpha * a * p};
}

template <bool kFeatures, bool kAlpha>
void dropoutKernel(KernelCall& call) {
  Tensor in = call.tensor(0);
  double p = call.number(1);
  if (p == 0 || !call.flag(2) || in.numel() == 0) return call.setResult(in);
  call.require(isFloating(in.dtype()) || isComplex(in.dtype()),
               "result type Float can't be cast to the desired output type {}", graphName(in.dtype()));
  Tensor out = call.isInPlace() ? in : emptyLike(in, in.dtype());
  if (call.isInPlace()) requireWritable(in);
  call.setResult(out);
  if (p == 1)
    return mapTensors<kFloats | kC128>(
        in.dtype(), [](auto x) { return x * decltype(x)(0); }, out, in);
  Tensor noise = drawNoise<kFeatures>(call, in, 1 - p);
  Blend blend = kAlpha ? alphaBlend(p) : Blend{.scale = 1 / (1 - p)};
  mapTensors<kFloats | kC128>(
      in.dtype(),
      [=](auto x, auto kept) {
        using T = decltype(x);
        return x * (kept * T(blend.scale)) + ((T(1) - kept) * T(blend.dropped) + T(blend.offset));
      },
      out, in, noise);
}

// ---- native_dropout: with the mask ----

void inferNativeDropout(InferCall& call) {
  checkProbability(call);
  TensorInfo t = call.tensor(0);
  call.result(t);
  // Nothing has a mask of its own dtype.
  std::optional<int64_t> count = t.hasRank ? knownNumel(t.sizes) : std::nullopt;
  call.result(t, !count ? DType::Undefined : *count == 0 ? t.dtype : DType::Bool);
}

void nativeDropoutKernel(KernelCall& call) {
  Tensor in = call.tensor(0);
  double p = call.number(1);
  if (!call.isNone(2) && !call.flag(2)) {
    call.setResult(0, cloneTensor(in));
    return fillTensor(call.out(1), true);
  }
  Tensor out = emptyLike(in, in.dtype()), mask = call.out(1);
  call.setResult(0, out);
  drawBernoulli(mask, call.context().random(), 1 - p);
  double scale = p == 1 ? 0 : 1 / (1 - p);
  mapTensors<kFloats | kC128>(
      in.dtype(), [=](auto x, auto kept) { return x * kept * decltype(x)(scale); }, out, in, mask);
}

}  // namespace

void registerDropoutOps(OpRegistry& ops) {
  auto add = [&](std::string_view name, KernelFunction kernel) {
    ops.add({.schema = name,
             .infer = inferDropout,
             .kernel = kernel,
             .dtypes = kAllTypes,
             .inplace = InPlace::Direct,
             .traits = {Trait::Random, Trait::MayShare, Trait::GivesViews}});
  };
  add("aten::dropout", dropoutKernel<false, false>);
  add("aten::feature_dropout", dropoutKernel<true, false>);
  add("aten::alpha_dropout", dropoutKernel<false, true>);
  add("aten::feature_alpha_dropout", dropoutKernel<true, true>);
  ops.add({.schema = "aten::native_dropout",
           .infer = inferNativeDropout,
           .kernel = nativeDropoutKernel,
           .dtypes = kFloatingTypes | kComplexTypes,
           .traits = {Trait::Random}});
}

}  // namespace tscompile
