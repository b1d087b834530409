// Recurrent layers whose products are quantised dynamically.
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/quantized/packed_params.h"
#include "runtime/reference/loops/copy.h"

namespace tscompile {
namespace {

class Cell {
 public:
  Cell(const KernelCall& call, const IValue& parameters)
      : call_(call), input_(attributeOf(parameters, "w_ih")), hidden_(attributeOf(parameters, "w_hh")) {}
  Cell(const KernelCall& call, IValue input, IValue hidden)
      : call_(call), input_(std::move(input)), hidden_(std::move(hidden)) {}

  Tensor ofInput(const Tensor& x) const { return product(input_, x); }
  Tensor ofHidden(const Tensor& h) const { return product(hidden_, h); }

  // The gates are those of the input, already multiplied.
  std::pair<Tensor, Tensor> lstm(const Tensor& gates, const Tensor& h, const Tensor& c) const {
    std::vector<Tensor> parts = chunks(add(ofHidden(h), gates), 4);
    Tensor in = sigmoid(parts[0]), forget = sigmoid(parts[1]), out = sigmoid(parts[3]);
    Tensor next = add(mul(forget, c), mul(in, tanh(parts[2])));
    return {mul(out, tanh(next)), next};
  }
  Tensor gru(const Tensor& gates, const Tensor& h) const {
    std::vector<Tensor> of = chunks(gates, 3), kept = chunks(ofHidden(h), 3);
    Tensor reset = sigmoid(add(kept[0], of[0])), update = sigmoid(add(kept[1], of[1]));
    Tensor fresh = tanh(add(of[2], mul(kept[2], reset)));
    Tensor difference = invokeTensor(call_, "aten::sub.Tensor", {h, fresh, 1});
    return add(mul(difference, update), fresh);
  }
  Tensor plain(const Tensor& gates, const Tensor& h, bool relu) const {
    Tensor sum = add(ofHidden(h), gates);
    return relu ? invokeTensor(call_, "aten::relu", {sum}) : tanh(sum);
  }

 private:
  Tensor product(const IValue& packed, const Tensor& x) const {
    if (isQuantized(unpacked(packed).weight.dtype()))
      return invokeTensor(call_, "quantized::linear_dynamic", {x, packed, false});
    return invokeTensor(call_, "quantized::linear_dynamic_fp16", {x, packed});
  }
  std::vector<Tensor> chunks(const Tensor& t, int64_t count) const {
    IValue parts = invoke(call_, "aten::chunk", {t, count, int64_t{t.rank() - 1}});
    std::vector<Tensor> out;
    for (const IValue& v : parts.toList().items) out.push_back(v.toTensor());
    call_.require(static_cast<int64_t>(out.size()) == count, "expected a weight with {} gates", count);
    return out;
  }
  Tensor add(const Tensor& a, const Tensor& b) const { return invokeTensor(call_, "aten::add.Tensor", {a, b, 1}); }
  Tensor mul(const Tensor& a, const Tensor& b) const { return invokeTensor(call_, "aten::mul.Tensor", {a, b}); }
  Tensor sigmoid(const Tensor& t) const { return invokeTensor(call_, "aten::sigmoid", {t}); }
  Tensor tanh(const Tensor& t) const { return invokeTensor(call_, "aten::tanh", {t}); }

  const KernelCall& call_;
  IValue input_, hidden_;
};

Tensor selected(const KernelCall& call, const Tensor& t, int64_t i) {
  return invokeTensor(call, "aten::select.int", {t, 0, i});
}
Tensor stacked(const KernelCall& call, std::vector<Tensor> parts) {
  return invokeTensor(call, "aten::stack", {tensorList(std::move(parts)), 0});
}

// All layers and directions of a recurrent network over [time, batch, features].
struct Network {
  const KernelCall& call;
  bool bidirectional;
  std::vector<IValue> cells;
  Tensor hidden, memory;  // [layers * directions, batch, features]; a GRU has no memory
  std::vector<Tensor> lastHidden, lastMemory;

  Tensor run(Tensor x) {
    int64_t directions = bidirectional ? 2 : 1, count = static_cast<int64_t>(cells.size());
    call.require(count % directions == 0 && hidden.defined() && hidden.rank() == 3 && hidden.size(0) == count,
                 "the state does not fit {} cells", count);
    for (int64_t i = 0; i < count; i += directions) {
      Tensor forward = layer(x, i, false);
      x = bidirectional ? invokeTensor(call, "aten::cat", {tensorList({forward, layer(x, i + 1, true)}), int64_t{2}})
                        : forward;
    }
    return x;
  }

