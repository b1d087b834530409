// Which module of the model a node belongs to.
#pragma once

#include "ir/graph/module.h"
#include "ir/graph/node.h"

#include <string>
#include <vector>

namespace tscompile {

// "layer.0.conv" for what is read from the module that the graph belongs to; empty for other objects.
std::string modulePath(const Value* module);
// "layer.0.conv" for a node that says so: by its scope ("__module.layer/__module.layer.0/__module.layer.0.conv",
// "net.Net::/torch.nn.Conv2d::conv", "Net/Conv2d[conv]"), else by the names of the weights that it takes. Empty: the
// outermost module, or it is not known.
std::string modulePath(const Node* node);
// Of the modules of a dump, as they stand there; empty for the outermost one.
std::vector<std::string> modulePaths(const ModuleDump& dump);
// Whether an attribute holds the next of its module's children.
bool isObject(const ModuleAttribute& attribute);
// The scope of what a method of this module is made of, called where the scope is `around`; `around` itself if the path
// is empty or no text that a scope may be.
Symbol scopeOfModule(Symbol around, std::string_view path);

}  // namespace tscompile
