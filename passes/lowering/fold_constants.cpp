// What depends on constants alone is computed; conditions and trip counts that are constant decide.
#include "passes/lowering/clean_up.h"
#include "passes/lowering/whole_weights.h"
#include "passes/rewrite/constant_form.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace tscompile {
namespace {

// The node after another in text order, nodes inside of it left out; null at the end of the graph.
Node* nodeAfter(Node* n) {
  while (!n->next()) {
    Block* block = n->block();
    n = block->owner();
    if (!n) return nullptr;
    auto at = std::find(n->blocks().begin(), n->blocks().end(), block);
    for (++at; at != n->blocks().end(); ++at)
      if (Node* first = (*at)->first()) return first;
  }
  return n->next();
}
// The next node in text order.
Node* following(Node* n) {
  for (Block* b : n->blocks())
    if (Node* first = b->first()) return first;
  return nodeAfter(n);
}

class Folder {
 public:
  Folder(Graph& graph, RewriteContext& context) : graph_(graph), context_(context) {}

  bool run() {
    bool changed = false;
    do
      while (sweep()) changed = true;
    while (decideBranches());
    return changed;
  }

 private:
  // Conditions that types and sizes decide become constants:
  //
  //   %n : int = aten::size(%x, %d)
  //   %c : bool = aten::ge(%n, %zero)       ->     prim::If(true)
  //   prim::If(%c)
  bool decideBranches() {
    // What is known holds for the graph as it is, so all questions come before the first edit.
    std::vector<std::pair<Node*, bool>> decided;
    forEachNode(graph_, [&](Node* n) {
      if (n->kind() != sym::If || context_.facts.boolean(n->input(0))) return;
      const SymbolicValue& condition = context_.facts.symbolic(n->input(0));
      if (condition.constant && condition.constant->isBool()) decided.emplace_back(n, condition.constant->toBool());
    });
    for (auto [n, holds] : decided) n->replaceInput(0, context_.before(n).constant(IValue(holds), types().boolean));
    return !decided.empty();
  }

  // Goes over the graph once. False if nothing has changed.
  bool sweep() {
    comparesTensors_ = comparesOthers_ = false;
    forEachNode(graph_, [&](Node* n) {
      if (!isIdentityTest(n)) return;
      const bool tensors =
          std::all_of(n->inputs().begin(), n->inputs().end(), [](const Use& u) { return u.value->type()->isTensor(); });
      (tensors ? comparesTensors_ : comparesOthers_) = true;
    });
    made_.clear();
    changed_ = false;
    for (Node* n = graph_.block()->first(); n;) {
      removed_ = false;
      Node* next = step(n);
      changed_ |= removed_;
      n = removed_ ? next : following(n);
    }
    if (changed_) context_.facts.refresh();
    return changed_;
  }

  // Changes the graph at a node, and tells where to go on. Without `removed_` there was nothing to change.
  Node* step(Node* n) {
    if (n->kind() == sym::If) {
      if (std::optional<bool> taken = context_.facts.boolean(n->input(0))) return takeBranch(n, *taken ? 0 : 1);
      knowInside(n);
    } else if (n->kind() == sym::Loop) {
      if (neverRuns(n)) return skipLoop(n);
    } else if (std::optional<std::vector<IValue>> results = evaluate(n)) {
      return replaceBy(n, *results);
    }
    return nullptr;
  }

  // ---- control flow ----

  Node* takeBranch(Node* n, size_t branch) {
    if (branch >= n->blocks().size()) return nullptr;
    Block* block = n->block(branch);
    Node* next = block->first();
    while (Node* inner = block->first()) inner->moveBefore(n);
    std::vector<Value*> results;
    for (const Use& u : block->results()) results.push_back(u.value);
    return replace(n, results, next);
  }

  // In the branches of a condition it is known:
  //
  //   prim::If(%c)              prim::If(%c)
  //     block0(): f(%c)    ->     block0(): f(true)
  //     block1(): g(%c)           block1(): g(false)
  void knowInside(Node* n) {
    constexpr size_t kMostUses = 1000, kMostLevels = 32;
    Value* condition = n->input(0);
    if (condition->useCount() > kMostUses) return;
    std::vector<std::pair<Use*, size_t>> known;
    for (Use& u : condition->uses()) {
      if (u.user == n) continue;
      const Block* inside = u.user->block();
      for (size_t levels = 0; inside && inside->owner() != n; ++levels)
        inside = inside->owner() && levels < kMostLevels ? inside->owner()->block() : nullptr;
      if (inside) known.emplace_back(&u, inside == n->block(0) ? 0 : 1);
    }
    std::array<Value*, 2> made{};
    for (auto [use, branch] : known) {
      if (!made[branch]) made[branch] = context_.before(n).constant(IValue(branch == 0), types().boolean);
      use->user->replaceInput(use->index(), made[branch]);
      changed_ = true;
    }
  }

  bool neverRuns(const Node* n) const {
    std::optional<int64_t> trips = context_.facts.integer(n->input(0));
    std::optional<bool> condition = context_.facts.boolean(n->input(1));
    return (trips && *trips <= 0) || (condition && !*condition);
  }
  Node* skipLoop(Node* n) {
    std::vector<Value*> results;
    for (size_t i = 2; i < n->inputCount(); ++i) results.push_back(n->input(i));
    return replace(n, results, nullptr);
  }

  // ---- nodes ----

  // Whether a node tells one object from another: a constant from an object that is made anew.
  bool isIdentityTest(const Node* n) {
    return context_.facts.asksForIdentity(n) && std::all_of(n->inputs().begin(), n->inputs().end(), [](const Use& u) {
             return !u.value->type()->is(TypeKind::None);
           });
  }

