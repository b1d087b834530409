// Blocked activations become lines of bf16, or of bytes if their ranges are known, where all who make and read them can
// have them so:
//   %a = conv(...); %b = conv(%a)  ->  the first rounds %a once, and the second multiplies it as it is
// Half the memory goes in and out, and no convolution has to round what it reads.
#include "runtime/engine/layers/line_layer.h"
#include "runtime/engine/network/calibration.h"
#include "runtime/engine/network/tactics.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tscompile {
namespace {

constexpr size_t kReadBehind = 32 * sizeof(CacheLine);  // by the last tile of a convolution

class LineStore {
 public:
  LineStore(Network& network, const EngineOptions& options)
      : n_(network), options_(options), precision_(productPrecision(options)), types_(network.buffers.size()) {}

  void run() {
    precision_.weights == WeightStorage::BF16 ? proposeBrains() : proposeBytes();
    while (withdraw()) {
    }
    for (BufferId b = 0; b < types_.size(); ++b)
      if (types_[b].isLines()) n_.buffers[b].behind = kReadBehind;
    for (NetTensor& t : n_.tensors)
      if (t.blocked && typeOf(t).isLines()) settle(t);
    for (const auto& layer : n_.layers)
      if (auto* lines = dynamic_cast<LineLayer*>(layer.get())) lines->settle(n_);
  }

 private:
  ElementType typeOf(const NetTensor& t) const { return t.buffer < types_.size() ? types_[t.buffer] : ElementType(); }

  // All inner buffers that hold a blocked tensor, and nothing else that a layer sees.
  void proposeBrains() {
    for (const auto& layer : n_.layers)
      for (TensorId id : layer->outputs)
        if (isCandidate(id)) types_[n_[id].buffer] = {DType::BFloat16};
  }

  // Those of which it is known how large they are.
  void proposeBytes() {
    const std::vector<std::string> names = valueNames(n_);
    std::map<BufferId, ValueRange> ranges;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i].empty() || !isCandidate(n_.layers[i]->outputs[0])) continue;
      if (std::optional<ValueRange> range = Calibration::find(*options_.tactics, names[i]))
        ranges[n_[n_.layers[i]->outputs[0]].buffer] = *range;
    }
    while (joinRanges(ranges)) {
    }
    for (const auto& [buffer, range] : ranges) types_[buffer] = range.bytes();
  }

  // Whether ranges had to grow, or were not known, because elements go from one tensor to another as they are.
  bool joinRanges(std::map<BufferId, ValueRange>& ranges) const {
    bool any = false;
    for (const auto& layer : n_.layers) {
      auto* lines = dynamic_cast<const LineLayer*>(layer.get());
      if (!lines || !lines->sharesGrid()) continue;
      ValueRange all;
      auto each = [&](auto&& body) {
        forEachTensor(*layer, [&](TensorId id) {
          if (auto known = ranges.find(n_[id].buffer); known != ranges.end()) body(known->second);
        });
      };
      each([&](const ValueRange& range) { all.include(range); });
      each([&](ValueRange& range) { any |= range != all, range = all; });
      const auto isKnown = [&](TensorId id) { return ranges.contains(n_[id].buffer); };
      if (lines->movesElements() && std::ranges::all_of(layer->inputs, isKnown) && isCandidate(layer->outputs[0]))
        any |= ranges.emplace(n_[layer->outputs[0]].buffer, all).second;
    }
    return any;
  }

  bool isCandidate(TensorId id) const {
    const NetTensor& t = n_[id];
    const NetBuffer& buffer = n_.buffers[t.buffer];
    return t.blocked && t.isFloat() && t.offset == 0 && buffer.kind == NetBuffer::Kind::Inner && !buffer.escapes;
  }

  // Whether something had to become floats again.
  bool withdraw() {
    bool any = false;
    auto drop = [&](BufferId b) {
      any |= types_[b].isLines();
      types_[b] = {};
    };
    for (const auto& layer : n_.layers) {
      auto* lines = dynamic_cast<const LineLayer*>(layer.get());
      bool floats = false;
      forEachTensor(*layer, [&](TensorId id) {
        const NetTensor& t = n_[id];
        const ElementType type = typeOf(t);
        floats |= lines && !type.isLines() && lines->sharesKind(n_, id);
        if (type.isLines() && !(lines && isWhole(t) && lines->takesLines(n_, precision_, id, type.dtype)))
          drop(t.buffer);
      });
      if (floats)
        forEachTensor(*layer, [&](TensorId id) {
          if (typeOf(n_[id]).isLines() && lines->sharesKind(n_, id)) drop(n_[id].buffer);
        });
    }
    return any;
  }

  template <class Body>
  static void forEachTensor(const Layer& layer, Body&& body) {
    for (TensorId id : layer.inputs) body(id);
    for (TensorId id : layer.outputs) body(id);
  }

  // All of the buffer.
  bool isWhole(const NetTensor& t) const {
    return t.blocked && t.contiguous && t.offset == 0 &&
           static_cast<size_t>(blockedSize(t.sizes[0], t.sizes[1], areaOf(t))) * sizeof(float) ==
               n_.buffers[t.buffer].bytes;
  }
  static int64_t areaOf(const NetTensor& t) { return t.numel / (t.sizes[0] * t.sizes[1]); }

  void settle(NetTensor& t) {
    const ElementType type = typeOf(t);
    t.elements = type;
    t.dtype = type.dtype;
    n_.buffers[t.buffer].bytes =
        static_cast<size_t>(blockedSize(t.sizes[0], t.sizes[1], areaOf(t), type)) * sizeof(float);
  }

  Network& n_;
  const EngineOptions& options_;
  const ProductPrecision precision_;
  std::vector<ElementType> types_;  // by buffer
};

}  // namespace

void storeLines(Network& network, const EngineOptions& options) {
  const ProductPrecision precision = productPrecision(options);
  const bool brains = precision.weights == WeightStorage::BF16,
             bytes = precision.weights == WeightStorage::I8 && options.tactics;
  if (precision.roundsRows && (brains || bytes) && hasLineProducts(precision.weights))
    LineStore(network, options).run();
}

}  // namespace tscompile
