// Losses that compare two tensors element by element.
#include "runtime/engine/network/convert_call.h"
#include "runtime/ops/layers/reduced_loss.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/half_operands.h"
#include "runtime/reference/loops/arithmetic.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/scalars.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

namespace tscompile {
namespace {

// ---- shape functions: the first kInputs arguments, promoted and broadcast, then reduced ----

std::optional<Dims> broadcastSizes(const InferCall& call, size_t count) {
  Dims sizes;
  for (size_t i = 0; i < count; ++i) {
    TensorInfo t = call.tensor(i);
    if (!t.hasRank) return std::nullopt;
    Dims before = sizes;
    if (!broadcastInto(sizes, t.sizes)) refuseBroadcast(before, t.sizes);
  }
  return sizes;
}

void resultLossOf(InferCall& call, DType dtype, LossReduction reduction, size_t count) {
  if (std::optional<Dims> sizes = broadcastSizes(call, count))
    resultLoss(call, dtype, reduction, *sizes);
  else if (reduction == LossReduction::None)
    call.resultOfUnknownRank(dtype);
  else
    call.result(dtype, {});
}

// For functions that are made for floats only.
template <size_t kReduction>
void inferFloatLoss(InferCall& call) {
  DType dtype = promotedDType(call, 2);
  call.require(dtype == DType::Undefined || isFloating(dtype), "{} is not implemented for {}", call.op().kind().text(),
               pythonName(dtype));
  int64_t reduction = call.integer(kReduction);
  call.require(reduction >= 0 && reduction <= 2, "the reduction must be 0 (none), 1 (mean) or 2 (sum), got {}",
               reduction);
  resultLossOf(call, dtype, lossReduction(call, kReduction), 2);
}

// ---- kernels ----

// What is computed at once is exact to the last digit here; other dtypes are rounded, and refused, step by step in
// PyTorch.
bool isComputedAtOnce(const KernelCall& call) {
  const DType dtype = call.tensor(0).dtype();
  return dtype == call.tensor(1).dtype() && (dtype == DType::Float32 || dtype == DType::Float64);
}

// f of the elements of tensors, broadcast, in `dtype`; as `result`, then reduced.
template <TypeSet kTypes, class F, std::same_as<Tensor>... In>
void setLossAs(DType result, KernelCall& call, size_t reduction, DType dtype, const F& f, const In&... in) {
  Dims sizes;
  auto widen = [&](DimSpan more) {
    const Dims before = sizes;
    if (!broadcastInto(sizes, more)) refuseBroadcast(before, more);
  };
  (widen(in.sizes()), ...);
  const Tensor* tensors[] = {&in...};
  Tensor losses = Tensor::emptyStrided(result, sizes, elementwiseStrides(sizes, tensors));
  mapTensors<kTypes>(dtype, f, losses, in...);
  call.setResult(reducedLoss(call, losses, lossReduction(call, reduction)));
}
template <TypeSet kTypes, class F, std::same_as<Tensor>... In>
void setLoss(KernelCall& call, size_t reduction, DType dtype, const F& f, const In&... in) {
  setLossAs<kTypes>(dtype, call, reduction, dtype, f, in...);
}

// A function that is made of what rounds its steps.
template <class MakeLoss>
void setLossInSteps(KernelCall& call, DType result, const MakeLoss& lossBy) {
  const DType dtype = promotedDType(call, 2);
  const Tensor x = call.tensor(0), target = call.tensor(1);
  if (dtype == DType::Float16) return setLossAs<kF32>(result, call, 2, dtype, lossBy(RoundedTo<Half>()), x, target);
  if (dtype == DType::BFloat16)
    return setLossAs<kF32>(result, call, 2, dtype, lossBy(RoundedTo<BFloat16>()), x, target);
  setLossAs<kFloats>(result, call, 2, dtype, lossBy(std::identity()), x, target);
}

void mseKernel(KernelCall& call) {
  setLossInSteps(call, promotedDType(call, 2), [](auto round) {
    return [=](auto a, auto b) {
      const auto difference = round(a - b);
      return difference * difference;
    };
  });
}

void inferL1(InferCall& call) {
  DType dtype = promotedDType(call, 2);
  LossReduction reduction = lossReduction(call, 2);
  if (dtype != DType::Undefined) dtype = realPart(dtype);
  if (reduction == LossReduction::Sum && isIntegral(dtype, true)) dtype = DType::Int64;
  resultLossOf(call, dtype, reduction, 2);
}
void l1Kernel(KernelCall& call) {
  Tensor difference = invokeTensor(call, "aten::sub.Tensor", {call.tensor(0), call.tensor(1), 1});
  call.setResult(reducedLoss(call, invokeTensor(call, "aten::abs", {difference}), lossReduction(call, 2)));
}

// A parabola near 0, straight beyond `beta`.
void smoothL1Kernel(KernelCall& call) {
  double beta = call.number(3);
  call.require(beta >= 0, "smooth_l1_loss does not support negative values for beta, got {}", beta);
  const DType dtype = promotedDType(call, 2);
  if (beta == 0) {
    const Tensor difference =
        invokeTensor(call, "aten::sub.Tensor", {convertTensor(call.tensor(0), dtype), call.tensor(1), 1});
    return call.setResult(reducedLoss(call, invokeTensor(call, "aten::abs", {difference}), lossReduction(call, 2)));
  }
  const auto lossBy = [=](auto round) {
    return [=](auto a, auto b) {
      using T = decltype(a);
      const T z = round(std::fabs(a - b)), bend = round(T(beta));
      return z < bend ? round(round(T(0.5) * z) * z) / bend : z - round(T(0.5) * bend);
    };
  };
  if (dtype != DType::BFloat16) return setLossInSteps(call, dtype, lossBy);
  setLoss<kF32>(call, 2, dtype, lossBy(std::identity()), call.tensor(0), call.tensor(1));
}

// It has the dtype of the input, whatever that of the target.
void inferHuber(InferCall& call) {
  const DType input = call.tensor(0).dtype, promoted = promotedDType(call, 2);
  call.require(isFloating(input) || input == DType::Undefined || promoted == DType::Undefined,
               "result type {} can't be cast to the desired output type {}",
               graphName(isFloating(promoted) ? promoted : DType::Float32), graphName(input));
  resultLossOf(call, input, lossReduction(call, 2), 2);
}
void huberKernel(KernelCall& call) {
  double delta = call.number(3);
  call.require(delta > 0, "huber_loss does not support non-positive values for delta, got {}", delta);
  const DType result = call.tensor(0).dtype(), dtype = promotedDType(call, 2);
  const auto lossBy = [=](auto round) {
    return [=](auto a, auto b) {
      using T = decltype(a);
      const T z = round(std::fabs(a - b)), bend = round(T(delta));
      return z <= bend ? round(T(0.5) * z) * z : bend * round(z - round(T(0.5) * bend));
    };
  };
  if (dtype != DType::Float16) return setLossInSteps(call, result, lossBy);
  setLossAs<kF32>(result, call, 2, dtype, lossBy(std::identity()), call.tensor(0), call.tensor(1));
}

void inferKlDiv(InferCall& call) {
  for (size_t i : {0, 1}) {
    DType dtype = call.tensor(i).dtype;
    call.require(!isComplex(dtype), "kl_div: Complex inputs not supported.");
    call.require(!isIntegral(dtype, true), "kl_div: Integral inputs not supported.");
  }
  resultLossOf(call, promotedDType(call, 2), lossReduction(call, 2), 2);
}

void klDivInSteps(KernelCall& call) {
  const Tensor x = call.tensor(0), y = call.tensor(1);
  const Tensor losses =
      call.flag(3)
          ? invokeTensor(call, "aten::mul.Tensor",
                         {invokeTensor(call, "aten::exp", {y}), invokeTensor(call, "aten::sub.Tensor", {y, x, 1})})
          : invokeTensor(
                call, "aten::sub.Tensor",
                {invokeTensor(call, "aten::xlogy.Tensor", {y, y}), invokeTensor(call, "aten::mul.Tensor", {y, x}), 1});
  call.setResult(reducedLoss(call, losses, lossReduction(call, 2)));
}
void klDivKernel(KernelCall& call) {
  DType dtype = promotedDType(call, 2);
  if (!isComputedAtOnce(call)) return klDivInSteps(call);
  if (call.flag(3))
    return setLoss<kVectors>(
        call, 2, dtype, [](auto x, auto y) { return exp(y) * (y - x); }, call.tensor(0), call.tensor(1));
  setLoss<kVectors>(
      call, 2, dtype,
      [](auto x, auto y) { return select(y == Lane<decltype(y)>(0), decltype(y){}, y * log(y)) - y * x; },
      call.tensor(0), call.tensor(1));
}

// ---- binary cross entropy ----

// Arguments: self, target, weight?, (pos_weight?,) reduction. The optional ones may make nothing larger.
void requireFits(const InferCall& call, size_t i, DimSpan given, DimSpan sizes) {
  Dims all(sizes);
  bool fits = broadcastInto(all, given) && all.size() == sizes.size();
  for (size_t d = 0; fits && d < all.size(); ++d)
    fits = !isKnownSize(sizes[d]) || all[d] == sizes[d] || !isKnownSize(all[d]);
  call.require(fits, "the sizes {} cannot be broadcast to those of the loss, {}", dimsText(call.tensor(i).sizes),
               dimsText(sizes));
}
void requireFits(const InferCall& call, size_t i, DimSpan sizes) {
  if (!call.isNone(i) && call.tensor(i).hasRank) requireFits(call, i, call.tensor(i).sizes, sizes);
}

Dims withoutOnes(DimSpan sizes) {
  Dims others;
  for (int64_t size : sizes)
    if (size != 1) others.push_back(size);
  return others;
}

void inferBce(InferCall& call) {
  TensorInfo x = call.tensor(0), target = call.tensor(1);
  call.require(x.dtype == target.dtype || x.dtype == DType::Undefined || target.dtype == DType::Undefined,
               "the target must be {} as the input is, not {}", pythonName(x.dtype), pythonName(target.dtype));
  if (x.hasRank) {
    // Input and target lose their sizes of 1 before they are broadcast: a target of 2x1 is a row beside 2x2.
    const bool isKnown =
        target.hasRank && std::ranges::all_of(x.sizes, isKnownSize) && std::ranges::all_of(target.sizes, isKnownSize);
    if (isKnown) requireFits(call, 1, withoutOnes(target.sizes), withoutOnes(x.sizes));
    requireFits(call, 2, x.sizes);
  }
  resultLossOf(call, x.dtype, lossReduction(call, 3), x.hasRank ? 1 : 2);
}

void setWeighted(KernelCall& call, Tensor losses, size_t weight, size_t reduction) {
  if (!call.isNone(weight)) losses = invokeTensor(call, "aten::mul_.Tensor", {losses, call.tensor(weight)});
  call.setResult(reducedLoss(call, losses, lossReduction(call, reduction)));
}

void bceKernel(KernelCall& call) {
  Tensor x = call.tensor(0), target = call.tensor(1);
  Tensor losses = Tensor::empty(x.dtype(), x.sizes());
  bool outside = false;
  mapTensors<kFloats>(
      x.dtype(),
      [&outside](auto p, auto y) {
        using T = decltype(p);
        outside |= !(p >= 0 && p <= 1);
        return (y - T(1)) * std::max(std::log1p(-p), T(-100)) - y * std::max(std::log(p), T(-100));
      },
      squeezed(losses), squeezed(x), squeezed(target));
  call.require(!outside, "all elements of input should be between 0 and 1");
  setWeighted(call, losses, 2, 3);
}

void inferBceLogits(InferCall& call) {
  TensorInfo x = call.tensor(0), target = call.tensor(1);
  DType dtype = toFloating(promotedDType(call, 2));
  if (x.dtype != DType::Undefined && target.dtype != DType::Undefined)
    call.require(canCast(dtype, target.dtype), "result type {} can't be cast to the type of the target, {}",
                 pythonName(dtype), pythonName(target.dtype));
  // All is written over what begins with the target.
  for (size_t i : {2, 3}) {
    const DType weight = call.isNone(i) ? DType::Undefined : call.tensor(i).dtype;
    if (weight != DType::Undefined && target.dtype != DType::Undefined)
      call.require(canCast(weight, target.dtype), "result type {} can't be cast to the desired output type {}",
                   graphName(weight), graphName(target.dtype));
  }
  if (target.hasRank)
    for (size_t i : {0, 2, 3}) requireFits(call, i, target.sizes);
  LossReduction reduction = lossReduction(call, 4);
  if (target.hasRank)
    resultLoss(call, target.dtype, reduction, target.sizes);
  else
    resultLossOf(call, target.dtype, reduction, 2);
}

// Each step is written over the one before, which has the dtype of the target.
void bceLogitsInSteps(KernelCall& call) {
  const Tensor x = call.tensor(0), target = call.tensor(1);
  const Tensor losses = invokeTensor(call, "aten::rsub.Scalar", {target, 1, 1});
  invoke(call, "aten::mul_.Tensor", {losses, x});
  Tensor logarithm = invokeTensor(call, "aten::log_sigmoid", {x});
  if (!call.isNone(3)) {
    const Tensor more = invokeTensor(call, "aten::sub.Scalar", {call.tensor(3), 1, 1});
    const Tensor factor = invokeTensor(call, "aten::mul.Tensor", {more, target});
    invoke(call, "aten::add_.Scalar", {factor, 1, 1});
    invoke(call, "aten::mul_.Tensor", {logarithm, factor});
  }
  invoke(call, "aten::sub_.Tensor", {losses, logarithm, 1});
  setWeighted(call, losses, 2, 4);
}

void bceLogitsKernel(KernelCall& call) {
  if (!isComputedAtOnce(call) || (!call.isNone(3) && call.tensor(3).dtype() != call.tensor(0).dtype()))
    return bceLogitsInSteps(call);
  // It begins with 1 - target, which is written over.
  Tensor x = call.tensor(0), target = call.tensor(1), losses = emptyLike(target, target.dtype());
  // log(1 + exp(-x)) without overflow.
  auto soft = [](auto v) {
    using T = Lane<decltype(v)>;
    auto most = select(v > T(0), decltype(v){}, -v);
    return most + log(exp(-most) + exp(-v - most));
  };
  if (call.isNone(3))
    mapTensors<kVectors>(
        target.dtype(), [=](auto v, auto y) { return (Lane<decltype(v)>(1) - y) * v + soft(v); }, losses, x, target);
  else
    mapTensors<kVectors>(
        target.dtype(),
        [=](auto v, auto y, auto w) {
          using T = Lane<decltype(v)>;
          return (T(1) - y) * v + ((w - T(1)) * y + T(1)) * soft(v);
        },
        losses, x, target, call.tensor(3));
  setWeighted(call, losses, 2, 4);
}

// ---- poisson_nll_loss(input, target, log_input, full, eps, reduction) ----

DType promoted(const TensorInfo& a, const TensorInfo& b) {
  ResultType type;
  type.add(a);
  type.add(b);
  return type.get();
}
// What is known of a sum or product of both.
TensorInfo joined(const TensorInfo& a, const TensorInfo& b) {
  TensorInfo out = a.hasRank && b.hasRank && a.rank() < b.rank() ? b : a;
  out.hasRank = a.hasRank && b.hasRank;
  out.dtype = promoted(a, b);
  return out;
}
// exp(input) - target * input, or input - target * log(input + eps).
DType poissonDType(const TensorInfo& input, const TensorInfo& target, bool isLog) {
  if (input.dtype == DType::Undefined || target.dtype == DType::Undefined) return DType::Undefined;
  TensorInfo widened = input;
  widened.dtype = toFloating(input.dtype);
  return promoted(widened, joined(target, isLog ? input : widened));
}
void inferPoisson(InferCall& call) {
  resultLossOf(call, poissonDType(call.tensor(0), call.tensor(1), call.flag(2)), lossReduction(call, 5), 2);
}

Tensor poissonInSteps(const KernelCall& call, const IValue& x, const IValue& y, bool isLog, bool isFull, double eps) {
  auto made = [&](std::string_view op, std::initializer_list<IValue> args) { return invokeTensor(call, op, args); };
  const Tensor loss =
      isLog ? made("aten::sub.Tensor", {made("aten::exp", {x}), made("aten::mul.Tensor", {y, x}), 1})
            : made("aten::sub.Tensor",
                   {x, made("aten::mul.Tensor", {y, made("aten::log", {made("aten::add.Scalar", {x, eps, 1})})}), 1});
  if (!isFull) return loss;
  const Tensor circle = made("aten::log", {made("aten::mul.Scalar", {y, 2 * std::numbers::pi})});
  const Tensor stirling =
      made("aten::add.Tensor", {made("aten::sub.Tensor", {made("aten::mul.Tensor", {y, made("aten::log", {y})}), y, 1}),
                                made("aten::mul.Scalar", {circle, 0.5}), 1});
  const Tensor isSmall = made("aten::le.Scalar", {y, 1});
  return made("aten::add_.Tensor", {loss, made("aten::masked_fill.Scalar", {stirling, isSmall, 0}), 1});
}

void poissonKernel(KernelCall& call) {
  bool isLog = call.flag(2), full = call.flag(3);
  double eps = call.number(4);
  if (!isComputedAtOnce(call)) {
    const Tensor losses = poissonInSteps(call, call.argument(0), call.argument(1), isLog, full, eps);
    return call.setResult(reducedLoss(call, losses, lossReduction(call, 5)));
  }
  setLoss<kVectors>(
      call, 5, call.spec().dtype,
      [=](auto x, auto y) {
        using T = Lane<decltype(x)>;
        auto loss = isLog ? exp(x) - y * x : x - y * log(x + T(eps));
        if (!full) return loss;
        auto stirling = y * log(y) - y + T(0.5) * log(T(2 * std::numbers::pi) * y);
        return loss + select(y <= T(1), decltype(y){}, stirling);
      },
      call.tensor(0), call.tensor(1));
}

// ---- margins ----

// (self, target, margin, reduction); the result is of the dtype of `self`.
// It begins with the margin of the input's dtype, minus the input.
void inferHinge(InferCall& call) {
  call.require(call.tensor(0).dtype != DType::Bool,
               "subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
               "operator instead.");
  const LossReduction reduction = lossReduction(call, 3);
  const DType dtype = call.tensor(0).dtype;
  resultLossOf(call, reduction == LossReduction::Sum && isIntegral(dtype, true) ? DType::Int64 : dtype, reduction, 2);
}
void hingeKernel(KernelCall& call) {
  const Tensor x = call.tensor(0), target = call.tensor(1);
  auto made = [&](std::string_view op, std::initializer_list<IValue> args) { return invokeTensor(call, op, args); };
  const Tensor margin = made("aten::full_like", {x, call.argument(2), {}, {}, {}, {}, {}});
  const Tensor excess = made("aten::clamp_min", {made("aten::sub.Tensor", {margin, x, 1}), 0});
  auto where = [&](int64_t label, const Tensor& loss) {
    const Tensor zeros = made("aten::zeros_like", {loss, {}, {}, {}, {}, {}});
    return made("aten::where.self", {made("aten::ne.Scalar", {target, label}), loss, zeros});
  };
  const Tensor losses = made("aten::add.Tensor", {where(1, excess), where(-1, x), 1});
  call.setResult(reducedLoss(call, losses, lossReduction(call, 3)));
}

// (input1, input2, target, margin, reduction)
void inferMarginRanking(InferCall& call) {
  const int bools = (call.tensor(0).dtype == DType::Bool) + (call.tensor(1).dtype == DType::Bool);
  call.require(bools < 2,
               "subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
               "operator instead.");
  call.require(
      bools == 0,
      "subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
      "use the `~` or `logical_not()` operator instead.");
  call.require(call.tensor(2).dtype != DType::Bool,
               "negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
               "the `~` or `logical_not()` operator instead.");
  const DType dtype = joined(call.tensor(2), joined(call.tensor(0), call.tensor(1))).dtype;
  resultLossOf(call, dtype == DType::Undefined ? dtype : toFloating(dtype), lossReduction(call, 4), 3);
}
void marginRankingKernel(KernelCall& call) {
  auto made = [&](std::string_view op, std::initializer_list<IValue> args) { return invokeTensor(call, op, args); };
  const Tensor difference = made("aten::sub.Tensor", {call.argument(0), call.argument(1), 1});
  const Tensor product = made("aten::mul.Tensor", {made("aten::neg", {call.argument(2)}), difference});
  const Tensor losses = made("aten::clamp_min", {made("aten::add.Scalar", {product, call.argument(3), 1}), 0});
  call.setResult(reducedLoss(call, losses, lossReduction(call, 4)));
}

void inferSoftMargin(InferCall& call) {
  TensorInfo x = call.tensor(0);
  DType dtype = promotedDType(call, 2);
  // Its exponential is a float.
  const DType computed = dtype == DType::Undefined ? dtype : toFloating(dtype);
  call.require(computed == DType::Undefined || canCast(computed, x.dtype),
               "result type {} can't be cast to the desired output type {}", graphName(computed), graphName(x.dtype));
  if (x.hasRank) requireFits(call, 1, x.sizes);
  LossReduction reduction = lossReduction(call, 2);
  if (x.hasRank)
    resultLoss(call, x.dtype, reduction, x.sizes);
  else
    resultLossOf(call, x.dtype, reduction, 2);
}
void softMarginKernel(KernelCall& call) {
  if (!isComputedAtOnce(call)) {
    const Tensor loss = invokeTensor(call, "aten::neg", {call.argument(0)});
    invoke(call, "aten::mul_.Tensor", {loss, call.argument(1)});
    for (std::string_view step : {"aten::exp_", "aten::log1p_"}) invoke(call, step, {loss});
    return call.setResult(reducedLoss(call, loss, lossReduction(call, 2)));
  }
  setLoss<kVectors>(
      call, 2, call.tensor(0).dtype(), [](auto x, auto y) { return log1p(exp(-x * y)); }, call.tensor(0),
      call.tensor(1));
}

// ---- made of distances ----

// (input1, input2, target, margin, reduction)
// The loss of each row is a number of its own.
void inferCosineEmbedding(InferCall& call) {
  TensorInfo target = call.tensor(2);
  DType dtype = promotedDType(call, 2);
  if (isIntegral(dtype, true)) dtype = DType::Float32;
  LossReduction reduction = lossReduction(call, 4);
  if (reduction != LossReduction::None) return call.result(dtype, {});
  TensorInfo a = call.tensor(0), b = call.tensor(1);
  if (!a.hasRank || !b.hasRank || !target.hasRank) return call.resultOfUnknownRank(dtype);
  Dims sizes(a.sizes);
  if (!broadcastInto(sizes, b.sizes)) refuseBroadcast(a.sizes, b.sizes);
  call.require(sizes.size() == target.rank() + 1, "a {}D target expects {}D inputs, but found sizes {} and {}",
               target.rank(), target.rank() + 1, dimsText(a.sizes), dimsText(b.sizes));
  sizes.erase(target.rank());
  if (!broadcastInto(sizes, target.sizes)) refuseBroadcast(a.sizes, target.sizes);
  call.result(dtype, sizes);
}
void cosineEmbeddingKernel(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1), target = call.tensor(2);
  call.require(target.rank() <= 1, "the target must have at most one dimension, not {}", target.rank());
  call.require(a.rank() == target.rank() + 1 && b.rank() == a.rank(),
               "a {}D target expects {}D inputs, but found sizes {} and {}", target.rank(), target.rank() + 1,
               dimsText(a.sizes()), dimsText(b.sizes()));
  auto dot = [&](const Tensor& x, const Tensor& y) {
    Tensor product = invokeTensor(call, "aten::mul.Tensor", {x, y});
    return invokeTensor(call, "aten::sum.dim_IntList", {product, intList(Dims{target.rank()}), false, IValue()});
  };
  auto magnitude = [&](const Tensor& x) { return invokeTensor(call, "aten::add.Scalar", {dot(x, x), 1e-12, 1}); };
  Tensor squares = invokeTensor(call, "aten::mul.Tensor", {magnitude(a), magnitude(b)});
  Tensor cosine = invokeTensor(call, "aten::div.Tensor", {dot(a, b), invokeTensor(call, "aten::sqrt", {squares})});
  double margin = call.number(3);
  setLoss<kFloats>(
      call, 4, cosine.dtype(),
      [=](auto c, auto y) {
        using T = decltype(c);
        if (y == T(1)) return T(1) - c;
        T loss = c - T(margin);
        return y == T(-1) && !(loss < 0) ? loss : T(0);
      },
      cosine, target);
}

DType distanceDType(const InferCall& call, size_t a, size_t b) {
  ResultType type;
  type.add(call, a);
  type.add(call, b);
  return type.get() == DType::Undefined ? DType::Undefined : realPart(toFloating(type.get()));
}
void inferTriplet(InferCall& call) {
  DType dtype = distanceDType(call, 0, 1);
  auto add = [&](DType more) {
    dtype = dtype == DType::Undefined || more == DType::Undefined ? DType::Undefined : promoteTypes(dtype, more);
  };
  add(distanceDType(call, 0, 2));
  if (call.flag(6)) add(distanceDType(call, 1, 2));
  LossReduction reduction = lossReduction(call, 7);
  if (reduction != LossReduction::None) return call.result(dtype, {});
  std::optional<Dims> sizes = broadcastSizes(call, 3);
  if (!sizes) return call.resultOfUnknownRank(dtype);
  if (!sizes->empty()) sizes->pop_back();
  call.result(dtype, *sizes);
}
// (anchor, positive, negative, margin, p, eps, swap, reduction)
void tripletKernel(KernelCall& call) {
  Tensor anchor = call.tensor(0), positive = call.tensor(1), negative = call.tensor(2);
  call.require(anchor.rank() == positive.rank() && anchor.rank() == negative.rank(),
               "the anchor, positive, and negative tensors are expected to have the same number of dimensions, but got "
               "{}D, {}D, and {}D",
               anchor.rank(), positive.rank(), negative.rank());
  auto distance = [&](const Tensor& a, const Tensor& b) {
    return invokeTensor(call, "aten::pairwise_distance", {a, b, call.argument(4), call.argument(5), false});
  };
  Tensor near = distance(anchor, positive), far = distance(anchor, negative);
  if (call.flag(6)) far = invokeTensor(call, "aten::minimum", {far, distance(positive, negative)});
  double margin = call.number(3);
  setLoss<kFloats>(
      call, 7, call.spec().dtype,
      [=](auto a, auto b) {
        auto loss = decltype(a)(margin) + a - b;
        return loss < 0 ? decltype(a)(0) : loss;
      },
      near, far);
}

// ---- losses of differences in engines ----

IValue squareOf(ConvertCall& call, const IValue& difference) { return call.compute("aten::square", {difference}); }
IValue sizeOf(ConvertCall& call, const IValue& difference) { return call.compute("aten::abs", {difference}); }

// A parabola up to `bend`, behind it a line, whose slope is `slope`: z^2 * slope / (2 bend), slope * (z - bend / 2).
IValue bentAt(ConvertCall& call, const IValue& difference, double bend, double slope) {
  const IValue z = sizeOf(call, difference), isNear = call.compute("aten::lt.Scalar", {z, bend});
  const IValue near = call.compute("aten::mul.Scalar", {squareOf(call, z), slope / (2 * bend)});
  const IValue far = call.compute("aten::mul.Scalar", {call.compute("aten::sub.Scalar", {z, bend / 2, 1}), slope});
  return call.compute("aten::where.self", {isNear, near, far});
}
IValue smoothSizeOf(ConvertCall& call, const IValue& difference) { return bentAt(call, difference, call.number(3), 1); }
IValue huberOf(ConvertCall& call, const IValue& difference) {
  return bentAt(call, difference, call.number(3), call.number(3));
}

// Argument `reduction` tells how.
void setReduced(ConvertCall& call, const IValue& losses, size_t reduction) {
  switch (static_cast<LossReduction>(call.integer(reduction))) {
    case LossReduction::Mean:
      return call.setResult(0, call.compute("aten::mean", {losses}));
    case LossReduction::Sum:
      return call.setResult(0, call.compute("aten::sum", {losses}));
    default:
      call.setResult(0, losses);
  }
}

template <IValue (*kLoss)(ConvertCall&, const IValue&)>
void convertLoss(ConvertCall& call) {
  const Tensor x = call.tensor(0), target = call.tensor(1);
  if (x.dtype() != DType::Float32 || target.dtype() != DType::Float32)
    return convertToKernel(call, "an argument is not float32");
  if (x.numel() == 0 || target.numel() == 0) return convertToKernel(call, "a tensor has no elements");
  if (call.size() > 3 && !(call.number(3) > 0)) return convertToKernel(call, "the loss has no bend");
  const IValue losses = kLoss(call, call.compute("aten::sub.Tensor", {x, target, 1}));
  setReduced(call, losses, 2);
}

// Whether the first `count` arguments are tensors of float32 with elements.
bool areFloats(const ConvertCall& call, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (call.tensor(i).dtype() != DType::Float32 || call.tensor(i).numel() == 0) return false;
  return true;
}
constexpr std::string_view kNotFloats = "an argument is not float32, or empty";

void convertKlDiv(ConvertCall& call) {
  if (!areFloats(call, 2)) return convertToKernel(call, kNotFloats);
  const IValue x = call.argument(0), y = call.argument(1);
  const IValue losses = call.flag(3) ? call.compute("aten::mul.Tensor", {call.compute("aten::exp", {y}),
                                                                         call.compute("aten::sub.Tensor", {y, x, 1})})
                                     : call.compute("aten::sub.Tensor", {call.compute("aten::xlogy.Tensor", {y, y}),
                                                                         call.compute("aten::mul.Tensor", {y, x}), 1});
  setReduced(call, losses, 2);
}

// (self, target, weight, pos_weight, reduction): (1 - y) x - ((pos_weight - 1) y + 1) log(sigmoid(x))
void convertBceLogits(ConvertCall& call) {
  if (!areFloats(call, 2)) return convertToKernel(call, kNotFloats);
  for (size_t i : {2, 3})
    if (!call.isNone(i) && call.tensor(i).dtype() != DType::Float32) return convertToKernel(call, kNotFloats);
  const IValue x = call.argument(0), y = call.argument(1);
  IValue logarithm = call.compute("aten::log_sigmoid", {x});
  if (!call.isNone(3)) {
    const IValue more = call.compute("aten::sub.Scalar", {call.argument(3), 1, 1});
    const IValue factor = call.compute("aten::add.Scalar", {call.compute("aten::mul.Tensor", {more, y}), 1, 1});
    logarithm = call.compute("aten::mul.Tensor", {factor, logarithm});
  }
  const IValue others = call.compute("aten::mul.Tensor", {call.compute("aten::rsub.Scalar", {y, 1, 1}), x});
  IValue losses = call.compute("aten::sub.Tensor", {others, logarithm, 1});
  if (!call.isNone(2)) losses = call.compute("aten::mul.Tensor", {losses, call.argument(2)});
  setReduced(call, losses, 4);
}

// (input1, input2, target, margin, reduction)
void convertMarginRanking(ConvertCall& call) {
  if (!areFloats(call, 3)) return convertToKernel(call, kNotFloats);
  const IValue difference = call.compute("aten::sub.Tensor", {call.argument(1), call.argument(0), 1});
  const IValue product = call.compute("aten::mul.Tensor", {call.argument(2), difference});
  setReduced(call, call.compute("aten::relu", {call.compute("aten::add.Scalar", {product, call.argument(3), 1})}), 4);
}

// (anchor, positive, negative, margin, p, eps, swap, reduction)
void convertTriplet(ConvertCall& call) {
  const int rank = call.tensor(0).rank();
  if (!areFloats(call, 3) || call.tensor(1).rank() != rank || call.tensor(2).rank() != rank)
    return convertToKernel(call, kNotFloats);
  auto distance = [&](size_t a, size_t b) {
    return call.compute("aten::pairwise_distance",
                        {call.argument(a), call.argument(b), call.argument(4), call.argument(5), false});
  };
  IValue apart = distance(0, 2);
  if (call.flag(6)) apart = call.compute("aten::minimum", {apart, distance(1, 2)});
  const IValue excess = call.compute("aten::sub.Tensor", {distance(0, 1), apart, 1});
  setReduced(call, call.compute("aten::relu", {call.compute("aten::add.Scalar", {excess, call.argument(3), 1})}), 7);
}

}  // namespace

