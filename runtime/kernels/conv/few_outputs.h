// The records of convolutions to a few channels; conv.h has the others.
#pragma once

#include "runtime/kernels/conv.h"

namespace tscompile {

extern const ConvTactic kFewOutputsConv;  // blocked -> plain; up to eight output channels
extern const ConvTactic kPlanesConv;      // plain -> plain; few channels, up to eight outputs a group

}  // namespace tscompile
