#include "runtime/kernels/conv.h"

#include "runtime/kernels/conv_few_outputs.h"

#include <string_view>

namespace tscompile {

std::span<const ConvTactic* const> convTactics() {
  static const ConvTactic* const kAll[] = {&kDirectConv,  &kFirstLayerConv, &kWinogradConv, &kDepthwiseConv,
                                           &kGroupedConv, &kFewOutputsConv, &kPlanesConv,   &kIm2colConv};
  return kAll;
}

const ConvTactic* findConvTactic(const char* name) {
  for (const ConvTactic* t : convTactics())
    if (std::string_view(t->name) == name) return t;
  return nullptr;
}

}  // namespace tscompile
