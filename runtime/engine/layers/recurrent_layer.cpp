#include "runtime/engine/layers/recurrent_layer.h"

#include "ir/values/encoded.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/kernels/layout.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

// A weight [n, k] as the right side of a product, packed.
PackedMatrix packed(WeightStore& store, const Tensor& weight, const ProductPrecision& precision, Tensor& memory) {
  const WeightStorage storage = precision.weights;
  const int64_t k = weight.size(1), n = weight.size(0);
  memory = store.get(fmt::format("recurrent {}x{} as {}", k, n, static_cast<int>(storage)), weight, [&] {
    Tensor made = store.buffer(packedBytes(k, n, storage));
    packMatrix(k, n, decodedOnce(weight).data<float>(), weight.stride(1), weight.stride(0), storage, made.raw());
    return made;
  });
  return {.k = k, .n = n, .storage = storage, .data = memory.raw(), .roundsRows = precision.roundsRows};
}

// x + y in whole blocks with zeros after; one may be undefined, the result of two such is.
Tensor paddedSum(const Tensor& x, const Tensor& y) {
  auto decoded = [](const Tensor& t) { return t.defined() ? decodedOnce(t) : t; };
  const Tensor a = decoded(x), b = decoded(y), &some = a.defined() ? a : b;
  if (!some.defined()) return {};
  const int64_t count = some.numel();
  Tensor sum = Tensor::zeros(DType::Float32, Dims{channelBlocks(count) * kBlock});
  for (int64_t i = 0; i < count; ++i)
    sum.data<float>()[i] = (a.defined() ? a.data<float>()[i] : 0.0f) + (b.defined() ? b.data<float>()[i] : 0.0f);
  return sum;
}

}  // namespace

std::string RecurrentLayer::name() const {
  static constexpr const char* kNames[] = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
  return kNames[static_cast<size_t>(cell)];
}

int64_t RecurrentLayer::productBytes() const {
  int64_t most = 0;
  for (const Direction& d : parts) most = std::max(most, gemmWorkspace(steps * batch, d.packedInput));
  return most;
}

// The gates of all steps of both directions, what a layer gives to the next, and what products need.
size_t RecurrentLayer::workspace() const {
  const int64_t rows = steps * batch;
  return floatBytes(rows * directions * gates()) + floatBytes(layers > 1 ? rows * directions * output : 0) +
         static_cast<size_t>(productBytes());
}

double RecurrentLayer::flops() const {
  double columns = 0;
  for (const Direction& d : parts)
    columns += static_cast<double>(d.input.size(1) + output) * static_cast<double>(gates()) +
               (d.projection.defined() ? static_cast<double>(d.projection.numel()) : 0.0);
  return 2.0 * static_cast<double>(steps * batch) * columns;
}

void RecurrentLayer::prepare(WeightStore& store, const ProductPrecision& precision) {
  auto pack = [&](const Tensor& weight, Tensor& memory) {
    const WeightStorage storage = fitting(precision.weights, [&] { return weight; });
    return packed(store, weight, {storage, precision.roundsRows}, memory);
  };
  // Each step would bring weights to f32 again. Those that a core's cache does not hold are read faster as they are.
  constexpr int64_t kCached = 1 << 20;
  auto packHidden = [&](const Tensor& weight, Tensor& memory) {
    if (steps == 1 || weight.numel() * static_cast<int64_t>(sizeof(float)) > kCached) return pack(weight, memory);
    return packed(store, weight, {}, memory);
  };
  for (Direction& d : parts) {
    d.packedInput = pack(d.input, d.memory[0]);
    d.packedHidden = packHidden(d.hidden, d.memory[1]);
    if (d.projection.defined()) d.packedProjection = pack(d.projection, d.memory[2]);
    // GRU takes a part of the state's bias times a gate: it stays with the state.
    const bool apart = cell == RecurrentCell::Gru;
    d.bias = paddedSum(d.inputBias, apart ? Tensor() : d.hiddenBias);
    d.stateBias = apart ? paddedSum(d.hiddenBias, {}) : Tensor();
  }
}

