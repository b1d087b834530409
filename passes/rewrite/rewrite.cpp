#include "passes/rewrite/rewrite.h"

#include "passes/rewrite/apply.h"

#include <algorithm>

namespace tscompile {

Replacement Replacement::of(std::vector<std::pair<Value*, Value*>> values, std::vector<Node*> gone) {
  Replacement r;
  r.values_ = std::move(values);
  r.gone_ = std::move(gone);
  r.kind_ = Kind::Values;
  return r;
}

Replacement Replacement::done() {
  Replacement r;
  r.kind_ = Kind::Done;
  return r;
}

bool isOfKind(Symbol kind, Symbol wanted) {
  return kind == wanted || (wanted.name() == "*" && kind.nameSpace() == wanted.nameSpace());
}

bool isOfKind(Symbol kind, const std::vector<Symbol>& wanted) {
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [kind](Symbol w) { return isOfKind(kind, w); });
}

void setOutputTypes(Node* made, const Node* text, RewriteContext& context) {
  auto typed = [&](size_t i) { return text && text->output(i)->type() != untypedInPattern(); };
  if (made->kind() == sym::Constant && !typed(0)) {
    const IValue* v = made->attributeValue(sym::value);
    made->output()->setType(v ? dynamicType(*v) : types().none);
    return;
  }
  TypeBindings bindings;
  const Operator* op = context.registry.resolve(*made, &bindings);
  for (size_t i = 0; i < made->outputCount(); ++i) {
    if (typed(i)) {
      made->output(i)->setType(text->output(i)->type());
    } else if (made->kind() == sym::ListConstruct && made->inputCount()) {
      made->output(i)->setType(listType(withoutRefinement(made->input(0)->type())));
    } else if (made->kind() == sym::TupleConstruct) {
      std::vector<TypePtr> elements;
      for (const Use& u : made->inputs()) elements.push_back(u.value->type());
      made->output(i)->setType(tupleType(elements));
    } else if (op && i < op->schema().returns.size()) {
      TypePtr t = op->schema().returns[i].type;
      if (t->hasVariables()) t = substituteTypeVariables(t, bindings);
      if (t) made->output(i)->setType(t);
    }
  }
}

NodeRewrite substitute(std::string name, Symbol from, Symbol to) {
  auto apply = [to](Node* n, RewriteContext& c) -> Replacement {
    std::vector<Value*> inputs;
    for (const Use& u : n->inputs()) inputs.push_back(u.value);
    Node* made = c.before(n).insert(to, inputs, n->outputCount());
    for (size_t i = 0; i < n->outputCount(); ++i) made->output(i)->setType(n->output(i)->type());
    for (const Attribute& a : n->attributes())
      if (const IValue* v = a.value()) made->setAttribute(a.name, *v);
    return std::vector<Value*>(made->outputs().begin(), made->outputs().end());
  };
  return {std::move(name), {from}, apply};
}

NodeRewrite bypass(std::string name, Symbol kind) {
  auto apply = [](Node* n, RewriteContext&) -> Replacement {
    if (n->outputCount() > n->inputCount()) return {};
    std::vector<Value*> outputs;
    for (size_t i = 0; i < n->outputCount(); ++i) outputs.push_back(n->input(i));
    return outputs;
  };
  return {std::move(name), {kind}, apply};
}

namespace {
// All kinds that one of the rewrites asks for; none if one asks for every node.
std::vector<Symbol> kindsOf(const std::vector<NodeRewrite>& rewrites) {
  std::vector<Symbol> kinds;
  for (const NodeRewrite& r : rewrites) {
    if (r.kinds.empty()) return {};
    for (Symbol k : r.kinds)
      if (std::find(kinds.begin(), kinds.end(), k) == kinds.end()) kinds.push_back(k);
  }
  return kinds;
}

bool wants(const NodeRewrite& r, const Node* n) { return isOfKind(n->kind(), r.kinds); }

// What is allowed to one of its parts is allowed to the whole.
NodeRewrite wholeOf(std::string name, const std::vector<NodeRewrite>& parts) {
  NodeRewrite whole{.name = std::move(name), .kinds = kindsOf(parts), .apply = nullptr};
  for (const NodeRewrite& r : parts) {
    whole.tolerance = std::max(whole.tolerance, r.tolerance);
    whole.autoCast |= r.autoCast;
  }
  return whole;
}
}  // namespace

NodeRewrite firstOf(std::string name, std::vector<NodeRewrite> rewrites) {
  NodeRewrite whole = wholeOf(std::move(name), rewrites);
  whole.apply = [rewrites = std::move(rewrites)](Node* n, RewriteContext& c) -> Replacement {
    for (const NodeRewrite& r : rewrites)
      if (wants(r, n))
        if (Replacement made = r.apply(n, c)) return made;
    return {};
  };
  return whole;
}

NodeRewrite bestOf(std::string name, std::vector<NodeRewrite> rewrites, std::function<double(const Graph&)> cost) {
  NodeRewrite whole = wholeOf(std::move(name), rewrites);
  whole.apply = [rewrites = std::move(rewrites), cost = std::move(cost)](Node* n, RewriteContext& c) -> Replacement {
    EditLog* log = c.graph.editLog();
    if (!log) return {};
    size_t start = log->position();
    const NodeRewrite* best = nullptr;
    double least = cost(c.graph);
    for (const NodeRewrite& r : rewrites) {
      if (!wants(r, n)) continue;
      // Tried as the driver would do it, and taken back.
      RewriteApplier trial(c, *log);
      trial.onFailure = OnFailure::Ignore;
      if (trial.apply(r, n)) {
        double now = cost(c.graph);
        if (now < least) {
          least = now;
          best = &r;
        }
      }
      log->moveTo(start);
    }
    return best ? best->apply(n, c) : Replacement();
  };
  return whole;
}

namespace {
// What takes the place of the only output of a node; null if that is not what the replacement is about.
Value* replacementOf(const Node* n, const Replacement& r) {
  if (n->outputCount() != 1) return nullptr;
  if (r.kind() == Replacement::Kind::Outputs) return r.outputs().size() == 1 ? r.outputs()[0] : nullptr;
  for (const auto& [from, to] : r.values())
    if (from == n->output()) return r.values().size() == 1 ? to : nullptr;
  return nullptr;
}
}  // namespace

NodeRewrite chain(std::string name, std::vector<NodeRewrite> rewrites) {
  NodeRewrite whole = wholeOf(std::move(name), rewrites);
  whole.apply = [rewrites = std::move(rewrites)](Node* n, RewriteContext& c) -> Replacement {
    Replacement last;
    Node* at = n;
    constexpr int kMost = 64;  // rules that undo each other end here
    for (int steps = 0; steps < kMost && at; ++steps) {
      Replacement made;
      for (size_t i = 0; i < rewrites.size() && !made; ++i)
        if (wants(rewrites[i], at)) made = rewrites[i].apply(at, c);
      if (!made) break;
      // The chain goes on where one node has taken the place of the other.
      Value* next = replacementOf(at, made);
      if (at != n && !next) break;
      last = next ? Replacement(next) : made;
      at = next ? next->node() : nullptr;
    }
    return last;
  };
  return whole;
}

}  // namespace tscompile
