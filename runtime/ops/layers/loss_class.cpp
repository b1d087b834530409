// Losses of classifications: negative log likelihood, cross entropy, margins of classes.
#include "runtime/engine/network/convert_call.h"
#include "runtime/ops/layers/reduced_loss.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// ---- negative log likelihood: self [n, classes, ...] or [classes], target [n, ...] or [] ----

void checkClassWeight(const InferCall& call, size_t i, int64_t classes) {
  if (call.isNone(i)) return;
  TensorInfo w = call.tensor(i);
  call.require(
      !w.hasRank || (w.rank() == 1 && !differ(w.sizes[0], classes)),
      "weight tensor should be defined either for all {} classes or no classes but got weight tensor of shape: {}",
      classes, dimsText(w.sizes));
}

void checkTargetType(const InferCall& call, DType dtype) {
  call.require(dtype == DType::Int64 || dtype == DType::UInt8 || dtype == DType::Undefined,
               "the target must be int64 or uint8, not {}", pythonName(dtype));
}

// (self, target, weight, reduction, ignore_index)
LossReduction checkNll(InferCall& call) {
  TensorInfo x = call.tensor(0), target = call.tensor(1);
  checkTargetType(call, target.dtype);
  if (!call.isNone(2)) {
    DType w = call.tensor(2).dtype;
    call.require(w == x.dtype || w == DType::Undefined || x.dtype == DType::Undefined,
                 "the weight must be {} as the input is, not {}", pythonName(x.dtype), pythonName(w));
  }
  if (!x.hasRank || !target.hasRank) return lossReduction(call, 3);
  call.require(x.rank() > 0, "expected an input of 1 or more dimensions, got 0");
  size_t classDim = x.rank() == 1 ? 0 : 1;
  checkClassWeight(call, 2, x.sizes[classDim]);
  // Pixels have classes of int64, and only they have more than two dimensions.
  if (x.rank() > 2 && target.dtype == DType::UInt8) call.fail("expected scalar type Long but found Byte");
  Dims expected(x.sizes);
  expected.erase(classDim);
  if (x.rank() == 1 && target.rank() == 1 && !differ(target.sizes[0], 1)) expected = Dims(target.sizes);
  bool fits = expected.size() == target.rank();
  for (size_t d = 0; fits && d < expected.size(); ++d) fits = !differ(expected[d], target.sizes[d]);
  call.require(fits || x.rank() != 2 || target.rank() != 1,
               "expected input batch_size ({}) to match target batch_size ({}).", x.sizes[0],
               target.rank() ? target.sizes[0] : 0);
  call.require(fits, "expected a target of sizes {}, got {}", dimsText(expected), dimsText(target.sizes));
  return lossReduction(call, 3);
}

void inferNll(InferCall& call) {
  LossReduction reduction = checkNll(call);
  TensorInfo x = call.tensor(0), target = call.tensor(1);
  if (reduction == LossReduction::None && !target.hasRank) return call.resultOfUnknownRank(x.dtype);
  // One text may have its class in a row of one.
  resultLoss(call, x.dtype, reduction, x.hasRank && x.rank() == 1 ? DimSpan() : target.sizes);
}
template <int kFrom, int kTo>
void inferNllOfRank(InferCall& call) {
  const TensorInfo x = call.tensor(0);
  call.require(!x.hasRank || (x.rank() >= kFrom && x.rank() <= kTo), "expected an input of {} to {} dimensions, got {}",
               kFrom, kTo, x.rank());
  inferNll(call);
}
void inferNllForward(InferCall& call) {
  inferNll(call);
  call.result(call.tensor(0).dtype, {});
}

struct NllResult {
  Tensor losses;
  double total = 0, weight = 0;
};

NllResult nllOf(const KernelCall& call, const Tensor& self, int64_t ignored) {
  Tensor x = denseTensor(self), target = convertTensor(call.tensor(1), DType::Int64),
         weight = denseTensor(call.tensor(2));
  bool single = x.rank() == 1;
  int64_t classes = x.size(single ? 0 : 1);
  SplitSizes split(x.sizes(), single ? 0 : 1);
  NllResult result{Tensor::empty(x.dtype(), single ? DimSpan() : target.sizes())};
  withFloating(x.dtype(), [&](auto sample) {
    using T = decltype(sample);
    // Summed up like the losses themselves are rounded, but without losing what is small.
    for (int64_t i = 0; i < target.numel(); ++i) {
      int64_t c = target.data<int64_t>()[i];
      T& loss = result.losses.data<T>()[i];
      loss = 0;
      if (c == ignored) continue;
      call.require(c >= 0 && c < classes, "target {} is out of bounds.", c);
      T w = weight.defined() ? weight.data<T>()[c] : T(1);
      loss = -x.data<T>()[(i / split.inner * classes + c) * split.inner + i % split.inner] * w;
      result.total += loss;
      result.weight += w;
    }
  });
  call.context().checkInterrupt(target.numel());
  return result;
}

