#include "runtime/engine/optimize.h"

namespace tscompile {

void optimize(Network& network) {
  if (network.writes) return;
}

}  // namespace tscompile
