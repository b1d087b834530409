// Recurrent networks: LSTM, GRU and plain ones, as layers over sequences (padded or packed) and as single cells.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/recurrent_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/matmul.h"
#include "runtime/reference/random.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

template <class V>
V sigmoid(V x) {
  return Lane<V>(1) / (Lane<V>(1) + exp(-x));
}

// ---- one step ----

// The weights of one direction of a layer; biases and the projection may be undefined.
struct Weights {
  Tensor input, hidden, inputBias, hiddenBias, projection;
};

// The state of the sequences of a batch, and what one step makes of it. `x` is the input's part of the gates,
// [batch, gates * hidden], bias included; it is written over. `h` and `c` are the state, which is updated.
using Step = void (*)(const Weights& w, const Tensor& x, const Tensor& h, const Tensor& c);

Tensor gate(const Tensor& gates, int64_t index, int64_t size) { return narrowed(gates, 1, index * size, size); }

void addHidden(const Weights& w, const Tensor& x, const Tensor& h) {
  matmulInto(x, h, transposed(w.hidden, 0, 1), 1, 1);
}

void stepLstm(const Weights& w, const Tensor& x, const Tensor& h, const Tensor& c) {
  addHidden(w, x, h);
  int64_t size = c.size(1);
  Tensor in = gate(x, 0, size), forget = gate(x, 1, size), cell = gate(x, 2, size), out = gate(x, 3, size);
  mapTensors<kVectors>(
      c.dtype(), [](auto c, auto i, auto f, auto g) { return sigmoid(f) * c + sigmoid(i) * tanh(g); }, c, c, in, forget,
      cell);
  Tensor target = w.projection.defined() ? in : h;
  mapTensors<kVectors>(
      c.dtype(), [](auto o, auto c) { return sigmoid(o) * tanh(c); }, target, out, c);
  if (w.projection.defined()) matmulInto(h, target, transposed(w.projection, 0, 1));
}

void stepGru(const Weights& w, const Tensor& x, const Tensor& h, const Tensor&) {
  int64_t size = h.size(1);
  Tensor hidden = Tensor::empty(x.dtype(), x.sizes());
  if (w.hiddenBias.defined()) copyTensor(hidden, w.hiddenBias);
  matmulInto(hidden, h, transposed(w.hidden, 0, 1), 1, w.hiddenBias.defined() ? 1 : 0);
  Tensor gates = narrowed(x, 1, 0, 2 * size);
  mapTensors<kVectors>(
      x.dtype(), [](auto a, auto b) { return sigmoid(a + b); }, gates, gates, narrowed(hidden, 1, 0, 2 * size));
  mapTensors<kVectors>(
      x.dtype(),
      [](auto h, auto reset, auto update, auto fromInput, auto fromHidden) {
        auto fresh = tanh(fromInput + reset * fromHidden);
        return (h - fresh) * update + fresh;
      },
      h, h, gate(x, 0, size), gate(x, 1, size), gate(x, 2, size), gate(hidden, 2, size));
}

void stepTanh(const Weights& w, const Tensor& x, const Tensor& h, const Tensor&) {
  addHidden(w, x, h);
  mapTensors<kVectors>(
      x.dtype(), [](auto v) { return tanh(v); }, h, x);
}
void stepRelu(const Weights& w, const Tensor& x, const Tensor& h, const Tensor&) {
  addHidden(w, x, h);
  mapTensors<kFloats>(
      x.dtype(), [](auto v) { return v < 0 ? decltype(v)(0) : v; }, h, x);
}

struct RecurrentNetwork {
  int64_t gates;
  bool hasCell;   // a second state
  bool addsBias;  // the hidden state's bias may be added to the input's part
  Step step;