Tensor nllLoss(const NllResult& nll, LossReduction reduction, DType dtype) {
  if (reduction == LossReduction::None) return convertTensor(nll.losses, dtype);
  return elementOf(reduction == LossReduction::Sum ? nll.total : nll.total / nll.weight, dtype);
}

void nllKernel(KernelCall& call) {
  Tensor self = call.tensor(0);
  call.setResult(nllLoss(nllOf(call, self, call.integer(4)), lossReduction(call, 3), self.dtype()));
}
void nllForwardKernel(KernelCall& call) {
  Tensor self = call.tensor(0);
  LossReduction reduction = lossReduction(call, 3);
  NllResult nll = nllOf(call, self, call.integer(4));
  call.setResult(0, nllLoss(nll, reduction, self.dtype()));
  call.setResult(1, elementOf(reduction == LossReduction::None ? 0.0 : nll.weight, self.dtype()));
}

// ---- cross entropy: (self, target, weight, reduction, ignore_index, label_smoothing) ----

bool hasClassProbabilities(const TensorInfo& x, const TensorInfo& target) {
  return std::equal(x.sizes.begin(), x.sizes.end(), target.sizes.begin(), target.sizes.end());
}

bool isRowOfOneClass(const TensorInfo& x, const TensorInfo& target) {
  return x.rank() == 1 && target.rank() == 1 && target.sizes[0] == 1 && isKnownSize(x.sizes[0]) && x.sizes[0] != 1;
}

void inferCrossEntropy(InferCall& call) {
  TensorInfo x = call.tensor(0), target = call.tensor(1);
  double smoothing = call.number(5);
  call.require(smoothing >= 0 && smoothing <= 1, "label_smoothing must be between 0.0 and 1.0. Got: {}", smoothing);
  LossReduction reduction = lossReduction(call, 3);
  // Classes leave the dtype of the input; a target that is not known may be probabilities.
  const DType dtype = target.dtype == DType::Undefined ? DType::Undefined : promotedDType(call, 3);
  if (reduction != LossReduction::None && !call.isRun()) return call.result(dtype, {});
  if (!x.hasRank || !target.hasRank) return call.resultOfUnknownRank(dtype);
  const bool isRow = isRowOfOneClass(x, target);
  call.require(!isRow || smoothing == 0, "output with shape [] doesn't match the broadcast shape [1]");
  if (x.rank() != target.rank() || isRow) return inferNll(call);
  call.require(hasClassProbabilities(x, target) || !call.isRun(),
               "expected a target of class probabilities of sizes {}, got {}", dimsText(x.sizes),
               dimsText(target.sizes));
  call.require(target.dtype == DType::Undefined || isFloating(target.dtype),
               "expected a floating point type for a target of class probabilities, got {}", pythonName(target.dtype));
  call.require(call.integer(4) < 0, "ignore_index is not supported for a target of class probabilities");
  call.require(x.rank() > 0, "expected an input of 1 or more dimensions, got 0");
  size_t classDim = x.rank() == 1 ? 0 : 1;
  checkClassWeight(call, 2, x.sizes[classDim]);
  Dims sizes(x.sizes);
  sizes.erase(classDim);
  resultLoss(call, dtype, reduction, sizes);
}

// For each element, the sum over the classes of -x * target * weight; `target` may be undefined.
Tensor classSums(const KernelCall& call, const Tensor& x, const Tensor& target, const Tensor& weight,
                 int64_t classDim) {
  Tensor product = x;
  if (target.defined()) product = invokeTensor(call, "aten::mul.Tensor", {product, target});
  if (weight.defined()) {
    Dims sizes(static_cast<size_t>(x.rank()), 1);
    sizes[static_cast<size_t>(classDim)] = weight.numel();
    product = invokeTensor(call, "aten::mul.Tensor", {product, reshaped(weight, sizes)});
  }
  Tensor sums = invokeTensor(call, "aten::sum.dim_IntList", {product, intList(Dims{classDim}), false, IValue()});
  return invokeTensor(call, "aten::neg", {sums});
}

