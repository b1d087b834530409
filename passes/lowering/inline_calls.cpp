// Calls become the nodes of what they call, at any depth of calls and of blocks. Names go as in PyTorch's inliner: what
// is made takes its name, and an older value of the same name gets another; only inputs of the graph keep theirs.
#include "ir/graph/clone.h"
#include "ir/graph/module_path.h"
#include "ir/support/remedy.h"
#include "ir/support/text.h"
#include "passes/lowering/fallback_marks.h"
#include "passes/lowering/interface_calls.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {

const Graph* CallTargets::calleeOf(const Node* call, std::string* name) const {
  const Graph* found = nullptr;
  std::string called;
  if (call->kind() == sym::CallMethod && call->inputCount() > 0) {
    const IValue* method = call->attributeValue(sym::name);
    auto list = methods.find(call->input(0)->type());
    if (!method || !method->isString() || list == methods.end()) return nullptr;
    if (auto m = list->second.find(method->toString()); m != list->second.end()) found = m->second;
    called = list->first->name() + "." + method->toString();
  } else if (call->kind() == sym::CallFunction && call->inputCount() > 0) {
    const Node* constant = call->input(0)->node();
    const IValue* function = constant ? constant->attributeValue(sym::name) : nullptr;
    if (!function || constant->kind() != sym::Constant || !function->isString()) return nullptr;
    called = function->toString();
    if (auto f = functions.find(called); f != functions.end()) found = f->second;
  }
  if (name) *name = std::move(called);
  return found;
}

namespace {

// Inputs in front of the arguments: of a prim::CallFunction, the function.
size_t firstArgument(const Node* call) { return call->kind() == sym::CallFunction ? 1 : 0; }

// The callee, if the call fits it; a call that does not is left for the run to fail on.
const Graph* inlinable(const CallTargets& targets, const Node* call, std::string* name = nullptr) {
  const Graph* callee = targets.calleeOf(call, name);
  if (!callee || callee->inputs().size() != call->inputCount() - firstArgument(call)) return nullptr;
  return callee->outputs().size() == call->outputCount() ? callee : nullptr;
}

// Visits the nodes of a graph and of the graphs in its nodes' attributes.
template <class Visit>
void forEachNodeWithin(const Graph& graph, Visit&& visit) {
  std::vector<const Graph*> todo{&graph};
  while (!todo.empty()) {
    const Graph* g = todo.back();
    todo.pop_back();
    forEachNode(*g, [&](Node* n) {
      visit(n);
      if (n->subgraph()) todo.push_back(n->subgraph());
    });
  }
}

// What inlining would do, found out before anything is changed: whether calls recurse, how many nodes there would be.
class CallCheck {
 public:
  CallCheck(const CallTargets& targets, Diagnostics& diagnostics) : targets_(targets), diagnostics_(diagnostics) {}

  // Whether there are calls to inline, and they can be.
  bool run(const Graph& entry) {
    open(entry, "");
    bool any = !stack_.back().calls.empty();
    while (!stack_.empty()) {
      Frame& top = stack_.back();
      if (top.next == top.calls.size()) {
        sizes_[top.graph] = top.size;
        stack_.pop_back();
        continue;
      }
      const Call& call = top.calls[top.next];
      auto known = sizes_.find(call.callee);
      if (known == sizes_.end()) {
        if (!open(*call.callee, call.name)) return refuse(call);
        continue;
      }
      top.size = std::min(top.size + known->second, kMost);
      ++top.next;
    }
    if (sizes_[&entry] <= targets_.maxNodes) return any;
    diagnostics_
        .error(entry.range,
               fmt::format("with all calls inlined the graph would have more than {} nodes", targets_.maxNodes),
               ErrorKind::Limit)
        .note(textOf(Remedy(Remedy::Kind::RaiseLimit, {"nodes"})));
    return false;
  }

 private:
  static constexpr uint64_t kMost = uint64_t{1} << 62;
  struct Call {
    const Node* node;
    const Graph* callee;
    std::string name;
  };
  struct Frame {
    const Graph* graph;
    std::string name;
    std::vector<Call> calls;
    size_t next = 0;
    uint64_t size = 0;
  };

