#include "api/support/saved_plugins.h"

#include "ir/support/remedy.h"
#include "ir/support/text.h"
#include "runtime/registry.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

// Calls visit(node) for all nodes of the graph and of the graphs inside its nodes.
template <class F>
void forEachNodeInside(const Graph& graph, F&& visit) {
  std::vector<const Graph*> todo{&graph};
  for (size_t i = 0; i < todo.size(); ++i)
    forEachNode(*todo[i], [&](const Node* n) {
      visit(n);
      if (const Graph* inner = n->subgraph()) todo.push_back(inner);
    });
}

const PluginOperators* operatorsOf(const Node& node, const OpRegistry& registry) {
  return dynamic_cast<const PluginOperators*>(registry.configured(node.kind()));
}

// Those that an older version of the plugin had, and that it upgraded to others.
void forgetOtherFields(Node& node, const PluginCreator& creator) {
  std::vector<Symbol> gone;
  for (const Attribute& a : node.attributes()) {
    auto isIt = [&](const tsc_field_info& info) { return tsc::view(info.name) == a.name.text(); };
    bool isField = std::any_of(creator.fields().begin(), creator.fields().end(), isIt);
    if (!isField && !isReservedAttribute(a.name.text())) gone.push_back(a.name);
  }
  for (Symbol name : gone) node.removeAttribute(name);
}

}  // namespace

void forEachPluginNode(const Graph& graph, const OpRegistry& registry,
                       const std::function<void(const Node&, const PluginOperators&)>& visit) {
  forEachNodeInside(graph, [&](const Node* n) {
    if (const PluginOperators* operators = operatorsOf(*n, registry)) visit(*n, *operators);
  });
}

std::optional<std::vector<std::string>> savePlugins(const Graph& graph, const OpRegistry& registry,
                                                    Diagnostics& diagnostics) {
  std::vector<std::string> out;
  bool good = true;
  forEachPluginNode(graph, registry, [&](const Node& node, const PluginOperators& operators) {
    if (!good) return;
    OperatorProblem problem;
    std::shared_ptr<const PluginInstance> plugin = operators.instanceOf(node, &problem);
    try {
      if (plugin) return out.push_back(encodeFields(plugin->creator(), plugin->saved()));
    } catch (const ExecutionError& e) {
      problem = {e.message(), e.kind()};
    }
    diagnostics.error(node.range, problem.text, problem.kind);
    good = false;
  });
  if (!good) return std::nullopt;
  return out;
}

bool restorePlugins(Graph& graph, const std::vector<std::string>& saved, const OpRegistry& registry,
                    const std::string& path, Diagnostics& diagnostics) {
  if (saved.empty()) return true;
  size_t next = 0;
  bool good = true;
  auto fail = [&](std::string what, ErrorKind kind = ErrorKind::Input) -> Diagnostic& {
    good = false;
    return diagnostics.fileError(path, {}, std::move(what), kind);
  };
  std::optional<PluginKey> key = keyOfSaved(saved[0]);
  forEachNodeInside(graph, [&](const Node* n) {
    if (!good || next >= saved.size()) return;
    if (!key) {
      fail("the engine file is malformed: what a plugin saved cannot be read");
      return;
    }
    const PluginOperators* operators = operatorsOf(*n, registry);
    const PluginRegistry& plugins = operators ? operators->plugins() : allPlugins();
    PluginCreatorPtr creator = plugins.find(key->ns, key->name, key->version);
    // Nodes may go by an older name of the plugin.
    bool isOfIt = n->kind().text() == key->ns + "::" + key->name ||
                  (creator && plugins.find(n->kind().nameSpace(), n->kind().name(), key->version) == creator);
    if (!isOfIt) return;
    if (!creator) {
      // "there is no plugin mine::Scale version 1; it has the versions 2": what comes after the name.
      const std::string missing = plugins.missing(key->ns, key->name, key->version);
      const size_t more = std::min(missing.find(';'), missing.size());
      fail("the engine file needs the plugin " + key->text() + ", which is not there" + missing.substr(more),
           ErrorKind::Incompatible)
          .note(textOf(Remedy::Kind::LoadPlugins));
      return;
    }
    ParsedFields fields = decodeFields(*creator, saved[next]);
    if (!fields.problems.empty()) {
      fail(problemText(*creator, fields.problems), ErrorKind::Incompatible);
      return;
    }
    forgetOtherFields(*const_cast<Node*>(n), *creator);
    setAttributes(*const_cast<Node*>(n), fields.fields, *creator, false);
    // A higher version that is registered, too, is another plugin.
    const_cast<Node*>(n)->setAttribute(Symbol::of("plugin_version"), IValue(key->version));
    const_cast<Node*>(n)->setAttribute(Symbol::of(kPluginPhase), IValue(std::string(kRunningPhase)));
    if (++next < saved.size()) key = keyOfSaved(saved[next]);
  });
  if (good && next != saved.size()) fail("the engine file is malformed: what a plugin saved belongs to no node");
  return good;
}

void forgetPluginPhases(Graph& graph) {
  forEachNodeInside(graph, [](const Node* n) { const_cast<Node*>(n)->removeAttribute(Symbol::of(kPluginPhase)); });
}

}  // namespace tscompile
