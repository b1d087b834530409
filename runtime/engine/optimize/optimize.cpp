#include "runtime/engine/optimize/optimize.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/attention_layer.h"
#include "runtime/engine/layers/product_layer.h"
#include "runtime/engine/network/calibration.h"
#include "runtime/engine/network/tactics.h"

namespace tscompile {

namespace {

// Its products of two tensors are in bf16 where those with weights are, or of bytes.
void roundAttention(Network& network, const ProductPrecision& precision) {
  const bool rounds = precision.weights == WeightStorage::BF16 || precision.weights == WeightStorage::I8;
  for (const auto& layer : network.layers)
    if (auto* attention = dynamic_cast<AttentionLayer*>(layer.get()))
      attention->shape.rounds = rounds && precision.roundsRows;
}

}  // namespace

void optimize(Network& network, WeightStore& store, const EngineOptions& options) {
  int threads = options.threads > 0 ? options.threads : defaultThreads();
  for (const auto& layer : network.layers)
    if (auto* tuned = dynamic_cast<TunedLayer*>(layer.get())) tuned->tune(network, options, threads);
  if (network.writes) return;
  foldMargins(network);
  trimConvolutions(network);
  fuseProducts(network);
  fuseAttention(network);
  readThroughCopies(network);
  fusePointwise(network);
  fuseReductions(network);
  fusePicks(network);
  removeCopies(network);
  assignLayouts(network, options);
  Calibration* measured = options.tactics ? options.tactics->calibration.get() : nullptr;
  measured ? measureRanges(network, *measured) : storeLines(network, options);
  joinInPlace(network);
  writeInPlace(network);
  roundAttention(network, productPrecision(options));
  for (const auto& layer : network.layers)
    if (auto* packed = dynamic_cast<PackedLayer*>(layer.get()))
      packed->prepare(store, packed->precisionFor(productPrecision(options)));
}

}  // namespace tscompile
