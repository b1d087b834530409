// Constants that name a device name the one of argument "device" ("cpu" if none is given): a model that was made on
// another machine then puts its tensors where they can be.
#include "passes/rewrite/rewrite.h"

namespace tscompile {

bool useOneDevice(Graph& graph, RewriteContext& context) {
  auto argument = context.arguments.find("device");
  Device device;
  if (argument != context.arguments.end() && argument->second.isString())
    device = deviceFromText(argument->second.toString()).value_or(device);
  bool changed = false;
  forEachNode(graph, [&](Node* n) {
    const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
    if (!v || !n->output()->type()->is(TypeKind::Device)) return;
    if (v->isDevice() ? v->toDevice() == device : v->isString() && v->toString() == deviceText(device)) return;
    n->setAttribute(sym::value, device);
    changed = true;
  });
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
