#include "runtime/ops/signal/recursive_filter.h"

#include "runtime/engine/layers/operands.h"
#include "runtime/engine/network/frame.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <cstring>

namespace tscompile {
namespace {

// ---- recursive_filter(self, signal, coefficients) ----
// self: [..., samples + order - 1], of which the first order - 1 are the past. Each sample of the signal, less the
// samples before it times the coefficients, the oldest first, becomes the next one.

struct Rows {
  int64_t count, channels, samples, order;  // rows take the coefficients of their channel in turn
};

Rows rowsOf(DimSpan signal, DimSpan coefficients) {
  Rows r{1, 1, signal.back(), coefficients.back()};
  for (size_t d = 0; d + 1 < signal.size(); ++d) r.count *= signal[d];
  if (coefficients.size() == 2) r.channels = coefficients[0];
  return r;
}

template <class T>
void filterRow(const T* signal, const T* coefficients, T* out, const Rows& r) {
  for (int64_t i = 0; i < r.samples; ++i) {
    T sum = signal[i];
    for (int64_t k = 0; k < r.order; ++k) sum -= out[i + k] * coefficients[k];
    out[i + r.order - 1] = sum;
  }
}

template <class T>
void filterRows(const T* signal, const T* coefficients, T* out, const Rows& r) {
  for (int64_t i = 0; i < r.count; ++i, RunContext::current().checkInterrupt(r.samples * r.order))
    filterRow(signal + i * r.samples, coefficients + i % r.channels * r.order, out + i * (r.samples + r.order - 1), r);
}

void inferRecursiveFilter(InferCall& call) {
  TensorInfo past = call.rankedTensor(0), signal = call.rankedTensor(1), a = call.rankedTensor(2);
  requireSameDType(call, past, signal);
  requireSameDType(call, past, a);
  call.require(past.rank() == signal.rank() && signal.rank() > 0 && (a.rank() == 1 || a.rank() == 2),
               "a filter takes a signal, room for its output, and coefficients for each channel, but got {}, {} and {}",
               dimsText(signal.sizes), dimsText(past.sizes), dimsText(a.sizes));
  for (size_t d = 0; d + 1 < signal.rank(); ++d)
    call.require(!differ(past.sizes[d], signal.sizes[d]), "the signal and its output have {} and {} rows in dim {}",
                 signal.sizes[d], past.sizes[d], d);
  call.require(a.rank() == 1 || (signal.rank() >= 2 && !differ(a.sizes[0], signal.sizes[signal.rank() - 2])),
               "there are coefficients for {} channels", a.sizes[0]);
  const int64_t order = a.sizes.back(), samples = signal.sizes.back();
  call.require(!isKnownSize(order) || order > 0, "a filter needs coefficients");
  if (isKnownSize(order) && isKnownSize(samples))
    call.require(!differ(past.sizes.back(), samples + order - 1),
                 "expected an output of {} samples, for {} and an order of {}, but got {}", samples + order - 1,
                 samples, order, past.sizes.back());
  call.result(past);
}

void recursiveFilterKernel(KernelCall& call) {
  const Tensor past = call.tensor(0), signal = contiguous(call.tensor(1)), a = contiguous(call.tensor(2));
  Tensor out = Tensor::empty(past.dtype(), past.sizes());
  copyTensor(out, past);
  if (out.numel() == 0) return call.setResult(out);
  const Rows r = rowsOf(signal.sizes(), a.sizes());
  withFloating(out.dtype(), [&](auto sample) {
    using T = decltype(sample);
    filterRows(signal.data<T>(), a.data<T>(), out.data<T>(), r);
  });
  call.setResult(out);
}

class RecursiveFilterLayer : public Layer {
 public:
  RecursiveFilterLayer(const Node* node, Rows rows) : Layer(node), rows_(rows) {}
  std::string name() const override { return "recursive_filter"; }
  void run(Frame& frame) const override {
    auto at = [&](TensorId id) { return reinterpret_cast<float*>(frame.raw(id)); };
    float* out = at(outputs[0]);
    std::memcpy(out, frame.raw(inputs[0]),
                static_cast<size_t>(rows_.count * (rows_.samples + rows_.order - 1)) * sizeof(float));
    filterRows<float>(at(inputs[1]), at(inputs[2]), out, rows_);
  }