  // False if the graph is being looked at already.
  bool open(const Graph& graph, const std::string& name) {
    if (!open_.emplace(&graph, stack_.size()).second) return false;
    Frame& f = stack_.emplace_back();
    f.graph = &graph;
    f.name = name;
    forEachNodeWithin(graph, [&](const Node* n) {
      std::string called;
      if (const Graph* callee = inlinable(targets_, n, &called))
        f.calls.push_back({n, callee, std::move(called)});
      else
        ++f.size;
    });
    return true;
  }

  bool refuse(const Call& call) {
    std::string path;
    for (size_t i = open_[call.callee]; i < stack_.size(); ++i) path += stack_[i].name + " -> ";
    diagnostics_
        .error(call.node->range, call.name + " calls itself, so its calls cannot be inlined", ErrorKind::Unsupported)
        .note("the calls are " + path + call.name);
    return false;
  }

  const CallTargets& targets_;
  Diagnostics& diagnostics_;
  std::vector<Frame> stack_;
  std::unordered_map<const Graph*, size_t> open_;  // place on the stack; also of graphs that are done
  std::unordered_map<const Graph*, uint64_t> sizes_;
};

class Inliner {
 public:
  Inliner(Graph& graph, RewriteContext& context) : top_(graph), targets_(*context.module), marks_(context) {}

  void run() {
    std::vector<Graph*> todo{&top_};
    while (!todo.empty()) {
      Graph* g = todo.back();
      todo.pop_back();
      inlineAll(*g);
      forEachNode(*g, [&](Node* n) {
        if (!n->subgraph() || !hasCalls(*n->subgraph())) return;
        // Changes inside of an attribute are no edits of the graph; a new attribute is one.
        if (g == &top_) n->setAttribute(sym::Subgraph, cloneGraph(*n->subgraph()));
        todo.push_back(n->subgraph());
      });
    }
  }

 private:
  bool hasCalls(const Graph& graph) const {
    bool any = false;
    forEachNodeWithin(graph, [&](const Node* n) { any = any || inlinable(targets_, n); });
    return any;
  }

  // A call that is inlined, while calls that it brought are not. Recorded only if somebody wants to know.
  struct Open {
    CallSite site;
    Node* before;  // what was made stands between these
    Node* after;
  };

  void inlineAll(Graph& graph) {
    bool tells = targets_.onCall && &graph == &top_;
    std::vector<Node*> todo;  // the next one last; null: a call is done
    forEachNode(graph, [&](Node* n) { note(n, todo); });
    std::reverse(todo.begin(), todo.end());
    std::vector<Open> open;
    while (!todo.empty()) {
      Node* n = todo.back();
      todo.pop_back();
      if (!n) {
        close(open.back());
        open.pop_back();
        continue;
      }
      std::vector<Node*> calls;
      CallSite site = inlineOne(n, tells ? &open : nullptr, calls);
      if (tells) {
        todo.push_back(nullptr);
        open.back().site = std::move(site);
      }
      todo.insert(todo.end(), calls.rbegin(), calls.rend());
    }
    for (Node* f : functions_) f->destroy();
    functions_.clear();
  }

  void note(Node* n, std::vector<Node*>& calls) const {
    if (inlinable(targets_, n)) calls.push_back(n);
  }

  // Puts the callee's nodes where the call was; adds the calls among them to `calls`.
  CallSite inlineOne(Node* call, std::vector<Open>* open, std::vector<Node*>& calls) {
    Graph& graph = *call->graph();
    CallSite site;
    site.graph = inlinable(targets_, call, &site.callee);
    if (open) open->push_back({{}, call->previous(), call->next() ? call->next() : call->block()->returnNode()});
    bool marked = FallbackMarks::isMarked(call) || (!marks_.empty() && marks_.marksCall(call));
    const Symbol scope = scopeInside(call);
    ValueMap values;
    for (size_t i = 0; i < site.graph->inputs().size(); ++i) {
      Value* argument = call->input(firstArgument(call) + i);
      values[site.graph->input(i)] = argument;
      if (open) site.arguments.emplace_back(site.graph->input(i)->name(), argument);
    }
    for (const Node* n : site.graph->block()->nodes()) {
      Node* copy = cloneNode(*n, graph, values);
      copy->insertBefore(call);
      if (!scope.empty()) giveScope(copy, scope);
      if (marked) FallbackMarks::mark(copy);
      if (!marks_.empty()) markOperators(copy);
      giveNames(*n, values);
      note(copy, calls);
      for (Block* b : copy->blocks()) forEachNode(b, [&](Node* inner) { note(inner, calls); });
    }
    Node* function = firstArgument(call) ? call->input(0)->node() : nullptr;
    site.outputs = replaceOutputs(call, *site.graph, values, open);
    if (function && !function->output()->hasUses()) functions_.push_back(function);
    return site;
  }

