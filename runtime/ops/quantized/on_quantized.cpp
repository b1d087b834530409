// What PyTorch's common operators do with quantised tensors.
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/interpreter/call_operator.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/quantized.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// The first quantised tensor: what the results are like.
Tensor firstQuantized(const KernelCall& call) {
  for (size_t i = 0; i < call.size(); ++i) {
    const IValue& v = call.argument(i);
    if (isQuantizedTensor(v)) return v.toTensor();
    if (v.isList())
      for (const IValue& item : v.toList().items)
        if (isQuantizedTensor(item)) return item.toTensor();
  }
  call.fail("expected a quantised tensor");
}

// The same operator with other tensors in the place of quantised ones.
std::vector<IValue> callWith(KernelCall& call, auto&& replace) {
  std::vector<IValue> arguments;
  for (size_t i = 0; i < call.size(); ++i) {
    const IValue& v = call.argument(i);
    if (isQuantizedTensor(v)) {
      arguments.emplace_back(replace(v.toTensor()));
    } else if (v.isList()) {
      auto list = Ref<ListValue>::make(v.toList().elementType, std::vector<IValue>());
      for (const IValue& item : v.toList().items)
        list->items.push_back(isQuantizedTensor(item) ? IValue(replace(item.toTensor())) : item);
      arguments.emplace_back(std::move(list));
    } else {
      arguments.push_back(v);
    }
  }
  std::vector<const IValue*> pointers;
  for (const IValue& a : arguments) pointers.push_back(&a);
  std::vector<IValue> results(std::max<size_t>(call.resultCount(), 1));
  callOperator(call.op(), pointers.data(), pointers.size(), results.data(), results.size(), call.context());
  return results;
}

// Gives the results, with `restore` for each tensor of the dtype that was computed in.
void setResults(KernelCall& call, std::vector<IValue> results, DType computed, auto&& restore) {
  for (size_t i = 0; i < call.resultCount(); ++i) {
    IValue& v = results[i];
    auto restored = [&](const IValue& t) {
      return t.isTensor() && t.tensorImpl() && t.tensorImpl()->dtype() == computed ? IValue(restore(t.toTensor())) : t;
    };
    if (v.isList())
      for (IValue& item : v.toList().items) item = restored(item);
    call.setResult(i, restored(v));
  }
  if (call.op().isInPlaceVariant()) call.setResult(call.argument(0));
}

// What moves and chooses elements works on the integers; those of other grids are brought to the first one's, but for
// those that are written over others.
template <bool kAsTheyAre = false>
void onIntegers(KernelCall& call) {
  Tensor like = firstQuantized(call);
  const Quantization& q = quantizationOf(like);
  const DType stored = storedAs(like.dtype());
  // Operators that know no integers move them as floats.
  const DTypeSet known = call.op().def().dtypes;
  const DType exact = stored == DType::Int32 ? DType::Float64 : DType::Float32;
  const DType moved = known.empty() || known.contains(stored) ? stored : exact;
  auto integers = [&](const Tensor& t) {
    bool same = t.dtype() == like.dtype() && (kAsTheyAre || sameGrid(quantizationOf(t), q));
    Tensor all = integersOf(same ? t : quantize(dequantize(t), like.dtype(), q));
    return moved == stored ? all : convertTensor(all, moved);
  };
  setResults(call, callWith(call, integers), moved, [&](const Tensor& t) {
    return quantizedAs(moved == stored ? t : convertTensor(t, stored), like.dtype(), q);
  });
}

// What keeps the grid, and of which twice the numbers give twice the result, works in units of the scale.
void onSteps(KernelCall& call) {
  Tensor like = firstQuantized(call);
  const Quantization& q = quantizationOf(like);
  call.require(q.isPerTensor(), "{} is not implemented for quantisation per channel", call.op().kind().text());
  std::vector<IValue> results = callWith(call, [](const Tensor& t) { return stepsOf(t); });
  auto round = [&](const Tensor& t) { return quantizeSteps(t, like.dtype(), q); };
  if (call.op().isInPlaceVariant()) {
    copyTensor(integersOf(call.tensor(0)), integersOf(round(results[0].toTensor())));
    return call.setResult(call.argument(0));
  }
  setResults(call, std::move(results), DType::Float32, round);
}

