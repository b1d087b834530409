#include "tools/reports/lint.h"

#include "ir/analysis/node_form.h"
#include "ir/analysis/shape_propagation.h"
#include "ir/graph/text_graphs.h"
#include "ir/operators/nearest_overload.h"
#include "ir/support/text.h"
#include "passes/rewrite/apply.h"
#include "passes/rewrite/facts.h"
#include "tools/reports/op_status.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile {
namespace {

class Linter {
 public:
  Linter(const OpRegistry& operators, Diagnostics& diagnostics, bool holdsData)
      : operators_(operators), diagnostics_(diagnostics), holdsData_(holdsData), finder_(operators) {}

  void graph(const Graph& g) {
    inputs(g);
    for (const Value* v : g.inputs()) type(v->type(), g.range);
    forEachNode(g, [&](Node* n) {
      for (const Value* v : n->outputs()) type(v->type(), n->range);
      for (const Block* b : n->blocks())
        for (const Value* v : b->parameters()) type(v->type(), b->range);
      operators(*n);
      unused(*n);
    });
    shapes(g);
    if (!holdsData_) constants(g);
  }

 private:
  // The module itself is often not used.
  void inputs(const Graph& g) {
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      const Value* v = g.input(i);
      if (v->hasUses() || (i == 0 && v->type()->is(TypeKind::Class))) continue;
      diagnostics_.remark(g.range, "input %" + v->name() + " is never used");
    }
  }

  // PyTorch's reader takes any name in lower case for a type variable, which no graph has.
  void type(TypePtr t, SourceRange range) {
    if (!t->hasVariables()) return;
    if (!t->is(TypeKind::Variable)) {
      for (TypePtr element : t->elements()) type(element, range);
      return;
    }
    Diagnostic& d = diagnostics_.error(range, "there is no type '" + abbreviate(t->name(), 80) + "'");
    NearestName nearest(t->name());
    for (const char* name : {"int", "float", "bool", "str", "complex", "number", "Tensor", "NoneType", "Device"})
      nearest.consider(name);
    if (nearest.found()) d.note("did you mean " + nearest.name() + "?");
  }

  void operators(const Node& n) {
    OpFinding found = finder_.find(n);
    if (!isMissing(found.status)) return;
    std::string kind(n.kind().text());
    std::string key = found.op ? found.op->fullName() : kind;
    if (found.status == OpStatus::NoOverload) key += inputTypesText(n);
    if (found.status == OpStatus::Python) key = "^" + n.python->name;
    if (!reported_.insert(key).second) return;  // once for each operator, where it occurs first
    switch (found.status) {
      case OpStatus::Unknown: {
        Diagnostic& d = diagnostics_.warning(n.range, "PyTorch 1.13 has no operator " + abbreviate(kind, 80));
        const std::string nearest = operators_.nearestKind(kind);
        if (!nearest.empty()) d.note("did you mean " + nearest + "?");
        return;
      }
      case OpStatus::NotImplemented:
      case OpStatus::OverloadMissing:
        diagnostics_.warning(n.range, key + " is not implemented");
        return;
      case OpStatus::NoOverload: {
        Diagnostic& d = diagnostics_.warning(n.range, "no overload of " + kind + " takes " + inputTypesText(n));
        noteOverloads(n, operators_, d);
        return;
      }
      case OpStatus::Python:
        diagnostics_.warning(n.range, "a call into Python cannot run: " + abbreviate(key, 80));
        return;
      default:
        return;
    }
  }

  // What shows without running: sizes that do not go together, dimensions that are not there, and types that are not
  // what operators give.
  void shapes(const Graph& g) {
    bool formed = true;
    forEachNode(g, [&](const Node* n) { formed = formed && isFormed(*n); });
    if (!formed || isDeep(g)) return;  // of the first, the verifier tells what is wrong
    const ShapePropagation shapes(g, operators_);
    std::unordered_set<const Node*> wrong;
    for (const ShapeConflict& c : shapes.conflicts()) {
      if (!wrong.insert(c.node).second || isInBranch(c.node)) continue;
      diagnostics_.warning(c.node->range, std::string(c.node->kind().text()) + " cannot run: " + c.message);
    }
    forEachNode(g, [&](const Node* n) {
      if (n->kind() == sym::ListConstruct && n->outputCount() == 1) items(*n);
      if (wrong.contains(n) || n->hasBlocks() || n->kind() == sym::Constant) return;
      for (const Value* v : n->outputs()) {
        const TypePtr made = shapes.of(v).type;
        if (!v->type()->isTensor() || !made->isTensor() || mergedType(v->type(), made)) continue;
        diagnostics_.warning(n->range, "%" + v->name() + " is " + typeText(made) + ", not " + typeText(v->type()));
      }
    });
  }

  // Blocks in blocks as no model has them, at each of which types would be kept.
  static bool isDeep(const Graph& g) {
    constexpr size_t kDeepest = 1000;
    bool isDeep = false;
    forEachNode(g, [&](const Node* n) {
      size_t depth = 0;
      for (const Node* around = n; around && depth <= kDeepest && !isDeep && n->hasBlocks(); ++depth)
        around = around->block()->owner();
      isDeep = isDeep || depth > kDeepest;
    });
    return isDeep;
  }

