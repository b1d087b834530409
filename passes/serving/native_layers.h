// PyTorch's own layers that are one operator, in the operators of which they are made.
#pragma once

#include "passes/rewrite/rewrite.h"

namespace tscompile {

// What takes the place of the first output of aten::_native_multi_head_attention of one input, or of
// aten::_transformer_encoder_layer_fwd; null if it is another node, or more is asked of it. The nodes stand before it.
Value* unpackNativeLayer(Node* node, RewriteContext& context);

}  // namespace tscompile