void RecurrentLayer::run(Frame& frame) const {
  const int64_t rows = steps * batch, width = directions * output;
  auto* gatesOfAll = reinterpret_cast<float*>(frame.workspace());
  auto* between = reinterpret_cast<float*>(frame.workspace() + floatBytes(rows * directions * gates()));
  std::byte* products = frame.workspace() + workspace() - productBytes();
  auto strides = [&](int64_t floats, int64_t& step, int64_t& row) {
    step = (batchFirst ? 1 : batch) * floats;
    row = (batchFirst ? steps : 1) * floats;
  };
  const bool hasCell = cell == RecurrentCell::Lstm;
  const size_t states = givesSequence ? 1 : 0;
  const float* in = frame.data<float>(inputs[0]);
  for (int64_t layer = 0; layer < layers; ++layer) {
    float* out = !givesSequence ? nullptr : layer + 1 < layers ? between : frame.data<float>(outputs[0]);
    SmallVector<RecurrentRun, 2> runs;
    for (int64_t way = 0; way < directions; ++way) {
      const int64_t i = layer * directions + way;
      const Direction& d = parts[static_cast<size_t>(i)];
      float* own = gatesOfAll + way * rows * gates();
      Epilogue epilogue;
      epilogue.bias = dataOrNull(d.bias);
      gemm(rows, in, d.packedInput.k, d.packedInput, own, gates(), epilogue, products, frame.threads());
      RecurrentRun r{};
      r.cell = cell;
      r.steps = steps;
      r.batch = batch;
      r.hidden = hidden;
      r.output = output;
      r.backwards = way == 1;
      r.weights = d.packedHidden;
      r.bias = dataOrNull(d.stateBias);
      r.projection = d.packedProjection;
      r.gates = own;
      strides(gates(), r.gatesStep, r.gatesRow);
      r.out = out ? out + way * output : nullptr;
      strides(width, r.outStep, r.outRow);
      r.firstHidden = frame.data<float>(inputs[1]) + i * batch * output;
      r.lastHidden = frame.data<float>(outputs[states]) + i * batch * output;
      if (hasCell) {
        r.firstCell = frame.data<float>(inputs[2]) + i * batch * hidden;
        r.lastCell = frame.data<float>(outputs[states + 1]) + i * batch * hidden;
      }
      runs.push_back(r);
    }
    runRecurrent({runs.data(), runs.size()}, frame.threads());
    in = between;
  }
}

// ---- converters ----

namespace {

bool hasSizes(const Tensor& t, std::initializer_list<int64_t> sizes) {
  return std::equal(sizes.begin(), sizes.end(), t.sizes().begin(), t.sizes().end());
}

// Whether weights of the layer are constants that fit each other.
bool fits(const RecurrentLayer& layer) {
  const int64_t gates = gatesOf(layer.cell) * layer.hidden;
  for (size_t i = 0; i < layer.parts.size(); ++i) {
    const RecurrentLayer::Direction& d = layer.parts[i];
    const int64_t features =
        i < static_cast<size_t>(layer.directions) ? layer.features : layer.directions * layer.output;
    if (!hasSizes(d.input, {gates, features}) || !hasSizes(d.hidden, {gates, layer.output})) return false;
    for (const Tensor& bias : {d.inputBias, d.hiddenBias})
      if (bias.defined() && !hasSizes(bias, {gates})) return false;
    if (d.projection.defined() && !hasSizes(d.projection, {layer.output, layer.hidden})) return false;
  }
  return true;
}

// A weight that is known now and f32; undefined otherwise.
Tensor knownWeight(const IValue& v) {
  if (!v.isTensor() || !v.tensorImpl() || NetworkTensors::isSymbolic(v) || !isF32(v.toTensor())) return {};
  return contiguous(v.toTensor());
}

TensorId stateOperand(ConvertCall& call, const Tensor& t) {
  TensorId id = call.idOf(t);
  return call.network()[id].contiguous ? id : addCopy(call, id);
}

constexpr std::string_view kMisfit = "weights or states do not fit each other";

void addLayer(ConvertCall& call, std::unique_ptr<RecurrentLayer> layer, const std::vector<Tensor>& states) {
  layer->inputs = {contiguousOperand(call, 0)};
  for (const Tensor& t : states) layer->inputs.push_back(stateOperand(call, t));
  for (size_t i = 0; i < states.size() + (layer->givesSequence ? 1 : 0); ++i)
    layer->outputs.push_back(call.makeResult(i));
  call.network().layers.push_back(std::move(layer));
}

// The states, if they are f32 of `rank` dimensions, and the sizes that they tell.
bool readStates(ConvertCall& call, int rank, RecurrentLayer& layer, std::vector<Tensor>& states) {
  if (layer.cell == RecurrentCell::Lstm)
    states = call.tensors(1);
  else
    states = {call.tensor(1)};
  for (const Tensor& t : states)
    if (!t.defined() || !isF32(t) || t.rank() != rank || t.numel() == 0) return false;
  layer.output = states[0].size(rank - 1);
  layer.hidden = states.back().size(rank - 1);
  layer.batch = states[0].size(rank - 2);
  for (const Tensor& t : states)
    if (t.size(rank - 2) != layer.batch || (rank == 3 && t.size(0) != layer.layers * layer.directions)) return false;
  return true;
}

}  // namespace

