#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/conv_layer.h"
#include "runtime/engine/layers/group_norm_layer.h"
#include "runtime/engine/layers/input_conv_layer.h"
#include "runtime/engine/layers/lane_layer.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/engine/layers/rearrange_layer.h"
#include "runtime/engine/layers/reduction_layer.h"
#include "runtime/engine/layers/resize_layer.h"
#include "runtime/engine/layers/row_layers.h"
#include "runtime/engine/layers/sampling_layer.h"
#include "runtime/engine/network/tactics.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>

namespace tscompile {
namespace {

// The cheapest by the model among those that add products and nothing else, and do that exactly.
const ConvTactic& exactTactic(const ConvShape& shape, ExactArithmetic exact) {
  constexpr double kIntegersFaster = 2;
  const ConvTactic* best = nullptr;
  double least = 0;
  for (const ConvTactic* t : {&kDirectConv, &kFirstLayerConv, &kDepthwiseConv, &kGroupedConv}) {
    const bool integers = exact.integers && t->integers;
    if (!t->accepts(shape) || (!integers && !exact.floats)) continue;
    const bool bytes = exact.bytes && t->multipliesLines(shape, WeightStorage::Bytes);
    const double cost = t->cost(shape) / (bytes ? lineSpeed(WeightStorage::Bytes) : integers ? kIntegersFaster : 1);
    if (best && cost >= least) continue;
    best = t;
    least = cost;
  }
  TS_CHECK(best);
  return *best;
}

using Layers = std::vector<std::unique_ptr<Layer>>;

class LayoutAssigner {
 public:
  LayoutAssigner(Network& network, const EngineOptions& options) : n_(network), options_(options) {}

  void run() {
    std::vector<std::unique_ptr<Layer>> layers = std::move(n_.layers);
    n_.layers.clear();
    readers_.resize(n_.buffers.size());
    for (const auto& layer : layers)
      for (TensorId id : layer->inputs) ++readers_[n_[id].buffer];
    for (size_t i = 0; i < layers.size(); ++i)
      for (TensorId id : layers[i]->inputs) reader_[n_[id].buffer] = i;
    for (auto& layer : layers) {
      if (!layer) continue;
      if (auto* conv = dynamic_cast<ConvLayer*>(layer.get()))
        convolution(*conv, layers);
      else if (auto* pool = dynamic_cast<Pool2dLayer*>(layer.get()))
        pooling(*pool);
      else if (auto* pointwise = dynamic_cast<PointwiseLayer*>(layer.get())) {
        if (std::unique_ptr<Layer> moved = copyOfPixels(*pointwise))
          layer = std::move(moved);
        else if (std::unique_ptr<Layer> taken = copyOfChannels(*pointwise))
          layer = std::move(taken);
        else if (std::unique_ptr<Layer> stepped = copyBySteps(*pointwise))
          layer = std::move(stepped);
        else
          elementwise(*pointwise);
      } else if (auto* steps = dynamic_cast<StepLayer*>(layer.get()))
        onSteps(*steps);
      else if (auto* cat = dynamic_cast<CatLayer*>(layer.get())) {
        if (std::unique_ptr<Layer> joined = joinOfChannels(*cat))
          layer = std::move(joined);
        else
          joining(*cat);
      } else if (auto* resize = dynamic_cast<ResizeLayer*>(layer.get()))
        resizing(*resize, layers);
      else if (auto* sampler = dynamic_cast<GridSamplerLayer*>(layer.get()))
        sampling(*sampler);
      else if (auto* norm = dynamic_cast<GroupNormLayer*>(layer.get()))
        normalising(*norm);
      else if (auto* reduction = dynamic_cast<ReductionLayer*>(layer.get()))
        reducing(*reduction);
      else if (auto* shuffle = dynamic_cast<ChannelsToPixelsLayer*>(layer.get()))
        shuffling(*shuffle);
      else if (auto* rearrange = dynamic_cast<RearrangeLayer*>(layer.get())) {
        if (std::unique_ptr<Layer> moved = rearrangementOfBlocks(*rearrange))
          layer = std::move(moved);
        else
          allPlain(*layer);
      } else
        allPlain(*layer);
      n_.layers.push_back(std::move(layer));
    }
    for (NetValue& v : n_.outputs) output(v);
    std::erase_if(n_.layers, [](const auto& layer) { return !layer; });
  }

