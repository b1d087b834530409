// Layers with weights, attention, norms and activations of random networks.
#include "tests/support/network_maker.h"

#include <limits>

namespace tscompile::test {

void NetworkMaker::convolution() {
  const auto spatial = static_cast<int>(c_.oneIn(8) ? 3 : c_.oneIn(4) ? 1 : 2);
  Known x = ofRank(spatial + 2);
  if (x.rank() < 3 || x.tensor.numel() == 0) return;
  const auto dims = static_cast<size_t>(x.rank() - 2);
  const int64_t in = x.size(1);
  const bool transposed = c_.oneIn(6);
  int64_t groups = 1, out = c_.oneOf(kChannels);
  if (c_.oneIn(3)) {
    constexpr int64_t kParts[] = {2, 4, 3, 8, 5, 16};
    groups = c_.oneIn(2) ? in : c_.oneOf(kParts);
    if (in % groups != 0) groups = in;
    out = groups * between(1, in == groups ? 2 : 9);
  }
  Dims sizes = transposed ? Dims{in, out / groups} : Dims{out, in / groups};
  int64_t terms = in / groups;
  for (size_t d = 0; d < dims; ++d) {
    constexpr int64_t kKernels[] = {3, 1, 3, 2, 5, 4};
    sizes.push_back(c_.oneOf(kKernels));
    terms *= sizes.back();
  }
  static const char* const kNames[] = {"aten::conv1d", "aten::conv2d", "aten::conv3d"};
  static const char* const kPadded[] = {"aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding"};
  const Tensor w = weight(sizes, terms);
  do {  // several may share their weights
    Dims stride, padding, dilation, more;
    for (size_t d = 0; d < dims; ++d) {
      constexpr int64_t kDilations[] = {1, 1, 1, 1, 1, 1, 1, 2, 2, 6};
      stride.push_back(c_.oneIn(3) ? 2 : 1);
      dilation.push_back(c_.oneOf(kDilations));
      padding.push_back(between(0, sizes[d + 2] / 2 * dilation.back()));
      more.push_back(transposed && stride.back() > 1 ? between(0, 1) : 0);
    }
    Given bias = biasOrNone(out);
    if (!transposed && c_.oneIn(6))
      add(kPadded[dims - 1], {x, w, bias, Dims(dims, 1), coin() ? "same" : "valid", dilation, groups});
    else if (!transposed && coin())
      add(kNames[dims - 1], {x, w, bias, stride, padding, dilation, groups});
    else
      add("aten::_convolution",
          {x, w, bias, stride, padding, dilation, transposed, more, groups, false, false, true, true});
  } while (c_.oneIn(6));
}

void NetworkMaker::pool() {
  const auto spatial = static_cast<int>(c_.oneIn(6) ? 3 : c_.oneIn(4) ? 1 : 2);
  Known x = ofRank(c_.oneIn(8) ? spatial + 1 : spatial + 2);
  const auto dims = static_cast<size_t>(spatial);
  Dims kernel, stride, padding, dilation;
  for (size_t d = 0; d < dims; ++d) {
    kernel.push_back(between(1, 3));
    stride.push_back(between(1, 3));
    padding.push_back(between(0, kernel.back() / 2));
    dilation.push_back(c_.oneIn(6) ? 2 : 1);
  }
  const std::string n = std::to_string(dims) + "d";
  const bool ceil = c_.oneIn(4);
  if (coin()) return add("aten::max_pool" + n, {x, kernel, stride, padding, dilation, ceil});
  if (dims == 1) return add("aten::avg_pool1d", {x, kernel, stride, padding, ceil, coin()});
  add("aten::avg_pool" + n, {x, kernel, stride, padding, ceil, coin(), c_.oneIn(4) ? Given(between(1, 5)) : none()});
}

void NetworkMaker::adaptive() {
  const auto dims = static_cast<size_t>(c_.oneIn(6) ? 3 : c_.oneIn(4) ? 1 : 2);
  Known x = ofRank(static_cast<int>(dims) + 2);
  Dims out;
  for (size_t d = 0; d < dims; ++d) out.push_back(c_.oneIn(3) ? between(2, 5) : 1);
  add((c_.oneIn(3) ? "aten::adaptive_max_pool" : "aten::adaptive_avg_pool") + std::to_string(dims) + "d", {x, out});
}

void NetworkMaker::norm() {
  Known x = any();
  if (x.rank() < 2 || x.tensor.numel() == 0) return;
  const int64_t channels = x.size(1);
  auto scale = [&](int64_t n) { return coin() ? Given(constant(random(Dims{n}, 0.5, 1))) : none(); };
  auto shift = [&](int64_t n) { return coin() ? Given(constant(random(Dims{n}))) : none(); };
  constexpr double kEps = 0.1;  // what hardly differs is not blown up
  switch (c_.below(5)) {
    case 0:
    case 1:
      return add("aten::batch_norm", {x, scale(channels), shift(channels), constant(random(Dims{channels})),
                                      constant(random(Dims{channels}, 0.5, 1)), false, 0.1, kEps, true});
    case 2: {
      const auto last = static_cast<size_t>(between(1, std::min(x.rank(), 2)));
      Dims sizes(x.tensor.sizes().last(last));
      auto weights = [&](double offset) { return coin() ? Given(constant(random(sizes, 0.5, offset))) : none(); };
      return add("aten::layer_norm", {x, sizes, weights(1), weights(0), kEps, true});
    }
    case 3: {
      int64_t groups = between(1, 4);
      if (channels % groups != 0) groups = channels;
      return add("aten::group_norm", {x, groups, scale(channels), shift(channels), kEps, true});
    }
    default:
      add("aten::instance_norm", {x, scale(channels), shift(channels), none(), none(), true, 0.1, kEps, true});
  }
}

void NetworkMaker::activation() {
  Known x = any();
  static const char* const kPlain[] = {"aten::relu",      "aten::sigmoid", "aten::tanh",        "aten::silu",
                                       "aten::hardswish", "aten::relu6",   "aten::hardsigmoid", "aten::mish",
                                       "aten::selu",      "aten::erf",     "aten::sin",         "aten::abs",
                                       "aten::neg",       "aten::exp",     "aten::square"};
  switch (c_.below(9)) {
    case 0:
      return add("aten::gelu", {x, coin() ? "none" : "tanh"});
    case 1:
      return add("aten::leaky_relu", {x, 0.1});
    case 2:
      return add("aten::hardtanh", {x, -0.5, 0.75});
    case 3:
      return add("aten::elu", {x, 1.0, 1, 1});
    case 4:
      if (x.rank() > 1) return add("aten::prelu", {x, constant(random(Dims{coin() ? x.size(1) : 1}))});
      return;
    case 5:
      return add("aten::glu", {x, dimOf(x)});
    default:
      add(c_.oneOf(kPlain), {x});
  }
}

void NetworkMaker::linear() {
  Known x = any();
  if (x.rank() == 0) return;
  const int64_t in = x.size(x.rank() - 1), out = c_.oneOf(kChannels);
  add("aten::linear", {x, weight(Dims{out, in}, in), biasOrNone(out)});
}

void NetworkMaker::product() {
  Known x = any();
  if (x.rank() == 0) return;
  const int64_t in = x.size(x.rank() - 1), out = c_.oneOf(kChannels);
  if (c_.oneIn(3)) return add("aten::matmul", {x, weight(Dims{in, out}, in)});
  Known y = call("aten::transpose.int", x, {*twin(x), -1, -2});
  if (x.rank() > 1) {
    Known scaled = call("aten::mul.Scalar", y, {y, 1 / std::sqrt(static_cast<double>(in) + 1)});
    add("aten::matmul", {x, scaled});
  }
}

void NetworkMaker::attention() {
  Known x = ofRank(3);
  if (x.rank() != 3 || x.tensor.numel() == 0) return;
  constexpr int64_t kHeads[] = {4, 16, 5, 8};
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2), heads = between(1, 4),
                head = c_.oneOf(kHeads);
  std::vector<Known> parts;
  for (int i = 0; i < 3; ++i) {
    Known p = call("aten::linear", x, {x, weight(Dims{heads * head, width}, width), biasOrNone(heads * head)});
    p = call("aten::view", p, {p, Dims{batch, length, heads, head}});
    parts.push_back(call("aten::transpose.int", p, {p, 1, 2}));
    if (parts.back().rank() != 4) return;
  }
  Known& q = parts[0];
  Given mask = none();
  if (coin()) mask = constant(random(coin() ? Dims{length, length} : Dims{batch, 1, 1, length}, 3));
  Known y = q;
  if (coin()) {
    const bool causal = mask.known.isNone() && coin();
    y = call("aten::scaled_dot_product_attention", q, {q, parts[1], parts[2], mask, 0.0, causal, none()});
  } else if (std::optional<Known> made = attentionWrittenOut(q, parts[1], parts[2], mask)) {
    y = *made;
  }
  y = call("aten::transpose.int", y, {y, 1, 2});
  add("aten::reshape", {y, Dims{batch, length, heads * head}});
}

