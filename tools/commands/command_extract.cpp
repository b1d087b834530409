// `tscompile extract`: the part of a graph between some of its values, as a graph of its own.
#include "frontend/files/file_io.h"
#include "ir/graph/printer.h"
#include "ir/support/text.h"
#include "passes/rewrite/facts.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/reports/graph_json.h"

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

namespace tscompile {
namespace {

struct ExtractCommand {
  std::vector<std::string> from, to;  // values, by name
  std::string output;
};

std::vector<Value*> valuesOf(const std::vector<std::string>& names, const Graph& graph) {
  std::vector<Value*> out;
  for (const std::string& asked : names) {
    const std::string name = asked.substr(asked.starts_with('%') ? 1 : 0);
    Value* v = graph.find(name);
    if (!v) {
      NearestName nearest(name);
      graph.forEachName([&](std::string_view n) { nearest.consider(n); });
      UsageError error{"the graph has no value '%" + abbreviate(name, 80) + "'"};
      if (nearest.found()) error.notes.push_back("did you mean '%" + nearest.name() + "'?");
      throw error;
    }
    if (v->block() != graph.block())
      throw UsageError{"'%" + name + "' is inside of a block, of which a graph cannot have a part",
                       {"name what the node with the block takes or gives"}};
    out.push_back(v);
  }
  return out;
}

// The nodes that the values in `to` are computed by, from those in `from` on; as they are after `last`, or if that is
// null after the last of these nodes.
class Part {
 public:
  Part(const std::vector<Value*>& from, const std::vector<Value*>& to, const Node* last, const AliasAnalysis& aliases)
      : from_(from.begin(), from.end()), todo_(to), aliases_(aliases), last_(last) {
    do addProducers();
    while (addWriters());
  }
  bool contains(const Node* n) const { return nodes_.contains(n); }

 private:
  void addProducers() {
    while (!todo_.empty()) {
      Value* v = todo_.back();
      todo_.pop_back();
      if (!seen_.insert(v).second) continue;
      see(v);
      if (v->node() && !from_.contains(v)) add(v->node());
    }
  }

  // With the nodes in its blocks, which may use values from outside.
  void add(Node* n) {
    if (!addAlone(n)) return;
    if (n->block() == n->graph()->block() && (!last_ || last_->isBefore(n))) last_ = n;
    for (Block* b : n->blocks()) forEachNode(b, [&](Node* inner) { addAlone(inner); });
  }
  bool addAlone(Node* n) {
    if (!nodes_.insert(n).second) return false;
    for (const Use& u : n->inputs()) todo_.push_back(u.value);
    for (const Block* b : n->blocks())
      for (const Use& u : b->results()) todo_.push_back(u.value);
    return true;
  }

  // From which node on memory matters that the value refers to; null: from the beginning.
  void see(const Value* v) {
    if (v->block() != v->graph()->block() || !AliasAnalysis::canRefer(v->type())) return;
    const LocationSet reachable = aliases_.reachable(v);
    for (uint32_t location : reachable.list()) {
      auto [at, isNew] = since_.try_emplace(location, v->node());
      if (!isNew && at->second && (!v->node() || v->node()->isBefore(at->second))) at->second = v->node();
    }
  }

  // What writes memory while the part needs it; false if there is nothing more.
  bool addWriters() {
    bool found = false;
    if (!last_ || !aliases_.graphHasWrites()) return found;
    for (Node* n = last_->previous(); n; n = n->previous()) {
      if (nodes_.contains(n) || !writesWhatIsNeeded(n)) continue;
      add(n);
      addProducers();
      found = true;
    }
    return found;
  }
  bool writesWhatIsNeeded(const Node* n) const {
    LocationSet written = aliases_.writes(n);
    return std::any_of(written.list().begin(), written.list().end(), [&](uint32_t location) {
      auto at = since_.find(location);
      return at != since_.end() && (!at->second || at->second->isBefore(n));
    });
  }

