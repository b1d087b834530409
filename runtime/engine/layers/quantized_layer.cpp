#include "runtime/engine/layers/quantized_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/network/frame.h"
#include "runtime/interpreter/call_operator.h"
#include "runtime/kernels/layout.h"
#include "runtime/reference/quantized.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tscompile {
namespace {

constexpr int64_t kPiece = 16 << 10;           // floats
constexpr int64_t kParallelFloats = 64 << 10;  // less is done by one thread

int threadsFor(const Frame& frame, int64_t floats) { return floats < kParallelFloats ? 1 : frame.threads(); }

}  // namespace

// ---- layers ----

void StepLayer::overPieces(const Frame& frame, FunctionRef<void(int64_t, int64_t)> body) const {
  const Network& n = frame.network();
  const int64_t floats =
      blocked ? static_cast<int64_t>(n.bufferOf(outputs[0]).bytes / sizeof(float)) : n[outputs[0]].numel;
  parallelFor((floats + kPiece - 1) / kPiece, threadsFor(frame, floats),
              [&](int64_t i) { body(i * kPiece, std::min(kPiece, floats - i * kPiece)); });
}

RequantizeLayer::RequantizeLayer(const Node* node, std::vector<float> factors, int64_t inner, StepRange range)
    : StepLayer(node),
      factors_(std::move(factors)),
      channels_(static_cast<int64_t>(factors_.size())),
      inner_(inner),
      range_(range) {
  if (channels_ > 1) factors_.resize(static_cast<size_t>(channelBlocks(channels_) * kBlock));
}

void RequantizeLayer::run(Frame& frame) const {
  const float* x = frame.data<float>(inputs[0]);
  auto* y = frame.data<float>(outputs[0]);
  if (channels_ == 1)
    return overPieces(
        frame, [&](int64_t begin, int64_t count) { requantize(x + begin, count, factors_[0], range_, y + begin); });
  const NetTensor& t = frame.network()[outputs[0]];
  const int threads = threadsFor(frame, t.numel);
  if (blocked) {
    const int64_t blocks = channelBlocks(channels_), area = t.numel / (t.sizes[0] * channels_);
    return parallelFor(t.sizes[0] * blocks, threads, [&](int64_t i) {
      const int64_t at = i * area * kBlock;
      requantizeColumns(x + at, area, kBlock, factors_.data() + i % blocks * kBlock, range_, y + at);
    });
  }
  if (inner_ == 1)
    return parallelFor(t.numel / channels_, threads, [&](int64_t i) {
      requantizeColumns(x + i * channels_, 1, channels_, factors_.data(), range_, y + i * channels_);
    });
  parallelFor(t.numel / inner_, threads, [&](int64_t i) {
    requantize(x + i * inner_, inner_, factors_[static_cast<size_t>(i % channels_)], range_, y + i * inner_);
  });
}

Tensor RequantizeLayer::factorsOf(int64_t columns, int64_t inner) const {
  if (channels_ > 1 && (channels_ != columns || inner_ != inner)) return {};
  Tensor all = Tensor::zeros(DType::Float32, Dims{channelBlocks(columns) * kBlock});
  for (int64_t i = 0; i < columns; ++i) all.data<float>()[i] = factors_[channels_ > 1 ? static_cast<size_t>(i) : 0];
  return all;
}

void AddStepsLayer::run(Frame& frame) const {
  const float *x = frame.data<float>(inputs[0]), *y = frame.data<float>(inputs[1]);
  auto* to = frame.data<float>(outputs[0]);
  overPieces(frame,
             [&](int64_t begin, int64_t count) { addSteps(sum_, x + begin, y + begin, count, range_, to + begin); });
}

void TableLayer::run(Frame& frame) const {
  const float* x = frame.data<float>(inputs[0]);
  auto* y = frame.data<float>(outputs[0]);
  overPieces(frame,
             [&](int64_t begin, int64_t count) { lookUpSteps(table_.data(), range_, x + begin, count, y + begin); });
}

