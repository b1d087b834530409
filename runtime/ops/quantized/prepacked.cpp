// Convolutions and products whose weights were packed for mobiles. Here nothing is packed: they are what they were.
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/quantized/packed_params.h"

namespace tscompile {
namespace {

void setClamped(KernelCall& call, const Tensor& out, const PackedWeight& w) {
  if (w.least.isNone() && w.most.isNone()) return call.setResult(out);
  call.setResult(invoke(call, "aten::clamp", {out, w.least, w.most}));
}

IValue biasOf(const PackedWeight& w) { return w.bias.defined() ? IValue(w.bias) : IValue(); }

void runConv(KernelCall& call) {
  PackedWeight w = unpacked(call.argument(1));
  Tensor out = invokeTensor(call, "aten::convolution",
                            {call.tensor(0), w.weight, biasOf(w), intList(w.shape.stride), intList(w.shape.padding),
                             intList(w.shape.dilation), w.transposed, intList(w.shape.outputPadding), w.shape.groups});
  setClamped(call, out, w);
}

void runLinear(KernelCall& call) {
  PackedWeight w = unpacked(call.argument(1));
  setClamped(call, invokeTensor(call, "aten::linear", {call.tensor(0), w.weight, biasOf(w)}), w);
}

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
  call.setResult(
      pack(kLinearContext,
           {.weight = call.tensor(0), .bias = call.tensor(1), .least = call.argument(2), .most = call.argument(3)}));
}

}  // namespace

void registerPrepackedOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, KernelFunction kernel, TraitSet traits = {}) {
    ops.add({.schema = schema, .kernel = kernel, .traits = traits, .inEngines = false});
  };
  constexpr TraitSet kKept{Trait::MayShare};
  add("prepacked::conv2d_clamp_run", runConv);
  add("prepacked::conv2d_transpose_clamp_run", runConv);
  add("prepacked::linear_clamp_run", runLinear);
  add("prepacked::conv2d_clamp_prepack", packConvContext<false>, kKept);
  add("prepacked::conv2d_transpose_clamp_prepack", packConvContext<true>, kKept);
  add("prepacked::linear_clamp_prepack", packLinearContext, kKept);
}

}  // namespace tscompile
