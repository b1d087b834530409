// What engines can run: every operator that has a kernel, keeps to itself, and gives the same each time.
#include "api/partition.h"
#include "ir/overload_cache.h"
#include "ir/support/text.h"
#include "runtime/machine.h"

#include <algorithm>

namespace tscompile {
namespace {

bool isOneOf(Symbol kind, std::initializer_list<std::string_view> names) {
  return kind.nameSpace() == "prim" && std::find(names.begin(), names.end(), kind.name()) != names.end();
}

class KernelSupport : public EngineSupport {
 public:
  explicit KernelSupport(const OpRegistry& registry) : registry_(registry), overloads_(registry) {
    for (Symbol kind : structureKinds()) structure_.push_back(kind);
  }

  Verdict accepts(const Node& node) const override {
    Symbol kind = node.kind();
    if (kind == sym::PythonOp) return {Reason::SideEffect, "calls Python", "say it in TorchScript"};
    if (node.subgraph()) return {Reason::ControlFlow, std::string(kind.text()) + " holds a graph of its own", ""};
    if (std::find(structure_.begin(), structure_.end(), kind) != structure_.end()) return ofStructure(kind);
    if (!registry_.isKnown(kind)) {
      std::string nearest = registry_.nearestKind(kind.text());
      return {Reason::NoOp, "there is no operator " + std::string(kind.text()),
              nearest.empty() ? "register a kernel for it" : "did you mean " + nearest + "?"};
    }
    const Operator* op = overloads_.resolve(node);
    if (!op) return {Reason::NoOverload, noOverload(node), "cast the arguments to types that an overload takes"};
    if (!op->isImplemented()) return {Reason::NoOp, op->fullName() + " has no kernel", "register a kernel for it"};
    if (op->def().random)
      return {Reason::Random, op->fullName() + " draws random numbers", "in evaluation, dropout and the like go away"};
    if (op->def().sideEffects) return {Reason::SideEffect, op->fullName() + " does more than give a value", ""};
    return {};
  }

 private:
  static Verdict ofStructure(Symbol kind) {
    std::string name(kind.text());
    if (isOneOf(kind, {"RaiseException", "Print", "SetAttr", "CreateObject", "Enter", "Exit"}))
      return {Reason::SideEffect, name + " does more than give a value", ""};
    if (isOneOf(kind, {"CallMethod", "CallFunction", "fork"}))
      return {Reason::ControlFlow, name + " calls what is not inlined", "lower the graph first"};
    if (kind == sym::GetAttr) return {Reason::SideEffect, "reads an attribute that the graph may set", ""};
    return {};
  }

  std::string noOverload(const Node& node) const {
    std::string given =
        join(node.inputs(), ", ", [](const Use& u) { return typeText(withoutRefinement(u.value->type())); });
    auto overloads = registry_.overloads(node.kind());
    return "no overload takes (" + given + "); the first is " + schemaText(overloads.front()->schema());
  }

  const OpRegistry& registry_;
  mutable OverloadCache overloads_;
  std::vector<Symbol> structure_;
};

}  // namespace

std::unique_ptr<EngineSupport> engineSupport(const OpRegistry& registry) {
  return std::make_unique<KernelSupport>(registry);
}

}  // namespace tscompile
