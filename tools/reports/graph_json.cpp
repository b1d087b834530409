#include "tools/reports/graph_json.h"

#include "ir/support/text.h"
#include "ir/values/literal.h"

namespace tscompile {
namespace {

class GraphJson {
 public:
  explicit GraphJson(JsonWriter& json) : json_(json) {}

  // Blocks and subgraphs nest to any depth: an explicit stack holds what is open.
  void write(const Graph& graph) {
    openGraph(graph);
    while (!stack_.empty()) step();
  }

 private:
  struct Open {
    const Graph* graph;  // a graph, or
    const Block* block;  // a block of a node
    const Node* node;    // the next one to write
    bool nodeOpen = false;
    size_t nextBlock = 0;
  };

  void openGraph(const Graph& graph) {
    json_.beginObject();
    values("inputs", graph.inputs());
    openNodes({&graph, graph.block(), graph.block()->first()});
  }

  void openNodes(Open open) {
    json_.key("nodes");
    json_.beginArray();
    stack_.push_back(open);
  }

  void step() {
    Open& open = stack_.back();
    if (open.nodeOpen) return nodeParts(open);
    if (open.node) {
      json_.newLine();
      nodeHead(*open.node);
      open.nodeOpen = true;
      open.nextBlock = 0;
      return;
    }
    json_.newLine();
    json_.endArray();
    names(open.graph ? "outputs" : "results", open.block->results());
    json_.endObject();
    stack_.pop_back();
  }

  // What of a node has nodes of its own: its blocks one by one, then its subgraph.
  void nodeParts(Open& open) {
    const Node& n = *open.node;
    size_t i = open.nextBlock++;
    if (i < n.blocks().size()) {
      if (i == 0) {
        json_.key("blocks");
        json_.beginArray();
      }
      json_.newLine();
      json_.beginObject();
      const Block* block = n.block(i);
      values("parameters", block->parameters());
      return openNodes({nullptr, block, block->first()});
    }
    if (i == n.blocks().size()) {
      if (n.hasBlocks()) json_.endArray();
      if (const Graph* inner = n.subgraph()) {
        json_.key("subgraph");
        return openGraph(*inner);
      }
    }
    json_.endObject();
    open.nodeOpen = false;
    open.node = n.next();
  }

  void nodeHead(const Node& n) {
    json_.beginObject();
    json_.field("kind", n.kind().text());
    if (n.python) {
      json_.field("python", n.python->name);
      json_.field("scalars", n.python->scalars);
    }
    names("inputs", n.inputs());
    values("outputs", n.outputs());
    if (n.attributes().size() > (n.subgraph() ? 1 : 0)) attributes(n);
    if (!n.scope.empty()) json_.field("scope", n.scope.text());
    if (n.location.present()) {
      json_.key("location");
      json_.beginObject();
      json_.field("file", n.location.file.text());
      json_.field("line", n.location.line);
      json_.field("column", n.location.column);
      json_.endObject();
    }
    if (n.range.valid()) json_.field("line", n.range.file->lineColumn(n.range.begin).line);
  }

  void attributes(const Node& n) {
    json_.key("attributes");
    json_.beginObject();
    for (const Attribute& a : n.attributes()) {
      if (a.graph()) continue;
      json_.key(a.name.text());
      if (const IValue* v = a.value())
        json_.value(valueText(*v));
      else if (TypePtr t = a.type())
        json_.value(typeText(t));
      else if (auto* list = std::get_if<std::vector<TypePtr>>(&a.payload))
        json_.value("[" + join(*list, ", ", [](TypePtr t) { return typeText(t); }) + "]");
      else
        json_.value("[<Graphs>]");
    }
    json_.endObject();
  }

  void values(std::string_view key, std::span<Value* const> list) {
    json_.key(key);
    json_.beginArray();
    for (const Value* v : list) {
      json_.beginObject();
      json_.field("name", v->name());
      json_.field("type", typeText(v->type()));
      json_.endObject();
    }
    json_.endArray();
  }

  void names(std::string_view key, std::span<const Use> uses) {
    json_.key(key);
    json_.beginArray();
    for (const Use& u : uses) json_.value(u.value->name());
    json_.endArray();
  }

  JsonWriter& json_;
  std::vector<Open> stack_;
};

void writeMethods(const std::vector<DumpedMethod>& methods, JsonWriter& json) {
  json.beginArray();
  for (const DumpedMethod& method : methods) {
    json.beginObject();
    json.field("name", method.name);
    if (method.graph) {
      json.key("graph");
      GraphJson(json).write(*method.graph);
    }
    json.endObject();
  }
  json.endArray();
}

void writeModules(const ModuleDump& dump, JsonWriter& json) {
  json.beginArray();
  for (const DumpedModule& m : dump.modules) {
    json.newLine();
    json.beginObject();
    json.field("class", m.className);
    json.key("attributes");
    json.beginArray();
    for (const ModuleAttribute& a : m.attributes) {
      json.beginObject();
      json.field("name", a.name);
      json.field("text", a.text);
      json.field("parameter", a.isParameter);
      json.endObject();
    }
    json.endArray();
    json.key("methods");
    writeMethods(m.methods, json);
    json.key("submodules");
    json.beginArray();
    for (size_t child : m.children) json.value(child);
    json.endArray();
    json.endObject();
  }
  json.newLine();
  json.endArray();
}

}  // namespace

void writeGraphJson(const ParsedText& text, JsonWriter& json) {
  json.beginObject();
  json.field("schema", "tscompile.graph/1");
  if (text.module) {
    json.key("modules");
    writeModules(*text.module, json);
    if (!text.module->functions.empty()) {
      json.key("functions");
      writeMethods(text.module->functions, json);
    }
  }
  if (!text.graphs.empty() || !text.module) {
    json.key("graphs");
    json.beginArray();
    for (const auto& g : text.graphs) {
      json.newLine();
      GraphJson(json).write(*g);
    }
    json.newLine();
    json.endArray();
  }
  json.endObject();
  json.finish();
}

}  // namespace tscompile