  // Whether an identity test may ask whether a value of this type is the same as another. Lists of numbers are no
  // tensors.
  bool mayBeCompared(TypePtr t) const {
    if (!AliasAnalysis::canRefer(t)) return false;
    const bool plainList = t->is(TypeKind::List) && !AliasAnalysis::canRefer(t->element());
    return comparesOthers_ || (comparesTensors_ && !plainList);
  }

  // Whether a write anywhere may change what the value is.
  bool mayChange(const Value* v) { return !made_.contains(v) && context_.facts.isWritten(v); }

  // Whether a node makes what texts cannot hold, a quantised tensor or an object of packed weights: as large as its
  // inputs, in whose place it comes.
  bool isPacking(const Node* n) {
    if (n->outputCount() != 1) return false;
    TypePtr type = n->output()->type();
    return n->kind().name().ends_with("_quantized_tensor") ||
           (type->is(TypeKind::Class) && type->name().starts_with("__torch__.torch.classes."));
  }

  bool isReturned(const Value* v) const {
    for (const Use& u : v->uses())
      if (u.user == graph_.returnNode()) return true;
    return false;
  }
  // Whether the caller gets a view and what it shows: as constants they would be two.
  bool callerSeesBoth(Node* n) {
    auto tensorIsReturned = [&](const Value* v) { return v->type()->isTensor() && isReturned(v); };
    return std::any_of(n->outputs().begin(), n->outputs().end(), tensorIsReturned) && !context_.facts.isFresh(n) &&
           std::any_of(n->inputs().begin(), n->inputs().end(), [&](const Use& u) { return tensorIsReturned(u.value); });
  }

  std::optional<std::vector<IValue>> evaluate(Node* n) {
    if (!context_.evaluator || n->kind() == sym::Constant || n->hasBlocks() || isIdentityTest(n)) return std::nullopt;
    // Memory that nobody has written yet: every run may find something else there.
    if (n->kind().name().find("empty") != std::string_view::npos) return std::nullopt;
    // Operators without arguments tell about the run; nodes that build containers do not.
    static const Symbol kBuilders[] = {sym::ListConstruct, sym::TupleConstruct};
    if (n->inputCount() == 0 && std::find(std::begin(kBuilders), std::end(kBuilders), n->kind()) == std::end(kBuilders))
      return std::nullopt;
    std::vector<IValue> inputs;
    for (const Use& u : n->inputs()) {
      const IValue* v = GraphFacts::constant(u.value);
      if (!v) return std::nullopt;
      inputs.push_back(*v);
    }
    bool used = false;
    for (const Value* o : n->outputs()) {
      used |= o->hasUses();
      if (mayBeCompared(o->type())) return std::nullopt;
    }
    if (!used || !context_.facts.isPure(n) || callerSeesBoth(n)) return std::nullopt;
    for (const Use& u : n->inputs())
      if (mayChange(u.value)) return std::nullopt;
    for (const Value* o : n->outputs())
      if (mayChange(o)) return std::nullopt;
    uint64_t most = isPacking(n) ? std::numeric_limits<uint64_t>::max() : context_.foldBytes;
    if (context_.arguments.contains(kWholeWeights)) most = std::max(most, bytesOf(inputs));
    std::optional<std::vector<IValue>> results = context_.evaluator->evaluate(*n, inputs, most);
    if (results && !std::all_of(results->begin(), results->end(), fitsConstant)) return std::nullopt;
    return results;
  }

  static uint64_t bytesOf(const std::vector<IValue>& values) {
    uint64_t bytes = 0;
    for (const IValue& v : values)
      if (v.isTensor() && v.tensorImpl() && v.toTensor().isContiguous())
        bytes += static_cast<uint64_t>(v.toTensor().numel()) * itemSize(v.toTensor().dtype());
    return bytes;
  }

  Node* replaceBy(Node* n, const std::vector<IValue>& results) {
    Builder builder = context_.before(n);
    std::vector<Value*> values;
    for (size_t i = 0; i < results.size(); ++i) {
      Value* constant = nullptr;
      if (n->output(i)->hasUses()) {
        constant = builder.constant(results[i], constantType(results[i], n->output(i)->type()));
        made_.insert(constant);
      }
      values.push_back(constant);
    }
    return replace(n, values, nullptr);
  }

  // Puts values in place of a node's outputs and removes it. `next`: where to go on, if not after it.
  Node* replace(Node* n, const std::vector<Value*>& values, Node* next) {
    if (!next) next = nodeAfter(n);
    removed_ = true;
    std::vector<std::string> names;
    for (size_t i = 0; i < n->outputCount(); ++i) {
      Value* old = n->output(i);
      bool takesName = i < values.size() && values[i] && old->isNamed() && !values[i]->isNamed() && values[i]->node();
      names.emplace_back(takesName ? old->givenName() : "");
      if (i < values.size() && values[i]) old->replaceAllUsesWith(values[i]);
    }
    std::vector<Node*> unused;  // constants that were there for the node only
    for (const Use& u : n->inputs())
      if (Node* c = u.value->node(); c && c->kind() == sym::Constant && u.value->firstUse() == &u) unused.push_back(c);
    n->destroy();
    for (size_t i = 0; i < names.size(); ++i)
      if (!names[i].empty() && !values[i]->isNamed()) values[i]->setName(names[i]);
    for (Node* c : unused)
      if (!c->output()->hasUses()) c->destroy();
    return next;
  }

  Graph& graph_;
  RewriteContext& context_;
  std::unordered_set<const Value*> made_;                  // constants; newer than the analysis of what is written
  bool comparesTensors_ = false, comparesOthers_ = false;  // identity tests of the graph
  bool removed_ = false, changed_ = false;
};

}  // namespace

bool foldConstants(Graph& graph, RewriteContext& context) { return Folder(graph, context).run(); }

}  // namespace tscompile
