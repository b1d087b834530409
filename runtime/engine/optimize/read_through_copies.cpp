// copy(view of copy(x)) -> copy(view of x), and the same for the sides of products of batches and of attention, and for
// what is reduced.
#include "runtime/engine/layers/attention_layer.h"
#include "runtime/engine/layers/matmul_layer.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/layers/reduction_layer.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"
#include "runtime/engine/optimize/walk.h"

#include <optional>

namespace tscompile {
namespace {

class CopyReader {
 public:
  explicit CopyReader(Network& network) : n_(network), uses_(network) {}

  void run() {
    for (size_t i = 0; i < n_.layers.size(); ++i) {
      if (auto* copy = dynamic_cast<PointwiseLayer*>(n_.layers[i].get()); copy && copy->isCopy()) readCopied(i, *copy);
      if (auto* product = dynamic_cast<BatchedMatmulLayer*>(n_.layers[i].get())) {
        readSide(i, 0, product->a, {product->outer, product->inner, product->m, product->k});
        readSide(i, 1, product->b, {product->outer, product->inner, product->k, product->n});
      }
      if (auto* attention = dynamic_cast<AttentionLayer*>(n_.layers[i].get())) readSides(i, *attention);
      if (auto* reduction = dynamic_cast<ReductionLayer*>(n_.layers[i].get())) readReduced(i, *reduction);
    }
    uses_.compact();
  }

 private:
  // The copy of floats that alone makes all of the tensor's buffer.
  const PointwiseLayer* copyOf(TensorId id) const {
    const size_t at = uses_.writer(id);
    const auto* copy = at == NetworkUses::kNobody ? nullptr : dynamic_cast<PointwiseLayer*>(n_.layers[at].get());
    if (!copy || !copy->isCopy() || !n_[id].isFloat() || n_.bufferOf(id).kind != NetBuffer::Kind::Inner) return nullptr;
    const TensorId from = copy->inputs[0];
    const bool plain = n_[from].isFloat() && n_[copy->outputs[0]].isFloat() && uses_.isWhole(copy->outputs[0]);
    return plain && n_[from].sizes.size() <= n_[copy->outputs[0]].sizes.size() ? copy : nullptr;
  }

  std::optional<Walk> originOf(TensorId id, const Walk& walk) const {
    const PointwiseLayer* copy = copyOf(id);
    if (!copy) return std::nullopt;
    return Origin(n_[copy->inputs[0]], n_[copy->outputs[0]].sizes).of(walk);
  }

  // Whether what comes one after the other lies so.
  static bool liesInRows(const Walk& walk) {
    size_t d = walk.sizes.size();
    while (d > 0 && walk.sizes[d - 1] == 1) --d;
    return d == 0 || walk.strides[d - 1] == 1;
  }

  void readCopied(size_t at, PointwiseLayer& layer) {
    const NetTensor t = n_[layer.inputs[0]];
    std::optional<Walk> from = originOf(layer.inputs[0], {t.sizes, t.strides, t.offset});
    if (from && (!liesInRows({t.sizes, t.strides}) || liesInRows(*from))) take(at, 0, *from);
  }

  // What lies in memory as [count][outer][inner] or [outer][inner][count], where the result is [outer][inner] all the
  // same. What loops make they write in the order that is wanted, or it never gets to memory.
  void readReduced(size_t at, ReductionLayer& layer) {
    const Dims sizes{layer.outer, layer.count, layer.inner};
    const TensorId id = layer.inputs[0];
    std::optional<Walk> from;
    if (layer.steps.empty()) from = originOf(id, {sizes, contiguousStrides(sizes), n_[id].offset});
    if (!from || isMadeByLoop(copyOf(id)->inputs[0])) return;
    auto lies = [&](const Dims& strides) {
      for (size_t d = 0; d < sizes.size(); ++d)
        if (sizes[d] > 1 && from->strides[d] != strides[d]) return false;
      return true;
    };
    const int64_t made = layer.outer * layer.inner;
    if (lies({layer.inner, made, 1})) {
      layer.outer = 1;
      layer.inner = made;
    } else if (lies({layer.inner * layer.count, 1, layer.count})) {
      layer.outer = made;
      layer.inner = 1;
    } else {
      return;
    }
    const Dims seen{layer.outer, layer.count, layer.inner};
    take(at, 0, {seen, contiguousStrides(seen), from->offset});
  }
  bool isMadeByLoop(TensorId id) const {
    const size_t writer = uses_.writer(id);
    return writer != NetworkUses::kNobody && dynamic_cast<PointwiseLayer*>(n_.layers[writer].get());
  }

