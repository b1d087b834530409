// Inputs whose values are known for good become constants: argument "bind:NAME" holds the value of input %NAME. Lists,
// tuples and dicts that no constant holds, or that the graph writes to, are made of constants, anew in every run. Not
// tensors that the graph writes to: a constant is the same in every run.
#include "ir/values/ivalue.h"
#include "passes/lowering/bound_inputs.h"
#include "passes/rewrite/constant_form.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>

namespace tscompile {
namespace {

bool isContainer(const IValue& value) { return value.isList() || value.isTuple() || value.isDict(); }

template <class Visit>
void forEachItem(const IValue& value, const Visit& visit) {
  if (value.isList()) std::for_each(value.toList().items.begin(), value.toList().items.end(), visit);
  if (value.isTuple()) std::for_each(value.toTuple().items.begin(), value.toTuple().items.end(), visit);
  if (value.isDict())
    value.toDict().forEach([&](const IValue& key, const IValue& item) {
      visit(key);
      visit(item);
    });
}

bool holdsTensors(const IValue& value) {
  bool any = value.isTensor();
  forEachItem(value, [&](const IValue& item) { any = any || holdsTensors(item); });
  return any;
}

// Whether make() has a form for it.
bool canMake(const IValue& value, bool fresh) {
  if (fitsConstant(value) && !(fresh && isContainer(value))) return true;
  bool all = isContainer(value);
  forEachItem(value, [&](const IValue& item) { all = all && canMake(item, fresh); });
  return all;
}

// The value as nodes; `fresh`: containers are made of their items, never constants.
Value* make(Builder& b, const IValue& value, TypePtr type, bool fresh) {
  // Of None the plain type: nobody can take it to be a tensor that may be written.
  if (value.isNone()) return b.constant(value, types().none);
  while (type->is(TypeKind::Optional)) type = type->element();
  if (!isContainer(value) || (!fresh && fitsConstant(value))) return b.constant(value, constantType(value, type));
  std::vector<Value*> items;
  if (value.isList()) {
    for (const IValue& item : value.toList().items) items.push_back(make(b, item, type->element(), fresh));
    return b.list(items, type->element());
  }
  if (value.isTuple()) {
    const std::vector<IValue>& all = value.toTuple().items;
    for (size_t i = 0; i < all.size(); ++i) items.push_back(make(b, all[i], type->elements()[i], fresh));
    Value* tuple = b.tuple(items);
    tuple->setType(type);
    return tuple;
  }
  value.toDict().forEach([&](const IValue& key, const IValue& item) {
    items.push_back(make(b, key, type->elements()[0], fresh));
    items.push_back(make(b, item, type->elements()[1], fresh));
  });
  Node* dict = b.insert(sym::DictConstruct, items);
  dict->output()->setType(type);
  return dict->output();
}

}  // namespace

bool bindInputs(Graph& graph, RewriteContext& context) {
  bool changed = false;
  for (size_t i = graph.inputs().size(); i-- > 0;) {
    Value* input = graph.input(i);
    auto given = context.arguments.find(boundInput(input->name()));
    if (given == context.arguments.end()) continue;
    const IValue& value = given->second;
    const TypePtr type = withoutRefinement(input->type());
    const bool written = context.facts.isWritten(input);
    const bool mayNotChange = written && holdsTensors(value);
    if (mayNotChange || !isInstance(value, type) || !canMake(value, written)) {
      context.diagnostics.warning(graph.range,
                                  "input %" + input->name() + " is not bound: " +
                                      (mayNotChange ? "the graph may write to it" : "no constant holds such a value"));
      continue;
    }
    Builder b(graph, graph.block()->first() ? graph.block()->first() : graph.returnNode());
    Value* constant = make(b, value, input->type(), written);
    input->replaceAllUsesWith(constant);
    std::string name(input->givenName());
    bool named = input->isNamed();
    graph.block()->removeParameter(i);
    if (named) constant->setName(name);
    changed = true;
  }
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