// (input, state, parameters, has_biases, num_layers, dropout, train, bidirectional, batch_first)
template <RecurrentCell kCell>
void convertRecurrent(ConvertCall& call) {
  Tensor x = call.tensor(0);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  if (x.rank() != 3) return convertToKernel(call, kMisfit);
  if (call.flag(6) && call.number(5) > 0) return convertToKernel(call, "values are dropped");
  auto layer = std::make_unique<RecurrentLayer>(call.node());
  layer->cell = kCell;
  layer->layers = call.integer(4);
  layer->directions = call.flag(7) ? 2 : 1;
  layer->batchFirst = call.flag(8);
  layer->steps = x.size(layer->batchFirst ? 1 : 0);
  layer->features = x.size(2);
  std::vector<Tensor> states;
  if (!readStates(call, 3, *layer, states) || layer->batch != x.size(layer->batchFirst ? 0 : 1))
    return convertToKernel(call, kMisfit);
  const bool hasBiases = call.flag(3), projects = layer->output != layer->hidden;
  const size_t each = 2 + (hasBiases ? 2 : 0) + (projects ? 1 : 0);
  const std::vector<IValue>& parameters = call.argument(2).toList().items;
  if (parameters.size() != each * static_cast<size_t>(layer->layers * layer->directions))
    return convertToKernel(call, kMisfit);
  for (size_t i = 0; i < parameters.size(); i += each) {
    for (size_t k = 0; k < each; ++k)
      if (!knownWeight(parameters[i + k]).defined()) return convertToKernel(call, kWeightUnknown);
    RecurrentLayer::Direction& d = layer->parts.emplace_back();
    d.input = knownWeight(parameters[i]);
    d.hidden = knownWeight(parameters[i + 1]);
    if (hasBiases) {
      d.inputBias = knownWeight(parameters[i + 2]);
      d.hiddenBias = knownWeight(parameters[i + 3]);
    }
    if (projects) d.projection = knownWeight(parameters[i + each - 1]);
  }
  if (!fits(*layer)) return convertToKernel(call, kMisfit);
  addLayer(call, std::move(layer), states);
}

// (input, state, input weights, hidden weights, and their biases)
template <RecurrentCell kCell>
void convertRecurrentCell(ConvertCall& call) {
  Tensor x = call.tensor(0);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  if (x.rank() != 2) return convertToKernel(call, kMisfit);
  auto layer = std::make_unique<RecurrentLayer>(call.node());
  layer->cell = kCell;
  layer->givesSequence = false;
  layer->features = x.size(1);
  std::vector<Tensor> states;
  if (!readStates(call, 2, *layer, states) || layer->batch != x.size(0) || layer->output != layer->hidden)
    return convertToKernel(call, kMisfit);
  RecurrentLayer::Direction d;
  Tensor* weights[] = {&d.input, &d.hidden, &d.inputBias, &d.hiddenBias};
  for (size_t i = 0; i < 4; ++i) {
    if (i >= 2 && call.isNone(i + 2)) continue;
    *weights[i] = knownWeight(call.argument(i + 2));
    if (!weights[i]->defined()) return convertToKernel(call, kWeightUnknown);
  }
  layer->parts.push_back(std::move(d));
  if (!fits(*layer)) return convertToKernel(call, kMisfit);
  addLayer(call, std::move(layer), states);
}

template void convertRecurrent<RecurrentCell::Lstm>(ConvertCall& call);
template void convertRecurrent<RecurrentCell::Gru>(ConvertCall& call);
template void convertRecurrent<RecurrentCell::Tanh>(ConvertCall& call);
template void convertRecurrent<RecurrentCell::Relu>(ConvertCall& call);
template void convertRecurrentCell<RecurrentCell::Lstm>(ConvertCall& call);
template void convertRecurrentCell<RecurrentCell::Gru>(ConvertCall& call);
template void convertRecurrentCell<RecurrentCell::Tanh>(ConvertCall& call);
template void convertRecurrentCell<RecurrentCell::Relu>(ConvertCall& call);

}  // namespace tscompile
