#include "runtime/interpreter/program_compiler.h"

#include "ir/analysis/context_kind.h"
#include "ir/operators/nearest_overload.h"
#include "ir/operators/unknown_operators.h"
#include "ir/support/remedy.h"
#include "ir/support/text.h"
#include "runtime/call/session_functions.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {

const Function* ProgramCompiler::functionFor(const Graph& graph, std::string name) {
  auto [it, isNew] = program_.functions_.try_emplace(&graph);
  if (isNew) {
    it->second = std::make_unique<Function>();
    it->second->graph = &graph;
    it->second->name = std::move(name);
    pending_.push_back(it->second.get());
  }
  return it->second.get();
}

const Function* ProgramCompiler::engineFor(const Node* node) {
  const Function* f = functionFor(*node->subgraph(), std::string(node->kind().text()));
  const ProgramSources& sources = program_.sources_;
  if (!f->segment && sources.compileSegment)
    const_cast<Function*>(f)->segment = sources.compileSegment(*node->subgraph(), *program_.registry_, sources);
  return f;
}

bool ProgramCompiler::compile(const Graph& entry) {
  size_t before = diagnostics_.errorCount();
  program_.entry_ = functionFor(entry, "the graph");
  while (!pending_.empty()) {
    Function* f = pending_.back();
    pending_.pop_back();
    compileFunction(*this, *f);
  }
  reportMissing();
  for (Refusal& r : refusals_) {
    if (r.nodes > 1) r.first.note(fmt::format("and {} other {}", r.nodes - 1, r.nodes == 2 ? "node" : "nodes"));
    diagnostics_.add(std::move(r.first));
  }
  return diagnostics_.errorCount() == before;
}

void ProgramCompiler::reportMissing() {
  std::vector<const Function*> reached{program_.entry_};
  while (!reached.empty()) {
    auto f = always_.extract(reached.back());
    reached.pop_back();
    if (f.empty()) continue;
    for (const Node* n : f.mapped().missing) resolve(n);
    reached.insert(reached.end(), f.mapped().callees.begin(), f.mapped().callees.end());
  }
}

Diagnostic& ProgramCompiler::unsupported(const Node* node, std::string message, ErrorKind kind) {
  auto [it, isNew] = refusalOf_.try_emplace(message, nullptr);
  if (isNew) {
    it->second = &refusals_.emplace_back();
    it->second->first.range = node->range;
    it->second->first.message = std::move(message);
    it->second->first.kind = kind;
  }
  ++it->second->nodes;
  return isNew ? it->second->first : (repeated_ = Diagnostic());
}

const Function* ProgramCompiler::calledMethod(const Node* n) {
  const IValue* name = n->attributeValue(sym::name);
  if (!name || !name->isString() || n->inputCount() == 0) {
    unsupported(n, "prim::CallMethod takes an object and has an attribute 'name'", ErrorKind::Input);
    return nullptr;
  }
  const auto& methods = program_.sources_.methods;
  TypePtr type = n->input(0)->type();
  if (!type->is(TypeKind::Class)) {
    // An interface: any class that has the method may come.
    std::vector<std::pair<std::string, const Graph*>> all;
    for (const auto& [t, list] : methods)
      if (auto m = list.find(name->toString()); m != list.end())
        all.emplace_back(t->name() + "." + name->toString(), m->second);
    std::sort(all.begin(), all.end());
    for (auto& [called, graph] : all) functionFor(*graph, called);
    return nullptr;
  }
  if (auto list = methods.find(type); list != methods.end())
    if (auto m = list->second.find(name->toString()); m != list->second.end())
      return functionFor(*m->second, type->name() + "." + name->toString());
  unsupported(n, fmt::format("method '{}' of {} is not part of the text", name->toString(), type->name()))
      .note(textOf(Remedy::Kind::ExportMethods));
  return nullptr;
}

void ProgramCompiler::compileContextMethods(const Node* n) {
  if (n->kind() != sym::Enter && n->kind() != sym::Exit) return;
  TypePtr type = n->input(0)->type();
  if (!type->is(TypeKind::Class) || contextKindOf(type->name()) != ContextKind::Other) return;
  auto list = program_.sources_.methods.find(type);
  if (list == program_.sources_.methods.end()) return;
  if (auto m = list->second.find(n->kind() == sym::Enter ? "__enter__" : "__exit__"); m != list->second.end())
    functionFor(*m->second, type->name() + "." + m->first);
}

const Function* ProgramCompiler::calledFunction(const Node* n) {
  static const Symbol kFallback = Symbol::of("fallback");
  const Node* constant = n->inputCount() ? n->input(0)->node() : nullptr;
  const IValue* name = constant && constant->kind() == sym::Constant ? constant->attributeValue(sym::name) : nullptr;
  std::string called = name && name->isString() ? name->toString() : "";
  auto it = program_.sources_.functions.find(called);
  if (it != program_.sources_.functions.end()) return functionFor(*it->second, called);
  // What an optimised graph does where its guards find other tensors is never part of its text.
  if (constant && constant->hasAttribute(kFallback)) return nullptr;
  unsupported(n, fmt::format("function '{}' is not part of the text", called))
      .note(textOf(Remedy::Kind::ExportFunctions));
  return nullptr;
}

const Operator* ProgramCompiler::resolve(const Node* n) {
  const OpRegistry& registry = *program_.registry_;
  const Operator* op = registry.resolve(*n);
  if (op && op->isImplemented()) {
    size_t returns = op->schema().returns.size();
    if (!op->schema().varReturns && returns != n->outputCount() && !(returns == 0 && n->outputCount() == 1)) {
      unsupported(n, fmt::format("{} returns {} values, not {}", op->fullName(), returns, n->outputCount()),
                  ErrorKind::Input);
      return nullptr;
    }
    if (const SessionFunctions* functions = op->def().session)
      if (std::shared_ptr<const void> life = functions->lifetime.lock()) held_.push_back(std::move(life));
    return op;
  }
  if (op) {
    Diagnostic& d = unsupported(n, fmt::format("operator {} is not implemented", op->fullName()));
    if (op->fullName().find("sparse") != std::string::npos)
      d.note(
          "sparse matrices are multiplied, added up and asked for what they hold; what else takes one, or returns it, "
          "takes to_dense()");
    return nullptr;
  }
  if (!registry.isKnown(n->kind())) {
    Diagnostic& d = unsupported(n, fmt::format("unknown operator {}", n->kind().text()));
    adviseUnknown(d, registry, n->kind().text());
    return nullptr;
  }
  if (OperatorProblem problem = registry.problemOf(*n); !problem.text.empty()) {
    unsupported(n, std::move(problem.text), problem.kind);
    return nullptr;
  }
  std::string inputs =
      join(n->inputs(), ", ", [](const Use& u) { return typeText(withoutRefinement(u.value->type())); });
  Diagnostic& d = unsupported(n, fmt::format("no overload of {} takes ({})", n->kind().text(), inputs));
  noteOverloads(*n, registry, d);
  return nullptr;
}

}  // namespace tscompile
