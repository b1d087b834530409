// conv(x, padding=p)[..., :-p], as causal convolutions are written -> a convolution with other margins.
#include "runtime/engine/layers/conv_layer.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"
#include "runtime/engine/optimize/walk.h"

namespace tscompile {
namespace {

class Trimmer {
 public:
  explicit Trimmer(Network& network) : n_(network), uses_(network) {}

  void run() {
    for (size_t i = 0; i < n_.layers.size(); ++i)
      if (auto* conv = dynamic_cast<ConvLayer*>(n_.layers[i].get())) trim(i, *conv);
    uses_.compact();
  }

 private:
  // What is read of a tensor, in each dimension.
  struct Box {
    Dims first, last;
  };

  static Walk walkOf(const NetTensor& t) { return {t.sizes, t.strides, t.offset}; }

  // What layers read of the tensor, all of a buffer that the caller does not see; nothing if it is seen in another way
  // than by sizes and strides.
  std::optional<Box> boxOf(TensorId id) const {
    const NetTensor& whole = n_[id];
    const Origin self(whole, whole.sizes);
    Box box{whole.sizes, Dims(whole.sizes.size(), -1)};
    for (size_t reader : uses_.readers(id)) {
      const auto* layer = dynamic_cast<const PointwiseLayer*>(n_.layers[reader].get());
      if (!layer) return std::nullopt;
      for (TensorId input : layer->inputs) {
        if (n_[input].buffer != whole.buffer) continue;
        Dims first, last;
        if (!self.of(walkOf(n_[input]), &first, &last)) return std::nullopt;
        for (size_t d = 0; d < first.size(); ++d) {
          box.first[d] = std::min(box.first[d], first[d]);
          box.last[d] = std::max(box.last[d], last[d]);
        }
      }
    }
    return box;
  }

  void trim(size_t i, ConvLayer& conv) {
    const TensorId id = conv.outputs[0];
    const NetTensor whole = n_[id];
    const bool plain = uses_.isWhole(id) && whole.sizes.size() >= 3 && whole.sizes[1] == conv.shape().outChannels;
    if (!plain || n_.bufferOf(id).escapes || uses_.readers(id).empty()) return;
    const std::optional<Box> box = boxOf(id);
    if (!box) return;
    auto spatial = [](const Dims& d) { return Dims(DimSpan(d.data() + 2, d.size() - 2)); };
    Dims before = spatial(box->first), behind = spatial(whole.sizes);
    for (size_t d = 0; d < behind.size(); ++d) behind[d] -= box->last[d + 2] + 1;
    const ConvShape shape = conv.trimmed(before, behind);
    NetTensor left = whole;  // where what is left of the result would be, seen as all of it
    for (size_t d = 0; d < before.size(); ++d) left.sizes[d + 2] -= before[d] + behind[d];
    if (left.sizes == whole.sizes) return;
    const Dims sizes = left.sizes;
    left.strides = contiguousStrides(sizes);
    left.offset = 0;
    for (size_t d = 0; d < before.size(); ++d)
      if (sizes[d + 2] > 1) left.offset -= before[d] * left.strides[d + 2];  // one index is walked through by no stride
    const Origin trimmed(left, whole.sizes);
    for (size_t reader : uses_.readers(id))
      for (TensorId input : n_.layers[reader]->inputs)
        if (n_[input].buffer == whole.buffer && !trimmed.of(walkOf(n_[input]))) return;

    const std::vector<size_t> readers = uses_.readers(id);
    uses_.remove(i);
    conv.setShape(shape);
    conv.outputs[0] = n_.addTensor(DType::Float32, sizes);
    uses_.add(i);
    for (size_t reader : readers) {
      uses_.remove(reader);
      for (TensorId& input : n_.layers[reader]->inputs)
        if (n_[input].buffer == whole.buffer) {
          const Walk walk = *trimmed.of(walkOf(n_[input]));
          input = n_.addView(n_[conv.outputs[0]].buffer, DType::Float32, walk.sizes, walk.strides, walk.offset);
        }
      uses_.add(reader);
    }
    dropCopy(i, conv);
  }

  // The convolution makes itself what is but a copy of its result now.
  void dropCopy(size_t i, ConvLayer& conv) {
    const size_t reader = uses_.soleReader(conv.outputs[0]);
    auto* copy = reader == NetworkUses::kNobody ? nullptr : dynamic_cast<PointwiseLayer*>(n_.layers[reader].get());
    if (!copy || !copy->isCopy() || !uses_.isWhole(copy->inputs[0]) || !uses_.isWhole(copy->outputs[0]) ||
        !(n_[copy->inputs[0]].sizes == n_[copy->outputs[0]].sizes))
      return;
    const TensorId output = copy->outputs[0];
    if (!n_[output].isFloat()) return;
    uses_.erase(reader);
    uses_.remove(i);
    conv.outputs[0] = output;
    uses_.add(i);
  }

  Network& n_;
  NetworkUses uses_;
};

}  // namespace

void trimConvolutions(Network& network) { Trimmer(network).run(); }

}  // namespace tscompile
