// bmm(x, weights[numbers]), as mixtures of experts have it -> one layer that reads the weights where they are.
#include "runtime/engine/layers/indexing_layer.h"
#include "runtime/engine/layers/matmul_layer.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"

namespace tscompile {
namespace {

void fuse(Network& n, NetworkUses& uses, size_t i, BatchedMatmulLayer& product, size_t side) {
  const TensorId t = product.inputs[side];
  const size_t before = uses.writer(t);
  if (before == NetworkUses::kNobody || uses.soleReader(t) != i) return;
  auto* pick = dynamic_cast<PickLayer*>(n.layers[before].get());
  if (!pick) return;
  // Each block is the matrix of one pair.
  const BatchedMatmulLayer::Side& read = side == 0 ? product.a : product.b;
  const int64_t block = read.inner * static_cast<int64_t>(sizeof(float));
  if (!n[t].isFloat() || n[t].offset != 0 || product.outer != 1 || pick->outer != 1 ||
      product.inner != pick->which.count || block != pick->innerBytes || product.inputs[0] == product.inputs[1])
    return;
  uses.remove(i);
  product.inputs[side] = pick->inputs[0];
  product.picked[side] = {std::move(pick->which), product.inputs.size()};
  product.inputs.insert(product.inputs.end(), pick->inputs.begin() + 1, pick->inputs.end());
  uses.erase(before);
  uses.add(i);
}

}  // namespace

void fusePicks(Network& network) {
  NetworkUses uses(network);
  for (size_t i = 0; i < network.layers.size(); ++i)
    if (auto* product = dynamic_cast<BatchedMatmulLayer*>(network.layers[i].get()))
      for (size_t side : {size_t{0}, size_t{1}}) fuse(network, uses, i, *product, side);
  uses.compact();
}

}  // namespace tscompile