std::optional<Known> NetworkMaker::attentionWrittenOut(Known q, Known k, Known v, Given mask) {
  const size_t before = known_.size();
  const bool shared = c_.oneIn(3), turned = c_.oneIn(4);
  if (shared) {
    k = call("aten::select.int", k, {k, 1, 0});
    v = call("aten::select.int", v, {v, 1, 0});
    if (k.rank() != 3 || v.rank() != 3) return std::nullopt;
  }
  hidden_ = true;
  Known s = shared ? call("aten::einsum", q, {"bhtd,bsd->bhts", Given(std::vector<Known>{q, k}), none()})
                   : call("aten::matmul", q, {q, call("aten::transpose.int", q, {k, -2, -1})});
  s = call("aten::div.Scalar", s, {s, std::sqrt(static_cast<double>(q.size(3)))});
  if (!mask.known.isNone()) s = call("aten::add.Tensor", s, {s, mask, 1});
  if (turned) s = call("aten::transpose.int", s, {s, 1, 2});
  for (uint64_t steps = c_.below(3); steps > 0; --steps) s = changedScores(s);
  hidden_ = false;
  std::vector<Known> weights = calls("aten::softmax.int", {s, -1, none()});
  // Scores that hide something are no numbers to go on with.
  known_.erase(std::remove_if(known_.begin() + static_cast<ptrdiff_t>(before), known_.end(),
                              [](const Known& one) { return !isUseful(one.tensor); }),
               known_.end());
  if (weights.empty()) return std::nullopt;
  Known w = turned ? call("aten::transpose.int", weights[0], {weights[0], 1, 2}) : weights[0];
  std::vector<Known> y = shared ? calls("aten::einsum", {"bhts,bsd->bhtd", Given(std::vector<Known>{w, v}), none()})
                                : calls("aten::matmul", {w, v});
  return y.empty() ? std::nullopt : std::optional(y[0]);
}

