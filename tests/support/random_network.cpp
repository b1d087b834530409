#include "tests/support/random_network.h"

#include "ir/graph/builder.h"
#include "ir/values/error.h"
#include "runtime/interpreter/call_operator.h"
#include "runtime/reference/loops/copy.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>

namespace tscompile::test {
namespace {

constexpr int64_t kChannels[] = {16, 32, 3, 1, 20, 8, 4, 48, 17, 12, 2, 64};
constexpr int64_t kSides[] = {7, 8, 1, 5, 3, 9, 2, 13, 16, 4};
constexpr int64_t kMostElements = 24 << 10;
constexpr double kLargest = 200;  // larger magnitudes make rounding errors that say nothing

// A value of the graph with what it holds.
struct Known {
  Value* value = nullptr;
  Tensor tensor;
  bool used = false;

  int64_t size(int64_t d) const { return tensor.size(static_cast<int>(d)); }
  int rank() const { return tensor.rank(); }
};

// An argument of a call: a value that is there, values for a list, or something constant.
struct Given {
  Given(const Known& k) : values{k.value}, known(k.tensor) {}                   // NOLINT: implicit by design
  Given(IValue v, TypePtr type = nullptr) : known(std::move(v)), type(type) {}  // NOLINT
  Given(Tensor t) : known(std::move(t)) {}                                      // NOLINT
  Given(bool v) : known(v) {}                                                   // NOLINT
  Given(int v) : known(v) {}                                                    // NOLINT
  Given(int64_t v) : known(v) {}                                                // NOLINT
  Given(double v) : known(v) {}                                                 // NOLINT
  Given(const char* v) : known(v) {}                                            // NOLINT
  Given(const Dims& v) : known(intList(v)) {}                                   // NOLINT
  explicit Given(const std::vector<Known>& items) : isList(true) {
    std::vector<Tensor> tensors;
    for (const Known& k : items) {
      values.push_back(k.value);
      tensors.push_back(k.tensor);
    }
    known = tensorList(tensors);
  }

  std::vector<Value*> values;
  IValue known;
  TypePtr type = nullptr;
  bool isList = false;
};

Given none() { return Given(IValue(), types().none); }

class Maker {
 public:
  Maker(Choices& choices, const OpRegistry& registry, size_t layers)
      : c_(choices), registry_(registry), graph_(std::make_unique<Graph>()), b_(*graph_), left_(layers) {}

  RandomNetwork make() {
    image();
    if (c_.oneIn(3)) sequence();
    for (size_t tries = 4 * left_; left_ > 0 && tries > 0; --tries) layer();
    RandomNetwork made;
    for (const Known& k : known_)
      if (!k.used || c_.oneIn(6)) {
        graph_->addOutput(k.value);
        made.expected.emplace_back(k.tensor);
      }
    made.graph = std::move(graph_);
    made.inputs = std::move(inputs_);
    return made;
  }

 private:
  // ---- choices ----

  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(c_.below(static_cast<uint64_t>(high - low + 1)));
  }
  bool coin() { return c_.oneIn(2); }
  double unit() { return static_cast<double>(c_.below(1 << 20)) / (1 << 19) - 1; }

  Tensor random(DimSpan sizes, double scale = 1, double offset = 0) {
    Tensor t = Tensor::empty(DType::Float32, sizes);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(unit() * scale + offset);
    return t;
  }
  // So that sums over `terms` products keep the magnitude of what they are made of.
  Tensor weight(const Dims& sizes, int64_t terms) {
    return constant(random(sizes, std::sqrt(3.0 / static_cast<double>(std::max<int64_t>(terms, 1)))));
  }
  static Tensor constant(Tensor t) {
    t.storage()->makeReadOnly();
    return t;
  }
  Given biasOrNone(int64_t count) { return c_.oneIn(3) ? none() : Given(constant(random(Dims{count}))); }

  // ---- inputs ----

