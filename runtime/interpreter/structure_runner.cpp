#include "runtime/interpreter/structure_runner.h"

#include "ir/analysis/node_form.h"
#include "ir/values/aten.h"

#include <algorithm>
#include <numeric>

namespace tscompile {

StructureRunner::StructureRunner(const OpRegistry& registry) {
  Diagnostics diagnostics;
  Result<std::shared_ptr<const Program>> program = Program::compile(noGraph_, registry, {}, diagnostics);
  TS_CHECK(program.ok());
  empty_ = *program;
}

bool StructureRunner::runs(Symbol kind) {
  static const Symbol kEffects[] = {sym::SetAttr, sym::CreateObject, sym::RaiseException,       sym::Enter,
                                    sym::Exit,    sym::GetAttr,      Symbol::of("prim::Print"), aten::wait};
  return structureHandler(kind) && std::find(std::begin(kEffects), std::end(kEffects), kind) == std::end(kEffects);
}

void StructureRunner::run(const Node& node, std::span<const IValue> inputs, std::span<IValue> results,
                          RunContext& context) const {
  if (std::string problem = formProblem(node); !problem.empty()) Machine::fail(problem);
  std::vector<IValue> slots(inputs.begin(), inputs.end());
  slots.resize(inputs.size() + results.size());
  std::vector<uint32_t> numbers(slots.size());
  std::iota(numbers.begin(), numbers.end(), 0u);
  Instruction instruction;
  instruction.node = &node;
  instruction.slots = numbers.data();
  instruction.inputs = static_cast<uint32_t>(inputs.size());
  instruction.outputs = static_cast<uint32_t>(results.size());
  Machine machine(*empty_, context);
  machine.slots = slots.data();
  structureHandler(node.kind())(machine, &instruction);
  std::move(slots.begin() + static_cast<ptrdiff_t>(inputs.size()), slots.end(), results.begin());
}

}  // namespace tscompile