  std::unordered_set<const Value*> from_, seen_;
  std::unordered_set<const Node*> nodes_;
  std::vector<Value*> todo_;
  const AliasAnalysis& aliases_;
  std::unordered_map<uint32_t, const Node*> since_;
  const Node* last_;  // in the outermost block
};

// Makes the graph begin at `from` and end at `to`, or if there are none where it does. Inputs that nothing needs go;
// tells the names of those that were asked for.
std::vector<std::string> cut(Graph& graph, const OpRegistry& operators, const std::vector<Value*>& from,
                             std::vector<Value*> to) {
  GraphFacts facts(graph, operators);
  const Node* last = to.empty() ? graph.returnNode() : nullptr;
  if (last)
    for (const Use& u : graph.outputs()) to.push_back(u.value);
  Part part(from, to, last, facts.aliases());
  std::vector<TypePtr> given;
  for (Value* v : from) given.push_back(v->type() == types().tensor ? facts.symbolic(v).type : v->type());
  for (size_t i = 0; i < from.size(); ++i) {
    if (!from[i]->node()) continue;
    Value* input = graph.addInput(given[i]);
    from[i]->replaceAllUsesWith(input);
    std::replace(to.begin(), to.end(), from[i], input);
    graph.giveTextName(input, from[i]->name());
  }
  graph.returnNode()->removeAllInputs();
  for (Value* v : to) graph.addOutput(v);
  for (Node* n = graph.block()->last(); n;) {
    Node* before = n->previous();
    if (!part.contains(n)) n->destroy();
    n = before;
  }
  std::vector<std::string> unneeded;
  for (size_t i = graph.inputs().size(); i-- > 0;) {
    if (graph.input(i)->useCount()) continue;
    unneeded.push_back(graph.input(i)->name());
    graph.block()->removeParameter(i);
  }
  return unneeded;
}

}  // namespace

static int runExtract(const Options& options, Session& session) {
  const auto& command = options.own.of<ExtractCommand>();
  if (command.from.empty() && command.to.empty())
    throw UsageError{"extract needs --from or --to, such as --to %y", {"see 'tscompile help extract'"}};
  ParseOptions reading;
  reading.registry = &session.operators();
  Result<ParsedText> text = session.parse(options.arguments[0], reading);
  if (!text) return session.finish();
  if (text->module || text->graphs.size() != 1)
    throw UsageError{"extract takes one graph", {"'tscompile lower' makes one of a method and all that it calls"}};
  Graph& graph = *text->graphs[0];
  std::vector<Value*> from = valuesOf(command.from, graph), to = valuesOf(command.to, graph);
  for (const std::string& name : cut(graph, session.operators(), from, std::move(to))) {
    auto isName = [&](const std::string& asked) { return asked == name || asked == "%" + name; };
    if (std::any_of(command.from.begin(), command.from.end(), isName))
      session.note("nothing that was asked for needs %" + name);
  }
  std::ostringstream json;
  std::string out;
  if (session.common.json) {
    JsonWriter writer(json);
    writeGraphJson(*text, writer);
    out = json.str();
  } else if (!printGraph(graph, [&](std::string_view piece) { out += piece; },
                         {.maxBytes = options.common.limits.printBytes})) {
    session.failAtPrintLimit();
    return session.finish();
  }
  if (command.output.empty() || command.output == "-")
    session.out << out;
  else
    writeFile(command.output, out, session.diagnostics);
  return session.finish();
}

VerbSpec extractCommand() {
  return {.name = "extract",
          .summary = "make a graph of the part between some of the values of another",
          .argument = "FILE",
          .argumentHelp = "graph text with one graph; -: standard input",
          .argumentRequired = true,
          .details =
              R"(The values of --from become inputs, with what is known of their sizes; inputs of the whole graph that
are needed besides stay, the others go.

Examples:
  tscompile extract model.ir --to %features -o front.ir
  tscompile extract model.ir --from %features -o back.ir
)",
          .options = {{"--from", "VALUE", "begin at this value (default: the graph's inputs)",
                       [](Options& o, const std::string& v) { o.own.of<ExtractCommand>().from.push_back(v); }, true},
                      {"--to", "VALUE", "end at this value (default: the graph's outputs)",
                       [](Options& o, const std::string& v) { o.own.of<ExtractCommand>().to.push_back(v); }, true},
                      writing(Written::File,
                              {"-o,--output", "FILE", "write there instead of to standard output",
                               [](Options& o, const std::string& v) { o.own.of<ExtractCommand>().output = v; }})},
          .command = runExtract};
}

}  // namespace tscompile
