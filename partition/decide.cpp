#include "partition/decide.h"

#include "ir/graph/builder.h"
#include "ir/graph/node_text.h"
#include "ir/operators/private_writes.h"
#include "ir/support/text.h"
#include "ir/values/loop_limits.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile {
namespace {

std::string typedName(const Value* v) { return valueName(v) + " : " + typeText(withoutRefinement(v->type())); }

constexpr const char* kTensorsOnly = "engines take and give tensors and lists of tensors";
constexpr const char* kOperandsOnly = "engines take numbers as operands alone, as in x * n and x[n]";

const char* whatIsTaken(const Value* v) { return isNumber(v->type()) ? kOperandsOnly : kTensorsOnly; }

bool isPlannedFor(TypePtr t) {
  if (t->is(TypeKind::Optional)) t = t->element();
  return t->is(TypeKind::Int) || t->is(TypeKind::Bool) || t->isListOf(TypeKind::Int);
}

// Inputs of the graph that engines take though they are no tensors: an engine has a plan for each value, as for sizes.
std::unordered_set<const Value*> inputsKnownToPlans(const Graph& graph, const AliasAnalysis& aliases,
                                                    const PartitionOptions& options) {
  std::unordered_set<const Value*> known;
  if (options.bound) known = *options.bound;
  for (const Value* v : graph.inputs())
    if (isPlannedFor(v->type()) && !aliases.isWritten(v)) known.insert(v);
  return known;
}

}  // namespace

Decider::Decider(const Graph& graph, const OpRegistry& registry, const EngineSupport& support,
                 const PartitionOptions& options, Partition& partition)
    : graph_(graph),
      registry_(registry),
      support_(support),
      options_(options),
      partition_(partition),
      aliases_(graph, registry),
      remedies_(graph, registry, aliases_),
      memory_(graph, aliases_),
      knownInputs_(inputsKnownToPlans(graph, aliases_, options)),
      recomputing_(graph, partition.given, aliases_, memory_, knownInputs_) {}

void Decider::fallBack(const Node* node, Reason reason, std::string detail, Remedy remedy, const Node* cause) {
  // An engine has control flow as a whole.
  if (const Node* holder = holderOf(node)) return fallBack(holder, reason, std::move(detail), std::move(remedy), cause);
  Decision& d = partition_.decisions[node];
  if (!d.accelerated()) return;
  d.reason = reason;
  d.detail = std::move(detail);
  d.remedy = std::move(remedy);
  d.cause = cause;
  if (node->hasBlocks() &&
      (reason == Reason::NonTensor || reason == Reason::Interface || reason == Reason::ControlFlow)) {
    d.reason = Reason::ControlFlow;
    d.detail = std::string(node->kind().text()) + " is run by the interpreter; its blocks are cut by themselves";
    d.remedy = remedies_.ofControl(node);
    d.cause = nullptr;
  }
  if (node->hasBlocks()) left_.insert(node);
  todo_.push_back(node);
}

// The control flow around the node that is in an engine as a whole, the outermost; null if there is none.
const Node* Decider::holderOf(const Node* node) const {
  const Node* holder = nullptr;
  for (const Node* owner = node->block()->owner(); owner && !isElsewhere(owner); owner = owner->block()->owner())
    holder = owner;
  return holder;
}

