// Connectionist temporal classification: the loss of a sequence of labels over all its alignments with the input.
#include "runtime/ops/layers/reduced_loss.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tscompile {
namespace {

// Arguments: log_probs [time, batch, classes], targets [batch, length] or all after another, input_lengths,
// target_lengths, blank.
struct CtcArguments {
  explicit CtcArguments(const KernelCall& call);
  int64_t label(int64_t b, int64_t i) const { return targets.data<int64_t>()[starts[static_cast<size_t>(b)] + i]; }

  Tensor logProbs;  // dense, with a batch dimension
  Tensor targets;   // int64
  Dims inputLengths, targetLengths, starts;
  int64_t blank, longest = 0;
};

Dims lengths(const KernelCall& call, size_t i, const char* name) {
  if (!call.argument(i).isTensor()) return call.integers(i);
  Tensor t = call.tensor(i);
  call.require(isIntegral(t.dtype(), false), "{} must be integral, not {}", name, pythonName(t.dtype()));
  t = convertTensor(t, DType::Int64);
  return Dims(DimSpan(t.data<int64_t>(), static_cast<size_t>(t.numel())));
}

CtcArguments::CtcArguments(const KernelCall& call)
    : logProbs(denseTensor(call.tensor(0))),
      targets(convertTensor(call.tensor(1), DType::Int64)),
      inputLengths(lengths(call, 2, "input_lengths")),
      targetLengths(lengths(call, 3, "target_lengths")),
      blank(call.integer(4)) {
  if (logProbs.rank() == 2) logProbs = unsqueezed(logProbs, 1);
  int64_t steps = logProbs.size(0), batch = logProbs.size(1), classes = logProbs.size(2);
  call.require(blank >= 0 && blank < classes, "blank must be in the label range of {} classes, got {}", classes, blank);
  call.require(
      static_cast<int64_t>(inputLengths.size()) == batch && static_cast<int64_t>(targetLengths.size()) == batch,
      "expected lengths for {} sequences, got {} of the input and {} of the targets", batch, inputLengths.size(),
      targetLengths.size());
  bool joined = targets.rank() == 1;
  call.require(joined || (targets.rank() == 2 && targets.size(0) == batch),
               "the targets must be 1D, or 2D with a row for each of the {} sequences, got sizes {}", batch,
               dimsText(targets.sizes()));
  int64_t at = 0, room = joined ? targets.numel() : targets.size(1);
  for (int64_t b = 0; b < batch; ++b) {
    int64_t inputs = inputLengths[static_cast<size_t>(b)], labels = targetLengths[static_cast<size_t>(b)];
    call.require(inputs >= 0 && inputs <= steps, "expected input_lengths to have values from 0 to {}, but got {}",
                 steps, inputs);
    call.require(labels >= 0 && labels <= (joined ? room - at : room),
                 "target length {} of sequence {} is more than the targets have", labels, b);
    starts.push_back(joined ? at : b * room);
    at += labels;
    longest = std::max(longest, labels);
    for (int64_t i = 0; i < labels; ++i)
      call.require(label(b, i) >= 0 && label(b, i) < classes, "target {} is out of range of {} classes", label(b, i),
                   classes);
  }
}

template <class T>
T logSum(std::initializer_list<T> terms) {
  T most = std::max(terms), sum = 0;
  if (most == -std::numeric_limits<T>::infinity()) return most;
  for (T t : terms) sum += std::exp(t - most);
  return std::log(sum) + most;
}

// The forward algorithm (Graves et al. 2006). Fills `alpha` [time, 2 * longest + 1]: the log likelihood that the input
// up to a time is aligned with the labels up to a place, blanks before, between and after them counted. Returns the
// loss.
template <class T>
T alignSequence(const CtcArguments& ctc, int64_t b, T* alpha) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  int64_t width = 2 * ctc.longest + 1, batch = ctc.logProbs.size(1), classes = ctc.logProbs.size(2);
  int64_t steps = ctc.inputLengths[static_cast<size_t>(b)], labels = ctc.targetLengths[static_cast<size_t>(b)];
  auto label = [&](int64_t s) { return s % 2 ? ctc.label(b, s / 2) : ctc.blank; };
  auto logProb = [&](int64_t t, int64_t c) { return ctc.logProbs.data<T>()[(t * batch + b) * classes + c]; };
  std::fill_n(alpha, ctc.logProbs.size(0) * width, kNever);
  if (steps == 0) return labels == 0 ? T(0) : -kNever;
  alpha[0] = logProb(0, ctc.blank);
  if (labels > 0) alpha[1] = logProb(0, label(1));
  for (int64_t t = 1; t < steps; ++t) {
    const T* before = alpha + (t - 1) * width;
    for (int64_t s = 0; s < 2 * labels + 1; ++s) {
      T stay = before[s], step = s > 0 ? before[s - 1] : kNever;
      // Blanks may be passed over between labels that differ.
      T jump = s > 1 && label(s) != label(s - 2) ? before[s - 2] : kNever;
      alpha[t * width + s] = logSum({stay, step, jump}) + logProb(t, label(s));
    }
    RunContext::current().checkInterrupt(labels * 8 + 1);
  }
  const T* last = alpha + (steps - 1) * width;
  return -(labels == 0 ? last[0] : logSum({last[2 * labels], last[2 * labels - 1]}));
}

