// Calls of methods by an interface. What %self holds tells the class of the module:
//
//   %m : InterfaceType<I> = prim::GetAttr[name="m"](%self)  →  %m : A = prim::GetAttr[name="m"](%self)
//
// A method of a module that branches choose is called in the branches, where the module's class is known:
//
//   %m : InterfaceType<I> = prim::If(%c)          %y : Tensor = prim::If(%c)
//     block0():                                     block0():
//       %a : A = prim::GetAttr[name="a"](%self)       %a : A = prim::GetAttr[name="a"](%self)
//       -> (%a)                                  →    %0 : Tensor = prim::CallMethod[name="f"](%a, %x)
//     block1():                                       -> (%0)
//       ...                                         ...
//   %y : Tensor = prim::CallMethod[name="f"](%m, %x)
//
// A `with` statement calls the methods of its context, the second with nothing for an exception:
//
//   %q : int[] = prim::Enter(%c)  →  %q : int[] = prim::CallMethod[name="__enter__"](%c)
//   %t : Tensor = prim::Exit(%c)  →  %t : Tensor = prim::CallMethod[name="__exit__"](%c, %none, %none, %none)
#include "passes/lowering/interface_calls.h"

#include "ir/graph/builder.h"
#include "ir/graph/clone.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tscompile {
namespace {

// Attributes that hold another module later on.
std::unordered_set<Symbol> setModules(const Graph& graph, const CallTargets& targets) {
  std::unordered_set<Symbol> names;
  auto look = [&](const Graph& g) {
    forEachNode(g, [&](const Node* n) {
      if (n->kind() != sym::SetAttr || !n->input(1)->type()->is(TypeKind::Interface)) return;
      if (const IValue* name = n->attributeValue(sym::name)) names.insert(Symbol::of(name->toString()));
    });
  };
  look(graph);
  for (const auto& [type, methods] : targets.methods)
    for (const auto& [name, method] : methods) look(*method);
  return names;
}

bool readsInterface(const Node* n) {
  return n->kind() == sym::GetAttr && n->inputCount() == 1 && n->output()->type()->is(TypeKind::Interface);
}

bool isCallOfChoice(const Node* n) {
  if (n->kind() != sym::CallMethod || n->inputCount() == 0 || n->outputCount() != 1) return false;
  const Value* object = n->input(0);
  return object->type()->is(TypeKind::Interface) && object->node() && object->node()->kind() == sym::If;
}

// Whether branches do nothing but choose, so that they may do it again.
bool onlyChooses(const Node* choice) {
  static const std::unordered_set<Symbol> kKinds = {sym::GetAttr,
                                                    sym::Constant,
                                                    sym::If,
                                                    Symbol::of("aten::eq"),
                                                    sym::RaiseException,
                                                    sym::Uninitialized,
                                                    Symbol::of("aten::__or__")};
  bool only = true;
  for (Block* b : choice->blocks()) forEachNode(b, [&](const Node* n) { only &= kKinds.contains(n->kind()); });
  return only;
}

size_t placeOf(const Value* output) {
  size_t i = 0;
  while (output->node()->output(i) != output) ++i;
  return i;
}

// Where there is no module the branch raises before it comes here.
void removeRaises(Block* block) {
  std::vector<Node*> raises;
  forEachNode(block, [&](Node* n) {
    if (n->kind() == sym::RaiseException) raises.push_back(n);
  });
  for (Node* n : raises) n->destroy();
}

// The call in a copy of a branch.
Node* callIn(Block* block, const Block& branch, size_t result, const Node* call) {
  Graph& graph = *call->graph();
  ValueMap values;
  cloneNodesBefore(branch, block->returnNode(), values);
  removeRaises(block);
  auto copied = values.find(branch.result(result));
  Value* object = copied == values.end() ? branch.result(result) : copied->second;
  const bool isNone = object->node() && object->node()->kind() == sym::Uninitialized;
  ValueMap none;
  Node* made = isNone ? graph.create(sym::Uninitialized, {}) : cloneNode(*call, graph, none);
  if (!isNone) made->replaceInput(0, object);
  made->output()->setType(call->output()->type());
  made->insertBefore(block->returnNode());
  block->addResult(made->output());
  return made;
}

// The calls that the new branches hold.
std::vector<Node*> callInBranchesOf(Node* call) {
  Graph& graph = *call->graph();
  const Node* choice = call->input(0)->node();
  Node* made = graph.create(sym::If, {choice->input(0)});
  made->copyPlace(call);
  made->insertBefore(call);
  std::vector<Node*> calls;
  for (const Block* branch : choice->blocks())
    calls.push_back(callIn(made->addBlock(), *branch, placeOf(call->input(0)), call));
  std::string name(call->output()->isNamed() ? call->output()->givenName() : "");
  made->output()->setType(call->output()->type());
  call->output()->replaceAllUsesWith(made->output());
  call->destroy();
  if (!name.empty()) made->output()->setName(name);
  return calls;
}

// The method that a node of a `with` statement runs; null if there is none.
const Graph* methodOfContext(const Node* n, const CallTargets& targets) {
  if (n->inputCount() != 1 || targets.modes.contains(n->input(0)->type())) return nullptr;
  auto methods = targets.methods.find(n->input(0)->type());
  if (methods == targets.methods.end()) return nullptr;
  auto method = methods->second.find(n->kind() == sym::Enter ? "__enter__" : "__exit__");
  return method == methods->second.end() ? nullptr : method->second;
}

bool callContext(Node* n, const Graph& method) {
  if (n->outputCount() != method.outputs().size()) return false;
  Builder builder(*n->graph(), n);
  builder.setPlaceOf(n);
  std::vector<Value*> arguments{n->input(0)};
  if (method.inputs().size() > 1) arguments.resize(method.inputs().size(), builder.constant({}, types().none));
  const bool isEnter = n->kind() == sym::Enter;
  Node* call = builder.insert(sym::CallMethod, arguments, n->outputCount());
  call->setAttribute(sym::name, IValue(isEnter ? "__enter__" : "__exit__"));
  for (size_t i = 0; i < n->outputCount(); ++i) {
    call->output(i)->setType(isEnter ? n->output(i)->type() : method.output(i)->type());
    n->output(i)->replaceAllUsesWith(call->output(i));
  }
  n->destroy();
  return true;
}

}  // namespace

