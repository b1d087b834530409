// quantized_decomposed: how today's PyTorch says in exported programs that a model is quantised. Tensors are plain ones
// of integers, which do not know their grid. Each operator is computed as others, here and in engines.
#include "runtime/ops/ops.h"
#include "runtime/ops/quantized/math_of_call.h"

namespace tscompile {
namespace {

// ---- shapes ----

// Grids of a tensor and of a channel are for what computes in float32; those of a token and a group for float64 too.
enum class Widest { Float32, Float64 };
template <size_t kDType, Widest kWidest>
void inferToSteps(InferCall& call) {
  const TensorInfo x = call.tensor(0);
  call.require(x.dtype == DType::Undefined || x.dtype == DType::Float32 || x.dtype == DType::Float16 ||
                   x.dtype == DType::BFloat16 || (kWidest == Widest::Float64 && x.dtype == DType::Float64),
               "Expecting input to have dtype torch.float32, but got dtype: torch.{}", pythonName(x.dtype));
  call.result(x, call.dtypeOr(kDType, DType::Undefined));
}
template <size_t kDType, size_t kOut>
void inferToNumbers(InferCall& call) {
  const TensorInfo x = call.tensor(0);
  const DType said = call.dtypeOr(kDType, DType::Undefined);
  call.require(x.dtype == DType::Undefined || said == DType::Undefined || x.dtype == said,
               "expecting input to have dtype {}, but got {}", pythonName(said), pythonName(x.dtype));
  call.result(x, call.dtypeOr(kOut, DType::Float32));
}
void inferGrid(InferCall& call) {
  call.result(DType::Float64, Dims{1});
  call.result(DType::Int64, Dims{1});
}
template <DType kScale, DType kZero>
void inferTokenGrid(InferCall& call) {
  const TensorInfo x = call.tensor(0);
  for (DType dtype : {kScale, kZero}) {
    if (dtype == DType::Undefined)
      dtype = x.dtype == DType::Float16 || isIntegral(x.dtype, true) ? DType::Float32 : x.dtype;
    if (!x.hasRank) {
      call.resultOfUnknownRank(dtype);
      continue;
    }
    Dims sizes(x.sizes);
    if (!sizes.empty()) sizes.back() = 1;
    call.result(dtype, sizes);
  }
}
void inferSame(InferCall& call) { call.result(call.tensor(0)); }

// ---- one grid for all ----

// Numbers as tensors without dimensions, in float32, as PyTorch computes with numbers of Python.
template <class Call>
IValue numberAt(const Call& call, size_t i) {
  const IValue& v = call.argument(i);
  return v.isTensor() ? MathOfCall(call).reshape(v, Dims{}) : v;
}
template <class Call>
IValue inverseOf(const Call& call, const IValue& scale) {
  MathOfCall m(call);
  if (!scale.isTensor()) return 1.0 / scale.toDouble();
  return m.to(m.one("aten::reciprocal", m.to(scale, DType::Float64)), DType::Float32);
}
template <class Call>
IValue inFloat(const Call& call, const IValue& number) {
  return number.isTensor() ? MathOfCall(call).to(number, DType::Float32) : number;
}

// (input, scale, zero point, least, most, dtype)
template <class Call>
void quantizeByGrid(Call& call) {
  MathOfCall m(call);
  IValue x = m.to(call.argument(0), DType::Float32);
  IValue steps = m.one("aten::round", m.mul(x, inverseOf(call, numberAt(call, 1))));
  IValue moved = m.add(steps, inFloat(call, numberAt(call, 2)));
  if (!call.argument(3).isTensor())
    moved = m.clamped(moved, call.argument(3), call.argument(4));
  else
    moved = m("aten::clamp.Tensor", {moved, inFloat(call, numberAt(call, 3)), inFloat(call, numberAt(call, 4))});
  call.setResult(0, m.to(moved, call.argument(5)));
}
// (input, scale, zero point, least, most, dtype, dtype of the result)
template <class Call>
void dequantizeByGrid(Call& call) {
  MathOfCall m(call);
  IValue x = m.to(call.argument(0), call.isNone(6) ? IValue(static_cast<int64_t>(DType::Float32)) : call.argument(6));
  IValue steps = m.sub(x, inFloat(call, numberAt(call, 2)));
  IValue made = m.mul(steps, inFloat(call, numberAt(call, 1)));
  call.setResult(0, call.isNone(6) ? made : m.to(made, call.argument(6)));
}

// (input, least, most, eps, dtype)
template <bool kSymmetric, class Call>
void chooseGridKernel(Call& call) {
  MathOfCall m(call);
  const double range = static_cast<double>(call.integer(2)) - static_cast<double>(call.integer(1));
  const IValue zero = Tensor::zeros(call.tensor(0).dtype(), Dims{});
  IValue least = m("aten::minimum", {m.one("aten::min", call.argument(0)), zero});
  IValue most = m("aten::maximum", {m.one("aten::max", call.argument(0)), zero});
  const std::vector<float> epsilon{static_cast<float>(call.number(3))};
  const IValue eps = Tensor::of<float>(Dims{1}, epsilon);
  auto scaleOf = [&](const IValue& extent, double steps) {
    return m("aten::maximum", {m("aten::div.Scalar", {extent, steps}), eps});
  };
  if (kSymmetric) {
    const bool isUnsigned = dtypeFromNumber(call.integer(4)) == DType::UInt8;
    const std::vector<int64_t> middle{isUnsigned ? 128 : 0};
    most = m("aten::maximum", {m.one("aten::neg", least), most});
    call.setResult(0, m.to(scaleOf(most, range / 2), DType::Float64));
    return call.setResult(1, Tensor::of<int64_t>(Dims{1}, middle));
  }
  IValue scale = scaleOf(m.sub(most, least), range);
  IValue steps = m.to(m.one("aten::round", m("aten::div.Tensor", {least, scale})), DType::Int32);
  IValue point = m("aten::rsub.Scalar", {steps, call.integer(1), 1});
  call.setResult(0, m.to(scale, DType::Float64));
  call.setResult(1, m.to(m.clamped(point, call.argument(1), call.argument(2)), DType::Int64));
}

// ---- a grid for each channel ----

// A value for each index of a dimension, as it broadcasts to the input.
template <class Call>
IValue alongAxis(const Call& call, size_t i) {
  const Tensor x = call.tensor(0), values = call.tensor(i);
  int64_t axis = call.integer(3);
  if (axis < 0) axis += x.rank();
  Dims sizes(static_cast<size_t>(x.rank()), 1);
  if (axis >= 0 && axis < x.rank()) sizes[static_cast<size_t>(axis)] = values.numel();
  return MathOfCall(call).reshape(values, sizes);
}

// (input, scales, zero points, axis, least, most, dtype)
template <class Call>
void quantizeChannels(Call& call) {
  MathOfCall m(call);
  IValue inverse = m.one("aten::reciprocal", alongAxis(call, 1));
  IValue steps = m.one("aten::round", m.mul(m.to(call.argument(0), DType::Float32), inverse));
  IValue moved = m.clamped(m.add(steps, alongAxis(call, 2)), call.argument(4), call.argument(5));
  call.setResult(0, m.to(moved, call.argument(6)));
}
// (input, scales, zero points, axis, least, most, dtype, dtype of the result)
template <class Call>
void dequantizeChannels(Call& call) {
  MathOfCall m(call);
  IValue steps = call.isNone(2) ? call.argument(0) : m.sub(call.argument(0), alongAxis(call, 2));
  IValue made = m.mul(steps, alongAxis(call, 1));
  call.setResult(0, m.to(made, call.isNone(7) ? IValue(static_cast<int64_t>(DType::Float32)) : call.argument(7)));
}
// (input, scales, zero points, axis, least, most)
template <class Call>
void fakeQuantizeChannels(Call& call) {
  MathOfCall m(call);
  IValue scale = m.to(alongAxis(call, 1), DType::Float32), zero = m.to(alongAxis(call, 2), DType::Int32);
  IValue steps = m.one("aten::round", m.mul(call.argument(0), m.one("aten::reciprocal", scale)));
  IValue held = m.clamped(m.add(steps, zero), call.argument(4), call.argument(5));
  call.setResult(0, m.mul(m.sub(held, zero), scale));
}

// ---- a grid for each token, or each group of a row ----

constexpr double kLeastTokenScale = 1e-5;

// (input, dtype)
template <class Call>
void chooseTokenGrid(Call& call) {
  MathOfCall m(call);
  IValue most = m("aten::amax", {m.one("aten::abs", call.argument(0)), intList(Dims{-1}), true});
  if (call.tensor(0).dtype() == DType::Float16) most = m.to(most, DType::Float32);
  IValue scales = m("aten::div.Scalar", {m.clamped(most, kLeastTokenScale, IValue()), 127});
  call.setResult(0, scales);
  call.setResult(1, m("aten::zeros_like", {scales, IValue(), IValue(), IValue(), IValue(), IValue()}));
}
template <class Call>
void chooseTokenGridWithZero(Call& call) {
  MathOfCall m(call);
  constexpr double kFrom = -128, kTo = 127, kEpsilon = 0x1p-23;
  const IValue zero = Tensor::zeros(call.tensor(0).dtype(), Dims{}), dims = intList(Dims{-1});
  IValue least = m("aten::minimum", {m("aten::amin", {call.argument(0), dims, true}), zero});
  IValue most = m("aten::maximum", {m("aten::amax", {call.argument(0), dims, true}), zero});
  IValue scale = m.clamped(m("aten::div.Scalar", {m.sub(most, least), kTo - kFrom}), kEpsilon, IValue());
  IValue below = m("aten::div.Tensor", {least, scale}), above = m("aten::div.Tensor", {most, scale});
  IValue errors = m.add(m.add(below, kFrom), m.add(above, kTo));
  IValue point = m("aten::where.self", {m("aten::gt.Scalar", {errors, 0}), m("aten::rsub.Scalar", {below, kFrom, 1}),
                                        m("aten::rsub.Scalar", {above, kTo, 1})});
  call.setResult(0, m.to(scale, DType::Float64));
  call.setResult(1, m.to(m.one("aten::round", m.clamped(point, kFrom, kTo)), DType::Int64));
}

template <class Call>
IValue quantizedRows(const Call& call, const IValue& x, const IValue& scales, const IValue& zeros, size_t least) {
  MathOfCall m(call);
  IValue steps = m.add(m.mul(x, m.one("aten::reciprocal", scales)), zeros);
  IValue held = m.clamped(m.one("aten::round", steps), call.argument(least), call.argument(least + 1));
  return m.to(held, call.argument(least + 2));
}
// (input, scales, zero points, least, most, dtype)
template <class Call>
void quantizeTokens(Call& call) {
  call.setResult(0, quantizedRows(call, call.argument(0), call.argument(1), call.argument(2), 3));
}
// (input, scales, zero points, least, most, dtype, dtype of the result)
template <class Call>
void dequantizeTokens(Call& call) {
  MathOfCall m(call);
  call.setResult(0, m.to(m.mul(m.sub(call.argument(0), call.argument(2)), call.argument(1)), call.argument(6)));
}

// (input, scales, zero points, least, most, dtype, size of a group ...)
template <class Call>
Dims groupsOf(const Call& call) {
  const Tensor x = call.tensor(0), scales = call.tensor(1);
  int64_t group = call.integer(6);
  const int64_t row = x.size(x.rank() - 1);
  if (group > row && scales.size(scales.rank() - 1) == 1) group = row;
  return {-1, group};
}
template <class Call>
void quantizeGroups(Call& call) {
  MathOfCall m(call);
  const Dims column{-1, 1};
  IValue made = quantizedRows(call, m.reshape(call.argument(0), groupsOf(call)), m.reshape(call.argument(1), column),
                              m.reshape(call.argument(2), column), 3);
  call.setResult(0, m.reshape(made, Dims(call.tensor(0).sizes())));
}
template <class Call>
void dequantizeGroups(Call& call) {
  MathOfCall m(call);
  const Dims column{-1, 1};
  IValue steps = m.reshape(call.argument(0), groupsOf(call));
  if (!call.isNone(2)) steps = m.sub(steps, m.reshape(call.argument(2), column));
  IValue made = m.mul(steps, m.reshape(call.argument(1), column));
  call.setResult(0, m.to(m.reshape(made, Dims(call.tensor(0).sizes())), call.argument(7)));
}
void inferGroups(InferCall& call, DType dtype) {
  const TensorInfo x = call.tensor(0);
  call.require(!x.hasRank || x.rank() == 2, "expected a matrix, not {} dimensions", x.rank());
  const int64_t group = call.constant(6) ? call.integer(6) : kUnknownSize;
  if (isKnownSize(group)) call.require(group > 1, "group_size must be greater than 1, not {}", group);
  if (x.hasRank && isKnownSize(group) && isKnownSize(x.sizes[1]) && group <= x.sizes[1])
    call.require(x.sizes[1] % group == 0, "rows of {} are no whole groups of {}", x.sizes[1], group);
  call.result(x, dtype);
}
void inferQuantizeGroups(InferCall& call) { inferGroups(call, call.dtypeOr(5, DType::Undefined)); }
void inferDequantizeGroups(InferCall& call) { inferGroups(call, call.dtypeOr(7, DType::Undefined)); }

template <class Call>
void convertElements(Call& call) {
  call.setResult(0, MathOfCall(call).to(call.argument(0), call.argument(1)));
}

}  // namespace

void registerQuantizedDecomposedOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = {}});
  };
  const std::string_view kQuantize[] = {"quantized_decomposed::quantize_per_tensor",
                                        "quantized_decomposed::quantize_per_tensor.tensor",
                                        "quantized_decomposed::quantize_per_tensor.tensor2"};
  for (std::string_view schema : kQuantize)
    add(schema, inferToSteps<5, Widest::Float32>, quantizeByGrid<KernelCall>, quantizeByGrid<ConvertCall>);
  const std::string_view kDequantize[] = {"quantized_decomposed::dequantize_per_tensor",
                                          "quantized_decomposed::dequantize_per_tensor.tensor",
                                          "quantized_decomposed::dequantize_per_tensor.tensor2"};
  for (std::string_view schema : kDequantize)
    add(schema, inferToNumbers<5, 6>, dequantizeByGrid<KernelCall>, dequantizeByGrid<ConvertCall>);
  add("quantized_decomposed::choose_qparams.tensor", inferGrid, chooseGridKernel<false, KernelCall>,
      chooseGridKernel<false, ConvertCall>);
  add("quantized_decomposed::choose_qparams_symmetric.tensor", inferGrid, chooseGridKernel<true, KernelCall>,
      chooseGridKernel<true, ConvertCall>);
  add("quantized_decomposed::quantize_per_channel", inferToSteps<6, Widest::Float32>, quantizeChannels<KernelCall>,
      quantizeChannels<ConvertCall>);
  add("quantized_decomposed::dequantize_per_channel", inferToNumbers<6, 7>, dequantizeChannels<KernelCall>,
      dequantizeChannels<ConvertCall>);
  add("quantized_decomposed::fake_quant_per_channel", inferSame, fakeQuantizeChannels<KernelCall>,
      fakeQuantizeChannels<ConvertCall>);
  add("quantized_decomposed::choose_qparams_per_token", inferTokenGrid<DType::Undefined, DType::Undefined>,
      chooseTokenGrid<KernelCall>, chooseTokenGrid<ConvertCall>);
  for (std::string_view schema : {"quantized_decomposed::choose_qparams_per_token_asymmetric",
                                  "quantized_decomposed::_choose_qparams_per_token_asymmetric_impl"})
    add(schema, inferTokenGrid<DType::Float64, DType::Int64>, chooseTokenGridWithZero<KernelCall>,
        chooseTokenGridWithZero<ConvertCall>);
  add("quantized_decomposed::quantize_per_token", inferToSteps<5, Widest::Float64>, quantizeTokens<KernelCall>,
      quantizeTokens<ConvertCall>);
  add("quantized_decomposed::dequantize_per_token", inferToNumbers<5, 6>, dequantizeTokens<KernelCall>,
      dequantizeTokens<ConvertCall>);
  add("quantized_decomposed::quantize_per_channel_group", inferQuantizeGroups, quantizeGroups<KernelCall>,
      quantizeGroups<ConvertCall>);
  add("quantized_decomposed::dequantize_per_channel_group", inferDequantizeGroups, dequantizeGroups<KernelCall>,
      dequantizeGroups<ConvertCall>);
  add(
      "quantized_decomposed::convert_element_type.no_fuse",
      [](InferCall& call) { call.result(call.tensor(0), call.dtypeOr(1, DType::Undefined)); },
      convertElements<KernelCall>, convertElements<ConvertCall>);
}

}  // namespace tscompile