 private:
  // ---- tensors ----

  bool isBlocked(TensorId id) const { return blockedWhole_.contains(n_[id].buffer); }
  // Whether the tensor is a blocked one as it was made or some of the blocks of an image, not another view of the
  // buffer.
  bool isBlockedItself(TensorId id) const {
    auto whole = blockedWhole_.find(n_[id].buffer);
    return whole != blockedWhole_.end() && n_[id].contiguous && isInBlocks(n_[id], n_[whole->second]);
  }
  static int64_t areaOf(const NetTensor& t) { return t.numel / (t.sizes[0] * t.sizes[1]); }
  // In memory the dimensions behind the channels are one.
  bool isInBlocks(const NetTensor& part, const NetTensor& whole) const {
    if (part.rank() < 3 || whole.rank() < 3 || part.numel == 0 || areaOf(part) != areaOf(whole)) return false;
    // Channels of several images in whole blocks are those of one. In other precisions lines hold several blocks.
    if (part.sizes[0] != whole.sizes[0])
      return options_.precision == DType::Float32 && part.numel == whole.numel && part.sizes[1] % kBlock == 0 &&
             whole.sizes[1] % kBlock == 0;
    return part.sizes[1] == whole.sizes[1] ||
           (part.sizes[0] == 1 && (part.offset - whole.offset) % (areaOf(whole) * kBlock) == 0);
  }

  // Whether a view walks through these dimensions, outermost first, each in one or more of its own.
  struct Walk {
    int64_t size, stride;
  };
  static bool walks(const NetTensor& view, std::initializer_list<Walk> dimensions) {
    size_t d = 0;
    auto skipOnes = [&] {
      while (d < view.sizes.size() && view.sizes[d] == 1) ++d;
    };
    for (auto [size, stride] : dimensions)
      for (skipOnes(); size > 1; ++d, skipOnes()) {
        if (d == view.sizes.size() || size % view.sizes[d] != 0) return false;
        size /= view.sizes[d];
        if (view.strides[d] != stride * size) return false;
      }
    skipOnes();
    return d == view.sizes.size();
  }
  // The blocked tensor of which the view is all, pixel by pixel; null if there is none.
  const NetTensor* blockedByPixels(const NetTensor& view) const {
    auto found = blockedWhole_.find(view.buffer);
    if (found == blockedWhole_.end()) return nullptr;
    const NetTensor& whole = n_[found->second];
    const int64_t area = areaOf(whole), channels = whole.sizes[1];
    const bool all =
        view.offset == whole.offset && walks(view, {{whole.sizes[0], channels * area}, {area, 1}, {channels, area}});
    return all ? &whole : nullptr;
  }
  // Whether images, which are not blocked, lie in memory pixel by pixel.
  bool liesByPixels(const NetTensor& t) const {
    if (t.rank() < 3 || !t.isFloat() || t.contiguous || blockedWhole_.contains(t.buffer)) return false;
    const int64_t area = areaOf(t), channels = t.sizes[1];
    return walks(t, {{t.sizes[0], channels * area}, {channels, 1}, {area, channels}});
  }

  // The blocked tensor of whose channels the view is some, image by image, and the first of them.
  struct Channels {
    TensorId whole;
    int64_t first;
  };
  std::optional<Channels> channelsOf(TensorId id) const {
    const NetTensor& t = n_[id];
    auto found = blockedWhole_.find(t.buffer);
    if (found == blockedWhole_.end() || t.rank() < 3 || !t.isFloat() || t.numel == 0) return std::nullopt;
    const NetTensor& whole = n_[found->second];
    const int64_t area = areaOf(whole), from = t.offset - whole.offset;
    if (whole.rank() < 3 || t.numel == 0 || t.sizes[0] != whole.sizes[0] || areaOf(t) != area || from < 0 ||
        from % area != 0 || from / area + t.sizes[1] > whole.sizes[1] ||
        !walks(t, {{t.sizes[0], whole.sizes[1] * area}, {t.sizes[1], area}, {area, 1}}))
      return std::nullopt;
    return Channels{found->second, from / area};
  }

