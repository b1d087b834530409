// Recurrent layers whose products are quantised dynamically.
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/engine/layers/quantized_recurrent_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/quantized/product_grid.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/quantized.h"

#include <algorithm>
#include <optional>

namespace tscompile {
namespace {

// Carries out operators: at once, or, given an engine's call, as its layers.
struct Operators {
  const KernelCall& call;
  ConvertCall* layers = nullptr;

  Tensor operator()(std::string_view name, std::initializer_list<IValue> arguments) const {
    return layers ? layers->compute(name, arguments).toTensor() : invokeTensor(call, name, arguments);
  }
  Tensor add(const Tensor& a, const Tensor& b) const { return (*this)("aten::add.Tensor", {a, b, 1}); }
  Tensor mul(const Tensor& a, const Tensor& b) const { return (*this)("aten::mul.Tensor", {a, b}); }
  Tensor sigmoid(const Tensor& t) const { return (*this)("aten::sigmoid", {t}); }
  Tensor tanh(const Tensor& t) const { return (*this)("aten::tanh", {t}); }
  Tensor selected(const Tensor& t, int64_t i) const { return (*this)("aten::select.int", {t, 0, i}); }
  Tensor stacked(std::vector<Tensor> parts) const { return (*this)("aten::stack", {tensorList(std::move(parts)), 0}); }
  std::vector<Tensor> chunks(const Tensor& t, int64_t count) const {
    const int64_t size = t.size(t.rank() - 1);
    call.require(size % count == 0, "expected a weight with {} gates", count);
    std::vector<Tensor> out;
    for (int64_t i = 0; i < count; ++i)
      out.push_back((*this)("aten::narrow", {t, -1, i * (size / count), size / count}));
    return out;
  }
};

// One of the products of a cell: with integers, or with what float16 holds.
class CellProduct {
 public:
  CellProduct(const Operators& op, IValue packed, bool isReduced)
      : op_(op), packed_(std::move(packed)), isReduced_(isReduced) {
    PackedWeight w = unpacked(packed_);
    isQuantized_ = isQuantized(w.weight.dtype());
    if (isQuantized_ && !op.layers) atOnce_.emplace(op.call, std::move(w));
  }
  Tensor operator()(const Tensor& x) const {
    if (atOnce_) return (*atOnce_)(op_.call, x, isReduced_);
    return isQuantized_ ? op_("quantized::linear_dynamic", {x, packed_, isReduced_})
                        : op_("quantized::linear_dynamic_fp16", {x, packed_});
  }
  PackedWeight weight() const { return unpacked(packed_); }

 private:
  const Operators& op_;
  IValue packed_;
  bool isReduced_, isQuantized_;
  std::optional<DynamicProduct> atOnce_;
};

struct Cell {
  Cell(const Operators& op, const IValue& parameters)
      : Cell(op, attributeOf(parameters, "w_ih"), attributeOf(parameters, "w_hh"),
             attributeOf(parameters, "reduce_range").toBool()) {}
  Cell(const Operators& op, IValue input, IValue hidden, bool isReduced)
      : op(op),
        isReduced(isReduced),
        ofInput(op, std::move(input), isReduced),
        ofHidden(op, std::move(hidden), isReduced) {}

  // The gates are those of the input, already multiplied.
  std::pair<Tensor, Tensor> lstm(const Tensor& gates, const Tensor& h, const Tensor& c) const {
    std::vector<Tensor> parts = op.chunks(op.add(ofHidden(h), gates), 4);
    Tensor in = op.sigmoid(parts[0]), forget = op.sigmoid(parts[1]), out = op.sigmoid(parts[3]);
    Tensor next = op.add(op.mul(forget, c), op.mul(in, op.tanh(parts[2])));
    return {op.mul(out, op.tanh(next)), next};
  }
  Tensor gru(const Tensor& gates, const Tensor& h) const {
    std::vector<Tensor> of = op.chunks(gates, 3), kept = op.chunks(ofHidden(h), 3);
    Tensor reset = op.sigmoid(op.add(kept[0], of[0])), update = op.sigmoid(op.add(kept[1], of[1]));
    Tensor fresh = op.tanh(op.add(of[2], op.mul(kept[2], reset)));
    Tensor difference = op("aten::sub.Tensor", {h, fresh, 1});
    return op.add(op.mul(difference, update), fresh);
  }
  Tensor plain(const Tensor& gates, const Tensor& h, bool relu) const {
    Tensor sum = op.add(ofHidden(h), gates);
    return relu ? op("aten::relu", {sum}) : op.tanh(sum);
  }

