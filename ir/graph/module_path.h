// Which module of the model a node belongs to.
#pragma once

#include "ir/graph/node.h"

#include <string>

namespace tscompile {

// "layer.0.conv" for what is read from the module that the graph belongs to; empty for other objects.
std::string modulePath(const Value* module);
// "layer.0.conv" for a node that says so: by its scope ("__module.layer/__module.layer.0/__module.layer.0.conv",
// "net.Net::/torch.nn.Conv2d::conv", "Net/Conv2d[conv]"), else by the names of the weights that it takes. Empty: the
// outermost module, or it is not known.
std::string modulePath(const Node* node);
// The scope of what a method of this module is made of, called where the scope is `around`; `around` itself if the path
// is empty or no text that a scope may be.
Symbol scopeOfModule(Symbol around, std::string_view path);

}  // namespace tscompile