// Whether an engine can have control flow with all that it holds: it is planned when sizes are known, and they decide.
// A block that raises, or is never entered, may hold anything.
bool Decider::takeWhole(const Node* node) {
  constexpr size_t kMostDepth = 32;
  size_t depth = 0;
  for (const Block* b = node->block(); b->owner(); b = b->parent())
    if (++depth > kMostDepth) return false;
  if (aliases_.graphHasWrites())
    for (const Value* v : node->outputs())
      if (aliases_.isWritten(v)) return false;
  std::vector<const Node*> unreached;
  for (Block* b : node->blocks()) {
    bool raises = false, fits = true;
    for (const Node* n : b->nodes()) raises |= n->kind() == sym::RaiseException;
    forEachNode(b, [&](const Node* n) {
      if (partition_.given.contains(n) || !isElsewhere(n)) return;
      const Reason reason = partition_.decisions[n].reason;
      fits &= raises && reason != Reason::UserExcluded && reason != Reason::Aliasing;
      unreached.push_back(n);
    });
    if (!fits) return false;
  }
  if (node->kind() == sym::Loop) {
    const Node* most = node->input(0)->node();
    const Node* goesOn = node->block(0)->result(0)->node();
    const IValue* count = most && most->kind() == sym::Constant ? most->attributeValue(sym::value) : nullptr;
    const auto nodes = static_cast<int64_t>(countWithin(node, partition_.given));
    const bool counts = goesOn && goesOn->kind() == sym::Constant;
    if (counts && count && count->isInt() && count->toInt() > kMostIteratedNodes / nodes) return false;
  }
  for (const Node* n : unreached) {
    unreached_[n] = partition_.decisions[n];
    partition_.decisions[n] = {};
  }
  return true;
}

// What was inside of control flow that left its engine is on its own.
void Decider::giveUpWhole(const Node* node) {
  for (Block* b : node->blocks())
    forEachNode(b, [&](const Node* n) {
      auto known = unreached_.find(n);
      if (known != unreached_.end() && !holderOf(n)) partition_.decisions[n] = known->second;
    });
  for (Block* b : node->blocks()) {
    forEachNode(b, [&](const Node* n) {
      if (partition_.given.contains(n) || holderOf(n)) return;
      if (isElsewhere(n)) pushConsequences(n);
      checkAll(n);
    });
    checkOutputs(b->returnNode());
  }
}

void Decider::decide() {
  if (aliases_.graphHasWrites())
    forEachNode(graph_, [&](const Node* n) {
      if (n->hasBlocks() || memory_.of(n).writes.empty() || isAssumed(n)) return;
      for (uint32_t location : memory_.of(n).writes.list()) writersOf_[location].push_back(writers_.size());
      writers_.push_back(n);
    });
  if (aliases_.graphHasWrites()) findOwnLists();
  // Control flow after what it holds.
  std::vector<const Node*> open;
  auto decideControl = [&] {
    partition_.decisions[open.back()] = {};
    decideAlone(open.back());
    left_.clear();
    open.pop_back();
  };
  forEachNode(graph_, [&](const Node* n) {
    while (!open.empty() && open.back() != n->block()->owner()) decideControl();
    if (n->hasBlocks()) {
      partition_.decisions[n].reason = Reason::ControlFlow;  // until it is decided
      open.push_back(n);
    } else if (!partition_.given.contains(n)) {
      decideAlone(n);
    }
  });
  while (!open.empty()) decideControl();
  forEachNode(graph_, [&](const Node* n) {
    if (!partition_.given.contains(n) && !holderOf(n)) checkAll(n);
  });
  checkOutputs(graph_.returnNode());
  settle();
}

void Decider::checkAll(const Node* node) {
  checkInputs(node);
  checkNumbers(node);
  checkBlocksInside(node);
  if (isElsewhere(node))
    for (const Block* b : node->blocks()) checkOutputs(b->returnNode());
}

void Decider::decideAlone(const Node* node) {
  if (isAssumed(node) && !node->hasBlocks()) return recomputing_.add(node, true);
  if (isAssumed(node) || !userExcludes(node)) {
    Verdict verdict = support_.accepts(*node);
    if (node->hasBlocks() && verdict.ok() && !takeWhole(node)) verdict = {Reason::ControlFlow, "", {}};
    if (options_.refused)
      if (auto turnedDown = options_.refused->find(node); turnedDown != options_.refused->end())
        verdict = turnedDown->second;
    // What engines could run may be computed once more, whatever else keeps the node itself out.
    recomputing_.add(node, verdict.ok());
    if (!verdict.ok()) return fallBack(node, verdict.reason, std::move(verdict.detail), std::move(verdict.remedy));
    if (!node->hasBlocks()) hazard(node);
  }
}