void BytesLayer::run(Frame& frame) const {
  const Tensor &from = frame.tensor(inputs[0]), &to = frame.tensor(outputs[0]);
  if (!grid) return copyTensor(to, stepsOf(from));
  to.storage()->setQuantization(*grid);
  copyTensor(to, quantizeSteps(from, to.dtype(), *grid));
}

DynamicGrid dynamicGrid(StepRange bounds, bool isReduced) {
  if (std::isnan(bounds.least)) throw ExecutionError(ErrorKind::Model, "numbers to be quantised are NaN");
  const Ref<Quantization> grid = chooseGrid(bounds.least, bounds.most, 0, isReduced ? 127 : 255);
  return {static_cast<float>(grid->scale), stepRange(DType::QUInt8, *grid)};
}

void DynamicStepsLayer::run(Frame& frame) const {
  const float* x = frame.data<float>(inputs[0]);
  const int64_t count = frame.network()[inputs[0]].numel, pieces = (count + kPiece - 1) / kPiece;
  std::vector<StepRange> ranges(static_cast<size_t>(pieces));
  const int threads = threadsFor(frame, count);
  parallelFor(pieces, threads, [&](int64_t i) {
    ranges[static_cast<size_t>(i)] = extremes(x + i * kPiece, std::min(kPiece, count - i * kPiece));
  });
  StepRange all = ranges[0];
  for (const StepRange& r : ranges)
    all = std::isnan(r.least) ? r : StepRange{std::min(all.least, r.least), std::max(all.most, r.most)};
  const DynamicGrid grid = dynamicGrid(all, isReduced);
  *frame.data<float>(outputs[1]) = grid.scale;
  *frame.data<float>(outputs[2]) = grid.range.least;
  auto* to = frame.data<float>(outputs[0]);
  parallelFor(pieces, threads, [&](int64_t i) {
    requantize(x + i * kPiece, std::min(kPiece, count - i * kPiece), 1.0f / grid.scale, grid.range, to + i * kPiece);
  });
}

// ---- tensors ----

bool isQuantizedTensor(const IValue& v) {
  return v.isTensor() && v.tensorImpl() && isQuantized(v.tensorImpl()->dtype());
}

bool sameGrid(const Quantization& a, const Quantization& b) {
  return &a == &b || (a.isPerTensor() && b.isPerTensor() && a.scale == b.scale && a.zeroPoint == b.zeroPoint);
}

StepRange stepRange(DType quantized, const Quantization& q) {
  IntegerRange range = rangeOf(quantized);
  return {static_cast<float>(range.least - q.zeroPoint), static_cast<float>(range.most - q.zeroPoint)};
}

Tensor stepsIn(const Tensor& t) {
  if (!t.storage()->isSymbolic()) return stepsOf(t);
  return Tensor::view(DType::Float32, t.storage(), t.sizes(), t.strides(), t.offset());
}

IValue numbersIn(ConvertCall& call, const Tensor& t) {
  if (!t.storage()->isSymbolic()) return dequantize(t);
  PointwiseProgram program;
  const int scale = program.constant(static_cast<float>(quantizationOf(t).scale));
  program.output(program.step(PointwiseOp::Mul, program.input(), scale));
  Tensor numbers = call.makeTensor(DType::Float32, t.sizes());
  const TensorId from = call.idOf(stepsIn(t));
  auto& layer = call.add<PointwiseLayer>();
  layer.program = std::move(program);
  layer.inputs = {from};
  layer.outputs = {call.idOf(numbers)};
  return numbers;
}

IValue quantizedIn(ConvertCall& call, const Tensor& steps, DType dtype, const Quantization& q) {
  if (!q.isPerTensor() || dtype == DType::QInt32)
    call.refuse(Reason::DType, fmt::format("engines have no {} tensors {}", pythonName(dtype),
                                           q.isPerTensor() ? "that are computed" : "with a grid for each channel"));
  if (!steps.storage()->isSymbolic()) return quantizeSteps(steps, dtype, q);
  Tensor t = steps;
  if (const Quantization* known = t.storage()->quantization(); known && !sameGrid(*known, q))
    t = addRequantize(call, steps, {1.0f}, 1, stepRange(dtype, q));
  if (!t.storage()->quantization()) t.storage()->setQuantization(q);
  return Tensor::view(dtype, t.storage(), t.sizes(), t.strides(), t.offset());
}

