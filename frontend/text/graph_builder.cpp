#include "frontend/text/graph_builder.h"

#include "frontend/text/values.h"
#include "ir/analysis/node_form.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace tscompile::frontend {
namespace {

bool isNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "x.1" of a statement "x.1 : Tensor = ...", whose first name lacks its "%"; empty if it is none.
std::string_view nameWithoutMark(std::string_view statement) {
  const size_t end = statement.find_first_of(" \t,:()[]{}=%");
  if (end == 0 || end == std::string_view::npos) return {};
  const std::string_view rest = statement.substr(end);
  return startsWith(rest, " : ") || startsWith(rest, " = ") ? statement.substr(0, end) : std::string_view();
}

// The number after the last "_" of a kind such as "prim::fork_0", or nothing.
std::optional<uint64_t> suffixOf(std::string_view kind) {
  size_t at = kind.rfind('_');
  if (at == std::string_view::npos || kind.size() - at > 12) return std::nullopt;
  std::string_view digits = kind.substr(at + 1);
  if (!isNumber(digits) || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace

bool GraphBuilder::charge(uint64_t& count, uint64_t amount, uint64_t Limits::*limit, Span span) {
  count += amount;
  if (count <= options_.limits.*limit) return true;
  if (count - amount <= options_.limits.*limit) ctx_->limitError(span, limit);
  stopped_ = true;
  return false;
}

Symbol GraphBuilder::kindSymbol(std::string_view kind) {
  if (kind != lastKind_ || lastKindSymbol_.empty()) {
    lastKindSymbol_ = Symbol::of(kind);
    lastKind_ = lastKindSymbol_.text();
  }
  return lastKindSymbol_;
}

Symbol GraphBuilder::fileSymbol(std::string_view file) {
  if (file != lastFile_ || lastFileSymbol_.empty()) {
    lastFileSymbol_ = Symbol::of(file);
    lastFile_ = lastFileSymbol_.text();
  }
  return lastFileSymbol_;
}

// ---- graphs and blocks ----

void GraphBuilder::onHeader(HeaderSyntax& header, Span span) {
  if (stopped_) return;
  OpenGraph* g = current();
  if (!g) return startTopGraph(header, span);
  if (header.word.text == "graph") {
    ctx_->error(span, "the graph before this one has no return").note(g->graph->range, "it starts here");
    g->returned = true;
    return startTopGraph(header, span);
  }
  startBlock(*g, header, span);
}

void GraphBuilder::startTopGraph(HeaderSyntax& header, Span span) {
  endOpenGraphs(span);
  if (header.word.text != "graph" && !options_.likeParseIr) {
    ctx_->error(header.word.span, "expected 'graph' before its parameters")
        .note("found '" + abbreviate(header.word.text, 80) + "'");
    if (startsWith(header.word.text, "block")) return;
  }
  startGraph(std::make_unique<Graph>(), header, span);
}

void GraphBuilder::openGraph(Graph* graph, HeaderSyntax& header, Span span) {
  graph->keepAlive(source_);
  graph->range = graph->block()->range = range(span);
  OpenGraph& open = graphs_.emplace_back();
  open.graph = graph;
  open.brace = header.brace;
  open.blocks.push_back(graph->block());
  addParameters(open, graph->block(), header);
}

void GraphBuilder::startGraph(std::unique_ptr<Graph> graph, HeaderSyntax& header, Span span) {
  Graph* started = graph.get();
  if (!modules_.empty()) {
    OpenModule& m = modules_.back();
    std::vector<DumpedMethod>& methods = methodsOf(m);
    if (m.inMethod && graphs_.empty() && !methods.empty() && !methods.back().graph)
      methods.back().graph = std::move(graph);
    else if (graphs_.empty())
      ctx_->error(span, "a graph in a module dump stands inside a method");
  }
  if (graph && graphs_.empty()) result_.graphs.push_back(std::move(graph));
  openGraph(started, header, span);
}

void GraphBuilder::addParameters(OpenGraph& g, Block* block, HeaderSyntax& header) {
  if (!charge(valueCount_, header.parameters.size, &Limits::values, header.word.span)) return;
  if (header.parameters.size > options_.limits.arguments) return ctx_->limitError(header.word.span, &Limits::arguments);
  for (TypedName& p : header.parameters) {
    Value* v = block->addParameter(p.type ? p.type : options_.pattern ? untypedInPattern() : types().tensor);
    nameValue(g, v, p.name, true);
  }
}

void GraphBuilder::startBlock(OpenGraph& g, HeaderSyntax& header, Span span) {
  std::string_view word = header.word.text;
  if (!g.last) {
    ctx_->error(span, "a block stands after the node that it belongs to");
    return;
  }
  size_t index = g.last->blocks().size();
  bool numbered = startsWith(word, "block") && isNumber(word.substr(5));
  if (numbered && word.substr(5) != std::to_string(index))
    ctx_->error(header.word.span, "expected 'block" + std::to_string(index) + "' as the next block of this node")
        .note(g.last->range, "the node is here");
  uint64_t depth = g.blocks.size();
  if (depth > options_.limits.blocks) {
    if (!stopped_) ctx_->limitError(span, &Limits::blocks);
    stopped_ = true;
    return;
  }
  Block* b = g.last->addBlock();
  b->range = range(span);
  g.blocks.push_back(b);
  g.last = nullptr;
  g.arrowSeen = false;
  addParameters(g, b, header);
}

void GraphBuilder::onBlockEnd(Slice<Name> results, Span span) {
  if (stopped_) return;
  OpenGraph* g = current();
  if (!g || g->blocks.size() < 2 || g->arrowSeen) {
    ctx_->error(span, "'->' outside of a block");
    return;
  }
  if (results.size > options_.limits.arguments) return ctx_->limitError(span, &Limits::arguments);
  Block* b = g->blocks.back();
  for (Name& n : results) b->addResult(lookUp(*g, n));
  b->returnNode()->range = range(span);
  if (g->brace) {
    g->arrowSeen = true;
    return;
  }
  g->blocks.pop_back();
  g->last = b->owner();
}

void GraphBuilder::onReturn(Slice<Name> results, Span span) {
  if (stopped_) return;
  OpenGraph* g = current();
  if (!g) {
    ctx_->error(span, "'return' outside of a graph");
    return;
  }
  if (g->blocks.size() > 1) {
    ctx_->error(span, "expected '->' at the end of this block before 'return'")
        .note(g->blocks.back()->range, "the block starts here");
    g->blocks.resize(1);
  }
  if (results.size > options_.limits.arguments) return ctx_->limitError(span, &Limits::arguments);
  for (Name& n : results) g->graph->addOutput(lookUp(*g, n));
  g->graph->returnNode()->range = range(span);
  g->returned = true;
  g->last = nullptr;
  finishNumbers(*g);
  if (options_.likeParseIr) stopped_ = true;
}

void GraphBuilder::onBrace(Span span) {
  if (stopped_) return;
  OpenGraph* g = current();
  if (g && g->brace && g->blocks.size() > 1) {
    if (!g->arrowSeen) ctx_->error(span, "expected '->' before the end of this block");
    Block* b = g->blocks.back();
    g->blocks.pop_back();
    g->last = b->owner();
    g->arrowSeen = false;
    return;
  }
  if (!g && !graphs_.empty() && graphs_.back().brace) {
    graphs_.back().brace = false;
    return;
  }
  if (g) {
    ctx_->error(span, "expected 'return' before the end of this graph").note(g->graph->range, "the graph starts here");
    g->returned = true;
  }
  // A brace of a module dump ends a section, a method, or a module.
  if (modules_.empty()) {
    if (!g) ctx_->error(span, "'}' without a '{' before it");
    return;
  }
  if (strayBraces_ > 0) {
    --strayBraces_;
    return;
  }
  endOpenGraphs(span);
  OpenModule& m = modules_.back();
  if (m.inMethod)
    m.inMethod = false;
  else if (!m.section.empty())
    m.section.clear();
  else
    modules_.pop_back();
}

void GraphBuilder::onSubgraph(Name kind, HeaderSyntax& header, Span span) {
  if (stopped_) return;
  if (OpenGraph* g = current()) {
    ctx_->error(kind.span, "a subgraph stands after the return of its graph")
        .note(g->graph->range, "this graph has no return yet");
    return;
  }
  // The innermost graph that has a node of this name left; graphs inside it take no more subgraphs.
  while (!graphs_.empty()) {
    OpenGraph& g = graphs_.back();
    std::optional<uint64_t> number = suffixOf(kind.text);
    for (size_t i = g.nextCandidate; i < g.candidates.size(); ++i) {
      Node* n = g.candidates[i];
      if (n->kind().text() != kind.text || number != g.subgraphs) continue;
      g.nextCandidate = i + 1;
      ++g.subgraphs;
      auto graph = std::make_unique<Graph>();
      Graph* inner = graph.get();
      n->setKind(Symbol::of(kind.text.substr(0, kind.text.rfind('_'))));
      n->setAttribute(sym::Subgraph, std::move(graph));
      openGraph(inner, header, span);
      return;
    }
    graphs_.pop_back();
  }
  ctx_->error(kind.span, "no node takes the subgraph '" + abbreviate(kind.text, 80) + "'");
  stopped_ = true;
}

void GraphBuilder::endOpenGraphs(Span span) {
  if (OpenGraph* g = current())
    ctx_->error(span, "expected 'return' at the end of the graph").note(g->graph->range, "the graph starts here");
  graphs_.clear();
}

void GraphBuilder::finish() {
  uint32_t end = ctx_->textSize();
  if (stopped_) return;
  if (!modules_.empty()) ctx_->error({end, end}, "expected '}' at the end of the module");
  if (OpenGraph* g = current()) {
    const char* what = g->blocks.size() > 1 ? "expected '->' and 'return' at the end of the text"
                                            : "expected 'return' at the end of the text";
    ctx_->error({end, end}, what)
        .note(g->blocks.back()->range, g->blocks.size() > 1 ? "the block starts here" : "the graph starts here");
  }
}

// ---- names ----

// Values whose numeric name went to a later one, and values without a name, get numbers that the text does not use.
void GraphBuilder::finishNumbers(OpenGraph& g) {
  if (options_.likeParseIr) return;
  g.graph->reserveNumbers(g.nextNumber);
  for (Value* v : g.nameless) g.graph->renumber(v);
}

void GraphBuilder::nameValue(OpenGraph& g, Value* v, const Name& name, bool isParameter) {
  bool number = isNumber(name.text);
  if (options_.likeParseIr) {
    g.names[std::string(name.text)] = v;
    if (isParameter && !number) v->setName(name.text);
    return;
  }
  if (number && name.text.size() < 19) {
    uint64_t n = 0;
    std::from_chars(name.text.data(), name.text.data() + name.text.size(), n);
    g.nextNumber = std::max(g.nextNumber, n + 1);
  }
  if (options_.noteRedefinitions)
    if (const Value* older = g.graph->find(name.text))
      diagnostics_.remark(range(name.span), "value %" + abbreviate(name.text, 80) + " is defined again")
          .note(older->node() ? older->node()->range : older->block()->range, "it was defined here");
  if (!number) {
    v->setName(name.text);
    return;
  }
  if (Value* older = g.graph->giveTextName(v, name.text)) g.nameless.push_back(older);
}

Value* GraphBuilder::lookUp(OpenGraph& g, const Name& name) {
  if (options_.likeParseIr) {
    auto it = g.names.find(std::string(name.text));
    if (it != g.names.end()) return it->second;
  } else if (Value* v = g.graph->find(name.text)) {
    return v;
  }
  Diagnostic& d = ctx_->error(name.span, "undefined value %" + abbreviate(name.text, 80));
  if (!isNumber(name.text)) {
    NearestName nearest(name.text);
    size_t considered = 0;
    g.graph->forEachName([&](std::string_view n) {
      if (++considered < 100'000 && !isNumber(n)) nearest.consider(n);
    });
    if (nearest.found()) d.note("did you mean %" + nearest.name() + "?");
  }
  // Stands in for it, so that each missing name is reported once.
  Node* unknown = g.graph->create(sym::Uninitialized, {});
  g.graph->block()->prepend(unknown);
  nameValue(g, unknown->output(), name, false);
  return unknown->output();
}

// A statement that could not be read was reported. What it would have opened, closed or defined is taken as given, as
// followers of one mistake are not worth a message.
void GraphBuilder::onRecovery(std::string_view line, Span span) {
  if (stopped_) return;
  OpenGraph* g = current();
  std::string_view word = trim(line);
  if (startsWith(word, "with")) {
    stopped_ = true;
  } else if (startsWith(word, "graph")) {
    HeaderSyntax header{{"graph", span}, namesIn(line), line.find('{') != std::string_view::npos};
    onHeader(header, span);
  } else if (!g) {
    return;
  } else if (startsWith(word, "block") && g->last) {
    std::string name = "block" + std::to_string(g->last->blocks().size());
    HeaderSyntax header{{ctx_->arena.copy(name), span}, namesIn(line), g->brace};
    startBlock(*g, header, span);
  } else if (startsWith(word, "->") && g->blocks.size() > 1 && !g->arrowSeen) {
    onBlockEnd(Slice<Name>::none(), span);
  } else if (startsWith(word, "return") && g->blocks.size() == 1) {
    onReturn(Slice<Name>::none(), span);
  } else if (!g->arrowSeen) {
    // Blocks may follow.
    Node* unknown = g->graph->create(sym::Uninitialized, {}, 0);
    unknown->range = range(span);
    g->blocks.back()->append(unknown);
    g->last = unknown;
    Slice<TypedName> names = namesIn(line.substr(0, line.find('=')));
    if (std::string_view first = nameWithoutMark(word); !first.empty())
      ctx_->append(&names, TypedName{{first, {}}, types().any});
    for (TypedName& n : names)
      if (!g->graph->find(n.name.text)) nameValue(*g, unknown->addOutput(types().any), n.name, false);
  }
}

Slice<TypedName> GraphBuilder::namesIn(std::string_view line) {
  auto* names = ctx_->list<TypedName>();
  for (size_t i = line.find('%'); i != std::string_view::npos; i = line.find('%', i + 1)) {
    size_t end = std::min(line.find_first_of(" \t\r\n,:()[]{}=%", i + 1), line.size());
    if (end == i + 1) continue;
    constexpr std::string_view kTensor = " : Tensor";
    const bool isTensor =
        startsWith(line.substr(end), kTensor) && line.substr(end + kTensor.size()).find_first_of(" ,=)") == 0;
    ctx_->append(names, TypedName{{line.substr(i + 1, end - i - 1), {}}, isTensor ? types().tensor : types().any});
  }
  return *names;
}

// ---- nodes ----

void GraphBuilder::onNode(NodeSyntax& syntax, const PlaceSyntax* place, Span span) {
  if (stopped_) return;
  OpenGraph* g = current();
  if (!g || g->arrowSeen) {
    ctx_->error(span, g                 ? "a node after the '->' of its block"
                      : graphs_.empty() ? "a node outside of a graph"
                                        : "a node after the graph's return");
    return;
  }
  if (!charge(nodeCount_, 1, &Limits::nodes, span) || !charge(valueCount_, syntax.outputs.size, &Limits::values, span))
    return;
  if (syntax.inputs.size > options_.limits.arguments || syntax.outputs.size > options_.limits.arguments)
    return ctx_->limitError(span, &Limits::arguments);

  SmallVector<Value*, 16> inputs;
  for (Name& n : syntax.inputs) inputs.push_back(lookUp(*g, n));
  Symbol kind = syntax.python ? sym::PythonOp : kindSymbol(syntax.kind);
  if (!syntax.python && isReservedKind(kind)) {
    ctx_->error(span, std::string(kind.text()) + " is no kind of node that a text can have");
    return;
  }
  Node* node = g->graph->create(kind, inputs, syntax.outputs.size);
  node->range = range(span);
  if (place && !options_.likeParseIr) node->location = {fileSymbol(place->file), place->line, place->column};
  if (!syntax.scope.empty()) node->scope = Symbol::of(syntax.scope);
  if (syntax.python) {
    node->python = std::make_unique<PythonOp>();
    node->python->name = syntax.kind;
    node->python->scalars = syntax.scalars;
    node->python->hasBrackets = syntax.brackets;
  }
  bool untyped = false;
  for (uint32_t i = 0; i < syntax.outputs.size; ++i) {
    if (TypePtr t = syntax.outputs[i].type)
      node->output(i)->setType(t);
    else
      untyped = true;
  }
  if (syntax.attributes.size) {
    bool constant = kind == sym::Constant && syntax.outputs.size == 1 && !options_.likeParseIr;
    readAttributes(node, syntax, constant ? syntax.outputs[0].type : nullptr);
  }
  if (untyped && options_.pattern) {
    for (uint32_t i = 0; i < syntax.outputs.size; ++i)
      if (!syntax.outputs[i].type) node->output(i)->setType(untypedInPattern());
  } else if (untyped) {
    inferOutputs(node, syntax);
  }
  // Names come after the inputs are found: `%x = aten::relu(%x)` reads the older one.
  for (uint32_t i = 0; i < syntax.outputs.size; ++i) nameValue(*g, node->output(i), syntax.outputs[i].name, false);
  g->blocks.back()->append(node);
  g->last = node;
  if (!syntax.python && suffixOf(syntax.kind)) g->candidates.push_back(node);
}

void GraphBuilder::readAttributes(Node* node, NodeSyntax& syntax, TypePtr constantType) {
  for (AttributeSyntax& a : syntax.attributes) {
    TypePtr expected = a.name.text == "value" ? constantType : nullptr;
    if (options_.likeParseIr && a.value->kind == Literal::Kind::List && a.value->items.size == 0 && !a.value->type)
      expected = node->outputCount() ? syntax.outputs[0].type : nullptr;
    node->setAttribute(Symbol::of(a.name.text), attributePayload(*ctx_, *a.value, expected));
  }
}

// Outputs that the text leaves untyped take the type of the matching schema, else what their kind tells, else Tensor.
void GraphBuilder::inferOutputs(Node* node, NodeSyntax& syntax) {
  auto set = [&](uint32_t i, TypePtr t) {
    if (!syntax.outputs[i].type && t) node->output(i)->setType(t);
  };
  if (node->kind() == sym::Constant && node->outputCount() == 1 && !options_.likeParseIr) {
    const IValue* v = node->attributeValue(sym::value);
    if (!node->hasAttribute(sym::value) && !node->hasAttribute(sym::name)) return set(0, types().none);
    if (node->hasAttribute(sym::name)) return set(0, types().function);
    if (v && !v->isLiteral()) set(0, dynamicType(*v));
    return;
  }
  if (node->kind() == sym::ListConstruct && node->outputCount() == 1 && !options_.likeParseIr) {
    TypePtr element = node->inputCount() ? withoutRefinement(node->input(0)->type()) : types().tensor;
    for (const Use& u : node->inputs())
      if (TypePtr t = unifyTypes(element, withoutRefinement(u.value->type()))) element = t;
    return set(0, listType(element));
  }
  if (node->kind() == sym::TupleConstruct && node->outputCount() == 1 && !options_.likeParseIr) {
    std::vector<TypePtr> elements;
    for (const Use& u : node->inputs()) elements.push_back(u.value->type());
    return set(0, tupleType(elements));
  }
  if (!options_.registry) return;
  TypeBindings bindings;
  const Operator* op = options_.registry->resolve(*node, &bindings);
  if (!op) return;
  const Schema& schema = op->schema();
  for (uint32_t i = 0; i < syntax.outputs.size && i < schema.returns.size(); ++i) {
    TypePtr t = schema.returns[i].type;
    if (t->hasVariables() && !options_.likeParseIr)
      if (TypePtr bound = substituteTypeVariables(t, bindings)) t = bound;
    set(i, t);
  }
}

// ---- module dumps ----

void GraphBuilder::onModule(std::string_view line, Span span) {
  if (stopped_) return;
  endOpenGraphs(span);
  std::string_view name = trim(line.substr(7, line.size() - 8));
  if (!result_.module) {
    result_.module = std::make_unique<ModuleDump>();
  } else if (modules_.empty()) {
    ctx_->error(span, "a second module after the first");
  } else if (modules_.back().section != "submodules") {
    ctx_->error(span, "a module inside a module stands among its submodules");
  }
  size_t index = result_.module->modules.size();
  if (!charge(nodeCount_, 1, &Limits::nodes, span)) return;
  DumpedModule& m = result_.module->modules.emplace_back();
  m.className = name;
  m.range = range(span);
  if (!modules_.empty()) result_.module->modules[modules_.back().index].children.push_back(index);
  modules_.push_back({index, "", false});
}

void GraphBuilder::onSection(std::string_view line, Span span) {
  if (stopped_) return;
  if (modules_.empty() || !modules_.back().section.empty()) {
    ctx_->error(span, "a section stands directly inside a module");
    ++strayBraces_;
    return;
  }
  modules_.back().section = trim(line.substr(0, line.size() - 1));
}

void GraphBuilder::onMethod(std::string_view line, Span span) {
  if (stopped_) return;
  size_t word = line.find_first_of(" \t");
  std::string section = std::string(line.substr(0, word)) + "s";
  if (modules_.empty() || modules_.back().section != section || modules_.back().inMethod) {
    ctx_->error(span, fmt::format("a {} stands among the {} of a module", line.substr(0, word), section));
    ++strayBraces_;
    return;
  }
  if (section == "functions" && modules_.back().index != 0) {
    ctx_->error(span, "functions stand in the outermost module");
    ++strayBraces_;
    return;
  }
  modules_.back().inMethod = true;
  methodsOf(modules_.back()).push_back({std::string(trim(line.substr(word, line.size() - word - 1))), nullptr});
}

std::vector<DumpedMethod>& GraphBuilder::methodsOf(const OpenModule& m) {
  return m.section == "functions" ? result_.module->functions : result_.module->modules[m.index].methods;
}

void GraphBuilder::onSetting(std::string_view line, Span span) {
  if (stopped_ || modules_.empty()) return;
  DumpedModule& m = result_.module->modules[modules_.back().index];
  bool parameters = modules_.back().section == "parameters";
  std::string_view text = trim(line);
  size_t equal = text.find(" = ");
  bool named = equal != std::string_view::npos && equal > 0 &&
               text.substr(0, equal).find_first_of(" \t([{\"'") == std::string_view::npos;
  if (named) {
    m.attributes.push_back(
        {std::string(text.substr(0, equal)), std::string(text.substr(equal + 3)), parameters, range(span)});
  } else if (!m.attributes.empty()) {
    // Raw strings and tensors may go on over several lines.
    m.attributes.back().text += "\n" + std::string(line);
  }
}

}  // namespace tscompile::frontend