  // Pairs, rows and columns of one side of a product, of attention too.
  using Side = BatchedMatmulLayer::Side;
  std::optional<Walk> originOf(TensorId id, const Side& side, Dims sizes) const {
    std::optional<Walk> from =
        originOf(id, {std::move(sizes), Dims{side.outer, side.inner, side.row, side.column}, n_[id].offset});
    if (from && from->sizes[3] == 1) from->strides[3] = 1;
    // Columns that are apart would have to be gathered.
    if (from && from->strides[3] != 1 && side.column == 1) return std::nullopt;
    return from;
  }
  void readSide(size_t at, size_t input, Side& side, Dims sizes) {
    std::optional<Walk> from = originOf(n_.layers[at]->inputs[input], side, std::move(sizes));
    if (!from) return;
    side = {from->strides[0], from->strides[1], from->strides[2], from->strides[3]};
    take(at, input, *from);
  }

  void readSides(size_t at, AttentionLayer& layer) {
    const AttentionShape& s = layer.shape;
    if (s.headsPerKey == 1) shareHeads(layer);
    const int64_t keyHeads = s.inner / s.headsPerKey;
    readSide(at, 0, layer.q, {s.outer, s.inner, s.queries, s.depth});
    readSide(at, 1, layer.k, {s.outer, keyHeads, s.keys, s.depth});
    readSide(at, 2, layer.v, {s.outer, keyHeads, s.keys, s.valueDepth});
  }

  // Heads that were repeated for groups of queries become heads that groups share.
  void shareHeads(AttentionLayer& layer) {
    const int64_t group = repeats(layer.inputs[1], layer.k.inner);
    if (group == 1 || group != repeats(layer.inputs[2], layer.v.inner) || layer.shape.inner % group != 0) return;
    Side k = layer.k, v = layer.v;
    k.inner *= group;
    v.inner *= group;
    const AttentionShape& s = layer.shape;
    if (!originOf(layer.inputs[1], k, {s.outer, s.inner / group, s.keys, s.depth}) ||
        !originOf(layer.inputs[2], v, {s.outer, s.inner / group, s.keys, s.valueDepth}))
      return;
    layer.shape.headsPerKey = group;
    layer.k = k;
    layer.v = v;
  }
  int64_t repeats(TensorId id, int64_t stride) const {
    const PointwiseLayer* copy = copyOf(id);
    return copy ? Origin(n_[copy->inputs[0]], n_[copy->outputs[0]].sizes).repeats(stride) : 1;
  }

  // The layer reads that of the copy's source.
  void take(size_t at, size_t input, const Walk& from) {
    Layer& layer = *n_.layers[at];
    const size_t writer = uses_.writer(layer.inputs[input]);
    const BufferId source = n_[n_.layers[writer]->inputs[0]].buffer;
    uses_.remove(at);
    const TensorId before =
        std::exchange(layer.inputs[input], n_.addView(source, DType::Float32, from.sizes, from.strides, from.offset));
    uses_.add(at);
    if (uses_.isUnread(before)) uses_.erase(writer);
  }

  Network& n_;
  NetworkUses uses_;
};

}  // namespace

void readThroughCopies(Network& network) { CopyReader(network).run(); }

}  // namespace tscompile