  std::unique_ptr<ChannelsLayer> makeChannels(std::span<const TensorId> from, TensorId to) {
    auto layer = std::make_unique<ChannelsLayer>(current_);
    for (TensorId id : from) {
      const auto [whole, first] = *channelsOf(id);
      layer->inputs.push_back(whole);
      layer->parts.push_back({first, n_[id].sizes[1]});
    }
    layer->outputs = {to};
    markBlocked(to);
    return layer;
  }

  void markBlocked(TensorId id) {
    NetTensor& t = n_.tensors[id];
    t.blocked = true;
    n_.buffers[t.buffer].bytes = static_cast<size_t>(blockedSize(t.sizes[0], t.sizes[1], areaOf(t))) * sizeof(float);
    blockedWhole_[t.buffer] = id;
  }

  TensorId reorder(TensorId from, bool toBlocked) {
    const NetTensor t = n_[from];
    const Dims& sizes = t.sizes;
    // Images of one pixel in whole blocks lie in the same order both ways.
    if (t.numel == sizes[0] * sizes[1] && sizes[1] % kBlock == 0) {
      const TensorId view = n_.addView(t.buffer, t.dtype, sizes, contiguousStrides(sizes), t.offset);
      n_.tensors[view].blocked = toBlocked;
      return view;
    }
    TensorId to = n_.addTensor(DType::Float32, sizes);
    if (toBlocked) markBlocked(to);
    n_.layers.push_back(makeReorder(from, to, toBlocked && liesByPixels(t)));
    return to;
  }

  std::unique_ptr<Layer> makeReorder(TensorId from, TensorId to, bool byPixels) const {
    auto layer = std::make_unique<ReorderLayer>(current_);
    layer->byPixels = byPixels;
    layer->inputs = {from};
    layer->outputs = {to};
    return layer;
  }

  // A copy of a blocked tensor that lies pixel by pixel is one reordering; null if this is none.
  std::unique_ptr<Layer> copyOfPixels(const PointwiseLayer& layer) {
    if (!layer.isCopy() || !n_[layer.outputs[0]].isFloat() || !blockedByPixels(n_[layer.inputs[0]])) return nullptr;
    current_ = layer.node;
    return makeReorder(blockedWhole_.at(n_[layer.inputs[0]].buffer), layer.outputs[0], true);
  }

  // The same for a copy of some channels of a blocked tensor.
  std::unique_ptr<Layer> copyOfChannels(const PointwiseLayer& layer) {
    const TensorId in = layer.inputs[0], out = layer.outputs[0];
    if (!layer.isCopy() || !n_[out].isFloat() || !n_[out].contiguous || !(n_[in].sizes == n_[out].sizes) ||
        isBlockedItself(in) || !channelsOf(in))
      return nullptr;
    current_ = layer.node;
    return makeChannels(std::span(&in, 1), out);
  }

  // A copy of every so many rows and columns of blocked images is a pool of one pixel.
  std::unique_ptr<Layer> copyBySteps(const PointwiseLayer& layer) {
    const TensorId in = layer.inputs[0], out = layer.outputs[0];
    auto found = blockedWhole_.find(n_[in].buffer);
    if (found == blockedWhole_.end() || !layer.isCopy() || !n_[out].isFloat() || !n_[out].contiguous) return nullptr;
    const NetTensor &whole = n_[found->second], &view = n_[in];
    if (whole.rank() != 4 || view.rank() != 4 || view.numel == 0 || !(view.sizes == n_[out].sizes)) return nullptr;
    const Dims &s = view.sizes, &from = whole.sizes;
    const int64_t width = from[3], down = std::max<int64_t>(view.strides[2] / width, 1),
                  along = std::max<int64_t>(view.strides[3], 1);
    if (view.offset != whole.offset || s[0] != from[0] || s[1] != from[1] || areaOf(view) == areaOf(whole) ||
        (s[2] - 1) * down >= from[2] || (s[3] - 1) * along >= width ||
        !walks(view, {{s[0], from[1] * areaOf(whole)}, {s[1], areaOf(whole)}, {s[2], down * width}, {s[3], along}}))
      return nullptr;
    current_ = layer.node;
    auto pool = std::make_unique<Pool2dLayer>(current_);
    pool->blocked = true;
    pool->shape = {.batch = s[0],
                   .channels = s[1],
                   .inHeight = from[2],
                   .inWidth = width,
                   .outHeight = s[2],
                   .outWidth = s[3],
                   .strideHeight = down,
                   .strideWidth = along};
    pool->inputs = {found->second};
    pool->outputs = {out};
    markBlocked(out);
    return pool;
  }