void probabilityLoss(KernelCall& call, const Tensor& x, int64_t classDim) {
  double smoothing = call.number(5);
  auto classes = static_cast<double>(x.size(static_cast<int>(classDim)));
  Tensor target = call.tensor(1);
  if (smoothing > 0) {
    target = invokeTensor(call, "aten::mul.Scalar", {target, 1 - smoothing});
    target = invokeTensor(call, "aten::add.Scalar", {target, smoothing / classes, 1});
  }
  Tensor losses = classSums(call, x, target, call.tensor(2), classDim);
  LossReduction reduction = lossReduction(call, 3);
  if (reduction != LossReduction::Mean) return call.setResult(reducedLoss(call, losses, reduction));
  Tensor sum = reducedLoss(call, losses, LossReduction::Sum);
  call.setResult(invokeTensor(call, "aten::div.Scalar", {sum, static_cast<double>(x.numel()) / classes}));
}

// The loss against the class, and against all classes alike.
void smoothedLoss(KernelCall& call, const Tensor& x, int64_t classDim) {
  double smoothing = call.number(5), share = smoothing / static_cast<double>(x.size(static_cast<int>(classDim)));
  int64_t ignored = call.integer(4);
  LossReduction reduction = lossReduction(call, 3);
  call.require(reduction != LossReduction::Mean || call.isNone(2) || call.tensor(1).dtype() == DType::Int64,
               "gather(): Expected dtype int32/int64 for index");
  NllResult nll = nllOf(call, x, ignored);
  Tensor smooth = classSums(call, x, Tensor(), call.tensor(2), classDim);
  Tensor isIgnored = invokeTensor(call, "aten::eq.Scalar", {call.tensor(1), ignored});
  smooth = invokeTensor(call, "aten::masked_fill.Scalar", {smooth, isIgnored, 0});
  if (reduction != LossReduction::None) smooth = invokeTensor(call, "aten::sum", {smooth, IValue()});
  if (reduction == LossReduction::Mean) smooth = invokeTensor(call, "aten::div.Scalar", {smooth, nll.weight});
  Tensor hard = nllLoss(nll, reduction, x.dtype()), out = Tensor::empty(x.dtype(), hard.sizes());
  mapTensors<kFloats>(
      x.dtype(), [=](auto a, auto b) { return decltype(a)(1 - smoothing) * a + b * decltype(a)(share); }, out, hard,
      smooth);
  call.setResult(out);
}

void crossEntropyKernel(KernelCall& call) {
  Tensor self = call.tensor(0);
  int64_t classDim = self.rank() == 1 ? 0 : 1;
  Tensor x = invokeTensor(call, "aten::log_softmax.int", {self, classDim, IValue()});
  if (std::ranges::equal(self.sizes(), call.tensor(1).sizes())) return probabilityLoss(call, x, classDim);
  if (call.number(5) > 0) return smoothedLoss(call, x, classDim);
  call.setResult(nllLoss(nllOf(call, x, call.integer(4)), lossReduction(call, 3), x.dtype()));
}

// ---- in engines ----

// The losses of logarithms of probabilities, which are picked by the classes; those of the ignored class are 0.
void setPickedLosses(ConvertCall& call, const IValue& x, double smoothing) {
  const int64_t classDim = x.toTensor().rank() == 1 ? 0 : 1, ignored = call.integer(4);
  const IValue target = call.argument(1), isIgnored = call.compute("aten::eq.Scalar", {target, ignored});
  auto seen = [&](const IValue& nothing, const IValue& v) {
    return call.compute("aten::where.ScalarSelf", {isIgnored, nothing, v});
  };
  const IValue places = call.compute("aten::unsqueeze", {seen(0, target), classDim});
  const IValue picked =
      call.compute("aten::squeeze.dim", {call.compute("aten::gather", {x, classDim, places}), classDim});
  IValue losses = seen(0.0, call.compute("aten::neg", {picked}));
  if (smoothing > 0) {
    const IValue sums = call.compute("aten::sum.dim_IntList", {x, intList(Dims{classDim}), false, IValue()});
    const double share = smoothing / static_cast<double>(x.toTensor().size(static_cast<int>(classDim)));
    losses = call.compute("aten::sub.Tensor",
                          {call.compute("aten::mul.Scalar", {losses, 1 - smoothing}), seen(0.0, sums), share});
  }
  const LossReduction reduction = lossReduction(call, 3);
  if (reduction == LossReduction::None) return call.setResult(0, losses);
  const IValue sum = call.compute("aten::sum", {losses, IValue()});
  if (reduction == LossReduction::Sum) return call.setResult(0, sum);
  const IValue counts = call.compute("aten::ne.Scalar", {target, ignored});
  call.setResult(0, call.compute("aten::div.Tensor", {sum, call.compute("aten::sum", {counts, IValue()})}));
}

