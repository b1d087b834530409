#include "runtime/engine/optimize/optimize.h"

#include "runtime/engine/layers/product_layer.h"

namespace tscompile {

void optimize(Network& network, WeightStore& store) {
  if (network.writes) return;
  fuseProducts(network, store);
  fuseAttention(network);
  fusePointwise(network);
  removeCopies(network);
  assignLayouts(network);
  joinInPlace(network);
  for (const auto& layer : network.layers)
    if (auto* product = dynamic_cast<ProductLayer*>(layer.get())) product->prepare(store);
}

}  // namespace tscompile