 private:
  Rows rows_;
};

void convertRecursiveFilter(ConvertCall& call) {
  if (!isF32(call.tensor(0))) return convertToKernel(call, kNotF32);
  if (call.tensor(0).numel() == 0) return convertToKernel(call, kEmpty);
  std::vector<TensorId> inputs;
  for (size_t i = 0; i < 3; ++i) inputs.push_back(contiguousOperand(call, i));
  const TensorId output = call.makeResult();
  auto& layer = call.add<RecursiveFilterLayer>(rowsOf(call.tensor(1).sizes(), call.tensor(2).sizes()));
  layer.inputs = inputs;
  layer.outputs = {output};
}

// The same as torchaudio names it: (signal, coefficients, output that is written).
void coreLoopKernel(KernelCall& call) {
  const Tensor out = call.tensor(2);
  copyTensor(out, invokeTensor(call, "tscompile::recursive_filter", {out, call.argument(0), call.argument(1)}));
  if (call.resultCount()) call.setResult(out);
}

// ---- _lfilter(waveform, a, b): a convolution with b, and what is fed back ----

void inferLfilter(InferCall& call) { call.result(call.tensor(0)); }

// `Call` is a kernel's or a converter's; `op(name, arguments)` computes an operator.
template <class F>
IValue filtered(const KernelCall& call, const F& op) {
  const int64_t order = call.tensor(1).size(call.tensor(1).rank() - 1), channels = call.tensor(0).size(1);
  auto normalized = [&](size_t i) {
    const IValue first = op("aten::slice.Tensor", {call.argument(1), int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{1}});
    return op("aten::flip", {op("aten::div.Tensor", {call.argument(i), first}), intList(Dims{-1})});
  };
  auto padded = [&](const IValue& x) { return op("aten::constant_pad_nd", {x, intList(Dims{order - 1, 0}), 0.0}); };
  const IValue kernel = op("aten::unsqueeze", {normalized(2), int64_t{1}}), one = intList(Dims{1});
  const IValue signal =
      op("aten::conv1d", {padded(call.argument(0)), kernel, IValue(), one, intList(Dims{0}), one, channels});
  const IValue past = padded(op("aten::zeros_like", {signal, IValue(), IValue(), IValue(), IValue(), IValue()}));
  const IValue all = op("tscompile::recursive_filter", {past, signal, normalized(1)});
  const int64_t end = call.tensor(0).size(2) + order - 1;
  return op("aten::slice.Tensor", {all, int64_t{2}, order - 1, end, int64_t{1}});
}

void requireFilter(const KernelCall& call) {
  const Tensor x = call.tensor(0), a = call.tensor(1), b = call.tensor(2);
  call.require(
      x.rank() == 3 && a.rank() == 2 && std::ranges::equal(b.sizes(), a.sizes()) && a.size(0) == x.size(1) &&
          a.size(1) > 0,
      "expected a waveform of (batch, channel, time) and coefficients of (channel, order), but got {}, {} and {}",
      dimsText(x.sizes()), dimsText(a.sizes()), dimsText(b.sizes()));
}
void lfilterKernel(KernelCall& call) {
  requireFilter(call);
  call.setResult(contiguous(filtered(call, [&](std::string_view name, std::initializer_list<IValue> arguments) {
                              return IValue(invokeTensor(call, name, arguments));
                            }).toTensor()));
}
void convertLfilter(ConvertCall& call) {
  requireFilter(call);
  const IValue made = filtered(call, [&](std::string_view name, std::initializer_list<IValue> arguments) {
    return call.compute(name, arguments);
  });
  call.setResult(0, call.compute("aten::contiguous", {made, int64_t{0}}));
}

// ---- _overdrive_core_loop(waveform, temp, last_in, last_out, output): writes the last three ----

template <class T>
void overdriveRow(const T* wave, const T* temp, T& lastIn, T& lastOut, T* out, int64_t samples) {
  for (int64_t i = 0; i < samples; ++i) {
    lastOut = temp[i] - lastIn + T(0.995) * lastOut;
    lastIn = temp[i];
    out[i] = wave[i] * T(0.5) + lastOut * T(0.75);
  }
}

void inferOverdrive(InferCall& call) {
  const TensorInfo wave = call.rankedTensor(0);
  for (size_t i = 1; i < 5; ++i) requireSameDType(call, wave, call.tensor(i));
  for (size_t i = 2; i < 5; ++i) call.result(call.tensor(i));
}
void overdriveKernel(KernelCall& call) {
  const Tensor wave = contiguous(call.tensor(0)), temp = contiguous(call.tensor(1));
  call.require(wave.rank() == 2 && std::ranges::equal(temp.sizes(), wave.sizes()) &&
                   std::ranges::equal(call.tensor(4).sizes(), wave.sizes()) && call.tensor(2).numel() == wave.size(0) &&
                   call.tensor(3).numel() == wave.size(0),
               "expected waveforms of (channel, time) of one size, but got {} and {}", dimsText(wave.sizes()),
               dimsText(temp.sizes()));
  DenseResult lastIn(call.tensor(2)), lastOut(call.tensor(3)), out(call.tensor(4));
  withFloating(wave.dtype(), [&](auto sample) {
    using T = decltype(sample);
    for (int64_t i = 0, n = wave.size(1); i < wave.size(0); ++i, call.context().checkInterrupt(n))
      overdriveRow(wave.data<T>() + i * n, temp.data<T>() + i * n, lastIn.data<T>()[i], lastOut.data<T>()[i],
                   out.data<T>() + i * n, n);
  });
  for (DenseResult* r : {&lastIn, &lastOut, &out}) r->store();
  for (size_t i = 0; i < 3; ++i) call.setResult(i, call.argument(i + 2));
}

}  // namespace

void registerRecursiveFilterOps(OpRegistry& ops) {
  constexpr DTypeSet kTypes{DType::Float32, DType::Float64};
  ops.add({.schema = "tscompile::recursive_filter(Tensor self, Tensor signal, Tensor coefficients) -> Tensor",
           .infer = inferRecursiveFilter,
           .kernel = recursiveFilterKernel,
           .convert = convertRecursiveFilter,
           .dtypes = kTypes,
           .inplace = InPlace::ByCopy,
           .traits = {Trait::SetsStrides}});
  // It gives its output since torchaudio 2.9.
  for (const char* schema : {"torchaudio::_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, "
                             "Tensor(a!) padded_output_waveform) -> Tensor(a!)",
                             "torchaudio::_lfilter_core_loop.before_2_9(Tensor input_signal_windows, Tensor "
                             "a_coeff_flipped, Tensor(a!) padded_output_waveform) -> ()"})
    ops.add({.schema = schema, .kernel = coreLoopKernel, .dtypes = kTypes});
  ops.add({.schema = "torchaudio::_lfilter(Tensor waveform, Tensor a_coeffs, Tensor b_coeffs) -> Tensor",
           .infer = inferLfilter,
           .kernel = lfilterKernel,
           .convert = convertLfilter,
           .dtypes = kTypes});
  ops.add({.schema = "torchaudio::_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) "
                     "last_out, Tensor(c!) output_waveform) -> (Tensor(a!), Tensor(b!), Tensor(c!))",
           .infer = inferOverdrive,
           .kernel = overdriveKernel,
           .dtypes = kTypes});
}

}  // namespace tscompile