// Numbers that cannot be computed where they are needed are made where everybody can have them.
void Decider::checkNumbers(const Node* node) {
  if (isElsewhere(node) || recomputing_.allows(node)) return;
  for (const Value* v : node->outputs()) {
    if (crossesBorders(v) || !v->hasUses()) continue;
    const Node* writer = writerBehind(node);
    std::string on = writer ? "what " + nodeName(writer) + mayWrite(writer) : "what is written";
    return fallBack(node, Reason::NonTensor, "gives " + typedName(v) + ", which depends on " + on + "; " + kTensorsOnly,
                    Remedy::Kind::WithoutWrite);
  }
}

// The first node that may write what the node reads, or what the numbers that it takes are made of.
const Node* Decider::writerBehind(const Node* node) {
  std::vector<const Node*> todo{node};
  std::unordered_set<const Node*> seen{node};
  constexpr size_t kMost = 64;  // it is only told to whoever asks why
  for (size_t i = 0; i < std::min(todo.size(), kMost); ++i) {
    for (const Use& u : todo[i]->inputs()) {
      if (const Node* writer = writerOf(u.value, todo[i])) return writer;
      const Node* from = u.value->node();
      if (from && !crossesBorders(u.value) && !recomputing_.allows(from) && seen.insert(from).second)
        todo.push_back(from);
    }
    for (const Value* v : todo[i]->outputs())
      if (const Node* writer = writerOf(v, todo[i])) return writer;
  }
  return nullptr;
}

bool Decider::isKnownToWrite(const Node* writer) const {
  const Operator* op = registry_.resolve(*writer);
  return op && (op->schema().isMutable() || op->trains(*writer));
}
std::string Decider::mayWrite(const Node* writer) const { return isKnownToWrite(writer) ? " writes" : " may write"; }

const std::string* Decider::nameAmong(const std::vector<std::string>& names, const Node* node) const {
  std::string_view kind = node->kind().text();
  for (const std::string& name : names) {
    if (name == kind) return &name;
    if (name.size() <= kind.size() || !startsWith(name, kind) || name[kind.size()] != '.') continue;
    const Operator* op = registry_.resolve(*node);
    if (op && op->fullName() == name) return &name;
  }
  return nullptr;
}

bool Decider::userExcludes(const Node* node) {
  bool marked = node->hasAttribute(sym::toCompile);
  const std::string* name = nameAmong(marked ? options_.markedOperators : options_.fallbackOperators, node);
  if (name)
    fallBack(node, Reason::UserExcluded, *name + " is to stay out of engines",
             Remedy(Remedy::Kind::AllowOperator, {*name}));
  else if (marked)
    fallBack(node, Reason::UserExcluded, "it, or the module that it belongs to, is to stay out of engines",
             options_.marks);
  return name || marked;
}

const Node* Decider::writerOf(const Value* value, const Node* except) {
  // Rather what writes the value itself than what writes something that it holds.
  for (const LocationSet& reached : {aliases_.locations(value), aliases_.reachable(value)}) {
    size_t first = writers_.size();
    for (uint32_t location : reached.list()) {
      auto at = writersOf_.find(location);
      if (at == writersOf_.end()) continue;
      auto other = std::find_if(at->second.begin(), at->second.end(), [&](size_t w) { return writers_[w] != except; });
      if (other != at->second.end()) first = std::min(first, *other);
    }
    if (first < writers_.size()) return writers_[first];
  }
  return nullptr;
}

// Whether the node makes the tensor, rather than handing on memory of its inputs.
bool Decider::isNew(const Value* v) const {
  const Node* n = v->node();
  if (!v->type()->isTensor() || n->hasBlocks() || n->subgraph()) return false;
  const Operator* op = registry_.resolve(*n);
  if (!op || op->has(Trait::MayShare) || v->index() >= op->schema().returns.size()) return false;
  return !op->schema().returns[v->index()].alias;
}

