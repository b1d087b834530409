// For reports: why an engine calls the kernel of a node though its operator has a converter.
#pragma once

#include "ir/analysis/shape_propagation.h"

#include <string>

namespace tscompile {

// The reason that the converter gives when it is asked with what is known of the node's arguments. Empty if it makes a
// layer, if there is no converter, or if dtypes, sizes or numbers that it asks for are not known.
std::string whyKernel(const Node& node, const ShapePropagation& shapes, const OpRegistry& registry);

}  // namespace tscompile
