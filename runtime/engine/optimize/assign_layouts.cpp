#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/conv_layer.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/engine/layers/row_layers.h"
#include "runtime/engine/network/tactics.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/kernels/layout.h"

#include <algorithm>
#include <unordered_map>

namespace tscompile {
namespace {

// The cheapest by the model among those that add products and nothing else.
const ConvTactic& exactTactic(const ConvShape& shape) {
  const ConvTactic* best = &kIm2colConv;
  for (const ConvTactic& t : convTactics())
    if (&t != findConvTactic(kWinogradConv.name) && t.accepts(shape) && t.cost(shape) < best->cost(shape)) best = &t;
  return *best;
}

class LayoutAssigner {
 public:
  LayoutAssigner(Network& network, const EngineOptions& options) : n_(network), options_(options) {}

  void run() {
    std::vector<std::unique_ptr<Layer>> layers = std::move(n_.layers);
    n_.layers.clear();
    for (auto& layer : layers) {
      if (auto* conv = dynamic_cast<ConvLayer*>(layer.get()))
        convolution(*conv);
      else if (auto* pool = dynamic_cast<Pool2dLayer*>(layer.get()))
        pooling(*pool);
      else if (auto* pointwise = dynamic_cast<PointwiseLayer*>(layer.get()))
        elementwise(*pointwise);
      else if (auto* steps = dynamic_cast<StepLayer*>(layer.get()))
        onSteps(*steps);
      else if (auto* cat = dynamic_cast<CatLayer*>(layer.get()))
        joining(*cat);
      else
        allPlain(*layer);
      n_.layers.push_back(std::move(layer));
    }
    for (NetValue& v : n_.outputs) output(v);
  }

 private:
  // ---- tensors ----

  bool isBlocked(TensorId id) const { return blockedWhole_.contains(n_[id].buffer); }
  // Whether the tensor is a blocked one as it was made, not another view of its buffer.
  bool isBlockedItself(TensorId id) const {
    auto whole = blockedWhole_.find(n_[id].buffer);
    return whole != blockedWhole_.end() && n_[id].contiguous && isSameImage(n_[id], n_[whole->second]);
  }
  // In memory the dimensions behind the channels are one.
  static bool isSameImage(const NetTensor& a, const NetTensor& b) {
    return a.rank() > 2 && b.rank() > 2 && a.sizes[0] == b.sizes[0] && a.sizes[1] == b.sizes[1] && a.numel == b.numel;
  }

  void markBlocked(TensorId id) {
    NetTensor& t = n_.tensors[id];
    t.blocked = true;
    int64_t area = t.numel / (t.sizes[0] * t.sizes[1]);
    n_.buffers[t.buffer].bytes = static_cast<size_t>(blockedSize(t.sizes[0], t.sizes[1], area)) * sizeof(float);
    blockedWhole_[t.buffer] = id;
  }

  TensorId reorder(TensorId from, bool toBlocked) {
    Dims sizes = n_[from].sizes;
    TensorId to = n_.addTensor(DType::Float32, sizes);
    if (toBlocked) markBlocked(to);
    auto layer = std::make_unique<ReorderLayer>(current_);
    layer->inputs = {from};
    layer->outputs = {to};
    n_.layers.push_back(std::move(layer));
    return to;
  }

  // The tensor in row-major order.
  TensorId plain(TensorId id) {
    auto whole = blockedWhole_.find(n_[id].buffer);
    if (whole == blockedWhole_.end()) return id;
    auto [made, isNew] = plainOf_.try_emplace(whole->second);
    if (isNew) made->second = reorder(whole->second, false);
    TensorId copy = made->second;
    if (id == whole->second) return copy;
    NetTensor view = n_[id];
    return n_.addView(n_[copy].buffer, view.dtype, view.sizes, view.strides, view.offset);
  }

  // The tensor, which has channels, in blocks of these.
  TensorId blocked(TensorId id) {
    if (isBlockedItself(id)) {
      n_.tensors[id].blocked = true;
      return id;
    }
    id = plain(id);
    auto [made, isNew] = blockedOf_.try_emplace(id);
    if (isNew) made->second = reorder(id, true);
    return made->second;
  }

  void allPlain(Layer& layer) {
    current_ = layer.node;
    for (TensorId& id : layer.inputs) id = plain(id);
  }

  // ---- layers ----

  // The tensor, which is contiguous, as the images that a convolution sees: what was fused into it may see it in other
  // sizes.
  TensorId asImages(TensorId id, int64_t batch, int64_t channels, int64_t height, int64_t width) {
    Dims sizes{batch, channels, height, width};
    NetTensor t = n_[id];
    if (t.rank() > 2 && t.sizes[0] == batch && t.sizes[1] == channels) return id;
    return n_.addView(t.buffer, t.dtype, sizes, contiguousStrides(sizes), t.offset);
  }