Known NetworkMaker::changedScores(const Known& s) {
  const Dims square{s.size(2), s.size(3)};
  Tensor hides = Tensor::empty(DType::Bool, square);
  const bool causal = coin();
  for (int64_t i = 0; i < hides.numel(); ++i) {
    const int64_t row = i / square[1], column = i % square[1];
    hides.data<bool>()[i] = causal ? column > row : column != row && coin();
  }
  switch (c_.below(6)) {
    case 0:
      return call("aten::add.Tensor", s, {s, s, 1});
    case 1:
      return call("aten::add.Tensor", s, {s, call("aten::transpose.int", s, {s, -1, -2}), 1});
    case 2:
      return call("aten::tanh", s, {s});
    case 3:
      return call("aten::masked_fill.Scalar", s, {s, constant(hides), -std::numeric_limits<double>::infinity()});
    case 4:
      return call("aten::masked_fill.Scalar", s, {s, constant(hides), -1e4});
    default: {
      Dims sizes(s.tensor.sizes());
      for (int64_t& size : sizes)
        if (coin()) size = 1;
      return call("aten::add.Tensor", s, {s, constant(random(sizes, 2)), 1});
    }
  }
}

void NetworkMaker::recurrent() {
  Known x = ofRank(3);
  if (x.rank() != 3 || x.tensor.numel() == 0 || !c_.oneIn(2)) return;
  static const char* const kCells[] = {"aten::lstm.input", "aten::gru.input", "aten::rnn_tanh.input",
                                       "aten::rnn_relu.input"};
  const std::string cell = c_.oneOf(kCells);
  const bool lstm = cell == kCells[0], twoWays = c_.oneIn(3), batchFirst = coin();
  const int64_t in = x.size(2), hidden = between(1, 9), gates = lstm ? 4 : cell == kCells[1] ? 3 : 1;
  const int64_t layers = c_.oneIn(4) ? 2 : 1, ways = twoWays ? 2 : 1;
  std::vector<Tensor> weights;
  for (int64_t i = 0; i < layers * ways; ++i) {
    const int64_t given = i < ways ? in : ways * hidden;
    weights.push_back(weight(Dims{gates * hidden, given}, given));
    weights.push_back(weight(Dims{gates * hidden, hidden}, hidden));
    for (int bias = 0; bias < 2; ++bias) weights.push_back(constant(random(Dims{gates * hidden})));
  }
  Tensor start = constant(random(Dims{layers * ways, x.size(batchFirst ? 0 : 1), hidden}));
  Given state = lstm ? Given{IValue(tensorList({start, start}))} : Given(start);
  add(cell, {x, state, Given{IValue(tensorList(weights))}, true, layers, 0.0, false, twoWays, batchFirst});
}

void NetworkMaker::softmax() {
  Known x = any();
  if (x.rank() == 0) return;
  add(coin() ? "aten::softmax.int" : "aten::log_softmax.int", {x, dimOf(x), none()});
}

void NetworkMaker::norms() {
  Known x = any();
  if (x.rank() == 0 || x.tensor.numel() == 0) return;
  constexpr double kOrders[] = {2, 1, HUGE_VAL, 3};
  add("aten::linalg_vector_norm", {x, c_.oneOf(kOrders), Dims{dimOf(x)}, coin(), none()});
}

}  // namespace tscompile::test
