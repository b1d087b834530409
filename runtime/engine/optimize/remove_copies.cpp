#include "runtime/engine/layers/attention_layer.h"
#include "runtime/engine/layers/mix_layer.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"
#include "runtime/engine/optimize/walk.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

namespace tscompile {
namespace {

using Side = BatchedMatmulLayer::Side;

// Where the rows and columns of a result lie in the target of a copy: `sizes` and `from` are sizes and strides of the
// result as the product writes it, `copy` is how the copying layer sees it. False if the copy takes it apart.
bool follow(const int64_t (&sizes)[4], const Side& from, const NetTensor& copy, Side& to) {
  Dims target = contiguousStrides(copy.sizes);
  const int64_t strides[] = {from.outer, from.inner, from.row, from.column};
  int64_t* wanted[] = {&to.outer, &to.inner, &to.row, &to.column};
  int64_t covered = 1;
  for (int i = 0; i < 4; ++i) {
    *wanted[i] = 0;
    if (sizes[i] == 1) continue;
    for (size_t d = 0; d < copy.sizes.size(); ++d)
      if (copy.sizes[d] == sizes[i] && copy.strides[d] == strides[i]) *wanted[i] = target[d];
    if (*wanted[i] == 0) return false;
    covered *= sizes[i];
  }
  if (sizes[3] == 1) to.column = 1;
  return covered == copy.numel && to.column == 1;
}

// How far apart elements are that follow each other; repeated ones lie as well as neighbours.
int64_t lastStep(const Dims& sizes, const Dims& strides) {
  for (size_t d = sizes.size(); d-- > 0;)
    if (sizes[d] != 1) return std::max<int64_t>(std::abs(strides[d]), 1);
  return 1;
}

// The operands of a loop in the order of a copy that alone reads its result as `seen`; empty if they lie better as they
// are.
std::vector<Walk> inOrderOf(const Network& n, const PointwiseLayer& loop, const NetTensor& seen) {
  const Dims& sizes = n[loop.outputs[0]].sizes;
  std::vector<Walk> walks;
  bool isBetter = false;
  for (TensorId id : loop.inputs) {
    const std::optional<Walk> walk = Origin(n[id], sizes).of({seen.sizes, seen.strides, seen.offset});
    if (!walk) return {};
    const int64_t now = lastStep(sizes, broadcastStrides(n[id], sizes.size())),
                  then = lastStep(walk->sizes, walk->strides);
    if (then > now) return {};
    isBetter |= then < now;
    walks.push_back(*walk);
  }
  return isBetter ? walks : std::vector<Walk>();
}

}  // namespace

void removeCopies(Network& network) {
  NetworkUses uses(network);
  for (size_t i = 0; i < network.layers.size(); ++i) {
    auto* copy = dynamic_cast<PointwiseLayer*>(network.layers[i].get());
    if (!copy || !copy->isCopy()) continue;
    TensorId from = copy->inputs[0], to = copy->outputs[0];
    size_t writer = uses.writer(from);
    if (uses.soleReader(from) != i || writer == NetworkUses::kNobody || !uses.isWhole(to)) continue;
    Layer* maker = network.layers[writer].get();
    if (!uses.isWhole(maker->outputs[0]) || !network[from].isFloat()) continue;
    Side side;
    if (auto* product = dynamic_cast<BatchedMatmulLayer*>(maker)) {
      if (!follow({product->outer, product->inner, product->m, product->n}, product->c, network[from], side)) continue;
      product->c = side;
    } else if (auto* attention = dynamic_cast<AttentionLayer*>(maker)) {
      const AttentionShape& s = attention->shape;
      if (!follow({s.outer, s.inner, s.queries, s.valueDepth}, attention->out, network[from], side)) continue;
      attention->out = side;
    } else if (auto* loop = dynamic_cast<PointwiseLayer*>(maker)) {
      if (loop->blocked || loop->outputs.size() != 1) continue;
      const std::vector<Walk> walks = inOrderOf(network, *loop, network[from]);
      if (walks.empty()) continue;
      uses.remove(writer);
      for (size_t k = 0; k < walks.size(); ++k) {
        const NetTensor& t = network[loop->inputs[k]];
        loop->inputs[k] = network.addView(t.buffer, t.dtype, walks[k].sizes, walks[k].strides, walks[k].offset);
      }
      uses.add(writer);
    } else if (!dynamic_cast<MixLayer*>(maker) || !uses.isWhole(from) || network[from].numel != network[to].numel) {
      continue;
    }
    uses.remove(i);
    uses.remove(writer);
    maker->outputs[0] = to;
    network.layers[i].reset();
    uses.add(writer);
  }
  uses.compact();
}

}  // namespace tscompile
