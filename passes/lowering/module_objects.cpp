#include "passes/lowering/module_objects.h"

#include "passes/lowering/call_targets.h"

#include <unordered_set>

namespace tscompile {

std::optional<ModuleObjects> ModuleObjects::of(const Graph& graph, const RewriteContext& context) {
  if (!context.module || !context.module->self || graph.inputs().empty()) return std::nullopt;
  const Value* self = graph.input(0);
  if (self->type() != context.module->self->type) return std::nullopt;
  ModuleObjects out;
  out.objects_[self] = context.module->self.get();
  bool isKnown = true;
  forEachNode(graph, [&](const Node* n) {
    if (ObjectValue* object = n->kind() == sym::GetAttr ? out.accessed(n) : nullptr) {
      const IValue* v = object->find(attributeOf(n));
      if (v && v->isObject()) out.objects_[n->output()] = &v->toObject();
      return;
    }
    for (size_t i = 0; i < n->inputCount(); ++i) {
      const bool isObject = out.find(n->input(i)) || n->input(i)->type()->kind() == TypeKind::Class;
      isKnown = isKnown && (!isObject || (i == 0 && out.accessed(n)));
    }
  });
  // What a block or the graph returns.
  for (const auto& [value, object] : out.objects_)
    for (const Use& u : value->uses()) isKnown = isKnown && !u.user->isReturn();
  return isKnown ? std::optional(std::move(out)) : std::nullopt;
}

ObjectValue* ModuleObjects::accessed(const Node* node) const {
  const bool isAccess = (node->kind() == sym::GetAttr && node->inputCount() == 1 && node->outputCount() == 1) ||
                        (node->kind() == sym::SetAttr && node->inputCount() == 2);
  return isAccess ? find(node->input(0)) : nullptr;
}

Symbol ModuleObjects::attributeOf(const Node* node) {
  const IValue* name = node->attributeValue(sym::name);
  return name && name->isString() ? Symbol::of(name->toString()) : Symbol();
}

std::vector<AttributeMemory> memoryOfAttributes(const ObjectValue& self) {
  std::vector<AttributeMemory> out;
  std::vector<const ObjectValue*> todo{&self};
  std::unordered_set<const ObjectValue*> seen{&self};
  while (!todo.empty()) {
    const ObjectValue* object = todo.back();
    todo.pop_back();
    for (const auto& [name, value] : object->attributes) {
      AttributeMemory& of = out.emplace_back(AttributeMemory{object, name, {}});
      std::vector<const IValue*> inside{&value};
      std::unordered_set<const RefCounted*> opened;  // a list may hold itself
      while (!inside.empty()) {
        const IValue& v = *inside.back();
        inside.pop_back();
        if (v.isTensor() && v.tensorImpl()) of.memory.push_back(v.tensorImpl()->storage().get());
        if (v.isObject() && seen.insert(&v.toObject()).second) todo.push_back(&v.toObject());
        if (v.isList() || v.isTuple() || v.isDict()) of.memory.push_back(v.object());
        if (!(v.isList() || v.isTuple() || v.isDict()) || !opened.insert(v.object()).second) continue;
        if (v.isDict())
          v.toDict().forEachValue([&](IValue& item) { inside.push_back(&item); });
        else
          for (const IValue& item : v.isList() ? v.toList().items : v.toTuple().items) inside.push_back(&item);
      }
    }
  }
  return out;
}

}  // namespace tscompile