void Decider::findOwnLists() {
  std::unordered_map<uint32_t, std::vector<const Value*>> names;
  auto add = [&](const Value* v) {
    if (!AliasAnalysis::canRefer(v->type()) || v->type()->isTensor()) return;
    const LocationSet reached = aliases_.reachable(v);
    for (uint32_t l : reached.list()) names[l].push_back(v);
  };
  forEachNode(graph_, [&](const Node* n) {
    for (const Block* b : n->blocks())
      for (const Value* v : b->parameters()) add(v);
    for (const Value* v : n->outputs()) add(v);
    if (n->kind() != sym::ListConstruct || !n->output()->type()->isListOf(TypeKind::Tensor)) return;
    const LocationSet& own = aliases_.locations(n->output());
    if (own.list().size() == 1 && !own.reachOutside() && aliases_.isWrittenItself(n->output()))
      ownLists_[own.list()[0]].maker = n;
  });
  auto placeOf = [](const Block* block, const Node* n) {
    while (n && n->block() != block) n = n->block()->owner();
    return n;
  };
  auto isOthers = [&](uint32_t location, OwnList& list) {
    std::unordered_set<const Value*> known{list.maker->output()};
    for (size_t i = 0; i < writers_.size(); ++i) {
      const Node* w = writers_[i];
      if (!memory_.of(w).writes.contains(location)) continue;
      const Operator* op = registry_.resolve(*w);
      const bool moves = op && op->has(Trait::ReadsGeometry) && w->inputCount() && known.contains(w->input(0));
      if (!moves || memory_.of(w).writes.list().size() != 1) return true;
      for (const Value* v : w->outputs())
        if (v->type()->isListOf(TypeKind::Tensor)) known.insert(v);
      list.writers.push_back(w);
    }
    for (const Value* v : names[location])
      if (!known.contains(v)) return true;
    list.places.push_back(list.maker);
    for (const Value* v : known)
      for (const Use& u : v->uses()) {
        if (u.user->isReturn()) return true;
        const Node* place = placeOf(list.maker->block(), u.user);
        if (!place) return true;
        list.places.push_back(place);
      }
    return false;
  };
  for (auto at = ownLists_.begin(); at != ownLists_.end();)
    at = isOthers(at->first, at->second) ? ownLists_.erase(at) : std::next(at);
}

bool Decider::isOwnList(const LocationSet& locations) const {
  return locations.list().size() == 1 && ownLists_.contains(locations.list()[0]);
}

bool Decider::dropSplitLists(const std::function<uint32_t(const Node*)>& runOf) {
  std::vector<uint32_t> split;
  for (const auto& [location, list] : ownLists_) {
    const bool inside = holderOf(list.maker);
    const uint32_t run = runOf(list.maker);
    if (!inside && std::any_of(list.places.begin(), list.places.end(),
                               [&](const Node* n) { return isElsewhere(n) || runOf(n) != run; }))
      split.push_back(location);
  }
  bool any = false;
  std::sort(split.begin(), split.end());
  for (uint32_t location : split) {
    const OwnList list = ownLists_.at(location);
    auto send = [&](const Node* n, std::string detail) {
      any |= !isElsewhere(n) || holderOf(n);
      fallBack(n, Reason::Aliasing, std::move(detail), Remedy::Kind::MakeAtOnce);
    };
    for (const Node* w : list.writers)
      send(w, "writes " + valueName(w->input(0)) + " in place, which is needed in more than one place");
    send(list.maker,
         "gives " + valueName(list.maker->output()) + ", which is changed and needed in more than one place");
  }
  settle();
  return any;
}