  const Operators& op;
  bool isReduced;
  CellProduct ofInput, ofHidden;
};

// ---- networks ----

// What the steps of one direction of one layer give.
struct Sequence {
  Tensor all, hidden, memory;
};

Sequence runSteps(const Cell& cell, const Tensor& gates, Tensor h, Tensor c, bool backwards) {
  std::vector<Tensor> steps(static_cast<size_t>(gates.size(0)));
  for (size_t i = 0; i < steps.size(); ++i) {
    const size_t at = backwards ? steps.size() - 1 - i : i;
    Tensor of = cell.op.selected(gates, static_cast<int64_t>(at));
    if (c.defined())
      std::tie(h, c) = cell.lstm(of, h, c);
    else
      h = cell.gru(of, h);
    steps[at] = h;
  }
  return {cell.op.stacked(std::move(steps)), h, c};
}

// A layer of an engine that does the same.
Sequence addSteps(ConvertCall& call, const Cell& cell, const Tensor& gates, const Tensor& h, const Tensor& c,
                  bool backwards) {
  const PackedWeight w = cell.ofHidden.weight();
  auto layer = std::make_unique<QuantizedRecurrentLayer>(call.node());
  layer->cell = c.defined() ? RecurrentCell::Lstm : RecurrentCell::Gru;
  layer->steps = gates.size(0);
  layer->batch = gates.size(1);
  layer->hidden = h.size(1);
  layer->backwards = backwards;
  layer->isReduced = cell.isReduced;
  if (w.bias.defined()) layer->bias = contiguous(convertTensor(w.bias, DType::Float32));
  if (isQuantized(w.weight.dtype())) {
    layer->weight = stepsOf(w.weight);
    layer->scales = Tensor::empty(DType::Float32, Dims{channelsOf(w)});
    std::ranges::copy(scalesOf(call, w), layer->scales.data<float>());
    layer->holdIntegers(w.weight, ", of integers", dynamicArithmetic(w, layer->weight));
  } else {
    layer->weight = contiguous(w.weight);
  }
  auto result = [&](DimSpan sizes) {
    Tensor made = call.makeTensor(DType::Float32, sizes);
    layer->outputs.push_back(call.idOf(made));
    return made;
  };
  auto operand = [&](const Tensor& t) {
    TensorId id = call.idOf(t);
    layer->inputs.push_back(call.network()[id].contiguous ? id : addCopy(call, id));
  };
  operand(gates);
  operand(h);
  if (c.defined()) operand(c);
  Sequence made{result(Dims{gates.size(0), gates.size(1), h.size(1)}), result(h.sizes()), {}};
  if (c.defined()) made.memory = result(c.sizes());
  call.network().layers.push_back(std::move(layer));
  return made;
}

// All layers and directions over [time, batch, features].
struct Network {
  Operators op;
  bool bidirectional;
  std::vector<IValue> cells;
  Tensor hidden, memory;  // [layers * directions, batch, features]; a GRU has no memory
  std::vector<Tensor> lastHidden, lastMemory;

  Tensor run(Tensor x) {
    int64_t directions = bidirectional ? 2 : 1, count = static_cast<int64_t>(cells.size());
    for (int64_t i = 0; i < count; i += directions) {
      Tensor forward = layer(x, i, false);
      x = bidirectional ? op("aten::cat", {tensorList({forward, layer(x, i + 1, true)}), int64_t{2}}) : forward;
    }
    return x;
  }