 private:
  Tensor layer(const Tensor& x, int64_t index, bool backwards) {
    Cell cell(call, cells[static_cast<size_t>(index)]);
    // Of the whole sequence at once, as PyTorch quantises it.
    Tensor gates = cell.ofInput(x), h = selected(call, hidden, index);
    Tensor c = memory.defined() ? selected(call, memory, index) : Tensor();
    std::vector<Tensor> steps(static_cast<size_t>(x.size(0)));
    for (size_t i = 0; i < steps.size(); ++i) {
      size_t at = backwards ? steps.size() - 1 - i : i;
      Tensor of = selected(call, gates, static_cast<int64_t>(at));
      if (c.defined())
        std::tie(h, c) = cell.lstm(of, h, c);
      else
        h = cell.gru(of, h);
      steps[at] = h;
    }
    lastHidden.push_back(h);
    if (c.defined()) lastMemory.push_back(c);
    return stacked(call, std::move(steps));
  }
};

Tensor turned(const KernelCall& call, const Tensor& t, bool batchFirst) {
  return batchFirst ? invokeTensor(call, "aten::transpose.int", {t, 0, 1}) : t;
}

// (input, state, params, has_biases, layers, dropout, train, bidirectional, batch_first, ...)
template <bool kLstm>
void networkKernel(KernelCall& call) {
  bool batchFirst = call.flag(8);
  call.require(!call.flag(6) || call.number(5) == 0,
               "dropout between quantised layers is not implemented for training");
  Tensor x = turned(call, call.tensor(0), batchFirst);
  call.require(x.rank() == 3 && x.size(0) > 0, "expected an input of three dimensions, not {}", dimsText(x.sizes()));
  call.require(call.argument(2).isList(), "expected a list of cells");
  Network network{.call = call,
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
  Tensor out = network.run(x);
  call.setResult(0, turned(call, out, batchFirst));
  call.setResult(1, stacked(call, network.lastHidden));
  if (kLstm) call.setResult(2, stacked(call, network.lastMemory));
}

// ---- one step ----

// (input, state, w_ih, w_hh, b_ih, b_hh): the biases are in the packed weights.
void lstmStep(KernelCall& call) {
  Cell cell(call, call.argument(2), call.argument(3));
  std::vector<Tensor> states = call.tensors(1);
  call.require(states.size() == 2, "expected two states");
  auto [h, c] = cell.lstm(cell.ofInput(call.tensor(0)), states[0], states[1]);
  call.setResult(0, h);
  call.setResult(1, c);
}
void gruStep(KernelCall& call) {
  Cell cell(call, call.argument(2), call.argument(3));
  call.setResult(cell.gru(cell.ofInput(call.tensor(0)), call.tensor(1)));
}
template <bool kRelu>
void plainStep(KernelCall& call) {
  Cell cell(call, call.argument(2), call.argument(3));
  call.setResult(cell.plain(cell.ofInput(call.tensor(0)), call.tensor(1), kRelu));
}

void makeDynamicCell(KernelCall& call) {
  call.setResult(packCell(call.argument(0), call.argument(1), call.size() > 4 && call.flag(4)));
}
void makeHalfCell(KernelCall& call) { call.setResult(packCell(call.argument(0), call.argument(1), false)); }

}  // namespace

void registerQuantizedRecurrentOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, KernelFunction kernel) {
    ops.add({.schema = schema, .kernel = kernel, .convert = convertQuantizedToKernel, .traits = {Trait::OwnStrides}});
  };
  add("aten::quantized_lstm.input", networkKernel<true>);
  add("aten::quantized_gru.input", networkKernel<false>);
  add("quantized::quantized_lstm_cell_dynamic", lstmStep);
  add("quantized::quantized_gru_cell_dynamic", gruStep);
  add("quantized::quantized_rnn_relu_cell_dynamic", plainStep<true>);
  add("quantized::quantized_rnn_tanh_cell_dynamic", plainStep<false>);
  add("quantized::make_quantized_cell_params_dynamic", makeDynamicCell);
  add("quantized::make_quantized_cell_params_fp16", makeHalfCell);
}

}  // namespace tscompile
