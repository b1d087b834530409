// Convolutions and products whose weights were packed for mobiles. Here nothing is packed: they are what they were.
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/quantized/packed_params.h"

namespace tscompile {
namespace {

// What runs one operator for another: a kernel, or a converter.
template <class Compute>
IValue clamped(const PackedWeight& w, Compute&& compute, const IValue& out) {
  if (w.least.isNone() && w.most.isNone()) return out;
  return compute("aten::clamp", {out, w.least, w.most});
}

IValue biasOf(const PackedWeight& w) { return w.bias.defined() ? IValue(w.bias) : IValue(); }

template <class Compute>
IValue conv(const KernelCall& call, Compute&& compute) {
  PackedWeight w = unpacked(call.argument(1));
  IValue out = compute("aten::convolution",
                       {call.tensor(0), w.weight, biasOf(w), intList(w.shape.stride), intList(w.shape.padding),
                        intList(w.shape.dilation), w.transposed, intList(w.shape.outputPadding), w.shape.groups});
  return clamped(w, compute, out);
}

template <class Compute>
IValue linear(const KernelCall& call, Compute&& compute) {
  PackedWeight w = unpacked(call.argument(1));
  return clamped(w, compute, compute("aten::linear", {call.tensor(0), w.weight, biasOf(w)}));
}

auto byKernels(const KernelCall& call) {
  return [&](std::string_view op, std::initializer_list<IValue> arguments) { return invoke(call, op, arguments); };
}
auto byLayers(const ConvertCall& call) {
  return [&](std::string_view op, std::initializer_list<IValue> arguments) { return call.compute(op, arguments); };
}
void runConv(KernelCall& call) { call.setResult(conv(call, byKernels(call))); }
void runLinear(KernelCall& call) { call.setResult(linear(call, byKernels(call))); }
void convertConv(ConvertCall& call) { call.setResult(0, conv(call, byLayers(call))); }
void convertLinear(ConvertCall& call) { call.setResult(0, linear(call, byLayers(call))); }

// (weight, bias, stride, padding[, output padding], dilation, groups, least, most)
template <bool kTransposed>
void packConvContext(KernelCall& call) {
  size_t at = 2;
  PackedWeight w{.weight = call.tensor(0), .bias = call.tensor(1), .shape = {}, .transposed = kTransposed};
  w.shape.stride = call.integers(at++);
  w.shape.padding = call.integers(at++);
  w.shape.outputPadding = kTransposed ? call.integers(at++) : Dims(w.shape.stride.size(), 0);
  w.shape.dilation = call.integers(at++);
  w.shape.groups = call.integer(at++);
  w.least = call.argument(at++);
  w.most = call.argument(at);
  call.setResult(pack(kTransposed ? kTransposedContext : kConvContext, w));
}

void packLinearContext(KernelCall& call) {
  PackedWeight w{.weight = call.tensor(0), .bias = call.tensor(1), .shape = {}};
  w.least = call.argument(2);
  w.most = call.argument(3);
  call.setResult(pack(kLinearContext, w));
}

}  // namespace

void registerPrepackedOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, KernelFunction kernel, ConvertFunction convert, TraitSet traits = {}) {
    ops.add({.schema = schema, .kernel = kernel, .convert = convert, .traits = traits});
  };
  for (const char* schema : {"prepacked::conv2d_clamp_run", "prepacked::conv2d_transpose_clamp_run"})
    add(schema, runConv, convertConv);
  add("prepacked::linear_clamp_run", runLinear, convertLinear);
  constexpr TraitSet kKept{Trait::MayShare};
  add("prepacked::conv2d_clamp_prepack", packConvContext<false>, convertQuantizedToKernel, kKept);
  add("prepacked::conv2d_transpose_clamp_prepack", packConvContext<true>, convertQuantizedToKernel, kKept);
  add("prepacked::linear_clamp_prepack", packLinearContext, convertQuantizedToKernel, kKept);
}

}  // namespace tscompile
