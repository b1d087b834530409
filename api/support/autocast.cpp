#include "api/support/autocast.h"

#include "frontend/source/autocast_regions.h"
#include "ir/analysis/context_kind.h"
#include "ir/graph/builder.h"
#include "passes/catalog.h"

#include <algorithm>

namespace tscompile {

namespace {

// The object of a constructor of a context, such as no_grad; null of other nodes.
Value* constructedContext(const Node* n) {
  const IValue* name = n->kind() == sym::CallMethod ? n->attributeValue(sym::name) : nullptr;
  if (!name || !name->isString() || name->toString() != "__init__" || n->inputCount() == 0) return nullptr;
  const TypePtr type = n->input(0)->type();
  const bool isContext = type->is(TypeKind::Class) && contextKindOf(type->name()) != ContextKind::Other;
  return isContext ? n->input(0) : nullptr;
}

// A dump of a module has the methods of modules alone.
bool lacksConstructor(const Graph& graph, const ProgramSources& sources) {
  bool lacks = false;
  if (graph.kinds().count(sym::CallMethod) == 0) return false;
  forEachNode(graph, [&](const Node* n) {
    const Value* object = constructedContext(n);
    if (!object) return;
    auto methods = sources.methods.find(object->type());
    lacks |= methods == sources.methods.end() || !methods->second.contains("__init__");
  });
  return lacks;
}

// (device, dtype, enabled, …), or of the classes for one device (enabled, dtype, …).
void setAutocast(Builder& b, const Node* call) {
  const std::string_view type = call->input(0)->type()->name();
  auto isOf = [&](std::string_view part) { return type.find(part) != std::string_view::npos; };
  const bool isCpu = isOf(".cpu.amp."), isOfDevice = isCpu || isOf(".cuda.amp.");
  Value* device = isOfDevice ? b.constant(IValue(isCpu ? "cpu" : "cuda")) : call->input(1);
  auto set = [&](const char* name, Value* value) {
    b.insert(sym::SetAttr, {call->input(0), value}, 0)->setAttribute(sym::name, IValue(name));
  };
  set("device", device);
  set("fast_dtype", call->input(2));
  set("_enabled", call->input(isOfDevice ? 1 : 3));
}

// %n : NoneType = prim::CallMethod[name="__init__"](%c, …)  →  what it sets that is of importance
void constructContexts(Graph& graph) {
  std::vector<Node*> calls;
  forEachNode(graph, [&](Node* n) {
    if (constructedContext(n) && !n->output()->hasUses()) calls.push_back(n);
  });
  for (Node* n : calls) {
    if (contextKindOf(n->input(0)->type()->name()) == ContextKind::Autocast) {
      if (n->inputCount() < 4) continue;
      Builder b(graph, n);
      b.setPlaceOf(n);
      setAutocast(b, n);
    }
    n->destroy();
  }
}

}  // namespace

bool hasContexts(const Graph& entry, const ProgramSources& sources) {
  auto has = [&](const Graph& graph) { return entersAutocast(graph) || lacksConstructor(graph, sources); };
  auto ofNamed = [&](const auto& named) { return has(*named.second); };
  return has(entry) || std::ranges::any_of(sources.functions, ofNamed) ||
         std::ranges::any_of(sources.methods, [&](const auto& m) { return std::ranges::any_of(m.second, ofNamed); });
}

bool castWithCallees(Graph& graph, const CallTargets& targets, const OpRegistry& registry, Diagnostics& diagnostics) {
  const size_t before = diagnostics.errorCount();
  RewriteContext context(graph, registry, diagnostics);
  context.module = &targets;
  loweringDatabase().query(Query().including({"inline_calls"})).run(context, {});
  constructContexts(graph);
  castInRegions(graph, registry);
  return diagnostics.errorCount() == before;
}

}  // namespace tscompile