// The losses [batch] and alphas [batch, time, 2 * longest + 1] in the compute dtype.
std::pair<Tensor, Tensor> align(const CtcArguments& ctc, bool zeroInfinity) {
  DType dtype = ctc.logProbs.dtype();
  int64_t batch = ctc.logProbs.size(1), steps = ctc.logProbs.size(0), width = 2 * ctc.longest + 1;
  Tensor losses = Tensor::empty(dtype, Dims{batch}), alphas = Tensor::empty(dtype, Dims{batch, steps, width});
  withFloating(dtype, [&](auto sample) {
    using T = decltype(sample);
    for (int64_t b = 0; b < batch; ++b) {
      T loss = alignSequence(ctc, b, alphas.data<T>() + b * steps * width);
      losses.data<T>()[b] = zeroInfinity && std::isinf(loss) && loss > 0 ? T(0) : loss;
    }
  });
  return {losses, alphas};
}

void checkProbs(const InferCall& call, bool single) {
  TensorInfo x = call.tensor(0);
  call.require(!x.hasRank || x.rank() == 3 || (single && x.rank() == 2), "log_probs must have 3 dimensions{}, got {}",
               single ? ", or 2 without a batch" : "", x.rank());
}

// ... reduction, zero_infinity
void inferCtc(InferCall& call) {
  checkProbs(call, true);
  TensorInfo x = call.tensor(0);
  LossReduction reduction = lossReduction(call, 5);
  if (!x.hasRank && reduction == LossReduction::None) return call.resultOfUnknownRank(x.dtype);
  resultLoss(call, x.dtype, reduction, x.rank() == 3 ? x.sizes.subspan(1, 1) : DimSpan());
}

void ctcKernel(KernelCall& call) {
  CtcArguments ctc(call);
  Tensor losses = align(ctc, call.flag(6)).first;
  LossReduction reduction = lossReduction(call, 5);
  if (reduction == LossReduction::Mean)
    for (int64_t b = 0; b < losses.numel(); ++b) {
      auto length = static_cast<double>(std::max<int64_t>(ctc.targetLengths[static_cast<size_t>(b)], 1));
      withFloating(losses.dtype(),
                   [&](auto sample) { losses.data<decltype(sample)>()[b] /= static_cast<decltype(sample)>(length); });
    }
  if (call.tensor(0).rank() == 2) losses = selected(losses, 0, 0);
  call.setResult(convertTensor(reducedLoss(call, losses, reduction), call.tensor(0).dtype()));
}

// Infinite losses are left as they are: ctc_loss zeroes them.
void inferCtcForward(InferCall& call) {
  checkProbs(call, false);
  TensorInfo x = call.tensor(0);
  if (x.hasRank) {
    call.result(x.dtype, x.sizes.subspan(1, 1));
    call.result(x.dtype, Dims{x.sizes[1], x.sizes[0], kUnknownSize});
  } else {
    call.result(x.dtype, Dims{kUnknownSize});
    call.resultOfUnknownRank(x.dtype);
  }
}

void ctcForwardKernel(KernelCall& call) {
  auto [losses, alphas] = align(CtcArguments(call), false);
  call.setResult(0, convertTensor(losses, call.tensor(0).dtype()));
  call.setResult(1, convertTensor(alphas, call.tensor(0).dtype()));
}

}  // namespace

void registerLossCtcOps(OpRegistry& ops) {
  for (std::string_view name : {"aten::ctc_loss.IntList", "aten::ctc_loss.Tensor"})
    ops.add({.schema = name, .infer = inferCtc, .kernel = ctcKernel, .dtypes = kFloatingTypes});
  for (std::string_view name : {"aten::_ctc_loss", "aten::_ctc_loss.Tensor"})
    ops.add({.schema = name, .infer = inferCtcForward, .kernel = ctcForwardKernel, .dtypes = kFloatingTypes});
}

}  // namespace tscompile
