// The record of convolutions to a few channels; conv.h has the others.
#pragma once

#include "runtime/kernels/conv.h"

namespace tscompile {

extern const ConvTactic kFewOutputsConv;  // blocked -> plain; up to four output channels

}  // namespace tscompile
