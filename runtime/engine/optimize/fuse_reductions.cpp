// sum(f(x, ..)) over the last dimensions -> one layer that keeps f(x, ..) in the first level of cache.
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/layers/reduction_layer.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"

#include <optional>
#include <vector>

namespace tscompile {
namespace {

using Steps = ReductionLayer::Steps;

// One stride for dimensions [first, end), if there is one: they lie one in the other, or each element is repeated.
std::optional<int64_t> stepOver(const Dims& sizes, const Dims& strides, size_t first, size_t end) {
  int64_t step = 0, covered = 1;
  for (size_t d = end; d-- > first;) {
    if (sizes[d] == 1) continue;
    if (covered == 1) step = strides[d];
    if (strides[d] != step * covered) return std::nullopt;
    covered *= sizes[d];
  }
  return step;
}

// How an operand of the loop is walked through as rows of what is reduced.
std::optional<Steps> stepsOf(const NetTensor& operand, const Dims& sizes, int64_t count) {
  size_t split = sizes.size();
  int64_t inner = 1;
  while (inner < count && split > 0) inner *= sizes[--split];
  const Dims strides = broadcastStrides(operand, sizes.size());
  if (inner != count) {  // rows of another shape, which end within a dimension of this one
    const std::optional<int64_t> step = stepOver(sizes, strides, 0, sizes.size());
    return step ? std::optional(Steps{*step * count, *step}) : std::nullopt;
  }
  const std::optional<int64_t> row = stepOver(sizes, strides, 0, split),
                               column = stepOver(sizes, strides, split, sizes.size());
  return row && column ? std::optional(Steps{*row, *column}) : std::nullopt;
}

bool fuse(Network& n, NetworkUses& uses, size_t i, ReductionLayer& layer) {
  const TensorId t = layer.inputs[0];
  const size_t before = uses.writer(t);
  if (layer.inner != 1 || layer.count > ReductionLayer::kMostFused || before == NetworkUses::kNobody ||
      uses.soleReader(t) != i || !uses.isWhole(t))
    return false;
  // Images are reduced as they are: what comes before may lie in blocks of channels.
  constexpr int kMostRank = 3;
  auto* loop = dynamic_cast<PointwiseLayer*>(n.layers[before].get());
  if (!loop || loop->isCopy() || !n[loop->outputs[0]].isFloat() || n[loop->outputs[0]].rank() > kMostRank ||
      n[loop->outputs[0]].numel != layer.outer * layer.count)
    return false;
  std::vector<Steps> steps;
  for (TensorId id : loop->inputs) {
    const std::optional<Steps> s = stepsOf(n[id], n[loop->outputs[0]].sizes, layer.count);
    if (!s) return false;
    steps.push_back(*s);
  }
  uses.remove(i);
  layer.program = loop->program;
  layer.inputs = loop->inputs;
  layer.steps = std::move(steps);
  uses.erase(before);
  uses.add(i);
  return true;
}

}  // namespace

void fuseReductions(Network& network) {
  NetworkUses uses(network);
  for (size_t i = 0; i < network.layers.size(); ++i)
    if (auto* layer = dynamic_cast<ReductionLayer*>(network.layers[i].get())) fuse(network, uses, i, *layer);
  uses.compact();
}

}  // namespace tscompile
