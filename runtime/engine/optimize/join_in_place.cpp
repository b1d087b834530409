// What is made only to be laid into a larger tensor by a join is made there, where its parts stay together:
//   %a = conv(...); %b = conv(...); %c = cat(%a, %b)  ->  %c's memory holds %a and %b; the join has nothing to copy
// What is copied only to be joined is read where it lies:
//   %a = copy(view of x); %c = cat(%a, %b)  ->  %c = cat(view of x, %b)
// A join of what lies side by side already is a part of that memory: with %e = cat(%a, %b, %d) later, %c is part of %e.
#include "runtime/engine/layers/move_layers.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/layers/row_layers.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"

#include <optional>

namespace tscompile {
namespace {

constexpr size_t kAlignment = 64;  // that kernels expect of a buffer

class Joiner {
 public:
  explicit Joiner(Network& network) : n_(network), uses_(network), tensorsOf_(network.buffers.size()) {
    for (TensorId id = 0; id < n_.tensors.size(); ++id) tensorsOf_[n_[id].buffer].push_back(id);
  }

  void run() {
    std::vector<size_t> cats;
    for (size_t i = 0; i < n_.layers.size(); ++i) {
      auto* cat = dynamic_cast<CatLayer*>(n_.layers[i].get());
      if (cat && !cat->splitsLines() && cat->outer(n_) != 1) readThroughCopies(i, *cat);
      if (cat && !cat->splitsLines() && cat->outer(n_) == 1 && uses_.isWhole(cat->outputs[0])) cats.push_back(i);
    }
    // The last ones first: they have the inputs of those before them, and more.
    std::reverse(cats.begin(), cats.end());
    for (size_t i : cats) {
      auto& cat = static_cast<CatLayer&>(*n_.layers[i]);
      if (isJoined(cat) || join(i, cat)) uses_.erase(i);
    }
    uses_.compact();
  }

 private:
  // The tensor whose rows are copied only to be joined by layer i, or nothing.
  std::optional<TensorId> copiedFor(size_t i, TensorId id) const {
    const size_t writer = uses_.writer(id);
    if (uses_.soleReader(id) != i || writer == NetworkUses::kNobody || !uses_.isWhole(id)) return std::nullopt;
    const Layer* layer = n_.layers[writer].get();
    const auto* copy = dynamic_cast<const PointwiseLayer*>(layer);
    if (!(copy && copy->isCopy()) && !dynamic_cast<const MoveLayer*>(layer)) return std::nullopt;
    const NetTensor &from = n_[layer->inputs[0]], &to = n_[id];
    const bool isPlain = !from.blocked && !to.blocked && from.dtype == to.dtype && from.sizes == to.sizes;
    return isPlain && !from.strides.empty() && from.strides.back() == 1 ? std::optional(layer->inputs[0])
                                                                        : std::nullopt;
  }
  void readThroughCopies(size_t i, CatLayer& cat) {
    for (TensorId& id : cat.inputs) {
      const std::optional<TensorId> from = copiedFor(i, id);
      if (!from) continue;
      const TensorId copied = id;
      uses_.remove(i);
      id = *from;
      uses_.add(i);
      if (uses_.isUnread(copied)) uses_.erase(uses_.writer(copied));
    }
    cat.findViews(n_);
  }

  size_t firstByte(TensorId id) const { return static_cast<size_t>(n_[id].offset) * itemSize(n_[id].dtype); }

  // Whether the inputs lie side by side where layers write, and the output is there now.
  bool isJoined(const CatLayer& cat) {
    const TensorId first = cat.inputs[0], out = cat.outputs[0];
    const BufferId to = n_[first].buffer;
    int64_t end = n_[first].offset;
    for (TensorId id : cat.inputs) {
      if (n_[id].buffer != to || n_[id].offset != end) return false;
      end += n_[id].numel;
    }
    const NetBuffer& own = n_.bufferOf(out);
    // A join that was laid into a larger one shares its buffer, and cannot take that along.
    const bool isWhole = own.bytes == static_cast<size_t>(n_[out].numel) * itemSize(n_[out].dtype);
    if (!isWhole || n_.buffers[to].kind != NetBuffer::Kind::Inner || own.kind != NetBuffer::Kind::Inner ||
        own.escapes || n_[out].offset != 0 || firstByte(first) % kAlignment != 0 || n_[out].buffer == to)
      return false;
    move(n_[out].buffer, to, firstByte(first));
    return true;
  }

  // Whether all inputs lie in the output now.
  bool join(size_t i, const CatLayer& cat) {
    const BufferId to = n_[cat.outputs[0]].buffer;
    bool all = true;
    size_t at = firstByte(cat.outputs[0]);
    for (TensorId id : cat.inputs) {
      const size_t bytes = static_cast<size_t>(n_[id].numel) * itemSize(n_[id].dtype);
      const BufferId from = n_[id].buffer;
      if (at % kAlignment == 0 && isMadeFor(i, cat, id))
        move(from, to, at);
      else
        all = false;
      at += bytes;
    }
    return all;
  }

  // Whether a layer before this one makes the tensor, nobody outside sees it, and it is joined in one place.
  bool isMadeFor(size_t i, const CatLayer& cat, TensorId id) const {
    const BufferId b = n_[id].buffer;
    const NetBuffer& buffer = n_.buffers[b];
    auto others = std::count_if(cat.inputs.begin(), cat.inputs.end(), [&](TensorId o) { return n_[o].buffer == b; });
    const size_t writer = uses_.writer(id);
    return buffer.kind == NetBuffer::Kind::Inner && !buffer.escapes && others == 1 && uses_.isWhole(id) && writer < i;
  }

  void move(BufferId from, BufferId to, size_t at) {
    for (TensorId id : tensorsOf_[from]) {
      NetTensor& t = n_.tensors[id];
      t.buffer = to;
      t.offset += static_cast<int64_t>(at / itemSize(t.dtype));
      tensorsOf_[to].push_back(id);
    }
    tensorsOf_[from].clear();
  }

  Network& n_;
  NetworkUses uses_;
  std::vector<std::vector<TensorId>> tensorsOf_;  // by buffer
};

}  // namespace

void joinInPlace(Network& network) { Joiner(network).run(); }

}  // namespace tscompile
