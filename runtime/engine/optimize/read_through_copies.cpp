// copy(view of copy(x)) -> copy(view of x), and the same for the sides of products of batches and of attention.
#include "runtime/engine/layers/attention_layer.h"
#include "runtime/engine/layers/matmul_layer.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"

#include <optional>

namespace tscompile {
namespace {

// Elements of a tensor: sizes, strides and the first one.
struct Walk {
  Dims sizes, strides;
  int64_t offset = 0;
};

// Finds in the source of a copy what is walked through in its target.
class Origin {
 public:
  // Both are seen in the sizes of the target, which is in row-major order.
  Origin(const NetTensor& source, const Dims& sizes)
      : sizes_(sizes), targets_(contiguousStrides(sizes)), sources_(sizes.size(), 0), offset_(source.offset) {
    const size_t missing = sizes.size() - source.sizes.size();
    for (size_t d = 0; d < source.sizes.size(); ++d)
      sources_[missing + d] = source.sizes[d] == 1 ? 0 : source.strides[d];
  }

  std::optional<Walk> of(const Walk& walk) const {
    Walk found{walk.sizes, Dims(walk.sizes.size(), 0), offset_};
    Dims last(sizes_.size(), 0);  // in each dimension of the target, the last index that is reached
    for (size_t d = 0; d < sizes_.size(); ++d) {
      last[d] = walk.offset / targets_[d] % sizes_[d];
      found.offset += last[d] * sources_[d];
    }
    for (size_t i = 0; i < walk.sizes.size(); ++i)
      if (walk.sizes[i] > 1 && walk.strides[i] != 0 && !follow(walk.sizes[i], walk.strides[i], found.strides[i], last))
        return std::nullopt;
    for (size_t d = 0; d < sizes_.size(); ++d)
      if (last[d] >= sizes_[d]) return std::nullopt;
    return found;
  }

  // How many times in a row the source's elements stand in the target, `stride` apart.
  int64_t repeats(int64_t stride) const {
    for (size_t d = 0; d < sizes_.size(); ++d)
      if (sizes_[d] != 1 && targets_[d] == stride && sources_[d] == 0) return sizes_[d];
    return 1;
  }

 private:
  // The stride in the source of `size` elements that lie `stride` apart in the target: in one of its dimensions, or in
  // all of some that lie in the source one in the other.
  bool follow(int64_t size, int64_t stride, int64_t& wanted, Dims& last) const {
    for (size_t d = sizes_.size(); d-- > 0;) {
      if (sizes_[d] == 1 || stride % targets_[d] != 0 || stride / targets_[d] >= sizes_[d]) continue;
      const int64_t step = stride / targets_[d];
      wanted = sources_[d] * step;
      if ((size - 1) * step < sizes_[d]) return last[d] += (size - 1) * step, true;
      return step == 1 && spans(size, d, last);
    }
    return false;
  }
  // `size` elements, one after the other, from dimension d outwards.
  bool spans(int64_t size, size_t d, Dims& last) const {
    const size_t inner = d;
    int64_t covered = 1;
    for (;; --d) {
      if (sources_[d] != sources_[inner] * covered && sizes_[d] > 1) return false;
      const int64_t some = std::min(sizes_[d], size / covered);
      if (size % covered != 0) return false;
      last[d] += some - 1;
      covered *= some;
      if (covered == size) return true;
      if (some != sizes_[d] || d == 0) return false;
    }
  }

  const Dims sizes_;
  const Dims targets_;
  Dims sources_;
  const int64_t offset_;
};

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