  // Where the parts of input and state are just added, a row of input without a batch counts for all sequences of the
  // state: so PyTorch computes two-dimensional inputs. Without a cell the state may lack the batch as well.
  bool takesRows() const { return addsBias; }
  bool takesRowsAlone() const { return addsBias && !hasCell; }
};
constexpr RecurrentNetwork kLstm{4, true, true, stepLstm};
constexpr RecurrentNetwork kGru{3, false, false, stepGru};
constexpr RecurrentNetwork kTanh{1, false, true, stepTanh};
constexpr RecurrentNetwork kRelu{1, false, true, stepRelu};

// The input's part of the gates of all steps at once: [rows, gates * hidden].
Tensor projectInput(const RecurrentNetwork& network, const Weights& w, const Tensor& x) {
  Tensor out = Tensor::empty(x.dtype(), Dims{x.size(0), w.input.size(0)});
  bool both = network.addsBias && w.hiddenBias.defined();
  const Tensor& first = w.inputBias.defined() ? w.inputBias : both ? w.hiddenBias : Tensor();
  if (first.defined()) {
    Tensor bias = first;
    if (both && w.inputBias.defined()) {
      bias = Tensor::empty(x.dtype(), first.sizes());
      mapTensors<kFloats>(
          x.dtype(), [](auto a, auto b) { return a + b; }, bias, w.inputBias, w.hiddenBias);
    }
    copyTensor(out, bias);
  }
  matmulInto(out, x, transposed(w.input, 0, 1), 1, first.defined() ? 1 : 0);
  return out;
}

// ---- arguments ----

// Sizes that fit each other are what the shared code below relies on.
void checkWeights(const KernelCall& call, const RecurrentNetwork& network, const Weights& w, int64_t inputSize,
                  int64_t outputSize, int64_t cellSize) {
  auto check = [&](const char* name, const Tensor& t, Dims sizes) {
    if (!t.defined()) return;
    call.require(t.sizes().size() == sizes.size() && std::equal(sizes.begin(), sizes.end(), t.sizes().begin()),
                 "expected {} of sizes {}, got {}", name, dimsText(sizes), dimsText(t.sizes()));
  };
  int64_t rows = network.gates * cellSize;
  call.require(w.input.rank() != 2 || w.input.size(1) == inputSize,
               "input has inconsistent input_size: got {} expected {}", inputSize,
               w.input.rank() == 2 ? w.input.size(1) : 0);
  check("input weights", w.input, Dims{rows, inputSize});
  check("hidden weights", w.hidden, Dims{rows, outputSize});
  check("an input bias", w.inputBias, Dims{rows});
  check("a hidden bias", w.hiddenBias, Dims{rows});
  check("projection weights", w.projection, Dims{outputSize, cellSize});
}

Tensor weightTensor(const KernelCall& call, const Tensor& t, DType stored) {
  call.require(t.defined(), "a weight is None");
  call.require(t.dtype() == stored, "the weights must be {} as the input is, not {}", pythonName(stored),
               pythonName(t.dtype()));
  return denseTensor(t);
}

// A run of layers: arguments are the input (and the batch sizes if packed), the state, parameters, has_biases,
// num_layers, dropout, train, bidirectional, and batch_first unless packed.
struct Layers {
  Layers(const KernelCall& call, const RecurrentNetwork& network, bool packed);
  void readWeights(const KernelCall& call, size_t at, bool hasBiases, DType stored);
  void readBatches(const KernelCall& call, const Tensor& input);
  // The output of the last layer, [rows, directions * size]; the states become the final ones.
  Tensor run(const KernelCall& call) const;
  void runDirection(const Weights& w, const Tensor& gates, const Tensor& out, const Tensor& h, const Tensor& c,
                    bool backwards) const;

  const RecurrentNetwork& network;
  Tensor input;                  // [rows, features]: the steps' batches one after the other
  Tensor h, c;                   // copies of the state
  std::vector<Weights> weights;  // of each layer: forwards, backwards
  Dims batches;                  // the number of sequences at each step
  int64_t layers, directions;
  double dropout;
  bool train;
  bool alone;  // neither input nor state have a batch
};

