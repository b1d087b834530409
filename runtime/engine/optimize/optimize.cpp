#include "runtime/engine/optimize/optimize.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/product_layer.h"
#include "runtime/engine/network/tactics.h"

namespace tscompile {

void optimize(Network& network, WeightStore& store, const EngineOptions& options) {
  int threads = options.threads > 0 ? options.threads : defaultThreads();
  for (const auto& layer : network.layers)
    if (auto* tuned = dynamic_cast<TunedLayer*>(layer.get())) tuned->tune(network, options, threads);
  if (network.writes) return;
  foldMargins(network);
  fuseProducts(network);
  fuseAttention(network);
  fusePointwise(network);
  removeCopies(network);
  assignLayouts(network, options);
  joinInPlace(network);
  for (const auto& layer : network.layers)
    if (auto* packed = dynamic_cast<PackedLayer*>(layer.get())) packed->prepare(store, productPrecision(options));
}

}  // namespace tscompile
