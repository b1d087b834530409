#include "api/failed_run.h"

#include "api/module_state.h"
#include "ir/analysis/alias.h"
#include "ir/values/aten.h"

namespace tscompile {
namespace {

// Effects that a second run may have again: nobody hears what it prints, and it draws the same numbers.
bool isRepeatable(const Node* n, const OpRegistry& registry) {
  static const Symbol kPrint = Symbol::of("prim::Print");
  if (n->kind() == sym::RaiseException || n->kind() == kPrint || n->kind() == aten::warn) return true;
  const Operator* op = registry.resolve(*n);
  return op && op->drawsRandom(*n) && !op->isInPlaceVariant() && !op->outCount();
}

// Between attributes that are set at the end: nothing that could fail.
bool isGathering(const Node* n) {
  return n->kind() == sym::Constant || n->kind() == sym::TupleConstruct || n->kind() == sym::ListConstruct ||
         n->kind() == sym::SetAttr;
}

// Whether a run that fails leaves nothing, and one that ends sets attributes.
bool leavesNothingBeforeItsEnd(const Graph& graph, const OpRegistry& registry) {
  const AliasAnalysis alias(graph, registry);
  bool sets = false, isAtEnd = true;
  for (const Node* n : graph.block()->nodes()) {
    sets |= n->kind() == sym::SetAttr;
    isAtEnd &= !sets || isGathering(n);
  }
  if (!sets || !isAtEnd) return false;
  bool leaves = false;
  forEachNode(graph, [&](const Node* n) {
    if (n->kind() == sym::SetAttr)
      leaves |= n->block() != graph.block();
    else if (n->blocks().empty() && alias.hasEffects(n))
      leaves |= !isRepeatable(n, registry);
  });
  return !leaves;
}

}  // namespace

void setUntilFailure(const ModuleState& state, const Program& program, std::span<const IValue> inputs,
                     const RunOptions& options) {
  const Graph* entry = state.originEntry;
  if (!options.state || !entry || !leavesNothingBeforeItsEnd(program.graph(), *state.registry)) return;
  Diagnostics ignored;
  ProgramSources sources = collectSources(*state.origin, *entry, ignored);
  std::optional<IValue> self = bindSelf(*state.origin, *entry, Unsupplied::Reported, ignored);
  if (self) sources.boundInputs[0] = std::move(self);
  if (ignored.hasErrors()) return;
  Result<std::shared_ptr<const Program>> origin =
      Program::compile(*entry, *state.origin->registry, std::move(sources), ignored);
  if (!origin || (*origin)->inputs().size() != inputs.size()) return;
  RunOptions quiet = options;
  quiet.print = nullptr, quiet.warn = nullptr;
  (void)(*origin)->run(inputs, quiet, ignored);
}

}  // namespace tscompile