// Writes must be seen by everybody else who holds the memory, and engines give memory of their own.
void Decider::hazard(const Node* node) {
  if (!aliases_.graphHasWrites()) return;
  if (!memory_.of(node).writes.empty()) {
    const Operator* op = registry_.resolve(*node);
    if (op && (writesPrivately(*node, *op) || isOwnList(memory_.of(node).writes))) return;
    std::vector<std::string> written;
    for (size_t i = 0; op && i < node->inputCount(); ++i) {
      const auto& arguments = op->schema().arguments;
      const bool isWritten = i < arguments.size() && arguments[i].isWritten();
      if (isWritten || (written.empty() && op->trains(*node, i))) written.push_back(valueName(node->input(i)));
    }
    if (written.empty()) written.push_back(node->inputCount() ? valueName(node->input(0)) : "memory");
    std::string what = join(written, " and ", [](const std::string& name) { return name; });
    fallBack(node, Reason::Aliasing, "writes " + what + " in place, and others may hold that memory",
             remedies_.ofWrite(node));
    return;
  }
  for (const Value* v : node->outputs()) {
    if (!aliases_.isWritten(v) || isNew(v)) continue;
    const Value* base = nullptr;
    // What a list holds is not written where the list itself is.
    for (const Use& u : node->inputs())
      if (!base && aliases_.mayShareMemory(v, u.value) && aliases_.isWritten(u.value)) base = u.value;
    bool list = !v->type()->isTensor() && aliases_.isWrittenItself(v);
    if (!base && list && isOwnList(aliases_.locations(v))) continue;
    if (!base && !list) continue;
    const Node* writer = writerOf(v, node);
    if (!writer && options_.assumed) continue;  // without those that are taken to be fit, nobody writes it
    std::string by = writer ? ", which " + nodeName(writer) + mayWrite(writer) : std::string(", which is written");
    fallBack(node, Reason::Aliasing,
             base && !list ? "gives " + valueName(v) + " that may share memory with " + valueName(base) + by
                           : "gives " + valueName(v) + by,
             writer ? remedies_.ofWrite(writer) : Remedy(), writer);
    return;
  }
}

// Whether an engine with the node can have this input of the graph for each of its values.
bool Decider::isKnownTo(const Node* node, const Value* input) const {
  if (options_.bound && options_.bound->contains(input)) return true;
  return knownInputs_.contains(input) && !wouldCopyByNumber(input, node, support_, registry_);
}

// All inputs of the graph that cannot cross, so that whoever binds one hears of the others too.
void Decider::takesInputs(const Node* node) {
  std::vector<const Value*> taken;
  Remedy binding(Remedy::Kind::ReplaceInputs), unbound;
  for (const Use& u : node->inputs()) {
    const Value* v = u.value;
    if (v->node() || v->block() != graph_.block() || crossesBorders(v)) continue;
    if (isKnownTo(node, v)) continue;
    if (isTakenAsNumber(v, node, support_)) continue;
    if (std::find(taken.begin(), taken.end(), v) != taken.end()) continue;
    taken.push_back(v);
    const bool optional = v->type()->is(TypeKind::Optional);
    binding.names.emplace_back(v->name());
    const bool mayBeTensor = optional && v->type()->element()->isTensor();
    binding.numbers.push_back(mayBeTensor ? Remedy::NoneOrTensor : optional ? Remedy::NoneOrValue : Remedy::Value);
    if (!unbound.empty()) continue;
    if (!canBeBound(v->type()))
      unbound = Remedy(Remedy::Kind::CannotBind, {v->name()}, {optional});
    else if (const Node* writer = holdsTensors(v->type()) ? writerOf(v, nullptr) : nullptr)
      unbound =
          Remedy(Remedy::Kind::CannotBindWritten, {v->name(), nodeName(writer)}, {optional, isKnownToWrite(writer)});
  }
  const bool areNumbers = std::all_of(taken.begin(), taken.end(), [](const Value* v) { return isNumber(v->type()); });
  fallBack(node, Reason::Interface,
           "takes " + join(taken, " and ", typedName) +
               (taken.size() == 1 ? ", an input of the graph; " : ", inputs of the graph; ") +
               (areNumbers ? kOperandsOnly : kTensorsOnly),
           unbound.empty() ? binding : unbound);
}