// Why classes pick nothing here; empty if they do.
std::string_view lossObstacle(const ConvertCall& call) {
  const Tensor x = call.tensor(0), target = call.tensor(1);
  if (x.dtype() != DType::Float32 || target.dtype() != DType::Int64) return "it is not float32, or has no classes";
  if (x.rank() == 0 || x.rank() != target.rank() + 1 || x.numel() == 0) return "a tensor has no elements";
  return call.isNone(2) ? "" : "the classes have weights";
}
void convertNll(ConvertCall& call) {
  if (std::string_view why = lossObstacle(call); !why.empty()) return convertToKernel(call, why);
  setPickedLosses(call, call.argument(0), 0);
}
void convertCrossEntropy(ConvertCall& call) {
  if (std::string_view why = lossObstacle(call); !why.empty()) return convertToKernel(call, why);
  const int64_t classDim = call.tensor(0).rank() == 1 ? 0 : 1;
  setPickedLosses(call, call.compute("aten::log_softmax.int", {call.argument(0), classDim, IValue()}), call.number(5));
}

// ---- margins; inputs are [n, classes], [classes] or [] ----

struct RowSizes {
  int64_t rows, classes;
};
RowSizes rowSizes(DimSpan sizes) {
  return sizes.size() == 2 ? RowSizes{sizes[0], sizes[1]} : RowSizes{1, sizes.empty() ? 1 : sizes[0]};
}

void requireRows(const InferCall& call, const TensorInfo& x) {
  call.require(!x.hasRank || (x.rank() <= 2 && (x.rank() == 0 || x.sizes.back() != 0)),
               "expected a vector or a matrix of at least one class, got sizes {}", dimsText(x.sizes));
}

// The losses of the rows, in a type that sums them up well.
void setRowLosses(KernelCall& call, const Tensor& losses, LossReduction reduction, DType dtype) {
  Tensor out = call.out();
  if (reduction == LossReduction::None) return copyTensor(out, reshaped(losses, out.sizes()));
  double sum = 0;
  for (int64_t i = 0; i < losses.numel(); ++i) sum += losses.data<double>()[i];
  if (reduction == LossReduction::Mean && losses.numel()) sum /= static_cast<double>(losses.numel());
  copyTensor(out, elementOf(sum, dtype));
}

// (self, target, p, margin, weight, reduction)
void inferMultiMargin(InferCall& call) {
  TensorInfo x = call.tensor(0), target = call.tensor(1);
  requireRows(call, x);
  call.require(target.dtype == DType::Int64 || target.dtype == DType::Undefined, "the target must be int64, not {}",
               pythonName(target.dtype));
  double p = call.number(2);
  call.require(p == 1 || p == 2, "only p == 1 and p == 2 are supported, got {}", p);
  LossReduction reduction = lossReduction(call, 5);
  if (x.hasRank && target.hasRank) {
    int64_t rows = rowSizes(x.sizes).rows;
    auto count = knownNumel(target.sizes);
    call.require(target.rank() <= 1 && (!count || !differ(*count, rows)),
                 "expected a target for each of the {} rows, got sizes {}", rows, dimsText(target.sizes));
  }
  if (reduction == LossReduction::None && !target.hasRank) return call.resultOfUnknownRank(x.dtype);
  resultLoss(call, x.dtype, reduction, target.sizes);
}

void multiMarginKernel(KernelCall& call) {
  Tensor x = convertTensor(call.tensor(0), DType::Float64), target = contiguous(call.tensor(1)), weight;
  auto [rows, classes] = rowSizes(x.sizes());
  if (!call.isNone(4)) {
    weight = convertTensor(call.tensor(4), DType::Float64);
    call.require(weight.numel() >= classes, "expected a weight for each of the {} classes, got sizes {}", classes,
                 dimsText(weight.sizes()));
  }
  double p = call.number(2), margin = call.number(3);
  Tensor losses = Tensor::empty(DType::Float64, Dims{rows});
  for (int64_t i = 0; i < rows; ++i) {
    const double* row = x.data<double>() + i * classes;
    int64_t t = target.data<int64_t>()[i];
    call.require(t >= 0 && t < classes, "target {} is out of range of {} classes", t, classes);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) {
      double z = margin - row[t] + row[c];
      if (c != t && z > 0) sum += (p == 1 ? z : z * z) * (weight.defined() ? weight.data<double>()[t] : 1);
    }
    losses.data<double>()[i] = sum / static_cast<double>(classes);
  }
  call.context().checkInterrupt(x.numel());
  setRowLosses(call, losses, lossReduction(call, 5), call.tensor(0).dtype());
}

