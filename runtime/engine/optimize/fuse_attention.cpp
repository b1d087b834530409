#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/layers/row_layers.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"

#include <cmath>
#include <limits>
#include <optional>

namespace tscompile {
namespace {

using Value = PointwiseProgram::Value;

class AttentionFuser {
 public:
  explicit AttentionFuser(Network& network) : n_(network), uses_(network) {}

  void run() {
    for (size_t i = 0; i < n_.layers.size(); ++i)
      if (auto* softmax = dynamic_cast<SoftmaxLayer*>(n_.layers[i].get()); softmax && !softmax->logarithm) fuse(i);
    uses_.compact();
  }

 private:
  struct Scores {
    size_t product = NetworkUses::kNobody;  // the layer that computes q k^T
    std::vector<size_t> between;            // and those up to the softmax
    float scale = 1;
    std::optional<TensorId> mask;  // added
    bool causal = false;
  };

  // The layer before the one at `reader` on the way of a tensor that nothing else reads.
  size_t before(TensorId id, size_t reader) const {
    return uses_.soleReader(id) == reader && uses_.isWhole(id) ? uses_.writer(id) : NetworkUses::kNobody;
  }

  std::optional<float> constantOf(const PointwiseLayer& layer, int value) const {
    const Value& v = layer.program.values()[static_cast<size_t>(value)];
    if (v.kind == Value::Kind::Constant) return v.alpha;
    if (v.kind != Value::Kind::Input) return std::nullopt;
    TensorId id = layer.inputs[static_cast<size_t>(v.index)];
    if (!n_.isConstant(id) || n_[id].numel != 1 || !n_[id].isFloat()) return std::nullopt;
    return *n_.bufferOf(id).constant.data<float>();
  }
  std::optional<TensorId> inputOf(const PointwiseLayer& layer, int value) const {
    const Value& v = layer.program.values()[static_cast<size_t>(value)];
    return v.kind == Value::Kind::Input ? std::optional(layer.inputs[static_cast<size_t>(v.index)]) : std::nullopt;
  }

  // Walks back from the softmax over a mask and a scale to the product.
  std::optional<Scores> scoresOf(size_t softmax) {
    Scores s;
    TensorId id = n_.layers[softmax]->inputs[0];
    size_t reader = softmax;
    while (true) {
      size_t at = before(id, reader);
      if (at == NetworkUses::kNobody) return std::nullopt;
      if (auto* product = dynamic_cast<BatchedMatmulLayer*>(n_.layers[at].get())) {
        s.product = at;
        s.scale *= product->alpha;
        return s;
      }
      auto* layer = dynamic_cast<PointwiseLayer*>(n_.layers[at].get());
      const Value* step = layer ? layer->onlyStep() : nullptr;
      std::optional<TensorId> next = step ? takeStep(*layer, *step, s) : std::nullopt;
      if (!next || !(n_[*next].sizes == n_[layer->outputs[0]].sizes)) return std::nullopt;
      s.between.push_back(at);
      id = *next;
      reader = at;
    }
  }

  // The scores before the step, if it is a scale or a mask that attention can do. A mask is added after the scale.
  std::optional<TensorId> takeStep(const PointwiseLayer& layer, const Value& step, Scores& s) {
    if (step.op == PointwiseOp::Mul || step.op == PointwiseOp::Div) {
      std::optional<float> factor = constantOf(layer, step.b);
      int scores = step.a;
      if (!factor && step.op == PointwiseOp::Mul) {
        factor = constantOf(layer, step.a);
        scores = step.b;
      }
      if (!factor) return std::nullopt;
      s.scale = step.op == PointwiseOp::Mul ? s.scale * *factor : s.scale / *factor;
      return inputOf(layer, scores);
    }
    bool scaled = s.scale != 1, masked = s.mask || s.causal;
    if (scaled || masked) return std::nullopt;
    if (step.op == PointwiseOp::Where) {
      std::optional<TensorId> hidden = inputOf(layer, step.a), scores = inputOf(layer, step.c);
      std::optional<float> value = constantOf(layer, step.b);
      if (!hidden || !scores || !value || *value != -std::numeric_limits<float>::infinity()) return std::nullopt;
      if (!n_.isConstant(*hidden) || n_[*hidden].dtype != DType::Bool) return std::nullopt;
      s.causal = hidesTheFuture(*hidden, *scores);
      if (!s.causal) s.mask = additive(*hidden);
      return scores;
    }
    if (step.op != PointwiseOp::Add) return std::nullopt;
    std::optional<TensorId> a = inputOf(layer, step.a), b = inputOf(layer, step.b);
    if (!a || !b || !n_[*a].isFloat() || !n_[*b].isFloat()) return std::nullopt;
    bool scoresFirst = n_[*a].sizes == n_[layer.outputs[0]].sizes && uses_.writer(*a) != NetworkUses::kNobody;
    s.mask = scoresFirst ? *b : *a;
    return scoresFirst ? *a : *b;
  }