  // The same sizes in some order of memory.
  Tensor laidOut(const Dims& sizes) {
    const size_t rank = sizes.size();
    Dims larger = sizes;
    switch (c_.below(5)) {
      case 0: {  // channels last, or any two dimensions exchanged
        const size_t a = c_.below(rank), b = c_.below(rank);
        std::swap(larger[a], larger[b]);
        Tensor t = random(larger);
        Dims strides(t.strides());
        std::swap(strides[a], strides[b]);
        return t.withGeometry(sizes, strides, t.offset());
      }
      case 1: {  // a part of a larger tensor, at no particular address
        const size_t d = c_.below(rank);
        larger[d] += 3;
        Tensor t = random(larger);
        return t.withGeometry(sizes, t.strides(), t.offset() + t.stride(static_cast<int>(d)));
      }
      case 2: {  // one image for the whole batch
        larger[0] = 1;
        Tensor t = random(larger);
        Dims strides(t.strides());
        strides[0] = 0;
        return t.withGeometry(sizes, strides, t.offset());
      }
      default:
        return random(sizes);
    }
  }
  Known addInput(const Dims& sizes) {
    Known k{graph_->addInput(types().tensor), laidOut(sizes)};
    inputs_.emplace_back(k.tensor);
    known_.push_back(k);
    return k;
  }
  Known image() { return addInput(Dims{between(1, 3), c_.oneOf(kChannels), c_.oneOf(kSides), c_.oneOf(kSides)}); }
  Known sequence() { return addInput(Dims{between(1, 3), c_.oneOf(kSides), c_.oneOf(kChannels)}); }

  // ---- calls ----

  static bool isUseful(const Tensor& t, bool hidden = false) {
    if (t.numel() > kMostElements || (t.dtype() != DType::Float32)) return false;
    for (int64_t i = 0; i < t.numel(); ++i)
      if (!(std::fabs(t.real(i)) < kLargest) && !(hidden && t.real(i) < 0)) return false;
    return true;
  }

  Value* valueOf(const Given& g) {
    for (Known& k : known_) k.used |= std::find(g.values.begin(), g.values.end(), k.value) != g.values.end();
    if (g.isList) return b_.list(g.values, types().tensor);
    return g.values.empty() ? b_.constant(g.known, g.type) : g.values[0];
  }

  // The tensors that a call gives; none, and no call, where the operator refuses the arguments, or what it gives is too
  // large to compare. Arguments that are left out have their defaults.
  std::vector<Known> calls(const std::string& name, std::vector<Given> arguments) {
    const Operator* op = registry_.find(name);
    TS_CHECK(op);
    const Schema& schema = op->schema();
    for (size_t i = arguments.size(); i < schema.arguments.size(); ++i)
      arguments.emplace_back(*schema.arguments[i].defaultValue,
                             schema.arguments[i].defaultValue->isNone() ? types().none : nullptr);
    std::vector<const IValue*> given;
    for (const Given& g : arguments) given.push_back(&g.known);
    const size_t count = schema.returns.size();
    std::vector<IValue> results(count);
    RunOptions options;
    RunContext context(options);
    RunScope scope(context);
    try {
      callOperator(*op, given.data(), given.size(), results.data(), count, context);
    } catch (const ExecutionError&) {
      return {};
    }
    std::vector<Tensor> tensors;
    const bool isList = results[0].isList();
    if (isList)
      for (const IValue& v : results[0].toList().items) tensors.push_back(v.toTensor());
    else
      tensors.push_back(results[0].toTensor());
    auto useful = [&](const Tensor& t) { return isUseful(t, hidden_); };
    if (tensors.empty() || !std::all_of(tensors.begin(), tensors.end(), useful)) return {};
    std::vector<Value*> inputs;
    for (const Given& g : arguments) inputs.push_back(valueOf(g));
    Node* n = b_.insert(Symbol::of(schema.name), inputs, count);
    if (isList) {
      n->output()->setType(types().tensorList);
      Value* list = n->output();
      n = b_.insert(sym::ListUnpack, {list}, tensors.size());
    }
    std::vector<Known> made;
    for (size_t i = 0; i < tensors.size(); ++i) {
      n->output(i)->setType(types().tensor);
      made.push_back({n->output(i), tensors[i]});
    }
    known_.insert(known_.end(), made.begin(), made.end());
    return made;
  }
  // The first of what a call gives; else what was there.
  Known call(const std::string& name, const Known& otherwise, std::vector<Given> arguments) {
    std::vector<Known> made = calls(name, std::move(arguments));
    return made.empty() ? otherwise : made[0];
  }
  void add(const std::string& name, std::vector<Given> arguments) { calls(name, std::move(arguments)); }

  // ---- operands ----