// What comes from elsewhere must be able to cross, or to be computed here.
void Decider::checkInputs(const Node* node) {
  if (const Node* holder = holderOf(node)) return checkInputs(holder);
  if (isElsewhere(node)) return;
  const Value* missing = nullptr;
  forEachTaken(node, [&](const Value* v) {
    const Node* from = v->node();
    if (missing || (from && partition_.given.contains(from))) return;
    if (crossesBorders(v) || isKnownTo(node, v)) return;
    const bool here = from && from->block() == node->block() && !isElsewhere(from);
    if (!here && !(from && recomputing_.allows(from)) && !isTakenAsNumber(v, node, support_)) missing = v;
  });
  if (!missing) return;
  const Node* from = missing->node();
  if (!from && missing->block() == graph_.block()) return takesInputs(node);
  if (!from)
    return fallBack(node, Reason::NonTensor,
                    "takes " + typedName(missing) + ", a parameter of its block; " + whatIsTaken(missing), {},
                    missing->block()->owner());
  const Decision& d = partition_.decisions[from];
  fallBack(
      node, Reason::NonTensor,
      "takes " + typedName(missing) + " from " + nodeName(from) + ", which runs elsewhere; " + whatIsTaken(missing),
      d.accelerated() ? Remedy() : d.remedy, from);
}

// Numbers and lists of them go to where they are needed; engines that need them as well compute them again.
void Decider::checkOutputs(const Node* node) {
  if (holderOf(node)) return;
  for (const Use& u : node->inputs()) {
    const Value* v = u.value;
    const Node* from = v->node();
    if (!from || partition_.given.contains(from) || isElsewhere(from) || recomputing_.isTakenIn(v)) continue;
    if (node->isReturn() && crossesBorders(v)) continue;
    if (node->isReturn() && node->block() == graph_.block())
      fallBack(from, Reason::Interface, "makes " + typedName(v) + ", an output of the graph; " + kTensorsOnly,
               Remedy::Kind::GiveTensors);
    else if (node->isReturn())
      fallBack(from, Reason::NonTensor, "makes " + typedName(v) + ", a result of its block; " + kTensorsOnly, {},
               node->block()->owner());
    else
      fallBack(from, Reason::NonTensor,
               "makes " + typedName(v) + " for " + nodeName(node) + ", which runs elsewhere; " + kTensorsOnly, {},
               node);
  }
}

// What a block inside needs is there before the block runs.
void Decider::checkBlocksInside(const Node* node) {
  auto check = [&](const Value* v) {
    const Node* from = v->node();
    if (!from || from->block() == node->block() || partition_.given.contains(from)) return;
    if (!isElsewhere(from) && !recomputing_.isTakenIn(v))
      fallBack(from, Reason::NonTensor,
               "makes " + typedName(v) + " for " + nodeName(node) + " in a block inside; " + kTensorsOnly, {},
               node->block()->owner());
  };
  if (!isElsewhere(node)) return forEachTaken(node, check);
  for (const Use& u : node->inputs()) check(u.value);
}

void Decider::pushConsequences(const Node* node) {
  if (holderOf(node)) return;
  checkOutputs(node);
  if (left_.erase(node)) giveUpWhole(node);
  for (const Value* v : node->outputs()) {
    if (crossesBorders(v)) continue;
    for (const Use& u : v->uses())
      if (!u.user->isReturn() || holderOf(u.user)) checkInputs(u.user);
  }
}

void Decider::settle() {
  while (!todo_.empty()) {
    const Node* n = todo_.front();
    todo_.pop_front();
    pushConsequences(n);
  }
}

}  // namespace tscompile
