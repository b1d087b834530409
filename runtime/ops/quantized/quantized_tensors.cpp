// Making quantised tensors, asking what they are, and going back to numbers.
#include "runtime/call/kernel_call.h"
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/scalars.h"
#include "runtime/reference/quantized.h"
#include "runtime/reference/tensor_options.h"

namespace tscompile {
namespace {

DType quantizedDType(const KernelCall& call, size_t i) {
  DType dtype = call.dtypeOr(i, DType::Undefined);
  call.require(isQuantized(dtype), "expected a quantised dtype, not {}", pythonName(dtype));
  return dtype;
}

template <size_t kDType>
void inferQuantize(InferCall& call) {
  call.result(call.tensor(0), call.dtypeOr(kDType, DType::Undefined));
}

Tensor quantizePerTensor(const KernelCall& call, const Tensor& x, DType dtype, double scale, int64_t zeroPoint) {
  call.require(x.dtype() == DType::Float32, "expected float32 numbers to quantise, not {}", pythonName(x.dtype()));
  checkGrid(dtype, scale, zeroPoint);
  return quantize(x, dtype, *Quantization::perTensor(scale, zeroPoint));
}

void quantizeByNumbers(KernelCall& call) {
  call.setResult(quantizePerTensor(call, call.tensor(0), quantizedDType(call, 3), call.number(1), call.integer(2)));
}

void quantizeByTensors(KernelCall& call) {
  Tensor scale = call.tensor(1), zero = call.tensor(2);
  call.require(scale.numel() == 1 && zero.numel() == 1, "expected one scale and one zero point");
  call.setResult(quantizePerTensor(call, call.tensor(0), quantizedDType(call, 3), scale.real(0), zero.integer(0)));
}

void quantizeTensors(KernelCall& call) {
  std::vector<Tensor> tensors = call.tensors(0), out;
  Tensor scales = call.tensor(1), zeros = call.tensor(2);
  auto count = static_cast<int64_t>(tensors.size());
  call.require(scales.numel() == count && zeros.numel() == count, "expected a scale and a zero point for each tensor");
  for (int64_t i = 0; i < count; ++i)
    out.push_back(quantizePerTensor(call, tensors[static_cast<size_t>(i)], quantizedDType(call, 3), scales.real(i),
                                    zeros.integer(i)));
  call.setResult(tensorList(std::move(out)));
}

// A reduced range has seven bits of the eight.
void quantizeDynamic(KernelCall& call) {
  Tensor x = call.tensor(0);
  DType dtype = quantizedDType(call, 1);
  call.require(dtype != DType::QInt32, "dynamic quantisation gives qint8 or quint8");
  float least = 0, most = 0;
  if (x.numel()) {
    Tensor from = convertTensor(x, DType::Float32);
    auto [lo, hi] = std::minmax_element(from.data<float>(), from.data<float>() + from.numel());
    least = *lo;
    most = *hi;
  }
  const IntegerRange range = rangeOf(dtype);
  const int parts = call.flag(2) ? 2 : 1;
  call.setResult(quantize(x, dtype, *chooseGrid(least, most, range.least / parts, range.most / parts)));
}

// Scales and zero points along `axis`; float ones stay what they are.
Ref<Quantization> perChannel(const KernelCall& call, const Tensor& scales, const Tensor& zeros, int64_t axis,
                             const Tensor& x) {
  call.require(axis >= 0 && axis < x.rank(), "the axis is {}, the tensor {}", axis, dimsText(x.sizes()));
  int64_t count = x.size(static_cast<int>(axis));
  call.require(scales.rank() == 1 && zeros.rank() == 1 && scales.numel() == count && zeros.numel() == count,
               "expected {} scales and zero points", count);
  auto q = Ref<Quantization>::make();
  bool isFloat = isFloating(zeros.dtype());
  q->scheme = isFloat ? Quantization::Scheme::PerChannelAffineFloatParams : Quantization::Scheme::PerChannelAffine;
  q->scales = convertTensor(scales, isFloat ? DType::Float32 : DType::Float64);
  q->zeroPoints = convertTensor(zeros, isFloat ? DType::Float32 : DType::Int64);
  q->axis = axis;
  return q;
}

void quantizePerChannel(KernelCall& call) {
  Tensor x = call.tensor(0);
  call.require(x.dtype() == DType::Float32, "expected float32 numbers to quantise, not {}", pythonName(x.dtype()));
  DType dtype = quantizedDType(call, 4);
  call.setResult(quantize(x, dtype, *perChannel(call, call.tensor(1), call.tensor(2), call.integer(3), x)));
}

// ---- from integers ----

DType quantizedOf(const KernelCall& call, DType integers) {
  for (DType d : {DType::QInt8, DType::QUInt8, DType::QInt32})
    if (storedAs(d) == integers) return d;
  call.fail("expected int8, uint8 or int32 integers, not {}", pythonName(integers));
}

void makePerTensor(KernelCall& call) {
  Tensor x = call.tensor(0);
  DType dtype = quantizedOf(call, x.dtype());
  checkGrid(dtype, call.number(1), call.integer(2));
  call.setResult(quantizedAs(cloneTensor(x), dtype, *Quantization::perTensor(call.number(1), call.integer(2))));
}

void makePerChannel(KernelCall& call) {
  Tensor x = call.tensor(0);
  DType dtype = quantizedOf(call, x.dtype());
  call.setResult(
      quantizedAs(cloneTensor(x), dtype, *perChannel(call, call.tensor(1), call.tensor(2), call.integer(3), x)));
}

// Elements of a new tensor are not defined; here they are 0.
void emptyPerTensor(KernelCall& call) {
  DType dtype = quantizedDType(call, 1);
  checkGrid(dtype, call.number(5), call.integer(6));
  call.setResult(quantizedAs(Tensor::zeros(storedAs(dtype), call.integers(0)), dtype,
                             *Quantization::perTensor(call.number(5), call.integer(6))));
}

void emptyPerChannel(KernelCall& call) {
  DType dtype = quantizedDType(call, 4);
  Tensor integers = Tensor::zeros(storedAs(dtype), call.integers(0));
  call.setResult(
      quantizedAs(integers, dtype, *perChannel(call, call.tensor(1), call.tensor(2), call.integer(3), integers)));
}

// ---- back ----

void inferFloat(InferCall& call) { call.result(call.tensor(0), DType::Float32); }
void inferIntegers(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.result(t, storedAs(t.dtype));
}

IValue numbersOf(const IValue& v) {
  if (v.isTensor() && v.tensorImpl()) {
    Tensor t = v.toTensor();
    if (isQuantized(t.dtype())) return dequantize(t);
    return t.dtype() == DType::Float32 ? t : convertTensor(t, DType::Float32);
  }
  if (v.isList()) {
    auto out = Ref<ListValue>::make(v.toList().elementType, std::vector<IValue>());
    for (const IValue& item : v.toList().items) out->items.push_back(numbersOf(item));
    return IValue(std::move(out));
  }
  if (!v.isTuple()) return v;
  std::vector<IValue> items;
  for (const IValue& item : v.toTuple().items) items.push_back(numbersOf(item));
  return IValue(Ref<TupleValue>::make(std::move(items), v.toTuple().type));
}
void dequantizeAll(KernelCall& call) { call.setResult(numbersOf(call.argument(0))); }

void intRepr(KernelCall& call) {
  Tensor t = call.tensor(0), out = Tensor::empty(storedAs(t.dtype()), t.sizes());
  quantizationOf(t);
  copyTensor(out, integersOf(t));
  call.setResult(out);
}

// ---- in engines ----

// A scale that only a run knows is none of a network.
template <size_t kDType>
void convertQuantize(ConvertCall& call) {
  for (size_t i = 1; i < call.size(); ++i)
    if (call.isNetworkTensor(i)) call.refuse(Reason::DataDependent, "the grid depends on the elements of a tensor");
  Tensor x = call.tensor(0);
  if (x.dtype() != DType::Float32 || x.numel() == 0) return convertQuantizedToKernel(call);
  const IValue &scale = call.argument(1), &zero = call.argument(2);
  const double step = scale.isTensor() ? scale.toTensor().real(0) : call.number(1);
  const int64_t zeroPoint = zero.isTensor() ? zero.toTensor().integer(0) : call.integer(2);
  DType dtype = quantizedDType(call, kDType);
  checkGrid(dtype, step, zeroPoint);
  call.setResult(0, addQuantize(call, x, dtype, *Quantization::perTensor(step, zeroPoint)));
}

void convertDequantize(ConvertCall& call) {
  const IValue& v = call.argument(0);
  if (!v.isTensor() || !v.tensorImpl()) return convertQuantizedToKernel(call);
  Tensor t = v.toTensor();
  if (isQuantizedTensor(v)) return call.setResult(0, numbersIn(call, t));
  call.setResult(0, t.dtype() == DType::Float32 ? v : call.compute("aten::to.dtype", {t, 6, false, false, IValue()}));
}

// ---- questions ----

const Quantization& gridOf(const IValue& v) {
  tensorOf(v);
  return quantizationOf(v.toTensor());
}
const Quantization& perTensorGridOf(const IValue& v) {
  const Quantization& q = gridOf(v);
  if (!q.isPerTensor()) failRun("expected a tensor that is quantised per tensor");
  return q;
}
const Quantization& perChannelGridOf(const IValue& v) {
  const Quantization& q = gridOf(v);
  if (q.isPerTensor()) failRun("expected a tensor that is quantised per channel");
  return q;
}

void scaleOf(Arguments a, IValue& r) { r = perTensorGridOf(*a[0]).scale; }
void zeroPointOf(Arguments a, IValue& r) { r = perTensorGridOf(*a[0]).zeroPoint; }
void scalesOf(Arguments a, IValue& r) { r = cloneTensor(perChannelGridOf(*a[0]).scales); }
void zeroPointsOf(Arguments a, IValue& r) { r = cloneTensor(perChannelGridOf(*a[0]).zeroPoints); }
void axisOf(Arguments a, IValue& r) { r = perChannelGridOf(*a[0]).axis; }
void schemeOf(Arguments a, IValue& r) {
  // PyTorch's numbers.
  switch (gridOf(*a[0]).scheme) {
    case Quantization::Scheme::PerTensorAffine:
      r = int64_t{0};
      return;
    case Quantization::Scheme::PerChannelAffine:
      r = int64_t{1};
      return;
    case Quantization::Scheme::PerChannelAffineFloatParams:
      r = int64_t{4};
  }
}
void isQuantizedTensor(Arguments a, IValue& r) { r = isQuantized(tensorOf(*a[0]).dtype()); }

}  // namespace

void registerQuantizedTensorsOps(OpRegistry& ops) {
  auto make = [&](const char* schema, InferFunction infer, KernelFunction kernel,
                  ConvertFunction convert = convertQuantizedToKernel, TraitSet traits = {}) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = {}, .traits = traits});
  };
  make("aten::quantize_per_tensor", inferQuantize<3>, quantizeByNumbers, convertQuantize<3>);
  make("aten::quantize_per_tensor.tensor_qparams", inferQuantize<3>, quantizeByTensors, convertQuantize<3>);
  make("aten::quantize_per_tensor.tensors", nullptr, quantizeTensors);
  make("aten::quantize_per_tensor_dynamic", inferQuantize<1>, quantizeDynamic, convertQuantizedToKernel,
       {Trait::DependsOnElements});
  make("aten::quantize_per_channel", inferQuantize<4>, quantizePerChannel);
  make("aten::_make_per_tensor_quantized_tensor", nullptr, makePerTensor);
  make("aten::_make_per_channel_quantized_tensor", nullptr, makePerChannel);
  make("aten::_empty_affine_quantized", nullptr, emptyPerTensor);
  make("aten::_empty_per_channel_affine_quantized", nullptr, emptyPerChannel);

  // Float32 tensors are given back.
  auto back = [&](const char* schema, InferFunction infer) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = dequantizeAll,
             .convert = convertDequantize,
             .dtypes = {},
             .traits = {Trait::MayShare}});
  };
  for (const char* schema : {"aten::dequantize.self", "aten::dequantize.tensor"}) back(schema, inferFloat);
  for (const char* schema : {"aten::dequantize.tensors", "aten::dequantize.list", "aten::dequantize.any"})
    back(schema, nullptr);
  make("aten::int_repr", inferIntegers, intRepr);

  auto ask = [&](const char* schema, ScalarFunction f) {
    ops.add({.schema = schema, .scalar = f, .traits = {Trait::ReadsGeometry}});
  };
  ask("aten::q_scale", scaleOf);
  ask("aten::q_zero_point", zeroPointOf);
  ask("aten::q_per_channel_axis", axisOf);
  ask("aten::qscheme", schemeOf);
  ask("prim::is_quantized", isQuantizedTensor);
  ops.add({.schema = "aten::q_per_channel_scales", .scalar = scalesOf, .inEngines = false});
  ops.add({.schema = "aten::q_per_channel_zero_points", .scalar = zeroPointsOf, .inEngines = false});
}

}  // namespace tscompile