  // The latest values, more often than not.
  Known any() {
    const size_t reach = c_.oneIn(3) ? known_.size() : std::min<size_t>(known_.size(), 3);
    return known_[known_.size() - 1 - c_.below(reach)];
  }
  // A value with so many dimensions.
  Known ofRank(int rank) {
    for (int tries = 0; tries < 4; ++tries)
      if (Known k = any(); k.rank() == rank) return k;
    Known k = any();
    while (k.rank() < rank) {
      Known more = call("aten::unsqueeze", k, {k, between(0, k.rank())});
      if (more.rank() == k.rank()) return k;
      k = more;
    }
    if (k.rank() > rank) {
      const int64_t first = between(0, rank - 1);
      k = call("aten::flatten.using_ints", k, {k, first, first + k.rank() - rank});
    }
    return k;
  }
  int64_t dimOf(const Known& k) { return between(-k.rank(), k.rank() - 1); }
  // Another value of the same sizes, if there is one.
  const Known* twin(const Known& k) {
    std::vector<const Known*> found;
    for (const Known& other : known_)
      if (std::ranges::equal(other.tensor.sizes(), k.tensor.sizes())) found.push_back(&other);
    return found[c_.below(found.size())];
  }

  // ---- layers ----

  void layer() {
    const size_t before = known_.size();
    using Make = void (Maker::*)();
    static constexpr Make kLayers[] = {
        &Maker::convolution, &Maker::convolution, &Maker::convolution, &Maker::convolution, &Maker::pool,
        &Maker::pool,        &Maker::adaptive,    &Maker::norm,        &Maker::norm,        &Maker::activation,
        &Maker::activation,  &Maker::linear,      &Maker::product,     &Maker::attention,   &Maker::view,
        &Maker::view,        &Maker::view,        &Maker::cut,         &Maker::cut,         &Maker::join,
        &Maker::join,        &Maker::join,        &Maker::broadcast,   &Maker::broadcast,   &Maker::broadcast,
        &Maker::reduction,   &Maker::residual,    &Maker::pad,         &Maker::resize,      &Maker::gather,
        &Maker::recurrent,   &Maker::rearrange,   &Maker::softmax,     &Maker::einsum,      &Maker::norms,
        &Maker::sample,      &Maker::resizeOther, &Maker::masked,      &Maker::elements,    &Maker::indexed,
        &Maker::windows,     &Maker::grouped,     &Maker::sums};
    (this->*c_.oneOf(kLayers))();
    left_ -= std::min(left_, known_.size() - before);
  }

  void convolution() {
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
    Dims sizes = transposed ? Dims{in, out / groups} : Dims{out, in / groups}, stride, padding, dilation, more;
    int64_t terms = in / groups;
    for (size_t d = 0; d < dims; ++d) {
      constexpr int64_t kKernels[] = {3, 1, 3, 2, 5, 4};
      sizes.push_back(c_.oneOf(kKernels));
      terms *= sizes.back();
      stride.push_back(c_.oneIn(3) ? 2 : 1);
      dilation.push_back(c_.oneIn(5) ? 2 : 1);
      padding.push_back(between(0, sizes.back() / 2));
      more.push_back(transposed && stride.back() > 1 ? between(0, 1) : 0);
    }
    Tensor w = weight(sizes, terms);
    Given bias = biasOrNone(out);
    static const char* const kNames[] = {"aten::conv1d", "aten::conv2d", "aten::conv3d"};
    static const char* const kPadded[] = {"aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding"};
    if (!transposed && c_.oneIn(6))
      return add(kPadded[dims - 1], {x, w, bias, Dims(dims, 1), coin() ? "same" : "valid", dilation, groups});
    if (!transposed && coin()) return add(kNames[dims - 1], {x, w, bias, stride, padding, dilation, groups});
    add("aten::_convolution",
        {x, w, bias, stride, padding, dilation, transposed, more, groups, false, false, true, true});
  }