void Layers::readWeights(const KernelCall& call, size_t at, bool hasBiases, DType stored) {
  std::vector<Tensor> parameters = call.tensors(at);
  bool projects = network.hasCell && h.size(2) != c.size(2);
  size_t each = 2 + (hasBiases ? 2 : 0) + (projects ? 1 : 0);
  auto count = static_cast<size_t>(layers * directions);
  call.require(parameters.size() == each * count, "got an incorrect number of RNN parameters: expected {}, found {}",
               each * count, parameters.size());
  for (size_t i = 0; i < parameters.size(); i += each) {
    auto take = [&](size_t k) { return weightTensor(call, parameters[i + k], stored); };
    Weights w{take(0), take(1), {}, {}, {}};
    if (hasBiases) w.inputBias = take(2), w.hiddenBias = take(3);
    if (projects) w.projection = take(each - 1);
    weights.push_back(w);
  }
  int64_t outputSize = h.size(2), cellSize = network.hasCell ? c.size(2) : outputSize;
  for (size_t i = 0; i < count; ++i) {
    bool first = i < static_cast<size_t>(directions);
    checkWeights(call, network, weights[i], first ? input.size(1) : directions * outputSize, outputSize, cellSize);
  }
}

// The second argument of packed sequences: how many of them, longest first, are as long as each step.
void Layers::readBatches(const KernelCall& call, const Tensor& data) {
  Tensor sizes = convertTensor(call.tensor(1), DType::Int64);
  call.require(call.tensor(1).dtype() == DType::Int64 && sizes.rank() == 1,
               "the batch sizes must be a 1D int64 tensor");
  int64_t rows = 0;
  for (int64_t i = 0; i < sizes.numel(); ++i) {
    int64_t n = sizes.data<int64_t>()[i];
    call.require(n > 0 && n <= (i ? batches.back() : h.size(1)),
                 "the batch sizes must not increase, from the state's {} on; number {} is {}", h.size(1), i, n);
    batches.push_back(n);
    rows += n;
    call.require(rows <= data.size(0), "the batch sizes need more than the {} rows of the data", data.size(0));
  }
  call.require(batches.empty() || batches[0] == h.size(1), "the state is of {} sequences, the data of {}", h.size(1),
               batches.empty() ? 0 : batches[0]);
  input = narrowed(data, 0, 0, rows);
}

Layers::Layers(const KernelCall& call, const RecurrentNetwork& network, bool packed) : network(network) {
  size_t state = packed ? 2 : 1;
  Tensor data = call.tensor(0);
  std::vector<Tensor> states = network.hasCell ? call.tensors(state) : std::vector<Tensor>{call.tensor(state)};
  layers = call.integer(state + 3);
  directions = call.flag(state + 6) ? 2 : 1;
  dropout = call.number(state + 4);
  train = call.flag(state + 5);
  alone = states[0].rank() == 2;
  Dims stateSizes(states[0].sizes());
  if (alone) stateSizes = Dims{states[0].size(0), 1, states[0].size(1)};
  h = cloneTensor(weightTensor(call, states[0], data.dtype()))
          .withGeometry(stateSizes, contiguousStrides(stateSizes), 0);
  if (network.hasCell) c = cloneTensor(weightTensor(call, states[1], data.dtype()));
  if (packed) {
    readBatches(call, denseTensor(data));
  } else {
    if (call.flag(8)) data = transposed(data, 0, 1);
    if (data.rank() == 2)
      data = data.withGeometry(Dims{data.size(0), h.size(1), data.size(1)}, Dims{data.stride(0), 0, data.stride(1)},
                               data.offset());
    batches = Dims(static_cast<size_t>(data.size(0)), data.size(1));
    input = reshaped(denseTensor(data), Dims{data.size(0) * data.size(1), data.size(2)});
  }
  call.require(!batches.empty(), "expected a sequence length larger than 0, got 0");
  readWeights(call, state + 1, call.flag(state + 2), call.tensor(0).dtype());
}