  // Whether a constant mask hides from each query exactly the keys behind it.
  bool hidesTheFuture(TensorId hidden, TensorId scores) const {
    const Tensor& t = n_.bufferOf(hidden).constant;
    const Dims& sizes = n_[scores].sizes;
    int rank = t.rank();
    int64_t queries = sizes[sizes.size() - 2], keys = sizes.back();
    if (rank < 2 || t.numel() != queries * keys || t.size(rank - 1) != keys || t.size(rank - 2) != queries)
      return false;
    for (int64_t q = 0; q < queries; ++q)
      for (int64_t k = 0; k < keys; ++k)
        if (*(t.data<bool>() + q * t.stride(rank - 2) + k * t.stride(rank - 1)) != (k > q)) return false;
    return true;
  }

  // -inf where a mask hides, else 0.
  TensorId additive(TensorId hidden) {
    const Tensor& t = n_.bufferOf(hidden).constant;
    Tensor sum = Tensor::empty(DType::Float32, t.sizes());
    for (int64_t i = 0; i < t.numel(); ++i)
      sum.data<float>()[i] = t.integer(i) ? -std::numeric_limits<float>::infinity() : 0.0f;
    return n_.addConstant(sum);
  }

  void fuse(size_t softmax) {
    std::optional<Scores> s = scoresOf(softmax);
    if (!s) return;
    TensorId weights = n_.layers[softmax]->outputs[0];
    size_t last = uses_.soleReader(weights);
    if (last == NetworkUses::kNobody || !uses_.isWhole(weights)) return;
    auto* second = dynamic_cast<BatchedMatmulLayer*>(n_.layers[last].get());
    auto* first = static_cast<BatchedMatmulLayer*>(n_.layers[s->product].get());
    if (!second || second->alpha != 1 || n_[second->inputs[0]].buffer != n_[weights].buffer ||
        n_[second->inputs[1]].buffer == n_[weights].buffer || first->outer != second->outer ||
        first->inner != second->inner || first->m != second->m || first->n != second->k || second->a.column != 1)
      return;
    auto layer = std::make_unique<AttentionLayer>(n_.layers[softmax]->node);
    layer->shape = {.outer = first->outer,
                    .inner = first->inner,
                    .queries = first->m,
                    .keys = first->n,
                    .depth = first->k,
                    .valueDepth = second->n,
                    .scale = s->scale,
                    .causal = s->causal};
    layer->q = first->a;
    layer->k = {first->b.outer, first->b.inner, first->b.column, first->b.row};
    layer->v = second->b;
    layer->out = second->c;
    layer->inputs = {first->inputs[0], first->inputs[1], second->inputs[1]};
    layer->outputs = second->outputs;
    if (s->mask && !setMask(*layer, *s->mask)) return;
    for (size_t at : s->between) uses_.erase(at);
    uses_.erase(s->product);
    uses_.erase(softmax);
    uses_.remove(last);
    n_.layers[last] = std::move(layer);
    uses_.add(last);
  }

  bool setMask(AttentionLayer& layer, TensorId id) {
    const NetTensor& t = n_[id];
    const int64_t wanted[] = {layer.shape.outer, layer.shape.inner, layer.shape.queries, layer.shape.keys};
    int64_t* strides[] = {&layer.mask.outer, &layer.mask.inner, &layer.mask.row, &layer.mask.column};
    if (t.rank() > 4 || !t.isFloat()) return false;
    for (int d = 0; d < t.rank(); ++d) {
      int at = 4 - t.rank() + d;
      // With one batch dimension the scores are [inner, queries, keys].
      if (t.sizes[static_cast<size_t>(d)] != 1 && t.sizes[static_cast<size_t>(d)] != wanted[at]) return false;
      *strides[at] = t.sizes[static_cast<size_t>(d)] == 1 ? 0 : t.strides[static_cast<size_t>(d)];
    }
    layer.inputs.push_back(id);
    return true;
  }

  Network& n_;
  NetworkUses uses_;
};

}  // namespace

void fuseAttention(Network& network) { AttentionFuser(network).run(); }

}  // namespace tscompile
