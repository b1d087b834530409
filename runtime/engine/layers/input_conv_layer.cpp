#include "runtime/engine/layers/input_conv_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/network/tactics.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tscompile {
namespace {

int64_t aligned(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Groups of one image are images of their own if they are whole blocks.
bool groupsAreImages(const ConvShape& s) {
  return s.batch == 1 && s.groups > 1 && s.inGroup() % kBlock == 0 && s.outGroup() % kBlock == 0;
}

ConvShape groupOf(ConvShape s) {
  s.inChannels = s.inGroup();
  s.outChannels = s.outGroup();
  s.groups = 1;
  return s;
}

}  // namespace

int64_t InputConvLayer::packedBytes(const ConvTactic& tactic, const ConvShape& part) {
  return &tactic == &kIm2colConv ? 0 : aligned(tactic.packedBytes(part, WeightStorage::F32));
}

int64_t InputConvLayer::partsAtOnce(const ConvTactic& tactic, const Part& part) {
  constexpr int64_t kMostBytes = 4 << 20;
  return std::clamp<int64_t>(kMostBytes / std::max<int64_t>(packedBytes(tactic, part.shape), 1), 1, part.count);
}

int64_t InputConvLayer::workspaceOf(const ConvTactic& tactic, const Part& part) {
  return aligned(tactic.workspace(part.shape, WeightStorage::F32)) +
         partsAtOnce(tactic, part) * packedBytes(tactic, part.shape);
}

double InputConvLayer::costOf(const ConvTactic& tactic, const Part& part) {
  constexpr double kPackedBytes = 6e3;  // in a microsecond
  return static_cast<double>(part.count) *
         (tactic.cost(part.shape) + static_cast<double>(packedBytes(tactic, part.shape)) / kPackedBytes);
}

void InputConvLayer::chooseTactic(const EngineOptions& options) {
  const int64_t limit =
      options.tactics ? static_cast<int64_t>(std::min<size_t>(options.tactics->workspaceLimit, INT64_MAX)) : INT64_MAX;
  std::vector<Part> parts{{shape(), 1}};
  if (groupsAreImages(shape())) parts.push_back({groupOf(shape()), shape().groups});
  const ConvTactic* best = nullptr;
  std::pair<bool, double> least;  // what keeps to the limit comes first
  for (const Part& part : parts)
    for (const ConvTactic* tactic : convTactics()) {
      if (!tactic->accepts(part.shape)) continue;
      const int64_t bytes = workspaceOf(*tactic, part);
      const std::pair<bool, double> rank{bytes > limit,
                                         bytes > limit ? static_cast<double>(bytes) : costOf(*tactic, part)};
      if (best && rank >= least) continue;
      best = tactic;
      part_ = part;
      least = rank;
    }
  TS_CHECK(best);
  setTactic(*best);
}

size_t InputConvLayer::workspace() const { return hasTactic() ? static_cast<size_t>(workspaceOf(tactic(), part_)) : 0; }

void InputConvLayer::prepare(WeightStore&, const ProductPrecision&) { bias = inWholeBlocks(bias); }

void InputConvLayer::run(Frame& frame) const {
  const ConvTactic& tactic = this->tactic();
  const ConvShape& s = part_.shape;
  const auto* weights = frame.data<float>(inputs[kWeights]);
  const int64_t bytes = packedBytes(tactic, s), atOnce = partsAtOnce(tactic, part_);
  const int64_t kernels = s.outChannels * s.inGroup() * s.taps();
  std::byte* packed = frame.workspace() + aligned(tactic.workspace(s, WeightStorage::F32));
  const Epilogue whole = epilogueOf(frame);
  for (int64_t first = 0; first < part_.count; first += atOnce) {
    const int64_t count = std::min(atOnce, part_.count - first);
    if (bytes)
      parallelFor(count, frame.threads(), [&](int64_t i) {
        tactic.pack(s, weights + (first + i) * kernels, WeightStorage::F32, packed + i * bytes);
      });
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = first + i, out = at * s.outChannels * s.outArea();
      Epilogue e = whole;
      if (e.bias) e.bias += at * s.outChannels;
      if (e.residual) e.residual += out;
      tactic.run(s, frame.blocks(inputs[0]) + at * s.inChannels * s.inArea(),
                 bytes ? static_cast<const void*>(packed + i * bytes) : weights + at * kernels, WeightStorage::F32,
                 frame.blocks(outputs[0]) + out, e, frame.workspace(), frame.threads());
    }
  }
}

}  // namespace tscompile