namespace {

TensorId contiguousId(ConvertCall& call, const Tensor& t) {
  TensorId id = call.idOf(t);
  return call.network()[id].contiguous ? id : addCopy(call, id);
}

}  // namespace

Tensor addRequantize(ConvertCall& call, const Tensor& x, std::vector<float> factors, int64_t inner, StepRange range) {
  TensorId from = contiguousId(call, x);
  Tensor out = call.makeTensor(DType::Float32, x.sizes());
  auto& layer = call.add<RequantizeLayer>(std::move(factors), inner, range);
  layer.inputs = {from};
  layer.outputs = {call.idOf(out)};
  return out;
}

IValue addQuantize(ConvertCall& call, const Tensor& numbers, DType dtype, const Quantization& q) {
  Tensor steps = addRequantize(call, numbers, {1.0f / static_cast<float>(q.scale)}, 1, stepRange(dtype, q));
  return quantizedIn(call, steps, dtype, q);
}

Tensor addSumOfSteps(ConvertCall& call, const Tensor& a, const Tensor& b, const FixedPointSum& sum, StepRange range) {
  TensorId x = contiguousId(call, stepsIn(a)), y = contiguousId(call, stepsIn(b));
  Tensor out = call.makeTensor(DType::Float32, a.sizes());
  auto& layer = call.add<AddStepsLayer>(sum, range);
  layer.inputs = {x, y};
  layer.outputs = {call.idOf(out)};
  return out;
}

Tensor addDynamicSteps(ConvertCall& call, const Tensor& x, bool isReduced, Tensor& scale, Tensor& least) {
  TensorId from = contiguousId(call, x);
  Tensor steps = call.makeTensor(DType::Float32, x.sizes());
  scale = call.makeTensor(DType::Float32, Dims{1});
  least = call.makeTensor(DType::Float32, Dims{1});
  auto& layer = call.add<DynamicStepsLayer>();
  layer.isReduced = isReduced;
  layer.inputs = {from};
  layer.outputs = {call.idOf(steps), call.idOf(scale), call.idOf(least)};
  return steps;
}

// ---- inputs and outputs ----

namespace {

template <class L>
L& addTo(Network& network, TensorId from, TensorId to) {
  auto layer = std::make_unique<L>(nullptr);
  L& added = *layer;
  layer->inputs = {from};
  layer->outputs = {to};
  network.layers.push_back(std::move(layer));
  return added;
}

}  // namespace

Tensor unpackInput(NetworkTensors& tensors, const Tensor& input, const Tensor& given) {
  Tensor steps = tensors.make(DType::Float32, given.sizes());
  addTo<BytesLayer>(tensors.network(), tensors.idOf(input), tensors.idOf(steps));
  steps.storage()->setQuantization(quantizationOf(given));
  return Tensor::view(given.dtype(), steps.storage(), steps.sizes(), steps.strides(), 0);
}

TensorId packOutput(NetworkTensors& tensors, const Tensor& t) {
  TensorId bytes = tensors.network().addTensor(t.dtype(), t.sizes());
  auto& layer = addTo<BytesLayer>(tensors.network(), tensors.idOf(stepsIn(t)), bytes);
  layer.grid = Ref<const Quantization>::share(&quantizationOf(t));
  return bytes;
}

// ---- kernels ----

