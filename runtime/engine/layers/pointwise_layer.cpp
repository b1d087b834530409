#include "runtime/engine/layers/pointwise_layer.h"

#include "runtime/engine/layers/move_layers.h"
#include "runtime/kernels/layout.h"
#include "runtime/reference/loops/copy.h"

#include <algorithm>

namespace tscompile {

Dims broadcastStrides(const NetTensor& t, size_t rank) {
  Dims strides(rank, 0);
  for (size_t d = 0; d < t.sizes.size(); ++d) strides[rank - t.sizes.size() + d] = t.sizes[d] == 1 ? 0 : t.strides[d];
  return strides;
}

void addConversion(Network& network, const Node* node, TensorId from, TensorId to) {
  auto layer = std::make_unique<PointwiseLayer>(node);
  const int x = layer->program.input(network[from].dtype);
  layer->program.output(layer->program.step(PointwiseOp::Copy, x), network[to].dtype);
  layer->inputs = {from};
  layer->outputs = {to};
  network.layers.push_back(std::move(layer));
}

namespace {

void addCopy(Network& network, const Node* node, TensorId from, TensorId to) {
  if (network[from].dtype != DType::Float32)
    network.layers.push_back(std::make_unique<MoveLayer>(node, network, from, to));
  else
    addConversion(network, node, from, to);
}

TensorId addCopy(Network& network, const Node* node, TensorId from) {
  const Dims sizes = network[from].sizes;
  const TensorId to = network.addTensor(network[from].dtype, sizes);
  addCopy(network, node, from, to);
  return to;
}

}  // namespace

void addCopy(ConvertCall& call, TensorId from, TensorId to) { addCopy(call.network(), call.node(), from, to); }
TensorId addCopy(ConvertCall& call, TensorId from) { return addCopy(call.network(), call.node(), from); }

TensorId addFloats(Network& network, const Node* node, TensorId from) {
  if (!network[from].contiguous) from = addCopy(network, node, from);
  const DType dtype = network[from].dtype;
  const TensorId to = network.addTensor(DType::Float32, network[from].sizes);
  const auto convert = elementConversion(dtype, DType::Float32);
  network.layers.push_back(std::make_unique<ConvertLayer>(node, convert, from, to));
  return to;
}

TensorId addFloats(ConvertCall& call, const Tensor& integers) {
  if (!integers.storage()->isSymbolic()) return call.idOf(convertTensor(integers, DType::Float32));
  return addFloats(call.network(), call.node(), call.idOf(integers));
}

void convertCopy(ConvertCall& call) {
  Tensor x = call.tensor(0);
  const TensorSpec& spec = call.spec();
  const bool changes = x.dtype() != spec.dtype;
  const bool isLoop = isLoaded(x.dtype()) ? isLoaded(spec.dtype) || isLoadedInteger(spec.dtype)
                                          : isLoadedInteger(x.dtype()) && isLoaded(spec.dtype);
  const ElementConversion convert = changes && !isLoop ? elementConversion(x.dtype(), spec.dtype) : nullptr;
  if (changes && !isLoop && !convert) return convertToKernel(call, "no layer converts between these dtypes");
  if (isQuantized(x.dtype())) return convertToKernel(call, "the elements are quantized");
  if (x.numel() == 0) return convertToKernel(call, "a tensor has no elements");
  TensorId from = call.operand(0);
  if (convert) {
    if (!call.network()[from].contiguous) from = addCopy(call, from);
    call.add<ConvertLayer>(convert, from, call.makeResult());
    return;
  }
  TensorId to = call.makeResult();
  // The elements in row-major order are those of the source, whatever the sizes of the result.
  TensorId target = to;
  const NetTensor& made = call.network()[to];
  if (!(made.sizes == call.network()[from].sizes))
    target = call.network().addView(made.buffer, spec.dtype, call.network()[from].sizes,
                                    contiguousStrides(call.network()[from].sizes), 0);
  if (x.dtype() != DType::Float32 && !changes) {
    call.add<MoveLayer>(call.network(), from, target);
    return;
  }
  addConversion(call.network(), call.node(), from, target);
}

void addChannelAffine(ConvertCall& call, const Tensor& scale, const Tensor& shift) {
  TensorId x = call.operand(0);
  int rank = call.network()[x].rank();
  Dims sizes(static_cast<size_t>(rank - 1), 1);
  sizes[0] = scale.numel();
  auto constant = [&](const Tensor& t) {
    return call.network().addConstant(t.withGeometry(sizes, contiguousStrides(sizes), t.offset()));
  };
  TensorId s = constant(scale), b = constant(shift);
  TensorId y = call.makeResult();
  auto& layer = call.add<PointwiseLayer>();
  PointwiseProgram& p = layer.program;
  int in = p.input(), scales = p.input(), shifts = p.input();
  p.output(p.step(PointwiseOp::MulAdd, in, scales, shifts));
  layer.inputs = {x, s, b};
  layer.outputs = {y};
}

int appendProgram(PointwiseProgram& to, const PointwiseProgram& from, std::span<const int> inputs) {
  std::vector<int> values;
  for (const PointwiseProgram::Value& v : from.values()) {
    switch (v.kind) {
      case PointwiseProgram::Value::Kind::Input:
        values.push_back(inputs[static_cast<size_t>(v.index)]);
        break;
      case PointwiseProgram::Value::Kind::Constant:
        values.push_back(to.constant(v.alpha));
        break;
      case PointwiseProgram::Value::Kind::Step: {
        auto at = [&](int operand) { return operand < 0 ? -1 : values[static_cast<size_t>(operand)]; };
        values.push_back(to.step(v.op, at(v.a), at(v.b), at(v.c), v.alpha, v.beta));
        break;
      }
    }
  }
  return values[static_cast<size_t>(from.outputs()[0].value)];
}

const PointwiseProgram::Value* PointwiseLayer::onlyStep() const {
  const PointwiseProgram::Value* only = nullptr;
  for (const PointwiseProgram::Value& v : program.values())
    if (v.kind == PointwiseProgram::Value::Kind::Step) {
      if (only) return nullptr;
      only = &v;
    }
  return only;
}

bool PointwiseLayer::isCopy() const {
  const PointwiseProgram::Value* step = onlyStep();
  return step && step->op == PointwiseOp::Copy && inputs.size() == 1 &&
         program.values().front().type == program.outputs()[0].type;
}

std::string loopName(const PointwiseProgram& program) {
  const auto steps =
      std::ranges::count(program.values(), PointwiseProgram::Value::Kind::Step, &PointwiseProgram::Value::kind);
  return steps == 1 ? "pointwise" : "pointwise of " + std::to_string(steps);
}

std::string PointwiseLayer::name() const {
  const PointwiseProgram::Value* only = onlyStep();
  if (only && only->op == PointwiseOp::Copy) return isCopy() ? "copy" : "convert";
  return loopName(program);
}

bool PointwiseLayer::takesLines(const Network& network, const ProductPrecision&, TensorId tensor, DType dtype) const {
  const NetTensor& t = network[tensor];
  if (!blocked || !spread.empty() || t.numel != network[outputs[0]].numel) return false;
  const int64_t channels = t.sizes[1], unit = ElementType{dtype}.channels();
  if (channels % unit == 0) return true;
  // What is computed of lanes that are no channels is finite as bytes alone, and should be little. Operands of one
  // number a channel have whole lines if they are constants.
  return dtype == DType::UInt8 && channels * 8 >= channelBlocks(channels, unit) * unit * 3 &&
         std::ranges::all_of(inputs,
                             [&](TensorId id) { return network[id].numel == t.numel || network.isConstant(id); });
}

void PointwiseLayer::settle(const Network& network) {
  const ElementType& type = network[outputs[0]].elements;
  if (!blocked || !type.isLines()) return;
  PointwiseProgram typed;
  std::vector<int> values;
  for (TensorId id : inputs) values.push_back(typed.input(network[id].elements.dtype));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const ElementType& from = network[inputs[i]].elements; from.dtype == DType::UInt8)
      values[i] = typed.step(PointwiseOp::Scale, values[i], -1, -1, from.scale, -from.zero * from.scale);
  int result = appendProgram(typed, program, values);
  if (type.dtype == DType::UInt8) result = typed.step(PointwiseOp::Scale, result, -1, -1, 1 / type.scale, type.zero);
  typed.output(result, type.dtype);
  program = std::move(typed);
}

