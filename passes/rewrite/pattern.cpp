#include "passes/rewrite/pattern.h"

#include "frontend/text/parse.h"
#include "passes/rewrite/compiled_pattern.h"

#include <fmt/core.h>

#include <algorithm>
#include <re2/re2.h>

namespace tscompile {
namespace {

// ---- reading ----

class PatternCompiler {
 public:
  PatternCompiler(CompiledPattern& out, Diagnostics& diagnostics) : out_(out), diagnostics_(diagnostics) {}

  bool compile() {
    const Graph& g = *out_.graph;
    out_.indexOf = ValueTable<uint32_t>(g);
    out_.nodeIndex = NodeTable<uint32_t>(g);
    for (const Value* v : g.inputs()) addValue(v);
    for (const Node* n : g.block()->nodes()) addNode(n);
    for (const Use& u : g.outputs()) {
      out_.outputs.push_back(out_.indexOf[u.value]);
      if (isRest(u.value)) fail(g.returnNode()->range, "a pattern returns single values");
    }
    return good_;
  }

 private:
  void fail(SourceRange where, std::string message) {
    good_ = false;
    diagnostics_.error(where, std::move(message));
  }

  void addValue(const Value* v) {
    out_.indexOf[v] = static_cast<uint32_t>(out_.values.size());
    out_.values.push_back(v);
  }

  void addNode(const Node* n) {
    constexpr size_t kMostNodes = 256;  // matching recurses on the pattern
    if (out_.nodes.size() == kMostNodes)
      return fail(n->range, fmt::format("a pattern has at most {} nodes", kMostNodes));
    out_.nodeIndex[n] = static_cast<uint32_t>(out_.nodes.size());
    CompiledPattern::PatternNode p;
    p.node = n;
    p.isConstant = n->kind() == sym::Constant;
    if (n->hasBlocks()) fail(n->range, "a pattern holds no nodes with blocks");
    if (isAny(n->kind())) p.kindVariable = variable(out_.kindVariables, std::string(n->kind().name()));
    for (size_t i = 0; i < n->inputCount(); ++i) {
      const Value* v = n->input(i);
      if (!isRest(v)) continue;
      if (i + 1 != n->inputCount()) fail(n->range, "the rest of the inputs, %" + v->name() + ", comes last");
      if (v->node()) fail(n->range, "%" + v->name() + " stands for several values, so it is a parameter");
      p.rest = static_cast<int>(out_.indexOf[v]);
    }
    for (const Attribute& a : n->attributes()) p.attributes.push_back(attribute(n, a));
    for (const Value* v : n->outputs()) {
      addValue(v);
      if (isRest(v)) fail(n->range, "%" + v->name() + " stands for several values, so it is a parameter");
    }
    out_.nodes.push_back(std::move(p));
  }

  static int variable(std::vector<std::string>& names, std::string name) {
    int known = CompiledPattern::indexIn(names, name);
    if (known >= 0) return known;
    names.push_back(std::move(name));
    return static_cast<int>(names.size()) - 1;
  }

  CompiledPattern::AttributeTest attribute(const Node* n, const Attribute& a) {
    CompiledPattern::AttributeTest test;
    test.name = a.name;
    test.value = a.value();
    if (!test.value) {
      fail(n->range, "attribute '" + std::string(a.name.text()) + "' of a pattern is a value");
    } else if (test.value->isLiteral() && test.value->toLiteral().kind == LiteralValue::Kind::Variable) {
      const std::string& text = test.value->toLiteral().text;
      test.value = nullptr;
      if (text[0] == '$')
        test.variable = variable(out_.variables, text.substr(1));
      else
        test.regex = regex(n, text.substr(2, text.size() - 3));
    }
    return test;
  }

  std::shared_ptr<const RE2> regex(const Node* n, const std::string& text) {
    auto regex = std::make_shared<const RE2>(text, RE2::Quiet);
    if (!regex->ok())
      fail(n->range, "'" + abbreviate(text, 60) + "' is no regular expression: " + abbreviate(regex->error(), 60));
    return regex;
  }