  // The tensor not in blocks; of pixels, side by side.
  TensorId plainPixels(TensorId id) {
    if (!blockedByPixels(n_[id])) return plain(id);
    const TensorId whole = blockedWhole_.at(n_[id].buffer);
    auto [made, isNew] = pixelsOf_.try_emplace(whole);
    const Dims sizes = n_[id].sizes;
    if (isNew) {
      made->second = n_.addTensor(DType::Float32, sizes);
      n_.layers.push_back(makeReorder(whole, made->second, true));
    }
    return n_.addView(n_[made->second].buffer, DType::Float32, sizes, contiguousStrides(sizes), 0);
  }

  // What a copy of pixels that only one layer reads was made of, as that layer sees it; the copy is gone. Else `id`.
  TensorId withoutCopy(TensorId id) {
    auto copy = copies_.find(n_[id].buffer);
    if (copy == copies_.end() || !n_[id].contiguous || n_[id].rank() < 3) return id;
    auto [at, source] = copy->second;
    const NetTensor from = n_[source], to = n_[id];
    if (from.sizes[0] != to.sizes[0] || from.sizes[1] != to.sizes[1] || from.numel != to.numel) return id;
    n_.layers[at].reset();
    copies_.erase(copy);
    return source;
  }

  // Which pixel of each image a view of a blocked tensor shows, of all channels in whole blocks: the last step of a
  // sequence, for instance.
  std::optional<int64_t> pixelOf(const NetTensor& t, const NetTensor& whole) const {
    const int64_t images = whole.sizes[0], channels = whole.sizes[1], area = areaOf(whole),
                  at = t.offset - whole.offset;
    const bool shows = whole.rank() > 2 && channels % kBlock == 0 && t.numel == images * channels && area > 1 &&
                       at >= 0 && at < area && walks(t, {{images, channels * area}, {channels, area}});
    return shows ? std::optional(at) : std::nullopt;
  }

  TensorId copyOfPixel(TensorId id, const NetTensor whole, int64_t pixel) {
    const Dims blocks{whole.sizes[0], whole.sizes[1] / kBlock, kBlock};
    const Dims strides{whole.sizes[1] * areaOf(whole), areaOf(whole) * kBlock, 1};
    const TensorId to = n_.addTensor(DType::Float32, n_[id].sizes);
    auto copy = std::make_unique<PointwiseLayer>(current_);
    copy->program.output(copy->program.step(PointwiseOp::Copy, copy->program.input()));
    copy->inputs = {n_.addView(whole.buffer, DType::Float32, blocks, strides, whole.offset + pixel * kBlock)};
    copy->outputs = {n_.addView(n_[to].buffer, DType::Float32, blocks, contiguousStrides(blocks), 0)};
    n_.layers.push_back(std::move(copy));
    return to;
  }

  // The tensor in row-major order. Who has taken strides from it needs them as they are.
  TensorId plain(TensorId id, bool keepsStrides = false) {
    auto whole = blockedWhole_.find(n_[id].buffer);
    if (whole == blockedWhole_.end()) return id;
    if (!keepsStrides && !plainOf_.contains(whole->second))
      if (const std::optional<int64_t> pixel = pixelOf(n_[id], n_[whole->second]))
        return copyOfPixel(id, n_[whole->second], *pixel);
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
    if (channelsOf(id)) {
      auto [made, isNew] = blockedOf_.try_emplace(id);
      if (isNew) {
        const TensorId part = made->second = n_.addTensor(DType::Float32, n_[id].sizes);
        n_.layers.push_back(makeChannels(std::span(&id, 1), part));
      }
      return made->second;
    }
    id = withoutCopy(plain(id));
    auto [made, isNew] = blockedOf_.try_emplace(id);
    if (isNew) made->second = reorder(id, true);
    return made->second;
  }

  void allPlain(Layer& layer) {
    current_ = layer.node;
    const bool keepsStrides = !dynamic_cast<PointwiseLayer*>(&layer);
    for (TensorId& id : layer.inputs) id = plain(id, keepsStrides);
  }