bool callContexts(Graph& graph, const CallTargets& targets) {
  std::vector<Node*> contexts;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() == sym::Enter || n->kind() == sym::Exit) contexts.push_back(n);
  });
  bool changed = false;
  for (Node* n : contexts)
    if (const Graph* method = methodOfContext(n, targets)) changed |= callContext(n, *method);
  return changed;
}

bool nameClasses(Graph& graph, const CallTargets& targets) {
  bool any = false;
  forEachNode(graph, [&](const Node* n) { any |= readsInterface(n); });
  if (!any || !targets.self || graph.inputs().empty()) return false;
  const std::unordered_set<Symbol> set = setModules(graph, targets);
  std::unordered_map<const Value*, ObjectValue*> objects{{graph.input(0), targets.self.get()}};
  bool changed = false;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() != sym::GetAttr || n->inputCount() != 1) return;
    auto holder = objects.find(n->input(0));
    const IValue* name = n->attributeValue(sym::name);
    if (holder == objects.end() || !name) return;
    const Symbol attribute = Symbol::of(name->toString());
    const IValue* held = holder->second->find(attribute);
    if (!held || !held->isObject() || set.contains(attribute)) return;
    objects[n->output()] = &held->toObject();
    if (!readsInterface(n)) return;
    n->output()->setType(held->toObject().type);
    changed = true;
  });
  return changed;
}

bool callInBranches(Graph& graph, uint64_t maxCalls) {
  std::vector<Node*> todo;
  forEachNode(graph, [&](Node* n) {
    if (isCallOfChoice(n)) todo.push_back(n);
  });
  bool changed = false;
  while (!todo.empty() && maxCalls > 0) {
    Node* call = todo.back();
    todo.pop_back();
    if (!isCallOfChoice(call) || !onlyChooses(call->input(0)->node())) continue;
    for (Node* n : callInBranchesOf(call)) todo.push_back(n);
    changed = true;
    --maxCalls;
  }
  return changed;
}

}  // namespace tscompile
