// Inputs whose values are known for good become constants: argument "bind:NAME" holds the value of input %NAME. Not
// inputs that the graph writes to: a constant is the same in every run.
#include "passes/constant_form.h"
#include "passes/passes.h"

namespace tscompile {

bool bindInputs(Graph& graph, RewriteContext& context) {
  bool changed = false;
  for (size_t i = graph.inputs().size(); i-- > 0;) {
    Value* input = graph.input(i);
    auto given = context.arguments.find("bind:" + input->name());
    if (given == context.arguments.end()) continue;
    const IValue& value = given->second;
    if (!fitsConstant(value) || !isInstance(value, withoutRefinement(input->type())) ||
        context.facts.isWritten(input)) {
      context.diagnostics.warning(graph.range, "input %" + input->name() + " is not bound: " +
                                                   (context.facts.isWritten(input) ? "the graph may write to it"
                                                                                   : "no constant holds such a value"));
      continue;
    }
    Builder b(graph, graph.block()->first() ? graph.block()->first() : graph.returnNode());
    Value* constant = b.constant(value, constantType(value, input->type()));
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