  // ---- layers ----

  // The tensor, which is contiguous, as the images that a convolution sees: what was fused into it may see it in other
  // sizes.
  TensorId asImages(TensorId id, int64_t batch, int64_t channels, int64_t area) {
    Dims sizes{batch, channels, area};
    NetTensor t = n_[id];
    if (t.rank() > 2 && t.sizes[0] == batch && t.sizes[1] == channels) return id;
    return n_.addView(t.buffer, t.dtype, sizes, contiguousStrides(sizes), t.offset);
  }

  // The copy that alone reads the result of a convolution, and lays it pixel by pixel; where it is among `layers`, or
  // their number.
  size_t copyByPixels(const ConvLayer& conv, const Layers& layers) const {
    const NetTensor& made = n_[conv.outputs[0]];
    auto found = reader_.find(made.buffer);
    if (readers_[made.buffer] != 1 || found == reader_.end() || n_.buffers[made.buffer].escapes) return layers.size();
    const auto* copy = dynamic_cast<const PointwiseLayer*>(layers[found->second].get());
    if (!copy || !copy->isCopy()) return layers.size();
    const NetTensor &view = n_[copy->inputs[0]], &out = n_[copy->outputs[0]];
    const int64_t area = areaOf(made), channels = made.sizes[1];
    const bool all = out.isFloat() && out.contiguous && view.offset == made.offset && view.sizes == out.sizes &&
                     walks(view, {{made.sizes[0], channels * area}, {area, 1}, {channels, area}});
    return all ? found->second : layers.size();
  }

  // What lies by pixels is read, and made, as it is, where the tactic can.
  void takePixels(ConvLayer& layer, Layers& layers) {
    const ConvShape& s = layer.shape();
    if (!layer.tactic().takesPixels || !layer.tactic().takesPixels(s) || layer.inputs.size() != 1 ||
        layer.holdsIntegers() || optionsFor(layer).precision != DType::Float32)
      return;
    auto isImages = [&](const NetTensor& t, int64_t channels) {
      return t.rank() > 2 && t.sizes[0] == s.batch && t.sizes[1] == channels;
    };
    TensorId& in = layer.inputs[0];
    if (!isImages(n_[in], s.inChannels) || !isImages(n_[layer.outputs[0]], s.outChannels)) return;
    if (!isBlocked(in)) in = withoutCopy(in);
    const bool input = liesByPixels(n_[in]);
    const size_t copy = copyByPixels(layer, layers);
    layer.setByPixels(input, copy < layers.size());
    if (copy == layers.size()) return;
    const NetTensor made = n_[layer.outputs[0]], to = n_[layers[copy]->outputs[0]];
    const int64_t area = areaOf(made), channels = made.sizes[1];
    layer.outputs[0] = n_.addView(to.buffer, to.dtype, Dims{made.sizes[0], channels, area},
                                  Dims{channels * area, 1, channels}, to.offset);
    layers[copy].reset();
  }

  // Of a layer that multiplies in a precision of its own, which is that of bf16.
  EngineOptions optionsFor(const ConvLayer& layer) const {
    const ProductPrecision wanted = productPrecision(options_), own = layer.precisionFor(wanted);
    EngineOptions options = options_;
    options.roundsRows = own.roundsRows;
    if (own.weights != wanted.weights) options.precision = DType::BFloat16;
    return options;
  }

  void chooseTactic(ConvLayer& layer) {
    const EngineOptions options = optionsFor(layer);
    const int threads = options.threads > 0 ? options.threads : defaultThreads();
    layer.dropIdleTaps();
    layer.setRoundsInputs(options.roundsRows);
    layer.setTactic(layer.holdsIntegers() ? exactTactic(layer.shape(), layer.exactArithmetic())
                                          : chooseConvTactic(layer.shape(), options, threads));
  }