namespace {

// The value with other tensors in the place of its tensors.
IValue mapTensors(const IValue& v, FunctionRef<IValue(const Tensor&)> f) {
  if (v.isTensor() && v.tensorImpl()) return f(v.toTensor());
  if (!v.isList()) return v;
  auto list = Ref<ListValue>::make(v.toList().elementType, std::vector<IValue>());
  for (const IValue& item : v.toList().items) list->items.push_back(mapTensors(item, f));
  return IValue(std::move(list));
}

std::vector<const IValue*> pointersTo(const std::vector<IValue>& values) {
  std::vector<const IValue*> pointers;
  for (const IValue& v : values) pointers.push_back(&v);
  return pointers;
}

std::vector<IValue> callWith(const Operator& op, const std::vector<IValue>& arguments, size_t resultCount,
                             RunContext& context) {
  std::vector<const IValue*> pointers = pointersTo(arguments);
  std::vector<IValue> results(std::max<size_t>(resultCount, 1));
  callOperator(op, pointers.data(), pointers.size(), results.data(), resultCount, context);
  return results;
}

class QuantizedKernelLayer : public Layer {
 public:
  QuantizedKernelLayer(const Node* node, const Operator& op, std::vector<IValue> arguments, size_t resultCount)
      : Layer(node), op_(op), arguments_(std::move(arguments)), resultCount_(resultCount) {}
  std::string name() const override { return "kernel " + op_.fullName(); }
  bool isNative() const override { return false; }

  void run(Frame& frame) const override {
    size_t at = 0;
    auto real = [&](const Tensor& t) -> IValue {
      if (!t.storage()->isSymbolic()) return t;
      const Tensor& given = frame.tensor(inputs[at++]);
      return isQuantized(t.dtype()) ? quantizeSteps(given, t.dtype(), quantizationOf(t)) : given;
    };
    std::vector<IValue> arguments;
    for (const IValue& v : arguments_) arguments.push_back(mapTensors(v, real));
    size_t to = 0;
    auto store = [&](const Tensor& made) -> IValue {
      copyTensor(frame.tensor(outputs[to++]), isQuantized(made.dtype()) ? stepsOf(made) : made);
      return {};
    };
    for (const IValue& v : callWith(op_, arguments, resultCount_, frame.context())) mapTensors(v, store);
  }

 private:
  const Operator& op_;
  std::vector<IValue> arguments_;  // with symbolic tensors, in the order of `inputs`
  size_t resultCount_;
};

}  // namespace

void convertQuantizedToKernel(ConvertCall& call) {
  std::vector<IValue> arguments, zeros;
  std::vector<TensorId> inputs, outputs;
  auto zerosLike = [&](const Tensor& t) -> IValue {
    if (!t.storage()->isSymbolic()) return t;
    inputs.push_back(call.idOf(isQuantized(t.dtype()) ? stepsIn(t) : t));
    if (!isQuantized(t.dtype())) return Tensor::zeros(t.dtype(), t.sizes());
    return quantizedAs(Tensor::zeros(storedAs(t.dtype()), t.sizes()), t.dtype(), quantizationOf(t));
  };
  for (size_t i = 0; i < call.size(); ++i) {
    arguments.push_back(call.argument(i));
    zeros.push_back(mapTensors(call.argument(i), zerosLike));
  }
  // What writes to its first argument gives that back.
  const bool writes = call.op().schema().isMutable();
  std::vector<IValue> results;
  if (!writes) results = callWith(call.op(), zeros, call.resultCount(), call.context());
  auto symbolic = [&](const Tensor& made) -> IValue {
    const bool quantized = isQuantized(made.dtype());
    Tensor t = call.makeTensor(quantized ? DType::Float32 : made.dtype(), made.sizes());
    outputs.push_back(call.idOf(t));
    return quantized ? quantizedIn(call, t, made.dtype(), quantizationOf(made)) : t;
  };
  if (writes && !call.isNetworkTensor(0))
    call.refuse(Reason::Aliasing, fmt::format("{} writes to a constant", call.op().fullName()));
  if (writes) outputs = {inputs[0]};
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].isTensor() && !results[i].isList())
      call.refuse(Reason::NonTensor, fmt::format("{} gives what is no tensor", call.op().fullName()));
    call.setResult(i, mapTensors(results[i], symbolic));
  }
  auto& layer = call.add<QuantizedKernelLayer>(call.op(), std::move(arguments), call.resultCount());
  layer.inputs = std::move(inputs);
  layer.outputs = std::move(outputs);
}

// ---- other converters ----

