#include "passes/rewrite/facts.h"

#include "ir/values/aten.h"
#include "passes/rewrite/destroy_handler.h"
#include "passes/rewrite/origins.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile {

GraphFacts::GraphFacts(const Graph& graph, const OpRegistry& registry)
    : graph_(graph), registry_(registry), overloads_(registry) {}
GraphFacts::~GraphFacts() = default;

void GraphFacts::refresh() {
  destroyHandler_.reset();
  aliases_.reset();
  shapes_.reset();
  seen_.reset();
  orders_.reset();
  changesGeometry_.reset();
  escaping_.reset();
}

// ---- constants ----

const IValue* GraphFacts::constant(const Value* value) {
  const Node* n = value->node();
  if (!n || n->kind() != sym::Constant) return nullptr;
  static const IValue kNone;
  const IValue* v = n->attributeValue(sym::value);
  if (!v) return n->hasAttribute(sym::value) || n->hasAttribute(sym::name) ? nullptr : &kNone;
  return v->isLiteral() ? nullptr : v;
}

bool GraphFacts::isNone(const Value* value) {
  const IValue* v = constant(value);
  return v && v->isNone();
}

std::optional<int64_t> GraphFacts::integer(const Value* value) const {
  const IValue* v = constant(value);
  return v && v->isInt() ? std::optional(v->toInt()) : std::nullopt;
}

std::optional<double> GraphFacts::number(const Value* value) const {
  const IValue* v = constant(value);
  if (!v) return std::nullopt;
  if (v->isFloat()) return v->toFloat();
  if (v->isInt()) return static_cast<double>(v->toInt());
  if (v->isBool()) return v->toBool() ? 1.0 : 0.0;
  return std::nullopt;
}

std::optional<bool> GraphFacts::boolean(const Value* value) const {
  const IValue* v = constant(value);
  return v && v->isBool() ? std::optional(v->toBool()) : std::nullopt;
}

std::optional<Dims> GraphFacts::integers(const Value* value) const {
  Dims out;
  if (const IValue* v = constant(value)) {
    if (!v->isList()) return std::nullopt;
    for (const IValue& item : v->toList().items) {
      if (!item.isInt()) return std::nullopt;
      out.push_back(item.toInt());
    }
    return out;
  }
  const Node* n = value->node();
  if (!n || n->kind() != sym::ListConstruct) return std::nullopt;
  for (const Use& u : n->inputs()) {
    std::optional<int64_t> i = integer(u.value);
    if (!i) return std::nullopt;
    out.push_back(*i);
  }
  return out;
}

// ---- shapes ----

const SymbolicValue& GraphFacts::symbolic(const Value* value) {
  if (!shapes_) shapes_ = std::make_unique<ShapePropagation>(graph_, registry_);
  if (const SymbolicValue* known = shapes_->find(value)) return *known;
  // Newer than the analysis: from what its inputs are, as far as they are known.
  return shapes_->extend(value);
}

TensorFacts GraphFacts::told(const Value* value) {
  TensorFacts facts = tensor(value);
  if (!value->type()->isTensor() || (graphHasWrites() && isWritten(value))) return facts;
  const TensorFacts& said = value->type()->tensor();
  if (facts.dtype == DType::Undefined) facts.dtype = said.dtype;
  if (!said.hasRank) return facts;
  if (!facts.hasRank) {
    facts.hasRank = true;
    facts.sizes = said.sizes;
  }
  for (size_t i = 0; i < facts.sizes.size() && facts.sizes.size() == said.sizes.size(); ++i)
    if (facts.sizes[i] < 0 && said.sizes[i] >= 0) facts.sizes[i] = said.sizes[i];
  return facts;
}

std::optional<size_t> GraphFacts::rank(const Value* value) {
  const TensorFacts& t = tensor(value);
  return t.hasRank ? std::optional(t.sizes.size()) : std::nullopt;
}

std::optional<Dims> GraphFacts::sizes(const Value* value) {
  const TensorFacts& t = tensor(value);
  return t.hasRank && t.hasAllSizes() ? std::optional(t.sizes) : std::nullopt;
}

// ---- effects ----

