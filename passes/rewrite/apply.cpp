#include "passes/rewrite/apply.h"

#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "ir/operators/nearest_overload.h"
#include "ir/support/text.h"
#include "ir/values/aten.h"
#include "ir/values/error.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <new>

namespace tscompile {
namespace {

bool isAlive(const Value* v) { return !v->node() || (v->node()->isInserted() && !v->node()->isDestroyed()); }

bool hasUsedOutputs(const Node* n) {
  return std::any_of(n->outputs().begin(), n->outputs().end(), [](Value* v) { return v->hasUses(); });
}

std::string nameOf(const Value* v) { return "%" + v->name(); }

// "%y of aten::relu".
std::string placeOf(const Value* v) {
  return nameOf(v) + " of " +
         (v->node()             ? std::string(v->node()->kind().text())
          : v->block()->owner() ? "a block"
                                : "the inputs");
}

bool saysAll(TypePtr type) {
  return !type->isTensor() || (type->tensor().dtype != DType::Undefined && type->tensor().hasAllSizes());
}

// "cuda" may be "cuda:0".
bool mayBeSame(Device a, Device b) { return a.kind == b.kind && (a.index == b.index || a.index < 0 || b.index < 0); }

bool hasPlace(const Node* n) { return n->location.present() || !n->scope.empty() || n->range.valid(); }

}  // namespace

void pruneUnused(std::vector<Node*> todo, GraphFacts& facts) {
  while (!todo.empty()) {
    Node* n = todo.back();
    todo.pop_back();
    if (!n->isInserted() || n->isDestroyed() || n->isReturn() || hasUsedOutputs(n) || !facts.isPure(n)) continue;
    std::vector<Node*> producers;
    auto take = [&](const Node* user) {
      for (const Use& u : user->inputs())
        if (u.value->node()) producers.push_back(u.value->node());
    };
    take(n);
    for (Block* b : n->blocks()) {
      take(b->returnNode());
      forEachNode(b, [&](Node* inner) {
        take(inner);
        for (Block* deeper : inner->blocks()) take(deeper->returnNode());
      });
    }
    n->destroy();
    todo.insert(todo.end(), producers.rbegin(), producers.rend());
  }
}

TypePtr mergedType(TypePtr before, TypePtr after) {
  if (isSubtype(after, before)) return after;
  if (!before->isTensor() || !after->isTensor()) {
    TypePtr b = withoutRefinement(before), a = withoutRefinement(after);
    return isSubtype(a, b) || a->hasVariables() ? after : nullptr;
  }
  const TensorFacts &b = before->tensor(), &a = after->tensor();
  if (a.dtype != DType::Undefined && b.dtype != DType::Undefined && a.dtype != b.dtype) return nullptr;
  if (a.hasRank && b.hasRank && a.sizes.size() != b.sizes.size()) return nullptr;
  if (a.hasDevice && b.hasDevice && !mayBeSame(a.device, b.device)) return nullptr;
  // What the text said of the former one holds for the new one, which computes the same.
  TensorFacts merged = b;
  if (merged.dtype == DType::Undefined) merged.dtype = a.dtype;
  if (!merged.hasRank && a.hasRank) {
    merged.hasRank = true;
    merged.sizes = a.sizes;
  } else if (a.hasRank) {
    for (size_t i = 0; i < merged.sizes.size(); ++i) {
      if (merged.sizes[i] >= 0 && a.sizes[i] >= 0 && merged.sizes[i] != a.sizes[i]) return nullptr;
      if (merged.sizes[i] < 0 && a.sizes[i] >= 0) merged.sizes[i] = a.sizes[i];
    }
  }
  return tensorType(merged);
}

std::string failureOf(const std::function<void()>& run) {
  try {
    run();
    return "";
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const ExecutionError& e) {
    if (e.kind() == ErrorKind::Limit || e.kind() == ErrorKind::Interrupted) throw;
    return "it throws: " + e.message();
  } catch (const std::exception& e) {
    return std::string("it throws: ") + e.what();
  } catch (...) {
    return "it throws";
  }
}

bool RewriteApplier::apply(const NodeRewrite& rewrite, Node* node) {
  size_t start = log_.position();
  mayHaveEffects_ = !context_.facts.isPure(node);
  described_.clear();
  std::string before = describe ? std::string(trim(nodeText(*node))) : "";
  bool hadPlace = hasPlace(node);
  Replacement r;
  if (std::string thrown = failureOf([&] { r = rewrite.apply(node, context_); }); !thrown.empty())
    return fail(rewrite, node, start, std::move(thrown));
  if (r.kind() == Replacement::Kind::None) {
    if (log_.position() != start) takeBack(start);
    return false;
  }
  std::string problem = perform(rewrite, node, r, start);
  if (problem.empty() && log_.position() == start) return false;
  if (problem.empty() && provenance != Provenance::Off) problem = checkPlaces(rewrite, hadPlace, start);
  if (problem.empty() && veto) problem = veto(rewrite, node, r);
  if (problem.empty()) {
    if (describe && r.kind() == Replacement::Kind::Done) described_ = {" changes " + before};
    return true;
  }
  return fail(rewrite, node, start, std::move(problem));
}

bool RewriteApplier::fail(const NodeRewrite& rewrite, Node* node, size_t start, std::string problem) {
  takeBack(start);
  if (problem != "unchanged") report(rewrite, node, std::move(problem));
  return false;
}

void RewriteApplier::takeBack(size_t start) {
  for (Node* n : log_.created(start))
    for (const Value* v : n->outputs()) context_.facts.forget(v);
  log_.moveTo(start);
}

// What is wrong with the replacement; "unchanged" if it comes to nothing.
std::string RewriteApplier::perform(const NodeRewrite& rewrite, Node* node, const Replacement& r, size_t start) {
  pairs_.clear();
  if (std::string problem = pairUp(node, r); !problem.empty()) return problem;
  if (r.kind() != Replacement::Kind::Done && pairs_.empty()) return "unchanged";
  std::vector<Node*> former;
  for (auto& [from, to] : pairs_) {
    if (rewrite.autoCast) to = casted(node, from, to);
    if (std::string problem = replaceOne(from, to, start); !problem.empty()) return problem;
    if (Node* n = from->node(); n && std::find(former.begin(), former.end(), n) == former.end()) former.push_back(n);
  }
  for (Node* n : r.gone())
    if (n->isInserted() && !n->isDestroyed() && !hasUsedOutputs(n)) n->destroy();
  pruneUnused(std::move(former), context_.facts);
  pruneUnused(log_.created(start), context_.facts);
  for (Node* n : r.gone())
    if (n->isInserted() && !n->isDestroyed())
      return fmt::format("{} was to go, but is still used", std::string(n->kind().text()));
  if (r.kind() == Replacement::Kind::Outputs && !node->isDestroyed() && !hasUsedOutputs(node)) {
    if (std::string problem = unresolved(node); !problem.empty()) return problem;
    return fmt::format("{} has effects, which the replacement would drop", std::string(node->kind().text()));
  }
  return checkTouched(start);
}

// The values to be replaced and what takes their place.
std::string RewriteApplier::pairUp(Node* node, const Replacement& r) {
  if (r.kind() == Replacement::Kind::Outputs) {
    if (r.outputs().size() != node->outputCount())
      return fmt::format("{} for {}", counted(r.outputs().size(), "value"), counted(node->outputCount(), "output"));
    for (size_t i = 0; i < r.outputs().size(); ++i) pairs_.emplace_back(node->output(i), r.outputs()[i]);
  } else if (r.kind() == Replacement::Kind::Values) {
    pairs_ = r.values();
  }
  for (auto& [from, to] : pairs_) {
    if (!to && from->hasUses()) return fmt::format("no value for {}, which is used", nameOf(from));
    if (!isAlive(from)) return fmt::format("{} is not in the graph", nameOf(from));
    if (to && !isAlive(to)) return fmt::format("{} was removed from the graph", nameOf(to));
  }
  std::erase_if(pairs_, [](auto& p) { return !p.second || p.first == p.second; });
  return "";
}

std::string RewriteApplier::replaceOne(Value* from, Value* to, size_t start) {
  std::string replaced = describe ? placeOf(from) : "";
  auto misfit = [&](TypePtr before, TypePtr after) {
    return fmt::format("{} is {}, which does not fit {} of type {}", nameOf(to), typeText(after), nameOf(from),
                       typeText(before));
  };
  TypePtr type = mergedType(from->type(), to->type());
  if (!type) return misfit(from->type(), to->type());
  std::vector<Node*> made = log_.created(start);
  auto isMade = [&](const Node* n) { return std::find(made.begin(), made.end(), n) != made.end(); };
  // What a node is declared to give, and leaves open, follows from its operator.
  if (isMade(to->node()) || !saysAll(from->type()) || !saysAll(to->type())) {
    TypePtr before = context_.facts.symbolic(from).type, after = context_.facts.symbolic(to).type;
    if (before->isTensor() && after->isTensor() && !mergedType(before, after)) return misfit(before, after);
  }
  if (type != to->type() && to->node()) to->setType(type);
  context_.facts.replaced(from, to);
  // Nodes of the replacement itself may go on using the former value.
  std::vector<Use*> uses;
  for (Use& u : from->uses())
    if (made.empty() || !isMade(u.user)) uses.push_back(&u);
  for (Use* u : uses) {
    if (!dominates(to, u->user)) return fmt::format("{} is used before it would be defined", nameOf(to));
    u->user->replaceInput(u->index(), to);
  }
  if (from->isNamed() && !to->isNamed() && to->node() && isMade(to->node()) && !from->hasUses()) {
    std::string name(from->givenName());
    from->setName("");
    to->setName(name);
  }
  if (describe) described_.push_back(" replaces " + replaced + " with " + placeOf(to));
  return "";
}

// A value of the dtype of what it replaces: itself, if that is not known to be another one.
Value* RewriteApplier::casted(Node* node, const Value* from, Value* to) {
  if (!from->type()->isTensor() || !to->type()->isTensor()) return to;
  auto dtype = [this](const Value* v) {
    DType said = v->type()->tensor().dtype;
    return said != DType::Undefined ? said : context_.facts.dtype(v);
  };
  DType wanted = dtype(from), has = dtype(to);
  if (wanted == has || wanted == DType::Undefined || has == DType::Undefined) return to;
  Builder b = context_.before(node);
  Value *no = b.constant(false), *none = b.constant(IValue(), types().none);
  TensorFacts facts = to->type()->tensor();
  facts.dtype = wanted;
  return b.call(aten::to, {to, b.constant(static_cast<int64_t>(wanted)), no, no, none}, tensorType(facts));
}

// What was made without saying where it comes from; a warning is no problem.
std::string RewriteApplier::checkPlaces(const NodeRewrite& rewrite, bool hadPlace, size_t start) {
  if (!hadPlace) return "";
  for (const Node* n : log_.created(start)) {
    if (hasPlace(n) || n->kind() == sym::Constant) continue;
    std::string what = std::string(n->kind().text()) + " was made without a place in the source";
    if (provenance == Provenance::Error) return what;
    context_.diagnostics.warning(SourceRange{}, fmt::format("rewrite '{}': {}", rewrite.name, what));
    return "";
  }
  return "";
}

std::string RewriteApplier::checkTouched(size_t start) {
  std::string problem;
  log_.forEachTouched(start, [&](Node* n) {
    if (!problem.empty()) return;
    Diagnostics found(1);
    if (!verifyNode(*n, context_.registry, found)) problem = found.list()[0].message;
  });
  for (const Node* n : log_.created(start))
    if (problem.empty()) problem = checkMade(n);
  return problem;
}

// Operators that nobody knows are left alone, unless they are said to be PyTorch's.
std::string RewriteApplier::unresolved(const Node* node) const {
  const std::string kind(node->kind().text());
  const std::string_view space = node->kind().nameSpace();
  if (space == "prim" || context_.facts.resolve(node)) return "";
  if (context_.registry.isKnown(node->kind()))
    return "no overload of " + kind + " takes (" +
           join(node->inputs(), ", ", [](const Use& u) { return typeText(withoutRefinement(u.value->type())); }) +
           "): " + nearestOverload(*node, context_.registry).problem;
  if (space != "aten") return "";
  const std::string nearest = context_.registry.nearestKind(kind);
  return "there is no operator " + kind + (nearest.empty() ? "" : "; did you mean " + nearest + "?");
}

std::string RewriteApplier::checkMade(const Node* made) {
  const std::string kind(made->kind().text());
  const std::string_view space = made->kind().nameSpace();
  if (std::string problem = unresolved(made); !problem.empty()) return problem;
  if (space != "prim" && !context_.facts.resolve(made)) return "";
  if (!mayHaveEffects_ && space == "aten" && !made->hasBlocks() && !context_.facts.isPure(made) &&
      context_.facts.resolve(made)->isImplemented())
    return kind + " has effects, which what it replaces has not";
  return "";
}

void RewriteApplier::report(const NodeRewrite& rewrite, Node* node, std::string message) {
  ++failures_;
  RewriteFailure f{rewrite.name, node->range, nodeText(*node), std::move(message)};
  if (failed) failed(f);
  std::string text = fmt::format("rewrite '{}' was taken back: {}", f.rewrite, f.message);
  // Equilibria ask again.
  const bool isSaid = std::ranges::any_of(context_.diagnostics.list(), [&](const Diagnostic& d) {
    return d.range.file == f.range.file && d.range.begin == f.range.begin && d.message == text;
  });
  if (isSaid) return;
  if (onFailure == OnFailure::Error)
    context_.diagnostics.error(f.range, std::move(text)).note("at " + f.node);
  else if (onFailure == OnFailure::Warn)
    context_.diagnostics.warning(f.range, std::move(text)).note("at " + f.node);
}

}  // namespace tscompile