namespace {

bool areKnown(const ConvertCall& call, size_t first) {
  for (size_t i = first; i < call.size(); ++i)
    if (call.isNetworkTensor(i)) return false;
  return true;
}

// The first quantised tensor among the arguments, whose grid the result has.
std::optional<Tensor> firstQuantized(const ConvertCall& call) {
  const IValue& v = call.argument(0);
  if (isQuantizedTensor(v)) return v.toTensor();
  if (v.isList() && !v.toList().items.empty() && isQuantizedTensor(v.toList().items[0]))
    return v.toList().items[0].toTensor();
  return std::nullopt;
}

// The same operator on steps, those of other grids brought to that of `like`.
IValue computeOnSteps(ConvertCall& call, const Tensor& like) {
  const Quantization& q = quantizationOf(like);
  auto steps = [&](const Tensor& t) -> IValue {
    if (!isQuantized(t.dtype())) return t;
    if (t.dtype() == like.dtype() && sameGrid(quantizationOf(t), q)) return stepsIn(t);
    return stepsIn(addQuantize(call, numbersIn(call, t).toTensor(), like.dtype(), q).toTensor());
  };
  std::vector<IValue> arguments;
  for (size_t i = 0; i < call.size(); ++i) arguments.push_back(mapTensors(call.argument(i), steps));
  return call.compute(call.op().fullName(), std::move(arguments));
}

}  // namespace

bool holdsQuantized(const IValue& v) {
  if (!v.isList()) return isQuantizedTensor(v);
  return std::any_of(v.toList().items.begin(), v.toList().items.end(), isQuantizedTensor);
}

void convertByTable(ConvertCall& call) {
  const IValue& x = call.argument(0);
  if (!isQuantizedTensor(x) || !areKnown(call, 1)) return convertQuantizedToKernel(call);
  const Tensor t = x.toTensor();
  const Quantization& q = quantizationOf(t);
  const StepRange range = stepRange(t.dtype(), q);
  Tensor all = Tensor::empty(DType::Float32, Dims{static_cast<int64_t>(range.most - range.least) + 1});
  for (int64_t i = 0; i < all.numel(); ++i) all.data<float>()[i] = range.least + static_cast<float>(i);
  std::vector<IValue> arguments{quantizeSteps(all, t.dtype(), q)};
  for (size_t i = 1; i < call.size(); ++i) arguments.push_back(call.argument(i));
  Tensor made = callWith(call.op(), arguments, 1, call.context())[0].toTensor();
  Tensor steps = stepsOf(made), out = call.makeTensor(DType::Float32, t.sizes());
  std::vector<float> table(steps.data<float>(), steps.data<float>() + steps.numel());
  TensorId from = contiguousId(call, stepsIn(t));
  auto& layer = call.add<TableLayer>(std::move(table), range);
  layer.inputs = {from};
  layer.outputs = {call.idOf(out)};
  call.setResult(0, quantizedIn(call, out, made.dtype(), quantizationOf(made)));
}

void convertOnSteps(ConvertCall& call) {
  std::optional<Tensor> like = firstQuantized(call);
  if (!like || call.resultCount() != 1 || call.op().schema().isMutable()) return convertQuantizedToKernel(call);
  const Quantization& q = quantizationOf(*like);
  call.setResult(0, mapTensors(computeOnSteps(call, *like), [&](const Tensor& t) -> IValue {
                   return t.dtype() == DType::Float32 ? quantizedIn(call, t, like->dtype(), q) : t;
                 }));
}

void convertRoundedSteps(ConvertCall& call) {
  std::optional<Tensor> like = firstQuantized(call);
  if (!like || call.resultCount() != 1 || call.op().schema().isMutable()) return convertQuantizedToKernel(call);
  const Quantization& q = quantizationOf(*like);
  Tensor made = computeOnSteps(call, *like).toTensor();
  Tensor rounded = addRequantize(call, made, {1.0f}, 1, stepRange(like->dtype(), q));
  call.setResult(0, quantizedIn(call, rounded, like->dtype(), q));
}

}  // namespace tscompile