  // Of what a call is replaced with: the scopes of traces, of which each says the path of a module.
  static Symbol scopeInside(const Node* call) {
    const bool isMethod = call->kind() == sym::CallMethod && call->inputCount() > 0;
    return isMethod ? scopeOfModule(call->scope, modulePath(call->input(0))) : call->scope;
  }
  static void giveScope(Node* copy, Symbol scope) {
    auto one = [scope](Node* n) {
      if (n->scope.empty() && n->kind() != sym::Constant && n->kind() != sym::GetAttr) n->scope = scope;
    };
    one(copy);
    for (Block* b : copy->blocks()) forEachNode(b, one);
  }

  void markOperators(Node* copy) {
    auto one = [this](Node* n) {
      if (marks_.marksOperator(n)) FallbackMarks::mark(n);
    };
    one(copy);
    for (Block* b : copy->blocks()) forEachNode(b, one);
  }

  // Removes the call.
  std::vector<Value*> replaceOutputs(Node* call, const Graph& callee, const ValueMap& values, std::vector<Open>* open) {
    std::vector<Value*> outputs;
    std::vector<std::string> names;
    for (size_t i = 0; i < call->outputCount(); ++i) {
      Value* old = call->output(i);
      Value* now = values.at(callee.output(i));
      outputs.push_back(now);
      // What is only handed through keeps the name that it has.
      names.emplace_back(old->isNamed() && callee.output(i)->node() ? old->givenName() : "");
      old->replaceAllUsesWith(now);
      if (!open) continue;
      for (Open& o : *open) std::replace(o.site.outputs.begin(), o.site.outputs.end(), old, now);
    }
    call->destroy();
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!names[i].empty()) outputs[i]->setName(names[i]);
    return outputs;
  }

  // Names that were not free when a node was copied.
  static void giveNames(const Node& original, const ValueMap& values) {
    auto give = [&](const Value* from) {
      Value* to = values.at(from);
      if (!from->isNamed() || to->isNamed()) return;
      Graph& graph = *to->graph();
      Value* owner = graph.find(from->givenName());
      bool isInput = owner && owner->isParameter() && owner->block() == graph.block();
      to->setName(from->givenName());
      if (isInput) owner->setName(from->givenName());
    };
    auto node = [&](const Node* n) {
      for (const Value* o : n->outputs()) give(o);
      for (const Block* b : n->blocks())
        for (const Value* p : b->parameters()) give(p);
    };
    node(&original);
    for (Block* b : original.blocks()) forEachNode(b, node);
  }

  void close(Open& open) {
    for (Node* n = open.after->isReturn() ? open.after->block()->last() : open.after->previous(); n && n != open.before;
         n = n->previous())
      open.site.nodes.push_back(n);
    std::reverse(open.site.nodes.begin(), open.site.nodes.end());
    targets_.onCall(open.site);
  }

  Graph& top_;
  const CallTargets& targets_;
  FallbackMarks marks_;
  std::vector<Node*> functions_;  // constants that no call is left for
};

}  // namespace

bool inlineCalls(Graph& graph, RewriteContext& context) {
  bool changed = false;
  // What was inlined may choose modules.
  while (context.module) {
    const bool named = nameClasses(graph, *context.module);
    const bool opened = callInBranches(graph, context.module->maxNodes) | callContexts(graph, *context.module);
    const bool calls = CallCheck(*context.module, context.diagnostics).run(graph);
    if (calls) Inliner(graph, context).run();
    if (named || opened || calls) context.facts.refresh();
    changed |= named || opened || calls;
    if (!calls) break;
  }
  return changed;
}

}  // namespace tscompile
