#include "runtime/engine/layers/line_layer.h"
#include "runtime/engine/network/calibration.h"
#include "runtime/engine/network/frame.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/kernels/layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace tscompile {
namespace {

class NoteLayer : public Layer {
 public:
  NoteLayer(const Node* node, std::string value, Calibration& calibration)
      : Layer(node), value_(std::move(value)), calibration_(calibration) {}
  std::string name() const override { return "note"; }

  void run(Frame& frame) const override {
    const NetTensor& t = frame.network()[inputs[0]];
    const int64_t channels = t.sizes[1], area = t.numel / (t.sizes[0] * channels), blocks = channelBlocks(channels);
    std::vector<float> numbers;
    for (int64_t plane = 0; plane < t.sizes[0] * blocks; ++plane) {
      const float* from = frame.blocks(inputs[0]) + plane * area * kBlock;
      const int64_t count = std::min<int64_t>(kBlock, channels - plane % blocks * kBlock);
      numbers.clear();
      for (int64_t i = 0; i < area; ++i) numbers.insert(numbers.end(), from + i * kBlock, from + i * kBlock + count);
      calibration_.note(value_, numbers);
    }
  }

 private:
  std::string value_;
  Calibration& calibration_;
};

}  // namespace

std::vector<std::string> valueNames(const Network& network) {
  std::vector<std::string> names;
  std::map<const Node*, int> known;
  for (const auto& layer : network.layers) {
    std::string name;
    // What only moves has the ranges of what it moves, and another precision may do without it.
    auto* lines = dynamic_cast<const LineLayer*>(layer.get());
    const bool isValue = lines && !lines->movesElements() && layer->node && !layer->node->outputs().empty() &&
                         network[layer->outputs[0]].blocked;
    if (isValue) name = fmt::format("%{} {}", layer->node->output()->name(), known[layer->node]++);
    names.push_back(std::move(name));
  }
  return names;
}

void measureRanges(Network& network, Calibration& calibration) {
  const std::vector<std::string> names = valueNames(network);
  std::vector<std::unique_ptr<Layer>> layers = std::move(network.layers);
  network.layers.clear();
  for (size_t i = 0; i < layers.size(); ++i) {
    const Node* node = layers[i]->node;
    const TensorId made = layers[i]->outputs.empty() ? 0 : layers[i]->outputs[0];
    network.layers.push_back(std::move(layers[i]));
    if (names[i].empty()) continue;
    auto note = std::make_unique<NoteLayer>(node, names[i], calibration);
    note->inputs = {made};
    network.layers.push_back(std::move(note));
  }
}

}  // namespace tscompile