  void convolution(ConvLayer& layer, Layers& layers) {
    current_ = layer.node;
    auto* ofInputs = dynamic_cast<InputConvLayer*>(&layer);
    ofInputs ? ofInputs->chooseTactic(options_) : chooseTactic(layer);
    bool in = layer.tactic().input == ActivationLayout::Blocked,
         out = layer.tactic().output == ActivationLayout::Blocked;
    const ConvShape& s = layer.shape();
    takePixels(layer, layers);
    auto asResult = [&](TensorId id) { return asImages(id, s.batch, s.outChannels, s.outArea()); };
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      TensorId id = layer.inputs[i];
      if (i == 0 && s.inByPixels) continue;
      if (ofInputs && i == InputConvLayer::kWeights) {
        layer.inputs[i] = plain(id);
        continue;
      }
      id = i == 0 ? asImages(id, s.batch, s.inChannels, s.inArea()) : asResult(id);
      layer.inputs[i] = (i == 0 ? in : out) ? blocked(id) : plain(id);
    }
    if (s.outByPixels) return;
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

  void reducing(ReductionLayer& layer) {
    current_ = layer.node;
    const TensorId in = layer.inputs[0], out = layer.outputs[0];
    if (layer.inputs.size() != 1 || !isBlockedItself(in) || !layer.takeBlocks(n_[in])) return allPlain(layer);
    layer.inputs[0] = blocked(in);
    if (layer.blocks() == ReductionLayer::Blocks::Channels || layer.outer * layer.inner == channelsIn(in)) return;
    const NetTensor& made = n_[out];
    const Dims sizes{n_[in].sizes[0], n_[in].sizes[1], made.numel / channelsIn(in)};
    layer.outputs[0] = asImages(out, sizes[0], sizes[1], sizes[2]);
    markBlocked(layer.outputs[0]);
  }
  int64_t channelsIn(TensorId id) const { return n_[id].sizes[0] * n_[id].sizes[1]; }

  // A number for each channel of each image.
  static bool isPerChannel(const NetTensor& t, const Dims& sizes) {
    return t.sizes.size() == sizes.size() && t.sizes[0] == sizes[0] && t.sizes[1] == sizes[1] &&
           t.numel == sizes[0] * sizes[1];
  }

  // Whether the view is some whole blocks of each of several images, as halves are that gate each other: what walks
  // through blocks goes on from image to image by the view's stride. In other precisions lines hold several blocks.
  bool isPartInBlocks(TensorId id) const {
    const std::optional<Channels> part = channelsOf(id);
    return options_.precision == DType::Float32 && part && part->first % kBlock == 0 && n_[id].sizes[0] > 1 &&
           n_[id].sizes[1] % kBlock == 0 && n_[part->whole].sizes[1] % kBlock == 0;
  }

  // Whether an operand can be read along blocked activations of these sizes.
  bool fitsBlocks(TensorId id, const Dims& sizes) const {
    const NetTensor& t = n_[id];
    if (!t.isFloat()) return false;
    if (t.sizes == sizes && isPartInBlocks(id)) return true;
    if (t.sizes == sizes || (!n_.isConstant(id) && isPerChannel(t, sizes)))
      return liesByPixels(t) || (t.contiguous && (isBlockedItself(id) || !isBlocked(id)));
    if (!n_.isConstant(id)) return false;
    const size_t fromEnd = sizes.size() - 1;  // channels are dimension 1
    return t.numel == 1 || (t.sizes.size() >= fromEnd && t.contiguous &&
                            t.sizes[t.sizes.size() - fromEnd] == sizes[1] && t.numel == sizes[1]);
  }

  // A constant per channel, with the last block filled up, and the last line in other precisions.
  TensorId channelConstant(TensorId id) {
    auto [made, isNew] = padded_.try_emplace(id);
    if (!isNew) return made->second;
    const Tensor& c = n_.bufferOf(id).constant;
    const int64_t unit = options_.precision == DType::Float32 ? kBlock : ElementType{DType::UInt8}.channels();
    Tensor whole = Tensor::zeros(DType::Float32, Dims{channelBlocks(c.numel(), unit) * unit});
    std::copy_n(c.data<float>(), c.numel(), whole.data<float>());
    return made->second = n_.addConstant(whole);
  }