void Layers::runDirection(const Weights& w, const Tensor& gates, const Tensor& out, const Tensor& h, const Tensor& c,
                          bool backwards) const {
  auto steps = static_cast<int64_t>(batches.size());
  int64_t row = backwards ? gates.size(0) : 0;
  for (int64_t i = 0; i < steps; ++i) {
    int64_t n = batches[static_cast<size_t>(backwards ? steps - 1 - i : i)];
    if (backwards) row -= n;
    Tensor state = narrowed(h, 0, 0, n), cell = c.defined() ? narrowed(c, 0, 0, n) : c;
    network.step(w, narrowed(gates, 0, row, n), state, cell);
    copyTensor(narrowed(out, 0, row, n), state);
    if (!backwards) row += n;
    RunContext::current().checkInterrupt(n * gates.size(1));
  }
}

void zeroAtRandom(const KernelCall& call, const Tensor& t, double p) {
  Tensor kept = Tensor::empty(t.dtype(), t.sizes());
  drawBernoulli(kept, call.context().random(), 1 - p);
  double scale = p == 1 ? 0 : 1 / (1 - p);
  mapTensors<kFloats>(
      t.dtype(), [=](auto x, auto k) { return x * (k * decltype(x)(scale)); }, t, t, kept);
}

Tensor Layers::run(const KernelCall& call) const {
  Tensor x = input;
  int64_t size = h.size(2);
  for (int64_t layer = 0; layer < layers; ++layer) {
    Tensor out = Tensor::empty(x.dtype(), Dims{x.size(0), directions * size});
    for (int64_t d = 0; d < directions; ++d) {
      int64_t i = layer * directions + d;
      const Weights& w = weights[static_cast<size_t>(i)];
      runDirection(w, projectInput(network, w, x), narrowed(out, 1, d * size, size), selected(h, 0, i),
                   c.defined() ? selected(c, 0, i) : c, d == 1);
    }
    x = out;
    if (train && dropout > 0 && layer + 1 < layers) zeroAtRandom(call, x, dropout);
  }
  return x;
}

// ---- layers ----

// Engines would compute 16 bits beside f32 in f32, so it is refused before kernels are asked.
void requireDType(const InferCall& call, std::string_view what, const TensorInfo& t, DType stored) {
  call.require(t.dtype == stored || t.dtype == DType::Undefined || stored == DType::Undefined,
               "the {} must be {} as the input is, not {}", what, pythonName(stored), pythonName(t.dtype));
}

void checkState(const InferCall& call, const TensorInfo& t, int64_t count, bool mayBeAlone) {
  if (!t.hasRank) return;
  call.require(t.rank() == 3 || (mayBeAlone && t.rank() == 2), "the state must have 3 dimensions, not {}", t.rank());
  call.require(!differ(t.sizes[0], count), "the state is of {} layers and directions, expected {}", t.sizes[0], count);
}