// (self, target, reduction): the classes of a row are those in front of the first -1.
void inferMultilabel(InferCall& call) {
  TensorInfo x = call.tensor(0), target = call.tensor(1);
  requireRows(call, x);
  call.require(target.dtype == DType::Int64 || target.dtype == DType::Undefined, "the target must be int64, not {}",
               pythonName(target.dtype));
  if (x.hasRank && target.hasRank) {
    bool fits = x.rank() == 2
                    ? target.rank() == 2 && !differ(x.sizes[0], target.sizes[0]) && !differ(x.sizes[1], target.sizes[1])
                    : target.rank() <= 1 && !differ(rowSizes(x.sizes).classes, rowSizes(target.sizes).classes);
    call.require(fits, "expected a target of the input's sizes, {}, got {}", dimsText(x.sizes), dimsText(target.sizes));
  }
  LossReduction reduction = lossReduction(call, 2);
  if (reduction == LossReduction::None && !x.hasRank)
    call.resultOfUnknownRank(x.dtype);
  else
    resultLoss(call, x.dtype, reduction, x.rank() == 2 ? x.sizes.first(1) : DimSpan());
}
void inferMultilabelForward(InferCall& call) {
  inferMultilabel(call);
  call.result(call.tensor(1), call.tensor(0).dtype);
}

// The loss of a row; marks its classes.
double multilabelRow(const KernelCall& call, const double* x, const int64_t* target, double* isTarget,
                     int64_t classes) {
  int64_t count = 0;
  for (; count < classes && target[count] != -1; ++count) {
    call.require(target[count] >= 0 && target[count] < classes, "target {} is out of range of {} classes",
                 target[count], classes);
    isTarget[target[count]] = 1;
  }
  for (int64_t i = count; i < classes; ++i)
    call.require(target[i] >= -1 && target[i] < classes, "target {} is out of range of {} classes", target[i], classes);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < classes; ++c) {
      double z = 1 - x[target[i]] + x[c];
      if (isTarget[c] == 0 && z > 0) sum += z;
    }
  call.context().checkInterrupt(count * classes);
  return sum / static_cast<double>(classes);
}

template <bool kForward>
void multilabelKernel(KernelCall& call) {
  Tensor x = convertTensor(call.tensor(0), DType::Float64), target = contiguous(call.tensor(1));
  auto [rows, classes] = rowSizes(x.sizes());
  Tensor isTarget = Tensor::zeros(DType::Float64, target.sizes()), losses = Tensor::empty(DType::Float64, Dims{rows});
  for (int64_t i = 0; i < rows; ++i)
    losses.data<double>()[i] = multilabelRow(call, x.data<double>() + i * classes, target.data<int64_t>() + i * classes,
                                             isTarget.data<double>() + i * classes, classes);
  setRowLosses(call, losses, lossReduction(call, 2), call.tensor(0).dtype());
  if (kForward) copyTensor(call.out(1), isTarget);
}

}  // namespace

void registerLossClassOps(OpRegistry& ops) {
  auto add = [&](std::string_view name, InferFunction infer, KernelFunction kernel, ConvertFunction convert = nullptr,
                 DTypeSet dtypes = kFloatingTypes) {
    ops.add({.schema = name, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = dtypes});
  };
  add("aten::nll_loss", inferNllOfRank<1, 2>, nllKernel, convertNll);
  add("aten::nll_loss2d", inferNllOfRank<4, 4>, nllKernel, convertNll);
  add("aten::nll_loss_nd", inferNll, nllKernel, convertNll);
  add("aten::nll_loss_forward", inferNllForward, nllForwardKernel);
  add("aten::nll_loss2d_forward", inferNllForward, nllForwardKernel);
  add("aten::cross_entropy_loss", inferCrossEntropy, crossEntropyKernel, convertCrossEntropy);
  constexpr DTypeSet kWide{DType::Float32, DType::Float64};
  add("aten::multi_margin_loss", inferMultiMargin, multiMarginKernel, nullptr, kWide);
  add("aten::multilabel_margin_loss", inferMultilabel, multilabelKernel<false>, nullptr, kWide);
  add("aten::multilabel_margin_loss_forward", inferMultilabelForward, multilabelKernel<true>, nullptr, kWide);
}

}  // namespace tscompile