  // What is broadcast to images of some sizes, with its own sizes behind ones.
  static Dims alignedTo(const Dims& sizes, const NetTensor& t) {
    Dims aligned(sizes.size() - t.sizes.size(), 1);
    aligned.append(t.sizes.begin(), t.sizes.end());
    return aligned;
  }
  // How an operand that does not fit is broadcast along blocked activations: in blocks if it has their channels, as a
  // plain one if it has one number for all channels of a pixel.
  enum class Spread : uint8_t { None, InBlocks, OfPixels };
  Spread spreadOf(TensorId id, const Dims& sizes) const {
    const NetTensor& t = n_[id];
    if (options_.precision != DType::Float32 || !t.isFloat() || !t.contiguous || t.sizes.size() > sizes.size())
      return Spread::None;
    const Dims aligned = alignedTo(sizes, t);
    for (size_t d = 0; d < sizes.size(); ++d)
      if (aligned[d] != sizes[d] && aligned[d] != 1) return Spread::None;
    if (aligned[1] == 1) return Spread::OfPixels;
    const bool fits = t.sizes.size() == sizes.size() && (isBlockedItself(id) || !isBlocked(id));
    return fits ? Spread::InBlocks : Spread::None;
  }
  // The steps of such an operand through images, blocks, the dimensions of pixels, and lanes.
  static Dims stepsInBlocks(const Dims& aligned, bool inBlocks) {
    const Dims own = sizesInBlocks(aligned);
    Dims steps(own.size(), 0);
    int64_t step = inBlocks ? kBlock : 1;
    for (size_t d = aligned.size(); d-- > 0;) {
      if (d == 1 ? inBlocks : own[d] > 1) steps[d] = step;
      step *= own[d];
    }
    steps[aligned.size()] = inBlocks;
    return steps;
  }

  void elementwise(PointwiseLayer& layer) {
    current_ = layer.node;
    const Dims sizes = n_[layer.outputs[0]].sizes;
    auto isPart = [&](TensorId id) { return n_[id].sizes == sizes && !isBlockedItself(id) && isPartInBlocks(id); };
    const bool any = std::ranges::any_of(
        layer.inputs, [&](TensorId id) { return n_[id].sizes == sizes && (isBlockedItself(id) || isPart(id)); });
    bool all = sizes.size() > 2 && n_[layer.outputs[0]].isFloat(), spreads = false;
    for (size_t i = 0; any && all && i < layer.inputs.size(); ++i)
      if (!fitsBlocks(layer.inputs[i], sizes)) {
        spreads = true;
        all = spreadOf(layer.inputs[i], sizes) != Spread::None;
      }
    if (!any || !all) {
      for (TensorId& id : layer.inputs) id = plainPixels(id);
      const BufferId to = n_[layer.outputs[0]].buffer;
      if (layer.isCopy() && readers_[to] == 1 && !n_.buffers[to].escapes && liesByPixels(n_[layer.inputs[0]]))
        copies_[to] = {n_.layers.size(), layer.inputs[0]};
      return;
    }
    layer.blocked = true;
    for (TensorId& id : layer.inputs) {
      const NetTensor operand = n_[id];
      const bool part = isPart(id), fits = fitsBlocks(id, sizes);
      bool inBlocks = true;
      if (part) {
        id = n_.addView(operand.buffer, operand.dtype, operand.sizes, operand.strides, operand.offset);
        n_.tensors[id].blocked = true;
      } else if (!fits && spreadOf(id, sizes) == Spread::OfPixels) {
        id = plain(id);
        inBlocks = false;
      } else if (operand.sizes == sizes || !fits || !n_.isConstant(id))
        id = blocked(id);
      else if (operand.numel != 1)
        id = channelConstant(id);
      else
        inBlocks = false;
      if (!spreads) continue;
      layer.spread.push_back(stepsInBlocks(alignedTo(sizes, operand), inBlocks));
      if (part) layer.spread.back()[0] = operand.strides[0];
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
      all =
          all && t.isFloat() && t.rank() == rank && t.sizes[1] % kBlock == 0 && (isBlockedItself(id) || !isBlocked(id));
    }
    if (!any || !all) return allPlain(layer);
    for (TensorId& id : layer.inputs) id = blocked(id);
    markBlocked(layer.outputs[0]);
  }

  // A join of channels of blocked tensors that are no whole blocks; null if this is none.
  std::unique_ptr<Layer> joinOfChannels(const CatLayer& cat) {
    const int rank = n_[cat.outputs[0]].rank();
    if (cat.dim != 1 || rank < 3) return nullptr;
    bool whole = true;
    for (TensorId id : cat.inputs) {
      if (n_[id].rank() != rank || !channelsOf(id)) return nullptr;
      whole &= n_[id].sizes[1] % kBlock == 0 && isBlockedItself(id);
    }
    if (whole) return nullptr;
    current_ = cat.node;
    return makeChannels(cat.inputs, cat.outputs[0]);
  }

