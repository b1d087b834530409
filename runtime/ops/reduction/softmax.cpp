// softmax and log_softmax along one dimension.
#include "runtime/engine/layers/row_layers.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

#include <Eigen/Core>

#include <cmath>

namespace tscompile {
namespace {

template <class T>
using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
template <class T>
using ConstLane = Eigen::Map<const Array<T>>;
template <class T>
using Lane = Eigen::Map<Array<T>>;

enum class Kind { Softmax, LogSoftmax };

// y = exp(y). Eigen's vectors end at the least normal number: what is hidden from a row would keep a weight. Its own
// `select` would compute one element at a time.
template <class T>
void exponentiate(Lane<T> y) {
  constexpr T kZeroBelow = std::is_same_v<T, float> ? T(-104) : T(-746);
  constexpr int64_t kTile = 256;
  T powers[kTile];
  for (int64_t i = 0; i < y.size(); i += kTile) {
    const int64_t n = std::min(kTile, y.size() - i);
    T* x = y.data() + i;
    Lane<T>(powers, n) = Lane<T>(x, n).exp();
    for (int64_t k = 0; k < n; ++k) x[k] = x[k] < kZeroBelow ? T(0) : powers[k];
  }
}

// exp(x - max) / sum, or x - max - log(sum): the maximum is taken out so that nothing overflows. `round` is what
// PyTorch does to the sum and its logarithm, which is 1 at least: what is hidden adds nothing to it.
template <Kind kKind, class T, class Round>
void softmaxLane(const T* in, int64_t n, T* out, Round&& round) {
  ConstLane<T> x(in, n);
  Lane<T> y(out, n);
  T most = x.maxCoeff();
  if constexpr (kKind == Kind::Softmax) {
    y = x - most;
    exponentiate(y);
    y *= T(1) / y.sum();
  } else {
    T rest = round(std::log(round((x - most).exp().sum())));
    y = x - most - rest;
  }
}

// The same for `width` lanes that lie side by side, `stride` elements from one row to the next.
template <Kind kKind, class T>
void softmaxColumns(const T* in, int64_t n, int64_t stride, int64_t width, T* out) {
  Array<T> most = ConstLane<T>(in, width), sum = Array<T>::Zero(width);
  for (int64_t i = 1; i < n; ++i) most = most.max(ConstLane<T>(in + i * stride, width));
  for (int64_t i = 0; i < n; ++i) {
    ConstLane<T> x(in + i * stride, width);
    if constexpr (kKind == Kind::Softmax) {
      Lane<T> y(out + i * stride, width);
      y = x - most;
      exponentiate(y);
      sum += y;
    } else {
      sum += (x - most).exp();
    }
  }
  Array<T> rest = kKind == Kind::Softmax ? Array<T>(sum.inverse()) : Array<T>(sum.log());
  for (int64_t i = 0; i < n; ++i) {
    Lane<T> y(out + i * stride, width);
    if constexpr (kKind == Kind::Softmax)
      y *= rest;
    else
      y = ConstLane<T>(in + i * stride, width) - most - rest;
  }
}

constexpr int64_t kWidth = 256;  // columns at a time

template <Kind kKind, class T>
void softmaxAll(const T* in, const SplitSizes& sizes, T* out, bool bfloat16) {
  RunContext& context = RunContext::current();
  int64_t n = sizes.size;
  auto exact = [](T v) { return v; };
  auto rounded = [](T v) { return static_cast<T>(static_cast<float>(BFloat16(static_cast<float>(v)))); };
  for (int64_t o = 0; o < sizes.outer; ++o, in += n * sizes.inner, out += n * sizes.inner) {
    if (sizes.inner == 1 && bfloat16)
      softmaxLane<kKind>(in, n, out, rounded);
    else if (sizes.inner == 1)
      softmaxLane<kKind>(in, n, out, exact);
    else
      for (int64_t k = 0; k < sizes.inner; k += kWidth)
        softmaxColumns<kKind>(in + k, n, sizes.inner, std::min(kWidth, sizes.inner - k), out + k);
    context.checkInterrupt(n * sizes.inner);
  }
}

// Integers pass only if there are none of them.
void requireFloats(const InferCall& call, const TensorInfo& t, DType dtype) {
  const auto dim = t.hasRank ? call.wrap(call.integer(1), t.rank()) : 0;
  const bool isLast = !t.hasRank || dim + 1 >= static_cast<int64_t>(t.rank());
  call.require(t.mayBeEmpty() || dtype == DType::Undefined || isFloating(dtype),
               "\"{}softmax{}_kernel_impl\" not implemented for '{}'",
               call.op().kind().name().find("log") == std::string_view::npos ? "" : "log_", isLast ? "_lastdim" : "",
               graphName(dtype));
}

void inferSoftmax(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (t.hasRank) call.dim(1, t.rank());
  DType dtype = call.dtypeOr(2, t.dtype);
  requireFloats(call, t, dtype);
  call.result(t, dtype);
}

// The operators that the dispatcher calls: no dtype, float32 from float16 for CUDA only.
void inferBareSoftmax(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (t.hasRank) call.dim(1, t.rank());
  requireFloats(call, t, t.dtype);
  call.require(!call.flag(2), "softmax with half to float conversion is not supported on CPU");
  call.result(t);
}

template <Kind kKind>
void softmaxKernel(KernelCall& call) {
  DenseResult out(call.out());
  DType dtype = call.spec().dtype;
  Tensor t = denseTensor(convertTensor(call.tensor(0), dtype));
  if (t.numel() == 0) return;
  SplitSizes sizes(t.sizes(), call.dim(1, t.rank()));
  withFloating(t.dtype(), [&](auto sample) {
    using T = decltype(sample);
    softmaxAll<kKind>(t.data<T>(), sizes, out.data<T>(), dtype == DType::BFloat16);
  });
  out.store();
}

// ---- _masked_softmax: elements whose mask is true have no part ----

void inferMaskedSoftmax(InferCall& call) {
  TensorInfo t = call.tensor(0), mask = call.tensor(1);
  call.require(mask.dtype == DType::Bool || mask.dtype == DType::Undefined,
               "the mask should be a boolean tensor, not {}", pythonName(mask.dtype));
  if (t.hasRank && !call.isNone(2)) call.dim(2, t.rank());
  call.result(t);
}

// The mask in the sizes of the input; what its sizes mean depends on the type of the mask.
Tensor spreadMask(const KernelCall& call, const Tensor& t) {
  Tensor mask = call.tensor(1);
  auto fits = [](DimSpan a, DimSpan b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); };
  call.require(!call.isNone(3), "the type of the mask should be defined");
  int64_t type = mask.rank() != 2 || t.rank() != 4 ? 2 : call.integer(3);
  if (type == 1 && fits(mask.sizes(), Dims{t.size(0), t.size(2)}))
    mask = unsqueezed(unsqueezed(mask, 1), 1);  // padding: batch, position
  else
    call.require(
        (type == 0 && fits(mask.sizes(), Dims{t.size(2), t.size(2)})) || (type == 2 && fits(mask.sizes(), t.sizes())),
        "a mask of size {} and type {} does not fit an input of size {}", dimsText(mask.sizes()), type,
        dimsText(t.sizes()));
  return contiguous(expandedTo(mask, t.sizes()));
}

template <class T>
void maskedSoftmaxLane(const T* in, const bool* mask, int64_t n, int64_t stride, T* out) {
  T most = -std::numeric_limits<T>::infinity(), sum = 0;
  for (int64_t i = 0; i < n * stride; i += stride)
    if (!mask[i]) most = std::max(most, in[i]);
  for (int64_t i = 0; i < n * stride; i += stride) {
    out[i] = mask[i] ? T(0) : std::exp(in[i] - most);
    sum += out[i];
  }
  // Nothing is left of a lane that is masked as a whole: 0 / 0.
  for (int64_t i = 0; i < n * stride; i += stride) out[i] /= sum;
}

void maskedSoftmaxKernel(KernelCall& call) {
  DenseResult out(call.out());
  Tensor t = denseTensor(call.tensor(0)), mask = spreadMask(call, t);
  if (t.numel() == 0) return;
  SplitSizes sizes(t.sizes(), call.isNone(2) ? t.rank() - 1 : call.dim(2, t.rank()));
  withFloating(t.dtype(), [&](auto sample) {
    using T = decltype(sample);
    for (int64_t o = 0; o < sizes.outer; ++o)
      for (int64_t k = 0; k < sizes.inner; ++k) {
        int64_t at = o * sizes.size * sizes.inner + k;
        maskedSoftmaxLane(t.data<T>() + at, mask.data<bool>() + at, sizes.size, sizes.inner, out.data<T>() + at);
        call.context().checkInterrupt(sizes.size);
      }
  });
  out.store();
}

}  // namespace

void registerSoftmaxOps(OpRegistry& ops) {
  auto add = [&](const char* schema, InferFunction infer, KernelFunction kernel, DTypeSet dtypes,
                 ConvertFunction convert = nullptr) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = dtypes,
             .traits = {Trait::RoundsOnce},
             .cost = Cost::Function});
  };
  for (const char* name : {"aten::softmax.int", "aten::special_softmax"})
    add(name, inferSoftmax, softmaxKernel<Kind::Softmax>, kAllTypes, convertSoftmax<false>);
  for (const char* name : {"aten::log_softmax.int", "aten::special_log_softmax"})
    add(name, inferSoftmax, softmaxKernel<Kind::LogSoftmax>, kAllTypes, convertSoftmax<true>);
  add("aten::_softmax", inferBareSoftmax, softmaxKernel<Kind::Softmax>, kAllTypes);
  add("aten::_log_softmax", inferBareSoftmax, softmaxKernel<Kind::LogSoftmax>, kAllTypes);
  add("aten::_masked_softmax", inferMaskedSoftmax, maskedSoftmaxKernel, kFloatingTypes);
}

}  // namespace tscompile