void registerLossOps(OpRegistry& ops) {
  auto add = [&](std::string_view name, InferFunction infer, KernelFunction kernel, DTypeSet dtypes = kRealAndBool,
                 ConvertFunction convert = nullptr) {
    ops.add({.schema = name, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = dtypes});
  };
  add("aten::mse_loss", inferFloatLoss<2>, mseKernel, kRealAndBool, convertLoss<squareOf>);
  add("aten::l1_loss", inferL1, l1Kernel, kAllTypes, convertLoss<sizeOf>);
  add("aten::smooth_l1_loss", inferFloatLoss<2>, smoothL1Kernel, kRealAndBool, convertLoss<smoothSizeOf>);
  add("aten::huber_loss", inferHuber, huberKernel, kRealAndBool, convertLoss<huberOf>);
  add("aten::kl_div", inferKlDiv, klDivKernel, kRealAndBool, convertKlDiv);
  add("aten::binary_cross_entropy", inferBce, bceKernel, kFloatingTypes);
  add("aten::binary_cross_entropy_with_logits", inferBceLogits, bceLogitsKernel, kFloatingTypes, convertBceLogits);
  add("aten::poisson_nll_loss", inferPoisson, poissonKernel, kAllTypes);
  add("aten::hinge_embedding_loss", inferHinge, hingeKernel);
  add("aten::margin_ranking_loss", inferMarginRanking, marginRankingKernel, kRealAndBool, convertMarginRanking);
  add("aten::soft_margin_loss", inferSoftMargin, softMarginKernel, kAllTypes);
  add("aten::cosine_embedding_loss", inferCosineEmbedding, cosineEmbeddingKernel);
  add("aten::triplet_margin_loss", inferTriplet, tripletKernel, kAllTypes, convertTriplet);
}

}  // namespace tscompile