bool GraphFacts::isStructural(Symbol kind) {
  static const Symbol kKinds[] = {sym::Constant,
                                  sym::TupleConstruct,
                                  sym::TupleUnpack,
                                  sym::TupleIndex,
                                  sym::TupleSlice,
                                  sym::ListConstruct,
                                  sym::ListUnpack,
                                  sym::DictConstruct,
                                  sym::GetAttr,
                                  sym::isinstance,
                                  sym::unchecked_cast,
                                  sym::Uninitialized,
                                  sym::If,
                                  sym::Loop,
                                  Symbol::of("prim::EnumName"),
                                  Symbol::of("prim::EnumValue")};
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

bool GraphFacts::isUndisturbed(const Node* node) {
  if (!graphHasWrites()) return true;
  for (const Use& u : node->inputs())
    if (isWritten(u.value)) return false;
  for (const Value* v : node->outputs())
    if (isWritten(v)) return false;
  return true;
}

GraphFacts::Purity GraphFacts::purityOf(const Operator* op) {
  if (!op || !op->isImplemented() || op->has(Trait::SideEffects)) return Purity::No;
  for (const Argument& a : op->schema().arguments)
    if (a.isWritten()) return Purity::No;
  const TrainedArguments& trained = op->def().trained;
  return op->has(Trait::Random) || trained.first != trained.end ? Purity::AskNode : Purity::Yes;
}

bool GraphFacts::isPureAlone(const Node* node) {
  if (isStructural(node->kind())) return true;
  if (!node->attributes().empty() && registry().configured(node->kind()))
    return purityOf(overloads_.resolve(*node)) == Purity::Yes;
  auto [it, isNew] = pure_.try_emplace(OverloadCache::keyOf(*node), Purity::No);
  if (isNew) it->second = purityOf(overloads_.resolve(*node));
  if (it->second != Purity::AskNode) return it->second == Purity::Yes;
  const Operator* op = overloads_.resolve(*node);
  return !op->drawsRandom(*node) && !op->trains(*node);
}

bool GraphFacts::isPure(const Node* node) {
  if (!isPureAlone(node)) return false;
  // A loop may run forever.
  bool pure = node->kind() != sym::Loop;
  for (Block* b : node->blocks())
    forEachNode(b, [&](Node* n) { pure = pure && isPureAlone(n) && n->kind() != sym::Loop; });
  return pure;
}

bool GraphFacts::isFresh(const Node* node) {
  const Operator* op = overloads_.resolve(*node);
  if (!op || !op->isImplemented() || op->has(Trait::MayShare)) return false;
  for (const Argument& r : op->schema().returns)
    if (r.alias) return false;
  return true;
}

const AliasAnalysis& GraphFacts::aliases() {
  if (!aliases_) aliases_ = std::make_unique<AliasAnalysis>(graph_, registry_);
  return *aliases_;
}

DestroyHandler& GraphFacts::destroyHandler() {
  if (!destroyHandler_) destroyHandler_ = std::make_unique<DestroyHandler>(graph_, *this);
  return *destroyHandler_;
}

bool GraphFacts::isWritten(const Value* value) {
  if (!AliasAnalysis::canRefer(value->type())) return false;
  const AliasAnalysis& a = aliases();
  if (!a.graphHasWrites()) return false;
  return !a.knows(value) || a.isWritten(value);
}

bool GraphFacts::mayChangeStrides(const Value* value) {
  if (!isWritten(value)) return false;
  if (!value->type()->isTensor()) return true;
  if (!changesGeometry_) {
    changesGeometry_ = false;
    forEachNode(graph_, [&](const Node* n) {
      const Operator* op = n->hasBlocks() || isStructural(n->kind()) ? nullptr : resolve(n);
      const bool isKnown = n->hasBlocks() || isStructural(n->kind()) || (op && op->isImplemented());
      if (!isKnown || (op && (changesGeometry(*op) || op->has(Trait::TakesOverMemory)))) changesGeometry_ = true;
    });
  }
  return *changesGeometry_;
}

bool GraphFacts::isSeen(const Value* value) {
  if (!seen_) seen_ = std::make_unique<Origins>(valuesThatAreSeen(graph_, *this));
  return seen_->contains(value);
}

bool GraphFacts::setsStrides(const Node* node) {
  if (node->kind() == aten::contiguous && node->inputCount() == 2) return integer(node->input(1)) == 0;
  const Operator* op = node->hasBlocks() ? nullptr : resolve(node);
  return op && op->has(Trait::SetsStrides) && !op->schema().isMutable();  // what is written lies as before
}

bool GraphFacts::mayReplace(const Value* old, const Value* by) {
  if (isSeen(old)) return false;
  if (!escapes(old)) return true;
  return by->node() && isFresh(by->node()) && !escapes(by);
}

void GraphFacts::replaced(const Value* old, const Value* by) {
  if (!escaping_ || !AliasAnalysis::canRefer(old->type())) return;
  if (escapes(old)) addEscaping(by);
}

bool GraphFacts::escapes(const Value* value) {
  if (!escaping_) {
    escaping_.emplace();
    for (const Use& u : graph_.outputs()) addEscaping(u.value);
  }
  if (!aliases().knows(value)) return true;
  LocationSet memory = aliases().reachable(value);
  return std::any_of(memory.list().begin(), memory.list().end(), [&](uint32_t l) { return escaping_->contains(l); });
}

void GraphFacts::addEscaping(const Value* value) {
  std::vector<const Value*> waiting{value};
  std::unordered_set<const Value*> seen{value};
  while (!waiting.empty()) {
    const Value* v = waiting.back();
    waiting.pop_back();
    if (aliases().knows(v)) {
      LocationSet memory = aliases().reachable(v);
      escaping_->insert(memory.list().begin(), memory.list().end());
      continue;
    }
    // Newer than the analysis, and made of what is known: a list of tensors, say.
    const Node* n = v->node();
    if (!n || (v->type()->isTensor() && isFresh(n))) continue;
    auto add = [&](const Use& u) {
      if (AliasAnalysis::canRefer(u.value->type()) && seen.insert(u.value).second) waiting.push_back(u.value);
    };
    std::ranges::for_each(n->inputs(), add);
    for (const Block* b : n->blocks()) std::ranges::for_each(b->results(), add);
  }
}

bool GraphFacts::asksForStrides(const Node* node) {
  const Operator* op = resolve(node);
  return op && (op->has(Trait::MindsStrides) || op->has(Trait::ReadsStrides));
}

bool GraphFacts::isAskedForStrides(const Value* tensor) {
  std::vector<const Value*> todo{tensor};
  std::unordered_set<const Value*> seen{tensor};
  while (!todo.empty()) {
    const Value* v = todo.back();
    todo.pop_back();
    for (const Use& u : v->uses()) {
      if (asksForStrides(u.user)) return true;
      // Whether it copies, and so how its result lies, depends on gaps.
      if (isViewByOrder(u.user) && isSeen(u.user->output())) return true;
      if (u.user->isReturn() && !u.user->block()->owner()) continue;
      if (u.user->isReturn() || u.user->hasBlocks()) return true;
      if (isFresh(u.user) && !isStructural(u.user->kind())) continue;
      for (const Value* made : u.user->outputs())
        if (AliasAnalysis::canRefer(made->type()) && seen.insert(made).second) todo.push_back(made);
    }
  }
  return false;
}

bool GraphFacts::movesElements(const Node* node) {
  const Operator* op = resolve(node);
  return op && op->has(Trait::MovesElements);
}

bool GraphFacts::keepsElements(const Node* node) {
  const Operator* op = resolve(node);
  return op && op->has(Trait::KeepsElements);
}

bool GraphFacts::asksForIdentity(const Node* node) {
  const Operator* op = resolve(node);
  return op && op->has(Trait::ComparesObjects);
}

bool GraphFacts::looksAtMemory(const Node* node) {
  if (asksForStrides(node)) return true;
  if (asksForIdentity(node))
    return std::all_of(node->inputs().begin(), node->inputs().end(),
                       [](const Use& u) { return u.value->type()->isTensor(); });
  const Operator* op = isStructural(node->kind()) ? nullptr : resolve(node);
  return !isStructural(node->kind()) && (!op || !op->isImplemented());
}

}  // namespace tscompile