  CompiledPattern& out_;
  Diagnostics& diagnostics_;
  bool good_ = true;
};

// Whether a matcher can get from any node to all others.
bool isConnected(const CompiledPattern& p) {
  std::vector<bool> seen(p.nodes.size());
  std::vector<const Node*> todo;
  auto visit = [&](const Node* n) {
    if (!n || n->isReturn() || seen[p.nodeIndex[n]]) return;
    seen[p.nodeIndex[n]] = true;
    todo.push_back(n);
  };
  if (!p.nodes.empty()) visit(p.nodes.back().node);
  while (!todo.empty()) {
    const Node* n = todo.back();
    todo.pop_back();
    for (const Use& in : n->inputs()) {
      visit(in.value->node());
      for (Use& u : in.value->uses()) visit(u.user);
    }
    for (const Value* v : n->outputs())
      for (Use& u : v->uses()) visit(u.user);
  }
  return std::find(seen.begin(), seen.end(), false) == seen.end();
}

}  // namespace

// ---- patterns ----

Result<Pattern> Pattern::parse(SourcePtr text, Diagnostics& diagnostics) {
  ParseOptions options;
  options.pattern = true;
  Result<std::unique_ptr<Graph>> graph = parseGraph(std::move(text), diagnostics, options);
  if (!graph) return Failed{};
  auto compiled = std::make_shared<CompiledPattern>();
  compiled->graph = std::move(*graph);
  if (!PatternCompiler(*compiled, diagnostics).compile()) return Failed{};
  if (!isConnected(*compiled)) {
    diagnostics.error(compiled->graph->range, "the nodes of a pattern are connected by values");
    return Failed{};
  }
  Pattern p;
  p.pattern_ = std::move(compiled);
  return p;
}

Result<Pattern> Pattern::parse(std::string_view text, Diagnostics& diagnostics) {
  return parse(SourceFile::make("<pattern>", std::string(text)), diagnostics);
}

Pattern& Pattern::where(std::string_view name, ValuePredicate predicate) {
  int i = pattern_->find(name);
  TS_CHECK(i >= 0);
  valuePredicates_.emplace_back(static_cast<size_t>(i), std::move(predicate));
  return *this;
}

Pattern& Pattern::where(MatchPredicate predicate, std::string text, MatchPredicate isKnown) {
  matchPredicates_.push_back({std::move(predicate), std::move(text), std::move(isKnown)});
  return *this;
}

Pattern& Pattern::associative(std::vector<Symbol> kinds) {
  associative_ = std::move(kinds);
  return *this;
}

Pattern& Pattern::constantsByValue() {
  byValue_ = true;
  return *this;
}

bool Pattern::holdsCalls() const {
  return std::any_of(pattern_->nodes.begin(), pattern_->nodes.end(),
                     [](const auto& n) { return n.node->kind() == kMatchCall; });
}

Pattern& Pattern::sharing(Sharing sharing) {
  sharing_ = sharing;
  return *this;
}

bool Pattern::hasVariable(std::string_view name) const {
  return CompiledPattern::indexIn(pattern_->variables, name) >= 0;
}

const Graph& Pattern::graph() const { return *pattern_->graph; }

std::vector<Symbol> Pattern::kinds() const {
  std::vector<Symbol> kinds;
  for (const auto& n : pattern_->nodes)
    if (!n.isConstant && n.kindVariable < 0 && !isNamed(n.node->kind()) &&
        std::find(kinds.begin(), kinds.end(), n.node->kind()) == kinds.end())
      kinds.push_back(n.node->kind());
  return kinds;
}

// ---- building ----

bool Pattern::isBuiltFrom(const Pattern& other, Diagnostics& diagnostics) const {
  bool good = true;
  for (const Value* v : graph().inputs()) {
    if (other.pattern_->find(v->name()) >= 0) continue;
    good = false;
    NearestName nearest(v->name());
    for (const Value* w : other.pattern_->values) nearest.consider(w->name());
    Diagnostic& d = diagnostics.error(graph().range, "%" + v->name() + " is not part of the pattern that is matched");
    if (nearest.found()) d.note("did you mean '%" + nearest.name() + "'?");
  }
  for (const auto& n : pattern_->nodes) {
    for (const auto& a : n.attributes) {
      bool known =
          a.variable < 0 || CompiledPattern::indexIn(other.pattern_->variables,
                                                     pattern_->variables[static_cast<size_t>(a.variable)]) >= 0;
      if (known && !a.regex) continue;
      good = false;
      diagnostics.error(n.node->range, a.regex ? std::string("a regular expression can only be matched")
                                               : "$" + pattern_->variables[static_cast<size_t>(a.variable)] +
                                                     " is not part of the pattern that is matched");
    }
    if (n.kindVariable >= 0 &&
        CompiledPattern::indexIn(other.pattern_->kindVariables,
                                 pattern_->kindVariables[static_cast<size_t>(n.kindVariable)]) < 0) {
      good = false;
      diagnostics.error(n.node->range,
                        std::string(n.node->kind().text()) + " is not part of the pattern that is matched");
    }
  }
  if (graph().outputs().size() != other.graph().outputs().size()) {
    good = false;
    diagnostics.error(graph().returnNode()->range,
                      fmt::format("the replacement returns {}, the pattern {}",
                                  counted(graph().outputs().size(), "value"), other.graph().outputs().size()));
  }
  return good;
}

namespace {

// Makes a number of a variable what the text declares it to be; false if it cannot be.
bool fitsDeclared(Node& made, const Node& text) {
  const IValue* v = made.kind() == sym::Constant ? made.attributeValue(sym::value) : nullptr;
  if (!v || !v->isNumber()) return true;
  const TypePtr declared = text.output()->type();
  if (declared->is(TypeKind::Float) && v->isInt()) made.setAttribute(sym::value, IValue(v->toDouble()));
  return declared == untypedInPattern() || isInstance(*made.attributeValue(sym::value), declared);
}

}  // namespace

std::optional<std::vector<Value*>> Pattern::reify(const Match& match, RewriteContext& context, Builder& builder) const {
  std::vector<Value*> values(pattern_->values.size());
  for (const Value* v : graph().inputs())
    if (!isRest(v)) {
      Value* bound = match[v->name()];
      if (!bound) return std::nullopt;
      values[pattern_->indexOf[v]] = bound;
    }
  for (const auto& p : pattern_->nodes) {
    std::vector<Value*> inputs;
    for (const Use& u : p.node->inputs()) {
      if (isRest(u.value)) {
        std::string_view name = u.value->givenName();
        std::span<Value* const> rest = match.rest(name.substr(0, name.size() - 3));
        inputs.insert(inputs.end(), rest.begin(), rest.end());
      } else {
        inputs.push_back(values[pattern_->indexOf[u.value]]);
      }
    }
    Symbol kind =
        p.kindVariable < 0 ? p.node->kind() : match.kind(pattern_->kindVariables[static_cast<size_t>(p.kindVariable)]);
    if (kind.empty()) return std::nullopt;
    Node* made = builder.insert(kind, inputs, p.node->outputCount());
    for (const auto& a : p.attributes) {
      const IValue* v = a.value;
      if (a.variable >= 0) v = match.attribute(pattern_->variables[static_cast<size_t>(a.variable)]);
      if (!v) return std::nullopt;
      made->setAttribute(a.name, *v);
      if (a.variable >= 0 && !fitsDeclared(*made, *p.node)) return std::nullopt;
    }
    setOutputTypes(made, p.node, context);
    for (size_t i = 0; i < made->outputCount(); ++i) values[pattern_->indexOf[p.node->output(i)]] = made->output(i);
  }
  std::vector<Value*> outputs;
  for (uint32_t o : pattern_->outputs) outputs.push_back(values[o]);
  return outputs;
}

}  // namespace tscompile
