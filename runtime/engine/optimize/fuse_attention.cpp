#include "runtime/engine/layers/attention_layer.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/layers/row_layers.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"
#include "runtime/reference/views.h"

#include <algorithm>
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
      if (auto* softmax = dynamic_cast<SoftmaxLayer*>(n_.layers[i].get());
          softmax && !softmax->logarithm && softmax->inner == 1)
        fuse(i);
    uses_.compact();
  }

 private:
  // A tensor that is broadcast to scores of these sizes.
  struct Mask {
    TensorId id;
    Dims sizes;
  };
  struct Scores {
    size_t product = NetworkUses::kNobody;  // the layer that computes q k^T
    std::vector<size_t> between;            // and those up to the softmax
    float scale = 1;
    std::optional<Mask> flags;  // scores become `hidden` where they are `hides`
    bool hides = false;
    float hidden = 0;
    bool flagsLast = false;  // after what is added
    std::vector<Mask> added;
    bool causal = false;

    bool isMasked() const { return flags || causal || !added.empty(); }
  };

  // The layer before the one at `reader` on the way of a tensor that nothing else reads.
  size_t before(TensorId id, size_t reader) const {
    return uses_.soleReader(id) == reader && uses_.isWhole(id) ? uses_.writer(id) : NetworkUses::kNobody;
  }

  std::optional<float> constantOf(const PointwiseLayer& layer, int value) const {
    const Value& v = layer.program.values()[static_cast<size_t>(value)];
    if (v.kind == Value::Kind::Constant) return static_cast<float>(v.alpha);
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

  // The scores before the step, if it is a scale or a mask that attention can do. Masks come after the scale, flags
  // before or after all that is added.
  std::optional<TensorId> takeStep(const PointwiseLayer& layer, const Value& step, Scores& s) {
    if (step.op == PointwiseOp::Mul || step.op == PointwiseOp::Div) return takeScale(layer, step, s);
    if (s.scale != 1) return std::nullopt;
    if (step.op == PointwiseOp::Where) return takeFlags(layer, step, s);
    if (step.op == PointwiseOp::Add) return takeAdded(layer, step, s);
    return std::nullopt;
  }

  std::optional<TensorId> takeScale(const PointwiseLayer& layer, const Value& step, Scores& s) {
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

  // where(hidden, number, scores) or where(seen, scores, number)
  std::optional<TensorId> takeFlags(const PointwiseLayer& layer, const Value& step, Scores& s) {
    std::optional<TensorId> flags = inputOf(layer, step.a);
    std::optional<float> filling = constantOf(layer, step.b);
    const bool hides = filling.has_value();
    if (!hides) filling = constantOf(layer, step.c);
    std::optional<TensorId> scores = inputOf(layer, hides ? step.c : step.b);
    if (!flags || !filling || !scores || n_[*flags].dtype != DType::Bool || s.flags) return std::nullopt;
    const bool forgets = *filling == -std::numeric_limits<float>::infinity();  // whatever was added before
    if (s.causal && !forgets) return std::nullopt;
    s.flags = Mask{*flags, n_[layer.outputs[0]].sizes};
    s.hides = hides;
    s.hidden = *filling;
    s.flagsLast = s.added.empty();
    if (forgets && n_.isConstant(*flags) && hidesTheFuture(*s.flags, hides)) {
      s.flags.reset();
      s.causal = true;
    }
    return scores;
  }

  // Whether constant flags hide from each query exactly the keys after it.
  bool hidesTheFuture(const Mask& mask, bool hides) const {
    const Dims& sizes = mask.sizes;
    Tensor seen = n_.bufferOf(mask.id).constant;
    if (sizes.size() < 2 || seen.rank() < 2) return false;
    if (hides) {
      Tensor inverse = Tensor::empty(DType::Bool, seen.sizes());
      for (int64_t i = 0; i < seen.numel(); ++i) inverse.data<bool>()[i] = !seen.integer(i);
      seen = inverse;
    }
    return meaningOf(seen, sizes[sizes.size() - 2], sizes.back()) == KnownMask::Causal;
  }

  std::optional<TensorId> takeAdded(const PointwiseLayer& layer, const Value& step, Scores& s) {
    std::optional<TensorId> a = inputOf(layer, step.a), b = inputOf(layer, step.b);
    if (!a || !b || !n_[*a].isFloat() || !n_[*b].isFloat() || s.added.size() == ScoreMask::kMostAdded)
      return std::nullopt;
    if (s.flags && !s.flagsLast) return std::nullopt;  // sums on both sides
    const Dims& sizes = n_[layer.outputs[0]].sizes;
    bool scoresFirst = n_[*a].sizes == sizes && uses_.writer(*a) != NetworkUses::kNobody;
    // Two tensors of all scores: they are those that a product makes.
    if (scoresFirst && n_[*b].sizes == sizes && leadsToProduct(*b)) scoresFirst = leadsToProduct(*a);
    s.added.push_back({scoresFirst ? *b : *a, sizes});
    return scoresFirst ? *a : *b;
  }

  bool leadsToProduct(TensorId id) const {
    for (int steps = 0; steps < 4; ++steps) {
      const size_t at = uses_.writer(id);
      if (at == NetworkUses::kNobody || uses_.soleReader(id) == NetworkUses::kNobody) return false;
      if (dynamic_cast<BatchedMatmulLayer*>(n_.layers[at].get())) return true;
      auto* layer = dynamic_cast<PointwiseLayer*>(n_.layers[at].get());
      if (!layer || layer->inputs.empty()) return false;
      id = layer->inputs[0];
    }
    return false;
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
        first->inner != second->inner || first->m != second->m || first->n != second->k ||
        !isInOrder(first->c, *first) || !isInOrder(second->a, *first))
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
    const Dims& scores = n_[n_.layers[softmax]->inputs[0]].sizes;
    if (scores.size() < 2 || scores.back() != first->n) return;
    // Of one key the softmax may be over another dimension, which has its elements one after the other as well.
    if (static_cast<const SoftmaxLayer&>(*n_.layers[softmax]).count != first->n) return;
    if (s->isMasked() && !splitRows(*layer, scores[scores.size() - 2])) return;
    if (!setMasks(*layer, *s)) return;
    for (size_t at : s->between) uses_.erase(at);
    uses_.erase(s->product);
    uses_.erase(softmax);
    uses_.remove(last);
    n_.layers[last] = std::move(layer);
    uses_.add(last);
  }

  // Whether scores lie there as the product counts them: pairs, queries, keys.
  static bool isInOrder(const AttentionLayer::Side& scores, const BatchedMatmulLayer& product) {
    const int64_t pair = product.m * product.n;
    return (product.n == 1 || scores.column == 1) && (product.m == 1 || scores.row == product.n) &&
           (product.inner == 1 || scores.inner == pair) && (product.outer == 1 || scores.outer == product.inner * pair);
  }

  // Masks are by query. A product whose right side lacks a dimension of its left, such as the heads of a group, has
  // that in its rows: it becomes heads that share keys.
  static bool splitRows(AttentionLayer& layer, int64_t queries) {
    AttentionShape& s = layer.shape;
    if (queries == s.queries) return true;
    if (queries == 0 || s.queries % queries != 0) return false;
    const int64_t group = s.queries / queries;
    if (s.outer == 1) {
      s.outer = s.inner;
      s.inner = group;
      for (AttentionLayer::Side* side : {&layer.q, &layer.k, &layer.v, &layer.out}) side->outer = side->inner;
    } else {
      for (const AttentionLayer::Side* side : {&layer.q, &layer.out})
        if (s.inner != 1 && side->inner != s.queries * side->row) return false;
      s.inner *= group;
    }
    for (AttentionLayer::Side* side : {&layer.q, &layer.out}) side->inner = queries * side->row;
    s.headsPerKey = group;
    s.queries = queries;
    return true;
  }

  bool setMasks(AttentionLayer& layer, const Scores& s) {
    std::vector<const Mask*> masks;
    for (const Mask& m : s.added) masks.push_back(&m);
    if (s.flags) masks.push_back(&*s.flags);
    for (const Mask* m : masks) {
      const size_t writer = uses_.writer(m->id);
      const bool isOfScores = writer != NetworkUses::kNobody &&
                              (writer == s.product || std::count(s.between.begin(), s.between.end(), writer));
      if (isOfScores) return false;
      splitPairs(layer, m->sizes);
    }
    for (size_t i = 0; i < s.added.size(); ++i)
      if (!setMask(layer, s.added[i], layer.added[i])) return false;
    layer.hides = s.hides;
    layer.hidden = s.hidden;
    layer.flagsLast = s.flagsLast;
    return !s.flags || setMask(layer, *s.flags, layer.flags);
  }

  // Pairs that lie in one dimension are batch and head again, where a mask is added to scores that have both.
  static void splitPairs(AttentionLayer& layer, const Dims& scores) {
    AttentionShape& s = layer.shape;
    if (s.outer != 1 || scores.size() != 4 || scores[0] * scores[1] != s.inner) return;
    s.outer = scores[0];
    s.inner = scores[1];
    for (AttentionLayer::Side* side : {&layer.q, &layer.k, &layer.v, &layer.out}) side->outer = s.inner * side->inner;
  }

  // Sees the mask, broadcast to the sizes of the scores where it is used, under the dimensions of the layer.
  bool setMask(AttentionLayer& layer, const Mask& mask, AttentionLayer::Mask& to) {
    const NetTensor& t = n_[mask.id];
    const AttentionShape& s = layer.shape;
    const size_t rank = mask.sizes.size();
    if (rank < 2 || t.sizes.size() > rank || mask.sizes[rank - 2] != s.queries || mask.sizes[rank - 1] != s.keys)
      return false;
    Dims strides(rank, 0);
    for (size_t d = 0; d < t.sizes.size(); ++d) strides[rank - t.sizes.size() + d] = t.sizes[d] == 1 ? 0 : t.strides[d];
    Tensor whole = Tensor::view(t.dtype, Storage::symbolic(0), mask.sizes, strides, 0);
    std::optional<Dims> grouped = viewStrides(whole, Dims{s.outer, s.inner, s.queries, s.keys});
    if (!grouped) return false;
    auto stride = [&](size_t d, int64_t size) { return size == 1 ? 0 : (*grouped)[d]; };
    to = {layer.inputs.size(), {stride(0, s.outer), stride(1, s.inner), stride(2, s.queries), stride(3, s.keys)}};
    layer.inputs.push_back(mask.id);
    return true;
  }

  Network& n_;
  NetworkUses uses_;
};

}  // namespace

void fuseAttention(Network& network) { AttentionFuser(network).run(); }

}  // namespace tscompile