// Interpolation works on the integers as numbers, the zero point included, as PyTorch rounds it.
void interpolate(KernelCall& call) {
  Tensor like = firstQuantized(call);
  const Quantization& q = quantizationOf(like);
  call.require(q.isPerTensor(), "{} is not implemented for quantisation per channel", call.op().kind().text());
  auto numbers = [](const Tensor& t) { return convertTensor(integersOf(t), DType::Float32); };
  setResults(call, callWith(call, numbers), DType::Float32, [&](const Tensor& t) {
    return quantizeSteps(invokeTensor(call, "aten::sub.Scalar", {t, q.zeroPoint, 1}), like.dtype(), q);
  });
}

// Everything else works on the numbers, and rounds to a grid.
void onNumbers(KernelCall& call, const Quantization* grid) {
  Tensor like = firstQuantized(call);
  const Quantization& q = grid ? *grid : quantizationOf(like);
  std::vector<IValue> results = callWith(call, [](const Tensor& t) { return dequantize(t); });
  auto round = [&](const Tensor& t) { return quantize(t, like.dtype(), q); };
  if (call.op().isInPlaceVariant()) {
    copyTensor(integersOf(call.tensor(0)), integersOf(round(results[0].toTensor())));
    return call.setResult(call.argument(0));
  }
  setResults(call, std::move(results), DType::Float32, round);
}
void keepGrid(KernelCall& call) { onNumbers(call, nullptr); }

// From 0 to 1 or from -1 to 1 in 256 steps: sigmoid and tanh.
template <int kFrom>
void onFixedGrid(KernelCall& call) {
  DType dtype = firstQuantized(call).dtype();
  call.require(dtype != DType::QInt32, "{} is not implemented for qint32", call.op().kind().text());
  double scale = (1 - kFrom) / 256.0;
  int64_t zero = dtype == DType::QInt8 ? (kFrom ? 0 : -128) : (kFrom ? 128 : 0);
  onNumbers(call, Quantization::perTensor(scale, zero).get());
}

// Comparisons look at the numbers and give no quantised ones.
void compare(KernelCall& call) {
  std::vector<IValue> results = callWith(call, [](const Tensor& t) { return dequantize(t); });
  for (size_t i = 0; i < call.resultCount(); ++i) call.setResult(i, std::move(results[i]));
}

void equal(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  bool same = a.dtype() == b.dtype() && isQuantized(b.dtype()) && sameGrid(quantizationOf(a), quantizationOf(b));
  call.setResult(same && invoke(call, "aten::equal", {integersOf(a), integersOf(b)}).toBool());
}

// Over the two spatial dimensions PyTorch works in steps.
void mean(KernelCall& call) {
  Tensor t = call.tensor(0);
  Dims dims = call.dims(1, t.rank(), true);
  std::sort(dims.begin(), dims.end());
  dims == Dims{2, 3} && t.rank() == 4 ? onSteps(call) : keepGrid(call);
}

