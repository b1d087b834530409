// Window functions of signal processing, and the frequencies of the elements of a Fourier transform.
#include "ir/values/size_expression.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/generate.h"
#include "runtime/reference/special/special_math.h"
#include "runtime/reference/tensor_options.h"

#include <numbers>

namespace tscompile {
namespace {

constexpr double kPi = std::numbers::pi;

DType floatingOption(const InferCall& call, size_t dtypeAt) {
  DType dtype = optionsDType(call, dtypeAt, DType::Float32);
  call.require(isFloating(dtype), "{} expects a floating point dtype, not {}", call.op().kind().text(),
               pythonName(dtype));
  return dtype;
}

// (window_length, ..., dtype, layout, device, pin_memory)
template <size_t kDType>
void inferWindow(InferCall& call) {
  call.result(floatingOption(call, kDType), sizesArgument(call, 0));
}

// f(i, n) for i = 0 ... n, of which a periodic window leaves out the last. kArguments stand in front of the dtype.
template <size_t kArguments, class F>
void makeWindow(KernelCall& call, F f) {
  Tensor out = call.out();
  bool periodic = kArguments < 2 || call.flag(1);
  int64_t length = out.numel(), last = periodic ? length : length - 1;
  if (length == 1) return generate(out, [](int64_t) { return 1.0; });
  generate(out, [=](int64_t i) { return static_cast<double>(f(static_cast<double>(i), static_cast<double>(last))); });
}

template <size_t kArguments>
void bartlettKernel(KernelCall& call) {
  makeWindow<kArguments>(call, [](double i, double n) { return i <= n / 2 ? 2 * i / n : 2 - 2 * i / n; });
}

template <size_t kArguments>
void blackmanKernel(KernelCall& call) {
  makeWindow<kArguments>(call, [](double i, double n) {
    return 0.42 - 0.5 * std::cos(2 * kPi * i / n) + 0.08 * std::cos(4 * kPi * i / n);
  });
}

template <size_t kArguments>
void hannKernel(KernelCall& call) {
  makeWindow<kArguments>(call, [](double i, double n) { return 0.5 - 0.5 * std::cos(2 * kPi * i / n); });
}

template <size_t kArguments>
void hammingKernel(KernelCall& call) {
  double alpha = kArguments > 2 ? call.number(2) : 0.54, beta = kArguments > 3 ? call.number(3) : 0.46;
  makeWindow<kArguments>(call, [=](double i, double n) { return alpha - beta * std::cos(2 * kPi * i / n); });
}

template <size_t kArguments>
void kaiserKernel(KernelCall& call) {
  double beta = kArguments > 2 ? call.number(2) : 12;
  makeWindow<kArguments>(call, [=](double i, double n) {
    double x = 2 * i / n - 1;
    return besselI0<false>(beta * std::sqrt(1 - x * x)) / besselI0<false>(beta);
  });
}

// ---- frequencies: (n, d, dtype, ...) ----

template <bool kHalf>
void inferFrequencies(InferCall& call) {
  Dims sizes = sizesArgument(call, 0);
  if (kHalf) sizes[0] = (floorDiv(SizeExpression::ofSize(sizes[0]), 2) + 1).size();
  call.result(floatingOption(call, 2), sizes);
}

template <bool kHalf>
void frequenciesKernel(KernelCall& call) {
  int64_t n = call.integer(0);
  double step = 1 / (static_cast<double>(n) * call.number(1));
  generate(call.out(), [=](int64_t i) { return static_cast<double>(kHalf || i <= (n - 1) / 2 ? i : i - n) * step; });
}

}  // namespace

void registerWindowsOps(OpRegistry& ops) {
  auto add = [&](std::string_view name, InferFunction infer, KernelFunction kernel) {
    ops.add({.schema = name, .infer = infer, .kernel = kernel});
  };
  add("aten::bartlett_window", inferWindow<1>, bartlettKernel<1>);
  add("aten::bartlett_window.periodic", inferWindow<2>, bartlettKernel<2>);
  add("aten::blackman_window", inferWindow<1>, blackmanKernel<1>);
  add("aten::blackman_window.periodic", inferWindow<2>, blackmanKernel<2>);
  add("aten::hann_window", inferWindow<1>, hannKernel<1>);
  add("aten::hann_window.periodic", inferWindow<2>, hannKernel<2>);
  add("aten::hamming_window", inferWindow<1>, hammingKernel<1>);
  add("aten::hamming_window.periodic", inferWindow<2>, hammingKernel<2>);
  add("aten::hamming_window.periodic_alpha", inferWindow<3>, hammingKernel<3>);
  add("aten::hamming_window.periodic_alpha_beta", inferWindow<4>, hammingKernel<4>);
  add("aten::kaiser_window", inferWindow<1>, kaiserKernel<1>);
  add("aten::kaiser_window.periodic", inferWindow<2>, kaiserKernel<2>);
  add("aten::kaiser_window.beta", inferWindow<3>, kaiserKernel<3>);
  add("aten::fft_fftfreq", inferFrequencies<false>, frequenciesKernel<false>);
  add("aten::fft_rfftfreq", inferFrequencies<true>, frequenciesKernel<true>);
}

}  // namespace tscompile
