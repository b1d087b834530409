// Makes a network faster: fuses layers, chooses layouts.
#pragma once

#include "runtime/engine/network.h"

namespace tscompile {

// Does nothing to networks that write memory which others see.
void optimize(Network& network);

}  // namespace tscompile