  void convolution(ConvLayer& layer) {
    current_ = layer.node;
    const int threads = options_.threads > 0 ? options_.threads : defaultThreads();
    layer.setTactic(layer.holdsIntegers() ? exactTactic(layer.shape())
                                          : chooseConvTactic(layer.shape(), options_, threads));
    bool in = layer.tactic().input == ActivationLayout::Blocked,
         out = layer.tactic().output == ActivationLayout::Blocked;
    const ConvShape& s = layer.shape();
    auto asResult = [&](TensorId id) { return asImages(id, s.batch, s.outChannels, s.outHeight(), s.outWidth()); };
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      TensorId id = layer.inputs[i];
      id = i == 0 ? asImages(id, s.batch, s.inChannels, s.inHeight, s.inWidth) : asResult(id);
      layer.inputs[i] = (i == 0 ? in : out) ? blocked(id) : plain(id);
    }
    layer.outputs[0] = asResult(layer.outputs[0]);
    if (out) markBlocked(layer.outputs[0]);
  }

  void pooling(Pool2dLayer& layer) {
    current_ = layer.node;
    layer.blocked = isBlockedItself(layer.inputs[0]);
    if (!layer.blocked) return allPlain(layer);
    layer.inputs[0] = blocked(layer.inputs[0]);
    if (layer.mode != Pool2dLayer::Mode::Global) markBlocked(layer.outputs[0]);
  }

  // Whether an operand can be read along blocked activations of these sizes.
  bool fitsBlocks(TensorId id, const Dims& sizes) const {
    const NetTensor& t = n_[id];
    if (!t.isFloat()) return false;
    if (t.sizes == sizes) return t.contiguous && (isBlockedItself(id) || !isBlocked(id));
    if (!n_.isConstant(id)) return false;
    const size_t fromEnd = sizes.size() - 1;  // channels are dimension 1
    return t.numel == 1 || (t.sizes.size() >= fromEnd && t.contiguous &&
                            t.sizes[t.sizes.size() - fromEnd] == sizes[1] && t.numel == sizes[1]);
  }

  // A constant per channel, with the last block filled up.
  TensorId channelConstant(TensorId id) {
    auto [made, isNew] = padded_.try_emplace(id);
    if (!isNew) return made->second;
    const Tensor& c = n_.bufferOf(id).constant;
    Tensor whole = Tensor::zeros(DType::Float32, Dims{channelBlocks(c.numel()) * kBlock});
    std::copy_n(c.data<float>(), c.numel(), whole.data<float>());
    return made->second = n_.addConstant(whole);
  }

  void elementwise(PointwiseLayer& layer) {
    current_ = layer.node;
    Dims sizes = n_[layer.outputs[0]].sizes;
    bool any = std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](TensorId id) { return isBlockedItself(id); });
    bool all =
        std::all_of(layer.inputs.begin(), layer.inputs.end(), [&](TensorId id) { return fitsBlocks(id, sizes); });
    if (!any || !all || sizes.size() < 3 || !n_[layer.outputs[0]].isFloat()) return allPlain(layer);
    layer.blocked = true;
    for (TensorId& id : layer.inputs) {
      if (n_[id].sizes == sizes)
        id = blocked(id);
      else if (n_[id].numel != 1)
        id = channelConstant(id);
    }
    markBlocked(layer.outputs[0]);
  }

  void onSteps(StepLayer& layer) {
    current_ = layer.node;
    const Dims sizes = n_[layer.outputs[0]].sizes;
    auto fits = [&](TensorId id) { return n_[id].sizes == sizes && fitsBlocks(id, sizes); };
    layer.blocked = isBlockedItself(layer.inputs[0]) && std::all_of(layer.inputs.begin(), layer.inputs.end(), fits);
    if (!layer.blocked) return allPlain(layer);
    for (TensorId& id : layer.inputs) id = blocked(id);
    markBlocked(layer.outputs[0]);
  }

  void joining(CatLayer& layer) {
    current_ = layer.node;
    // Not stack, whose result has a dimension that its inputs lack.
    const int rank = n_[layer.outputs[0]].rank();
    bool any = false, all = layer.dim == 1 && rank > 2;
    for (TensorId id : layer.inputs) {
      any |= isBlockedItself(id);
      const NetTensor& t = n_[id];
      all &= t.isFloat() && t.rank() == rank && t.sizes[1] % kBlock == 0 && (isBlockedItself(id) || !isBlocked(id));
    }
    if (!any || !all) return allPlain(layer);
    for (TensorId& id : layer.inputs) id = blocked(id);
    markBlocked(layer.outputs[0]);
  }

  void output(NetValue& v) {
    for (NetValue& item : v.items) output(item);
    if (v.kind != NetValue::Kind::Tensor || !isBlocked(v.tensor)) return;
    n_.buffers[n_[v.tensor].buffer].escapes = false;
    v.tensor = plain(v.tensor);
    n_.buffers[n_[v.tensor].buffer].escapes = true;
  }

  Network& n_;
  const EngineOptions& options_;
  const Node* current_ = nullptr;
  std::unordered_map<BufferId, TensorId> blockedWhole_;  // by buffer: its blocked tensor
  std::unordered_map<TensorId, TensorId> plainOf_, blockedOf_, padded_;
};

}  // namespace

void assignLayouts(Network& network, const EngineOptions& options) { LayoutAssigner(network, options).run(); }

}  // namespace tscompile