template <const RecurrentNetwork& kNetwork, bool kPacked>
void inferLayers(InferCall& call) {
  constexpr size_t kState = kPacked ? 2 : 1, kRank = kPacked ? 2 : 3;
  TensorInfo x = call.tensor(0);
  bool isRows = !kPacked && kNetwork.takesRows() && x.hasRank && x.rank() == 2;
  call.require(!x.hasRank || x.rank() == kRank || isRows, "the input must have {} dimensions, not {}", kRank, x.rank());
  int64_t layers = call.integer(kState + 3), directions = call.flag(kState + 6) ? 2 : 1;
  double p = call.number(kState + 4);
  call.require(layers > 0 && layers <= INT32_MAX, "expected one layer at least, got {}", layers);
  call.require(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got {}", p);
  std::vector<TensorInfo> states;
  if (kNetwork.hasCell) {
    states = call.tensors(kState);
    call.require(states.size() == 2, "lstm expects two hidden states, got {}", states.size());
  } else {
    states.push_back(call.tensor(kState));
  }
  bool mayBeAlone = kNetwork.takesRowsAlone() && (isRows || !x.hasRank);
  for (const TensorInfo& t : states) checkState(call, t, layers * directions, mayBeAlone);
  for (const TensorInfo& t : states) requireDType(call, "state", t, x.dtype);
  if (call.isRun())
    for (const std::optional<TensorInfo>& t : call.optionalTensors(kState + 1))
      if (t) requireDType(call, "weights", *t, x.dtype);
  const TensorInfo& h = states[0];
  if (x.hasRank && h.hasRank) {
    Dims sizes(x.sizes);
    int64_t outputSize = elementCount(Dims{h.sizes.back(), directions}).size();
    if (isRows) {
      bool batchFirst = call.flag(8);
      int64_t steps = x.sizes[batchFirst ? 1 : 0];
      if (h.rank() == 2)
        sizes = batchFirst ? Dims{outputSize, steps} : Dims{steps, outputSize};
      else
        sizes = batchFirst ? Dims{h.sizes[1], steps, outputSize} : Dims{steps, h.sizes[1], outputSize};
    } else {
      sizes.back() = outputSize;
    }
    if (kPacked) {
      sizes[0] = kUnknownSize;
    } else if (!isRows) {
      int64_t batch = sizes[call.flag(8) ? 0 : 1];
      for (const TensorInfo& t : states)
        call.require(!t.hasRank || !differ(t.sizes[1], batch), "the state is of {} sequences, the input of {}",
                     t.sizes[1], batch);
    }
    if (kNetwork.hasCell && states[1].hasRank)
      call.require(!differ(h.sizes[1], states[1].sizes[1]), "the two states are of {} and {} sequences", h.sizes[1],
                   states[1].sizes[1]);
    call.result(x.dtype, sizes);
  } else {
    call.resultOfUnknownRank(x.dtype);
  }
  for (const TensorInfo& t : states) call.result(t);
}

template <const RecurrentNetwork& kNetwork, bool kPacked>
void layersKernel(KernelCall& call) {
  Layers layers(call, kNetwork, kPacked);
  DType dtype = call.tensor(0).dtype();
  Tensor out = convertTensor(layers.run(call), dtype);
  if (!kPacked) {
    auto steps = static_cast<int64_t>(layers.batches.size());
    out = reshaped(out, layers.alone ? Dims{steps, out.size(1)} : Dims{steps, layers.batches[0], out.size(1)});
    if (call.flag(8)) out = transposed(out, 0, 1);
  }
  call.setResult(0, out);
  if (layers.alone) layers.h = reshaped(layers.h, Dims{layers.h.size(0), layers.h.size(2)});
  call.setResult(1, convertTensor(layers.h, dtype));
  if (kNetwork.hasCell) call.setResult(2, convertTensor(layers.c, dtype));
}

// ---- cells: input, state, input weights, hidden weights, and their biases ----

template <const RecurrentNetwork& kNetwork>
void inferCell(InferCall& call) {
  TensorInfo x = call.tensor(0);
  std::vector<TensorInfo> states;
  if (kNetwork.hasCell) {
    states = call.tensors(1);
    call.require(states.size() == 2, "lstm_cell expects two hidden states, got {}", states.size());
  } else {
    states.push_back(call.tensor(1));
  }
  call.require(!x.hasRank || x.rank() == 2, "the input must have 2 dimensions, not {}", x.rank());
  for (const TensorInfo& t : states) {
    if (!t.hasRank) continue;
    call.require(t.rank() == 2, "the state must have 2 dimensions, not {}", t.rank());
    call.require(!x.hasRank || !differ(t.sizes[0], x.sizes[0]), "the state is of {} sequences, the input of {}",
                 t.sizes[0], x.hasRank ? x.sizes[0] : 0);
  }
  for (const TensorInfo& t : states) requireDType(call, "state", t, x.dtype);
  for (size_t i = 2; i < 6; ++i)
    if (!call.isNone(i)) requireDType(call, "weights", call.tensor(i), x.dtype);
  // The weights of the state are [gates, hidden].
  const TensorInfo weights = call.tensor(3);
  const int64_t hidden = weights.hasRank && weights.rank() == 2 ? weights.sizes[1] : kUnknownSize;
  for (const TensorInfo& t : states)
    call.require(!t.hasRank || !differ(t.sizes[1], hidden), "the state has {} numbers, the weights {} columns",
                 t.hasRank ? t.sizes[1] : 0, hidden);
  for (const TensorInfo& t : states) call.result(t);
}

template <const RecurrentNetwork& kNetwork>
void cellKernel(KernelCall& call) {
  Tensor x = denseTensor(call.tensor(0));
  DType stored = call.tensor(0).dtype();
  auto optional = [&](size_t i) { return call.isNone(i) ? Tensor() : weightTensor(call, call.tensor(i), stored); };
  Weights w{weightTensor(call, call.tensor(2), stored),
            weightTensor(call, call.tensor(3), stored),
            optional(4),
            optional(5),
            {}};
  std::vector<Tensor> states = kNetwork.hasCell ? call.tensors(1) : std::vector<Tensor>{call.tensor(1)};
  for (Tensor& t : states) t = cloneTensor(weightTensor(call, t, stored));
  Tensor h = states[0], c = kNetwork.hasCell ? states[1] : Tensor();
  checkWeights(call, kNetwork, w, x.size(1), h.size(1), c.defined() ? c.size(1) : h.size(1));
  call.require(!c.defined() || c.size(1) == h.size(1), "the two states are of {} and {} numbers", h.size(1),
               c.defined() ? c.size(1) : 0);
  kNetwork.step(w, projectInput(kNetwork, w, x), h, c);
  call.setResult(0, convertTensor(h, stored));
  if (kNetwork.hasCell) call.setResult(1, convertTensor(c, stored));
}

template <const RecurrentNetwork& kNetwork, RecurrentCell kCell>
void addNetwork(OpRegistry& ops, std::string_view padded, std::string_view packed, std::string_view cell) {
  auto add = [&](std::string_view name, InferFunction infer, KernelFunction kernel, ConvertFunction convert,
                 TraitSet traits) {
    ops.add({.schema = name,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kFloatingTypes,
             .traits = traits,
             .cost = Cost::Layers});
  };
  constexpr TraitSet kLayers{Trait::Random, Trait::RoundsOnce, Trait::OwnStrides};  // steps lie behind each other
  add(padded, inferLayers<kNetwork, false>, layersKernel<kNetwork, false>, convertRecurrent<kCell>, kLayers);
  add(packed, inferLayers<kNetwork, true>, layersKernel<kNetwork, true>, nullptr, kLayers);
  add(cell, inferCell<kNetwork>, cellKernel<kNetwork>, convertRecurrentCell<kCell>, {Trait::RoundsOnce});
}

}  // namespace

void registerRecurrentOps(OpRegistry& ops) {
  addNetwork<kLstm, RecurrentCell::Lstm>(ops, "aten::lstm.input", "aten::lstm.data", "aten::lstm_cell");
  addNetwork<kGru, RecurrentCell::Gru>(ops, "aten::gru.input", "aten::gru.data", "aten::gru_cell");
  addNetwork<kTanh, RecurrentCell::Tanh>(ops, "aten::rnn_tanh.input", "aten::rnn_tanh.data", "aten::rnn_tanh_cell");
  addNetwork<kRelu, RecurrentCell::Relu>(ops, "aten::rnn_relu.input", "aten::rnn_relu.data", "aten::rnn_relu_cell");
}

}  // namespace tscompile