  // Such a node may not be meant to run for the values that are there.
  static bool isInBranch(const Node* n) {
    for (const Node* around = n->block()->owner(); around; around = around->block()->owner())
      if (around->kind() == sym::If || around->kind() == sym::Loop) return true;
    return false;
  }

  // Whether it has as many values and blocks as its kind, and its blocks as many as it.
  static bool isFormed(const Node& n) {
    if (!formProblem(n).empty()) return false;
    const size_t more = n.kind() == sym::Loop;  // results: whether to go on; parameters: the number of the turn
    if (n.kind() != sym::If && n.kind() != sym::Loop) return true;
    return std::ranges::all_of(n.blocks(), [&](const Block* b) {
      const size_t parameters = n.kind() == sym::Loop ? n.inputCount() - 1 : 0;
      return b->results().size() == n.outputCount() + more && b->parameters().size() == parameters;
    });
  }

  void items(const Node& list) {
    const TypePtr type = list.output()->type();
    if (!type->is(TypeKind::List)) return;
    for (const Use& u : list.inputs())
      if (!isSubtype(withoutRefinement(u.value->type()), withoutRefinement(type->element())))
        diagnostics_.warning(list.range, "%" + u.value->name() + " is " + typeText(withoutRefinement(u.value->type())) +
                                             ", which is no item of " + typeText(type));
  }

  // What inlining leaves of calls of modules without parameters, in PyTorch's texts too.
  static bool isModuleLeft(const Node& n) {
    return n.kind() == sym::GetAttr && n.outputCount() == 1 && n.output()->type()->is(TypeKind::Class);
  }

  // Whether leaving the node out would change nothing but its results.
  bool isPure(const Node& n, const OpFinding& found) const {
    if (n.hasBlocks() || n.python || isModuleLeft(n)) return false;
    if (found.status == OpStatus::Structure) return GraphFacts::isStructural(n.kind());
    if (!found.op || found.op->schema().isMutable()) return false;
    return !found.op->has(Trait::SideEffects) && !found.op->has(Trait::Random) && n.kind().nameSpace() == "aten" &&
           found.op->schema().returns.size() > 0;
  }

  void unused(const Node& n) {
    if (n.outputCount() == 0) return;
    for (const Value* v : n.outputs())
      if (v->hasUses()) return;
    if (!isPure(n, finder_.find(n))) return;
    diagnostics_.warning(n.range, n.outputCount() == 1 ? "value %" + n.output()->name() + " is never used"
                                                       : "none of the results of this node is used");
  }

  // One remark for all constants of a kind: a frozen model has hundreds.
  void constants(const Graph& g) {
    std::vector<const Node*> missing, rounded;
    forEachNode(g, [&](Node* n) {
      const IValue* v = n->kind() == sym::Constant && n->outputCount() == 1 ? n->attributeValue(sym::value) : nullptr;
      if (!v || !v->isLiteral()) return;
      if (v->toLiteral().kind == LiteralValue::Kind::MissingTensor) missing.push_back(n);
      if (v->toLiteral().kind == LiteralValue::Kind::RoundedTensor) rounded.push_back(n);
    });
    about(missing, "the text does not hold the data of ", "supply it with --weights, under the names of the values");
    about(rounded, "the text rounds the data of ", "--weights can supply it in full, under the names of the values");
  }

  void about(const std::vector<const Node*>& nodes, const char* what, const char* advice) {
    if (nodes.empty()) return;
    constexpr size_t kMost = 5;
    std::string names;
    for (size_t i = 0; i < nodes.size() && i < kMost; ++i) names += (i ? ", %" : "%") + nodes[i]->output()->name();
    if (nodes.size() > kMost) names += " and " + std::to_string(nodes.size() - kMost) + " more constants";
    diagnostics_.remark(nodes[0]->range, what + names).note(advice);
  }

  const OpRegistry& operators_;
  Diagnostics& diagnostics_;
  const bool holdsData_;
  OpFinder finder_;
  std::unordered_set<std::string> reported_;
};

}  // namespace

std::vector<const Node*> wrongOperators(const ParsedText& text, const OpRegistry& operators) {
  auto takes = [](const Operator* o, size_t count) {
    const Schema& s = o->schema();
    auto isNeeded = [](const Argument& a) { return !a.defaultValue; };
    const auto needed = static_cast<size_t>(std::count_if(s.arguments.begin(), s.arguments.end(), isNeeded));
    return count >= needed && (count <= s.arguments.size() || s.varArguments);
  };
  OpFinder finder(operators);
  std::vector<const Node*> out;
  forEachGraph(topGraphs(text), [&](const Graph& g) {
    forEachNode(g, [&](Node* n) {
      const OpStatus status = finder.find(*n).status;
      auto span = operators.overloads(n->kind());
      const bool fits = std::any_of(span.begin(), span.end(), [&](auto* o) { return takes(o, n->inputCount()); });
      if (status == OpStatus::Unknown || (status == OpStatus::NoOverload && !fits)) out.push_back(n);
    });
  });
  return out;
}

void lint(const ParsedText& text, const OpRegistry& operators, Diagnostics& diagnostics, bool holdsData) {
  Linter linter(operators, diagnostics, holdsData);
  forEachGraph(topGraphs(text), [&](const Graph& g) { linter.graph(g); });
}

}  // namespace tscompile