  void normalising(GroupNormLayer& layer) {
    current_ = layer.node;
    layer.blocked = isBlockedItself(layer.inputs[0]);
    if (!layer.blocked) return allPlain(layer);
    layer.inputs[0] = blocked(layer.inputs[0]);
    markBlocked(layer.outputs[0]);
  }

  void shuffling(ChannelsToPixelsLayer& layer) {
    current_ = layer.node;
    layer.blocked = isBlockedItself(layer.inputs[0]) && layer.placesFirst;
    if (!layer.blocked) return allPlain(layer);
    layer.inputs[0] = blocked(layer.inputs[0]);
    markBlocked(layer.outputs[0]);
  }

  // Whether results that are larger than what they are made of are wanted in rows only: then that is what is reordered.
  bool growsIntoRows(const Layer& layer, const Layers& layers) const {
    const NetTensor &from = n_[layer.inputs[0]], &to = n_[layer.outputs[0]];
    return areaOf(to) > areaOf(from) && isWantedInRows(to.buffer, layers);
  }
  bool isWantedInRows(BufferId buffer, const Layers& layers) const {
    if (readers_[buffer] == 0 || n_.buffers[buffer].escapes) return readers_[buffer] == 0;
    if (readers_[buffer] > 1) return false;
    const Layer* reader = layers[reader_.at(buffer)].get();
    if (dynamic_cast<const PointwiseLayer*>(reader) && reader->inputs.size() == 1)
      return isWantedInRows(n_[reader->outputs[0]].buffer, layers);
    return dynamic_cast<const ExtremesLayer*>(reader) || dynamic_cast<const SoftmaxLayer*>(reader);
  }

  void resizing(ResizeLayer& layer, const Layers& layers) {
    current_ = layer.node;
    layer.blocked = isBlockedItself(layer.inputs[0]) && !growsIntoRows(layer, layers);
    if (!layer.blocked) return allPlain(layer);
    layer.inputs[0] = blocked(layer.inputs[0]);
    markBlocked(layer.outputs[0]);
  }

  void sampling(GridSamplerLayer& layer) {
    current_ = layer.node;
    const TensorId images = layer.inputs[0];
    layer.blocked = isBlockedItself(images) || (!isBlocked(images) && layer.gainsByBlocks(n_));
    if (!layer.blocked) return allPlain(layer);
    layer.inputs = {blocked(images), plain(layer.inputs[1])};
    markBlocked(layer.outputs[0]);
  }

  // Margins, nearest pixels, flips: a block of channels moves as one; null if there are none.
  std::unique_ptr<Layer> rearrangementOfBlocks(const RearrangeLayer& layer) {
    const TensorId in = layer.inputs[0];
    if (layer.padsChannels() && n_[in].isFloat() && channelsOf(in)) {
      current_ = layer.node;
      std::unique_ptr<ChannelsLayer> padded = makeChannels(std::span(&in, 1), layer.outputs[0]);
      padded->zerosBefore = layer.before[1];
      padded->fills = true;
      return padded;
    }
    if (!isBlockedItself(in) || !n_[in].isFloat() || !layer.keepsChannels()) return nullptr;
    current_ = layer.node;
    std::unique_ptr<RearrangeLayer> moved = layer.onBlocks();
    moved->inputs[0] = blocked(in);
    markBlocked(moved->outputs[0]);
    return moved;
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
  std::unordered_map<TensorId, TensorId> plainOf_, blockedOf_, pixelsOf_, padded_;
  std::vector<int> readers_;                     // by buffer, as it was before
  std::unordered_map<BufferId, size_t> reader_;  // the last of them
  struct Copy {
    size_t layer;
    TensorId source;
  };
  std::unordered_map<BufferId, Copy> copies_;  // of images that lie pixel by pixel, by the buffer that they fill
};

}  // namespace

void assignLayouts(Network& network, const EngineOptions& options) { LayoutAssigner(network, options).run(); }

}  // namespace tscompile