constexpr const char* kOnIntegers[] = {"aten::view",
                                       "aten::view_as",
                                       "aten::_unsafe_view",
                                       "aten::reshape",
                                       "aten::reshape_as",
                                       "aten::flatten.using_ints",
                                       "aten::unflatten.int",
                                       "aten::expand",
                                       "aten::expand_as",
                                       "aten::contiguous",
                                       "aten::detach",
                                       "aten::alias",
                                       "aten::clone",
                                       "aten::select.int",
                                       "aten::narrow",
                                       "aten::slice.Tensor",
                                       "aten::squeeze",
                                       "aten::squeeze.dim",
                                       "aten::unsqueeze",
                                       "aten::transpose.int",
                                       "aten::t",
                                       "aten::permute",
                                       "aten::numpy_T",
                                       "aten::movedim.int",
                                       "aten::movedim.intlist",
                                       "aten::split.Tensor",
                                       "aten::split.sizes",
                                       "aten::split_with_sizes",
                                       "aten::chunk",
                                       "aten::unbind.int",
                                       "aten::flip",
                                       "aten::roll",
                                       "aten::repeat",
                                       "aten::tile",
                                       "aten::diagonal",
                                       "aten::unfold",
                                       "aten::cat",
                                       "aten::stack",
                                       "aten::index.Tensor",
                                       "aten::index_select",
                                       "aten::gather",
                                       "aten::as_strided",
                                       "aten::_reshape_alias",
                                       "aten::pixel_shuffle",
                                       "aten::pixel_unshuffle",
                                       "aten::channel_shuffle",
                                       "aten::max_pool1d",
                                       "aten::max_pool2d",
                                       "aten::max_pool3d",
                                       "aten::adaptive_max_pool2d",
                                       "aten::upsample_nearest1d",
                                       "aten::upsample_nearest2d",
                                       "aten::upsample_nearest3d",
                                       "aten::upsample_nearest1d.vec",
                                       "aten::upsample_nearest2d.vec",
                                       "aten::upsample_nearest3d.vec",
                                       "aten::_upsample_nearest_exact2d",
                                       "aten::_upsample_nearest_exact3d",
                                       "aten::_upsample_nearest_exact2d.vec",
                                       "aten::_upsample_nearest_exact3d.vec",
                                       "aten::reflection_pad1d",
                                       "aten::reflection_pad2d",
                                       "aten::replication_pad1d",
                                       "aten::replication_pad2d",
                                       "aten::replication_pad3d",
                                       "aten::max",
                                       "aten::min",
                                       "aten::max.dim",
                                       "aten::min.dim",
                                       "aten::sort",
                                       "aten::sort.stable",
                                       "aten::topk",
                                       "aten::dropout",
                                       "aten::feature_dropout"};
constexpr const char* kOnSteps[] = {
    "aten::avg_pool1d",          "aten::avg_pool2d",          "aten::avg_pool3d",          "aten::adaptive_avg_pool1d",
    "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d", "aten::_adaptive_avg_pool2d"};
constexpr const char* kByElement[] = {"aten::hardtanh", "aten::relu6", "aten::clamp", "aten::threshold", "aten::gelu"};
constexpr const char* kOnNumbers[] = {"aten::mean", "aten::pad", "aten::std.dim", "aten::constant_pad_nd",
                                      "aten::masked_fill.Scalar"};
constexpr const char* kCompared[] = {"aten::eq.Scalar", "aten::eq.Tensor", "aten::ne.Scalar", "aten::ne.Tensor",
                                     "aten::lt.Scalar", "aten::lt.Tensor", "aten::le.Scalar", "aten::le.Tensor",
                                     "aten::gt.Scalar", "aten::gt.Tensor", "aten::ge.Scalar", "aten::ge.Tensor",
                                     "aten::argmax",    "aten::argmin",    "aten::argsort"};

// ---- writes ----

Tensor filled(KernelCall& call, const Tensor& to) {
  const IValue all = Tensor::zeros(DType::Float32, Dims(to.sizes()));
  invoke(call, "aten::fill_.Scalar", {all, call.argument(1)});
  return quantize(all.toTensor(), to.dtype(), quantizationOf(to));
}

