#include "runtime/engine/layers/conv_layer.h"
#include "runtime/engine/layers/rearrange_layer.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"

namespace tscompile {

void foldMargins(Network& network) {
  NetworkUses uses(network);
  for (size_t i = 0; i < network.layers.size(); ++i) {
    auto* conv = dynamic_cast<ConvLayer*>(network.layers[i].get());
    const TensorId id = conv ? conv->inputs[0] : 0;
    const size_t at = conv ? uses.writer(id) : NetworkUses::kNobody;
    auto* pad = at == NetworkUses::kNobody ? nullptr : dynamic_cast<RearrangeLayer*>(network.layers[at].get());
    if (!pad || pad->before.size() < 3 || pad->before.size() > 5 || !uses.isWhole(id) ||
        !(network[id].sizes == network[pad->outputs[0]].sizes))
      continue;
    if (pad->before[0] || pad->behind[0] || pad->before[1] || pad->behind[1]) continue;
    auto spatial = [](const Dims& d) { return Dims(DimSpan(d.data() + 2, d.size() - 2)); };
    uses.remove(i);
    conv->takeMargin(spatial(pad->before), spatial(pad->behind));
    conv->inputs[0] = pad->inputs[0];
    uses.add(i);
    if (uses.isUnread(id)) uses.erase(at);
  }
  uses.compact();
}

}  // namespace tscompile
