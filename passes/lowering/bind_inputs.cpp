// Inputs whose values are known for good become constants: argument "bind:NAME" holds the value of input %NAME. Lists,
// tuples and dicts that no constant holds, or that the graph writes to, are made of constants, anew in every run. Not
// tensors that the graph writes to: a constant is the same in every run.
#include "passes/lowering/bound_inputs.h"
#include "passes/lowering/made_constants.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

bool holdsTensors(const IValue& value) {
  bool any = value.isTensor();
  forEachItem(value, [&](const IValue& item) { any = any || holdsTensors(item); });
  return any;
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
    if (mayNotChange || !isInstance(value, type) || !canMakeConstants(value, written)) {
      context.diagnostics.warning(graph.range,
                                  "input %" + input->name() + " is not bound: " +
                                      (mayNotChange ? "the graph may write to it" : "no constant holds such a value"));
      continue;
    }
    Builder b(graph, graph.block()->first() ? graph.block()->first() : graph.returnNode());
    Value* constant = makeConstants(b, value, input->type(), written);
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