std::string WideLoopLayer::name() const { return loopName(program); }

void WideLoopLayer::run(Frame& frame) const {
  const Dims& dims = frame.network()[outputs[0]].sizes;
  SmallVector<int64_t, 64> strides;
  for (TensorId id : inputs) {
    const Dims each = broadcastStrides(frame.network()[id], dims.size());
    strides.append(each.begin(), each.end());
  }
  SmallVector<PointwiseOperand, 16> operands;
  for (size_t i = 0; i < inputs.size(); ++i)
    operands.push_back({frame.raw(inputs[i]), DimSpan(strides.data() + i * dims.size(), dims.size())});
  void* to = frame.raw(outputs[0]);
  runPointwise(program, dims, operands, std::span(&to, 1), frame.threads());
}

Dims sizesInBlocks(const Dims& sizes) {
  Dims dims{sizes[0], channelBlocks(sizes[1])};
  dims.append(sizes.begin() + 2, sizes.end());
  dims.push_back(kBlock);
  return dims;
}

void PointwiseLayer::run(Frame& frame) const {
  const Network& network = frame.network();
  const NetTensor& out = network[outputs[0]];
  Dims dims = out.sizes;
  const int64_t unit = out.elements.channels();
  if (!spread.empty())
    dims = sizesInBlocks(out.sizes);
  else if (blocked)
    dims = Dims{out.sizes[0], channelBlocks(out.sizes[1], unit), out.numel / (out.sizes[0] * out.sizes[1]), unit};
  SmallVector<int64_t, 64> strides;  // of all inputs: a run of a small loop asks for no memory
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NetTensor& t = network[inputs[i]];
    auto add = [&](const Dims& each) { strides.append(each.begin(), each.end()); };
    if (!spread.empty())
      add(spread[i]);
    else if (!blocked)
      add(broadcastStrides(t, dims.size()));
    else if (t.blocked && t.numel == out.numel && !t.contiguous)  // some channels of each image
      add(Dims{t.strides[0], dims[2] * unit, unit, 1});
    else if (t.blocked)
      add(t.numel == out.numel ? contiguousStrides(dims) : Dims{dims[1] * unit, unit, 0, 1});
    else if (t.numel == 1)
      add(Dims{0, 0, 0, 0});
    else
      add(Dims{0, unit, 0, 1});
  }
  SmallVector<PointwiseOperand, 16> operands;
  for (size_t i = 0; i < inputs.size(); ++i)
    operands.push_back({frame.raw(inputs[i]), DimSpan(strides.data() + i * dims.size(), dims.size())});
  void* to = frame.raw(outputs[0]);
  runPointwise(program, dims, operands, std::span(&to, 1), frame.threads());
}

}  // namespace tscompile