 private:
  Tensor layer(const Tensor& x, int64_t index, bool backwards) {
    Cell cell(op, cells[static_cast<size_t>(index)]);
    // Of the whole sequence at once, as PyTorch quantises it.
    Tensor gates = cell.ofInput(x), h = op.selected(hidden, index);
    Tensor c = memory.defined() ? op.selected(memory, index) : Tensor();
    Sequence made =
        op.layers ? addSteps(*op.layers, cell, gates, h, c, backwards) : runSteps(cell, gates, h, c, backwards);
    lastHidden.push_back(made.hidden);
    if (c.defined()) lastMemory.push_back(made.memory);
    return made.all;
  }
};

Tensor turned(const Operators& op, const Tensor& t, bool batchFirst) {
  return batchFirst ? op("aten::transpose.int", {t, 0, 1}) : t;
}

// (input, state, params, has_biases, layers, dropout, train, bidirectional, batch_first, ...)
template <bool kLstm>
Network networkOf(const KernelCall& call, ConvertCall* layers) {
  call.require(!call.flag(6) || call.number(5) == 0,
               "dropout between quantised layers is not implemented for training");
  call.require(call.argument(2).isList(), "expected a list of cells");
  Network network{.op = {call, layers},
                  .bidirectional = call.flag(7),
                  .cells = call.argument(2).toList().items,
                  .hidden = {},
                  .memory = {},
                  .lastHidden = {},
                  .lastMemory = {}};
  if (kLstm) {
    std::vector<Tensor> states = call.tensors(1);
    call.require(states.size() == 2, "expected two states");
    network.hidden = states[0];
    network.memory = states[1];
  } else {
    network.hidden = call.tensor(1);
  }
  const size_t count = network.cells.size();
  call.require(count % (network.bidirectional ? 2 : 1) == 0 && network.hidden.defined() && network.hidden.rank() == 3 &&
                   network.hidden.size(0) == static_cast<int64_t>(count),
               "the state does not fit {} cells", count);
  return network;
}

template <bool kLstm>
void runNetwork(KernelCall& call, Network network) {
  const bool batchFirst = call.flag(8);
  Tensor x = turned(network.op, call.tensor(0), batchFirst);
  call.require(x.rank() == 3 && x.size(0) > 0, "expected an input of three dimensions, not {}", dimsText(x.sizes()));
  Tensor out = network.run(x);
  call.setResult(0, turned(network.op, out, batchFirst));
  call.setResult(1, network.op.stacked(network.lastHidden));
  if (kLstm) call.setResult(2, network.op.stacked(network.lastMemory));
}

template <bool kLstm>
void networkKernel(KernelCall& call) {
  runNetwork<kLstm>(call, networkOf<kLstm>(call, nullptr));
}

bool hasSizes(const Tensor& t, std::initializer_list<int64_t> sizes) {
  return t.defined() && t.dtype() == DType::Float32 && t.numel() > 0 &&
         std::equal(sizes.begin(), sizes.end(), t.sizes().begin(), t.sizes().end());
}

// Whether integers, or what float16 holds, of [rows, columns] can be multiplied by layers.
bool isWeight(const IValue& packed, int64_t rows, int64_t columns) {
  const PackedWeight w = unpacked(packed);
  if (w.weight.rank() != 2 || w.weight.size(0) != rows || w.weight.size(1) != columns) return false;
  if (w.bias.defined() && w.bias.numel() != rows) return false;
  if (!isQuantized(w.weight.dtype())) return w.weight.dtype() == DType::Float32;
  const Quantization& q = quantizationOf(w.weight);
  if (!q.isPerTensor() && q.axis != 0) return false;
  const ExactArithmetic exact = dynamicArithmetic(w, stepsOf(w.weight));
  return exact.floats || exact.integers;
}

// Whether the network is one of layers: others are left to the kernel, which says what is wrong with them.
template <bool kLstm>
bool hasLayers(const ConvertCall& call) {
  constexpr int64_t kGates = kLstm ? 4 : 3;
  if (call.isNetworkTensor(2) || call.flag(6)) return false;
  const Network network = networkOf<kLstm>(call, nullptr);
  const Tensor &x = call.tensor(0), &h = network.hidden;
  if (x.rank() != 3) return false;
  const int64_t batch = x.size(call.flag(8) ? 0 : 1), count = h.size(0), hidden = h.size(2);
  if (!hasSizes(x, {x.size(0), x.size(1), x.size(2)}) || !hasSizes(h, {count, batch, hidden})) return false;
  if (kLstm && !hasSizes(network.memory, {count, batch, hidden})) return false;
  const int64_t directions = network.bidirectional ? 2 : 1;
  for (int64_t i = 0; i < count; ++i) {
    const IValue& cell = network.cells[static_cast<size_t>(i)];
    const int64_t features = i < directions ? x.size(2) : directions * hidden;
    if (!isWeight(attributeOf(cell, "w_ih"), kGates * hidden, features) ||
        !isWeight(attributeOf(cell, "w_hh"), kGates * hidden, hidden))
      return false;
  }
  return true;
}

template <bool kLstm>
void convertNetwork(ConvertCall& call) {
  if (!hasLayers<kLstm>(call)) return convertQuantizedToKernel(call);
  runNetwork<kLstm>(call, networkOf<kLstm>(call, &call));
}

// ---- one step ----

// (input, state, w_ih, w_hh, b_ih, b_hh): the biases are in the packed weights. PyTorch reduces the range.
void lstmStep(KernelCall& call, const Operators& op) {
  Cell cell(op, call.argument(2), call.argument(3), true);
  std::vector<Tensor> states = call.tensors(1);
  call.require(states.size() == 2, "expected two states");
  auto [h, c] = cell.lstm(cell.ofInput(call.tensor(0)), states[0], states[1]);
  call.setResult(0, h);
  call.setResult(1, c);
}
void gruStep(KernelCall& call, const Operators& op) {
  Cell cell(op, call.argument(2), call.argument(3), true);
  call.setResult(cell.gru(cell.ofInput(call.tensor(0)), call.tensor(1)));
}
template <bool kRelu>
void plainStep(KernelCall& call, const Operators& op) {
  Cell cell(op, call.argument(2), call.argument(3), true);
  call.setResult(cell.plain(cell.ofInput(call.tensor(0)), call.tensor(1), kRelu));
}

using Step = void (*)(KernelCall& call, const Operators& op);
template <Step kStep>
void stepKernel(KernelCall& call) {
  kStep(call, {call});
}
// The same operators as layers.
template <Step kStep>
void convertStep(ConvertCall& call) {
  kStep(call, {call, &call});
}

void makeDynamicCell(KernelCall& call) {
  call.setResult(packCell(call.argument(0), call.argument(1), call.size() > 4 && call.flag(4)));
}
void makeHalfCell(KernelCall& call) { call.setResult(packCell(call.argument(0), call.argument(1), false)); }

}  // namespace

void registerQuantizedRecurrentOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, KernelFunction kernel, ConvertFunction convert) {
    ops.add({.schema = schema, .kernel = kernel, .convert = convert, .traits = {Trait::OwnStrides}});
  };
  add("aten::quantized_lstm.input", networkKernel<true>, convertNetwork<true>);
  add("aten::quantized_gru.input", networkKernel<false>, convertNetwork<false>);
  add("quantized::quantized_lstm_cell_dynamic", stepKernel<lstmStep>, convertStep<lstmStep>);
  add("quantized::quantized_gru_cell_dynamic", stepKernel<gruStep>, convertStep<gruStep>);
  add("quantized::quantized_rnn_relu_cell_dynamic", stepKernel<plainStep<true>>, convertStep<plainStep<true>>);
  add("quantized::quantized_rnn_tanh_cell_dynamic", stepKernel<plainStep<false>>, convertStep<plainStep<false>>);
  add("quantized::make_quantized_cell_params_dynamic", makeDynamicCell, convertQuantizedToKernel);
  add("quantized::make_quantized_cell_params_fp16", makeHalfCell, convertQuantizedToKernel);
}

}  // namespace tscompile