// What is copied to a quantised tensor: integers as they are, with their grid; numbers are brought to the grid there.
Tensor copied(KernelCall& call, const Tensor& to) {
  const Tensor from = call.tensor(1);
  const bool isMove = isQuantized(from.dtype());
  call.require(!isMove || from.dtype() == to.dtype(), "expected a tensor of {}, not {}", pythonName(to.dtype()),
               pythonName(from.dtype()));
  Tensor integers = Tensor::empty(storedAs(to.dtype()), to.sizes());
  invoke(call, "aten::copy_",
         {integers,
          isMove ? integersOf(from)
                 : integersOf(quantize(convertTensor(expandedTo(from, to.sizes()), DType::Float32), to.dtype(),
                                       quantizationOf(to))),
          false});
  return quantizedAs(integers, to.dtype(), quantizationOf(isMove ? from : to));
}

template <Tensor (*kMade)(KernelCall&, const Tensor&)>
void makeOver(KernelCall& call) {
  call.setResult(kMade(call, call.tensor(0)));
}
// A whole tensor takes the grid as well; in a part the integers stand for other numbers.
template <Tensor (*kMade)(KernelCall&, const Tensor&)>
void writeOver(KernelCall& call) {
  const Tensor to = call.tensor(0), made = kMade(call, to);
  requireWritable(to);
  copyTensor(integersOf(to), integersOf(made));
  if (to.storage()->bytes() == static_cast<size_t>(to.numel()) * itemSize(storedAs(to.dtype())))
    to.storage()->setQuantization(quantizationOf(made));
  call.setResult(call.argument(0));
}

// Over the two spatial dimensions.
void convertMean(ConvertCall& call) {
  Tensor t = call.tensor(0);
  Dims dims = call.dims(1, t.rank(), true);
  std::sort(dims.begin(), dims.end());
  dims == Dims{2, 3} && t.rank() == 4 ? convertRoundedSteps(call) : convertQuantizedToKernel(call);
}

}  // namespace

void registerOnQuantizedOps(OpRegistry& ops) {
  auto add = [&](const char* schema, KernelFunction kernel, ConvertFunction convert = convertQuantizedToKernel) {
    ops.add({.schema = schema, .kernel = kernel, .convert = convert, .dtypes = kQuantizedTypes});
  };
  for (const char* schema : kOnIntegers) add(schema, onIntegers<>, convertOnSteps);
  add("aten::empty_like", onIntegers<>);
  add("aten::relu", onSteps, convertOnSteps);
  add("aten::leaky_relu", onSteps, convertByTable);
  for (const char* schema : kOnSteps) add(schema, onSteps, convertRoundedSteps);
  for (const char* schema : kByElement) add(schema, keepGrid, convertByTable);
  for (const char* schema : kOnNumbers) add(schema, keepGrid);
  for (const char* schema : kCompared) add(schema, compare);
  for (const char* schema : {"aten::relu_", "aten::leaky_relu_"}) add(schema, onSteps);
  for (const char* schema : {"aten::hardtanh_", "aten::relu6_", "aten::clamp_", "aten::threshold_"})
    add(schema, keepGrid);
  for (const char* schema : {"aten::copy_", "aten::copy_.Tensor"}) add(schema, writeOver<copied>);
  add("aten::copy", makeOver<copied>);
  add("aten::fill_.Scalar", writeOver<filled>);
  add("aten::full_like", makeOver<filled>);
  for (const char* schema : {"aten::slice_copy.Tensor", "aten::select_copy.int"}) add(schema, onIntegers<>);
  for (const char* schema : {"aten::slice_scatter", "aten::select_scatter"}) add(schema, onIntegers<true>);
  for (const char* schema : {"aten::sigmoid", "aten::hardsigmoid"}) add(schema, onFixedGrid<0>, convertByTable);
  add("aten::tanh", onFixedGrid<-1>, convertByTable);
  add("aten::equal", equal);
  add("aten::mean.dim", mean, convertMean);
  for (const char* schema : {"aten::upsample_bilinear2d", "aten::upsample_bilinear2d.vec"}) add(schema, interpolate);
}

}  // namespace tscompile