  void pool() {
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

  void adaptive() {
    const auto dims = static_cast<size_t>(c_.oneIn(6) ? 3 : c_.oneIn(4) ? 1 : 2);
    Known x = ofRank(static_cast<int>(dims) + 2);
    Dims out;
    for (size_t d = 0; d < dims; ++d) out.push_back(c_.oneIn(3) ? between(2, 5) : 1);
    add((c_.oneIn(3) ? "aten::adaptive_max_pool" : "aten::adaptive_avg_pool") + std::to_string(dims) + "d", {x, out});
  }

  void norm() {
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

  void activation() {
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

  void linear() {
    Known x = any();
    if (x.rank() == 0) return;
    const int64_t in = x.size(x.rank() - 1), out = c_.oneOf(kChannels);
    add("aten::linear", {x, weight(Dims{out, in}, in), biasOrNone(out)});
  }

  void product() {
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

  void attention() {
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

  // softmax(q k^T) v with what people do to scores in between; keys may be those of the first head for all heads, and
  // scores may change places. Nothing where a row of scores is hidden whole.
  std::optional<Known> attentionWrittenOut(Known q, Known k, Known v, Given mask) {
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

  Known changedScores(const Known& s) {
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

  void view() {
    Known x = any();
    if (x.rank() == 0) return;
    switch (c_.below(10)) {
      case 0: {
        Dims order;
        for (int64_t d = 0; d < x.rank(); ++d) order.insert(c_.below(order.size() + 1), d);
        return add("aten::permute", {x, order});
      }
      case 1:
        return add("aten::transpose.int", {x, dimOf(x), dimOf(x)});
      case 2: {
        const int64_t first = between(0, x.rank() - 1), last = between(first, x.rank() - 1);
        return add("aten::flatten.using_ints", {x, first, last});
      }
      case 3:
        return add("aten::unsqueeze", {x, between(0, x.rank())});
      case 4:
        return add("aten::squeeze.dim", {x, dimOf(x)});
      case 5: {
        Dims sizes(x.tensor.sizes());
        for (int64_t& s : sizes)
          if (s == 1) s = c_.oneIn(2) ? 3 : 1;
        return add("aten::expand", {x, sizes, false});
      }
      case 6:
        return add("aten::contiguous", {x, c_.oneIn(3) && x.rank() == 4 ? 2 : 0});
      case 7:
      case 8: {  // two neighbours become one, or one becomes two
        Dims sizes(x.tensor.sizes());
        const size_t d = c_.below(sizes.size());
        constexpr int64_t kParts[] = {2, 4, 16, 3};
        const int64_t part = c_.oneOf(kParts);
        if (sizes[d] % part == 0 && coin()) {
          sizes[d] /= part;
          sizes.insert(d + 1, part);
        } else if (d + 1 < sizes.size()) {
          sizes[d] *= sizes[d + 1];
          sizes.erase(d + 1);
        }
        return add(coin() ? "aten::view" : "aten::reshape", {x, sizes});
      }
      default: {  // any other sizes of the same count
        constexpr int64_t kParts[] = {2, 4, 16, 3, 1};
        const int64_t part = c_.oneOf(kParts);
        add("aten::reshape", {x, coin() ? Dims{-1, part} : Dims{part, -1}});
      }
    }
  }

  void cut() {
    Known x = any();
    if (x.rank() == 0) return;
    const int64_t dim = dimOf(x), size = x.size(dim < 0 ? dim + x.rank() : dim);
    switch (c_.below(6)) {
      case 0:
        return add("aten::select.int", {x, dim, size == 0 ? 0 : between(-size, size - 1)});
      case 1:
        return add("aten::slice.Tensor",
                   {x, dim, between(0, size / 2), c_.oneIn(40) ? 0 : between(size / 2, size), between(1, 2)});
      case 2:
        return add("aten::chunk", {x, between(1, 4), dim});
      case 3:
        return add("aten::split.Tensor", {x, between(1, std::max<int64_t>(1, size)), dim});
      case 4:
        if (size <= 6) return add("aten::unbind.int", {x, dim});
        return;
      default: {
        const int64_t first = between(0, size);
        add("aten::split_with_sizes", {x, Dims{first, size - first}, dim});
      }
    }
  }

  void join() {
    Known x = any();
    std::vector<Known> items{x};
    for (int64_t more = between(0, 3); more > 0; --more) items.push_back(*twin(x));
    const int64_t dim = dimOf(x);
    if (coin()) return add("aten::stack", {Given(items), between(0, x.rank())});
    // Those that differ in this dimension alone fit as well.
    const auto at = static_cast<size_t>(dim < 0 ? dim + x.rank() : dim);
    for (const Known& k : known_) {
      if (k.rank() != x.rank() || !c_.oneIn(3) || items.size() > 5 || x.rank() == 0) continue;
      Dims sizes(k.tensor.sizes());
      sizes[at] = x.tensor.sizes()[at];
      if (std::ranges::equal(sizes, x.tensor.sizes())) items.push_back(k);
    }
    std::rotate(items.begin(), items.begin() + static_cast<ptrdiff_t>(c_.below(items.size())), items.end());
    add("aten::cat", {Given(items), dim});
  }

  void broadcast() {
    Known x = any();
    static const char* const kTwo[] = {"aten::add", "aten::sub",     "aten::mul",    "aten::add",
                                       "aten::mul", "aten::maximum", "aten::minimum"};
    const std::string name = c_.oneOf(kTwo);
    const bool scaled = name == "aten::add" || name == "aten::sub", plain = name.ends_with("imum");
    const std::string op = name + (plain ? "" : ".Tensor");
    auto with = [&](const Given& a, const Given& b) {
      if (scaled) return add(op, {a, b, c_.oneIn(4) ? 2 : 1});
      add(op, {a, b});
    };
    switch (c_.below(4)) {
      case 0:
        return with(x, *twin(x));
      case 1: {  // a constant that has some of the dimensions
        Dims sizes(x.tensor.sizes());
        for (int64_t& s : sizes)
          if (coin()) s = 1;
        if (!sizes.empty() && c_.oneIn(3)) sizes.erase(0);
        Tensor t = constant(random(sizes));
        return c_.oneIn(3) ? with(t, x) : with(x, t);
      }
      case 2:
        return with(any(), x);
      default:
        if (plain) return;
        add(name + ".Scalar", scaled ? std::vector<Given>{x, unit(), 1} : std::vector<Given>{x, unit()});
    }
  }

  void reduction() {
    Known x = any();
    if (x.rank() == 0) return;
    Dims dims;
    for (int64_t d = 0; d < x.rank(); ++d)
      if (coin()) dims.push_back(c_.oneIn(3) ? d - x.rank() : d);
    if (dims.empty()) dims.push_back(dimOf(x));
    switch (c_.below(6)) {
      case 0:
      case 1:
        return add("aten::mean.dim", {x, dims, coin(), none()});
      case 2:
        return add(coin() ? "aten::amax" : "aten::amin", {x, dims, coin()});
      case 3:
        return add("aten::max.dim", {x, dims[0], coin()});
      case 4:
        return add("aten::var.dim", {x, dims, false, coin()});
      default:
        add("aten::sum.dim_IntList", {x, dims, coin(), none()});
    }
  }

  // relu(x + f(x))
  void residual() {
    Known x = ofRank(4);
    if (x.rank() != 4) return;
    const int64_t c = x.size(1);
    Known y = call("aten::conv2d", x,
                   {x, weight(Dims{c, c, 3, 3}, 9 * c), biasOrNone(c), Dims{1, 1}, Dims{1, 1}, Dims{1, 1}, 1});
    if (coin()) y = call("aten::relu", y, {y});
    y = call("aten::add.Tensor", x, {coin() ? x : y, coin() ? y : x, 1});
    add("aten::relu", {y});
  }

  void pad() {
    Known x = any();
    Dims margins;
    for (int64_t d = between(1, std::max(1, std::min(3, x.rank() - 1))); d > 0; --d) {
      margins.push_back(between(c_.oneIn(4) ? -1 : 0, 2));
      margins.push_back(between(0, 2));
    }
    static const char* const kModes[] = {"constant", "constant", "reflect", "replicate", "circular"};
    add("aten::pad", {x, margins, c_.oneOf(kModes), c_.oneIn(4) ? Given(0.5) : none()});
  }

  void resize() {
    Known x = ofRank(4);
    if (x.rank() != 4) return;
    Dims out{between(1, 9), between(1, 9)};
    const bool corners = coin();
    switch (c_.below(3)) {
      case 0:
        return add("aten::upsample_nearest2d", {x, out, none(), none()});
      case 1:
        return add("aten::upsample_bilinear2d", {x, out, corners, none(), none()});
      default:
        add("aten::upsample_bicubic2d", {x, out, corners, none(), none()});
    }
  }

  Tensor indices(const Dims& sizes, int64_t below) {
    Tensor t = Tensor::empty(DType::Int64, sizes);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<int64_t>()[i] = between(0, std::max<int64_t>(0, below - 1));
    return constant(t);
  }

  void gather() {
    Known x = any();
    if (x.rank() == 0) return;
    const int64_t dim = between(0, x.rank() - 1);
    if (coin()) return add("aten::index_select", {x, dim, indices(Dims{between(1, 6)}, x.size(dim))});
    Dims sizes(x.tensor.sizes());
    sizes[static_cast<size_t>(dim)] = between(1, 5);
    add("aten::gather", {x, dim, indices(sizes, x.size(dim)), false});
  }

  void recurrent() {
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

  // Rows, volumes, and the nearest elements by their middles.
  void resizeOther() {
    const int spatial = c_.oneIn(3) ? 3 : c_.oneIn(2) ? 2 : 1;
    Known x = ofRank(spatial + 2);
    if (x.rank() != spatial + 2) return;
    Dims out;
    for (int d = 0; d < spatial; ++d) out.push_back(between(1, 9));
    if (spatial == 2) return add("aten::_upsample_nearest_exact2d", {x, out, none(), none()});
    if (spatial == 1 && coin()) return add("aten::upsample_nearest1d", {x, out, none()});
    if (spatial == 1) return add("aten::upsample_linear1d", {x, out, coin(), none()});
    if (coin()) return add("aten::upsample_nearest3d", {x, out, none(), none(), none()});
    add("aten::upsample_trilinear3d", {x, out, coin(), none(), none(), none()});
  }

  // By a mask that has some of the dimensions.
  void masked() {
    Known x = any();
    Dims sizes(x.tensor.sizes());
    for (int64_t& s : sizes)
      if (c_.oneIn(3)) s = 1;
    if (!sizes.empty() && c_.oneIn(3)) sizes.erase(0);
    Tensor mask = Tensor::empty(DType::Bool, sizes);
    for (int64_t i = 0; i < mask.numel(); ++i) mask.data<bool>()[i] = coin();
    mask = constant(mask);
    if (coin()) return add("aten::masked_fill.Scalar", {x, mask, unit() * 3});
    add("aten::where.self", {mask, x, *twin(x)});
  }

  void elements() {
    Known x = any(), y = *twin(x);
    switch (c_.below(7)) {
      case 0:
        return add("aten::clamp", {x, coin() ? Given(-0.5) : none(), 0.75});
      case 1:
        return add("aten::lerp.Scalar", {x, y, unit()});
      case 2:
        return add("aten::addcmul", {x, y, constant(random(Dims(x.tensor.sizes()))), unit()});
      case 3:
        return add("aten::pow.Tensor_Scalar", {x, between(1, 3)});
      case 4:
        return add("aten::tril", {x, between(-2, 2)});
      case 5:
        if (x.rank() > 0) add("aten::repeat_interleave.self_int", {x, between(1, 3), dimOf(x), none()});
        return;
      default:
        if (x.rank() > 0) add("aten::movedim.int", {x, dimOf(x), dimOf(x)});
    }
  }

  // Of one or two leading dimensions, with rows of indices or a table of them.
  void indexed() {
    Known x = any();
    if (x.rank() == 0 || x.tensor.numel() == 0) return;
    std::vector<Tensor> lists;
    const Dims sizes = coin() ? Dims{between(1, 5)} : Dims{between(1, 3), between(1, 3)};
    for (int64_t d = between(1, std::min(2, x.rank())); d > 0; --d)
      lists.push_back(indices(sizes, x.size(static_cast<int64_t>(lists.size()))));
    add("aten::index.Tensor_hacked_twin", {x, Given{IValue(tensorList(lists))}});
  }

  void windows() {
    if (coin()) {
      Known x = ofRank(4);
      return add("aten::im2col", {x, Dims{between(1, 3), between(1, 3)}, Dims{between(1, 2), 1}, Dims{between(0, 1), 0},
                                  Dims{between(1, 2), between(1, 2)}});
    }
    Known x = any();
    if (x.rank() > 0) add("aten::unfold", {x, dimOf(x), between(1, 3), between(1, 2)});
  }

  // Attention whose keys and values have fewer heads than its queries.
  void grouped() {
    Known x = ofRank(3);
    if (x.rank() != 3 || x.tensor.numel() == 0) return;
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2), few = between(1, 2), times = between(1, 3);
    auto part = [&](int64_t heads) {
      Known p = call("aten::linear", x, {x, weight(Dims{heads * 8, width}, width), none()});
      p = call("aten::view", p, {p, Dims{batch, length, heads, 8}});
      return call("aten::transpose.int", p, {p, 1, 2});
    };
    Known q = part(few * times), k = part(few), v = part(few);
    if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) return;
    add("aten::scaled_dot_product_attention.gqa", {q, k, v, none(), 0.0, coin(), none(), true});
  }

  void sums() {
    Known x = any();
    if (x.rank() == 0 || x.tensor.numel() == 0) return;
    switch (c_.below(4)) {
      case 0:
        return add("aten::cumsum", {x, dimOf(x), none()});
      case 1:
        return add("aten::logsumexp", {x, Dims{dimOf(x)}, coin()});
      case 2:
        return add("aten::std.dim", {x, Dims{dimOf(x)}, false, coin()});
      default: {
        const int64_t last = x.size(x.rank() - 1);
        add("aten::rms_norm", {x, Dims{last}, coin() ? Given(constant(random(Dims{last}))) : none(), 0.1});
      }
    }
  }

  void rearrange() {
    Known x = any();
    if (x.rank() == 0) return;
    const int64_t dim = dimOf(x);
    switch (c_.below(6)) {
      case 0:
        return add("aten::flip", {x, Dims{dim}});
      case 1:
        return add("aten::roll", {x, Dims{between(-3, 3)}, Dims{dim}});
      case 2:
        return add("aten::pixel_shuffle", {x, 2});
      case 3:
        return add("aten::pixel_unshuffle", {x, 2});
      case 4: {
        Dims times(static_cast<size_t>(x.rank()), 1);
        times[c_.below(times.size())] = 2;
        return add("aten::repeat", {x, times});
      }
      default:
        add("aten::channel_shuffle", {x, 2});
    }
  }

  void softmax() {
    Known x = any();
    if (x.rank() == 0) return;
    add(coin() ? "aten::softmax.int" : "aten::log_softmax.int", {x, dimOf(x), none()});
  }

  // Of two values, or of a value and a constant, whose dimensions have letters in any order.
  void einsum() {
    Known x = any();
    if (x.rank() == 0 || x.rank() > 4 || x.tensor.numel() == 0) return;
    std::string left, right, out;
    Dims sizes;
    for (int d = 0; d < x.rank(); ++d) {
      const char letter = static_cast<char>('a' + d);
      left += letter;
      const uint64_t what = c_.below(3);  // shared, summed or the left one's own
      if (what < 2) right.insert(right.begin() + static_cast<ptrdiff_t>(c_.below(right.size() + 1)), letter);
      if (what != 1) out.insert(out.begin() + static_cast<ptrdiff_t>(c_.below(out.size() + 1)), letter);
    }
    if (coin()) {
      right.insert(right.begin() + static_cast<ptrdiff_t>(c_.below(right.size() + 1)), 'z');
      if (!c_.oneIn(4)) out.insert(out.begin() + static_cast<ptrdiff_t>(c_.below(out.size() + 1)), 'z');
    }
    for (char letter : right) sizes.push_back(letter == 'z' ? between(1, 5) : x.size(letter - 'a'));
    const std::string equation = left + "," + right + "->" + out;
    // A value on the right as well, where its sizes fit.
    Known y = *twin(x);
    if (left == right) return add("aten::einsum", {equation.c_str(), Given(std::vector<Known>{x, y}), none()});
    Known w = y;
    w.tensor = constant(random(sizes, 0.3));
    w.value = b_.constant(IValue(w.tensor));
    add("aten::einsum", {equation.c_str(), Given(std::vector<Known>{x, w}), none()});
  }

  void norms() {
    Known x = any();
    if (x.rank() == 0 || x.tensor.numel() == 0) return;
    constexpr double kOrders[] = {2, 1, HUGE_VAL, 3};
    add("aten::linalg_vector_norm", {x, c_.oneOf(kOrders), Dims{dimOf(x)}, coin(), none()});
  }

  void sample() {
    Known x = ofRank(4);
    if (x.rank() != 4 || x.tensor.numel() == 0) return;
    Tensor grid = constant(random(Dims{x.size(0), between(1, 5), between(1, 20), 2}, 1.3));
    // Nearest elements change where places hardly do.
    add("aten::grid_sampler", {x, grid, 0, between(0, 2), coin()});
  }

  Choices& c_;
  const OpRegistry& registry_;
  std::unique_ptr<Graph> graph_;
  Builder b_;
  size_t left_;
  bool hidden_ = false;  // values may be minus infinity: scores of attention that nobody sees
  std::vector<Known> known_;
  std::vector<IValue> inputs_;
};

}  // namespace

RandomNetwork randomNetwork(Choices& choices, const OpRegistry& registry, size_t layers) {
  return Maker(choices, registry, layers).make();
}

}  // namespace tscompile::test
