// What emission leaves behind that nothing uses is removed from the last node to the first.
#include "frontend/source/emitter.h"
#include "ir/values/literal.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile::source {
namespace {

bool isBuilding(Symbol kind) {
  static const std::unordered_set<Symbol> kKinds = {
      sym::Constant,       sym::TupleConstruct, sym::TupleUnpack, sym::TupleIndex,
      sym::TupleSlice,     sym::ListConstruct,  sym::ListUnpack,  sym::GetAttr,
      sym::unchecked_cast, sym::Uninitialized,  sym::isinstance,  Symbol::of("prim::DictConstruct")};
  return kKinds.count(kind) != 0;
}

bool hasEffects(const Node* n, const OpRegistry& registry) {
  if (isBuilding(n->kind())) return false;
  if (n->kind() == sym::If || n->kind() == sym::Loop) {
    for (const Block* b : n->blocks())
      if (!b->empty()) return true;
    return false;
  }
  const Operator* op = registry.resolve(*n);
  return !op || op->schema().isMutable() || !op->isImplemented() || op->def().has(Trait::SideEffects) ||
         op->def().has(Trait::Random);
}

bool isUsed(const Node* n) {
  for (const Value* v : n->outputs())
    if (v->hasUses()) return true;
  return false;
}

void removeResult(Node* n, size_t output, size_t result) {
  for (Block* b : n->blocks()) b->returnNode()->removeInput(result);
  n->removeOutput(output);
}

void dropUnusedResults(Node* n) {
  for (size_t i = n->outputCount(); n->kind() == sym::If && i-- > 0;)
    if (!n->output(i)->hasUses()) removeResult(n, i, i);
  for (size_t i = n->outputCount(); n->kind() == sym::Loop && i-- > 0;) {
    Block* body = n->block(0);
    Value* carried = body->parameter(i + 1);
    bool onlyPassed = !carried->hasUses() || (carried->useCount() == 1 && body->result(i + 1) == carried);
    if (n->output(i)->hasUses() || !onlyPassed) continue;
    removeResult(n, i, i + 1);
    body->removeParameter(i + 1);
    n->removeInput(i + 2);
  }
}

void sweep(Block* block, const OpRegistry& registry) {
  for (Node *n = block->last(), *before = nullptr; n; n = before) {
    before = n->previous();
    dropUnusedResults(n);
    for (Block* b : n->blocks()) sweep(b, registry);
    if (!isUsed(n) && !hasEffects(n, registry)) n->destroy();
  }
}

// ---- constants ----

// Moves uses, type and name.
void become(Value* fresh, Value* old) {
  std::string name(old->isNamed() ? old->givenName() : "");
  old->replaceAllUsesWith(fresh);
  if (!name.empty()) fresh->setName(name);
}

bool isShareable(TypePtr t) {
  switch (t->kind()) {
    case TypeKind::Int:
    case TypeKind::Float:
    case TypeKind::Complex:
    case TypeKind::Bool:
    case TypeKind::String:
    case TypeKind::None:
    case TypeKind::Device:
    case TypeKind::Function:
      return true;
    // Lists of numbers are arguments of operators, which do not write them.
    case TypeKind::List:
    case TypeKind::Optional:
      return isShareable(t->element());
    case TypeKind::Tuple:
      return std::all_of(t->elements().begin(), t->elements().end(), isShareable);
    default:
      return false;
  }
}

// What equal constants share.
std::string keyOf(const Node* n) {
  const IValue* name = n->attributeValue(sym::name);
  const IValue* v = n->attributeValue(sym::value);
  std::string key = typeText(n->output()->type()) + (name ? "=" + name->toString() : "") + ":";
  if (v) appendValue(*v, LiteralStyle::Attribute, key);
  return key;
}

bool isImmutable(TypePtr t) {
  if (t->is(TypeKind::List)) return false;
  if (t->is(TypeKind::Optional)) return isImmutable(t->element());
  if (!t->is(TypeKind::Tuple)) return isShareable(t);
  return std::all_of(t->elements().begin(), t->elements().end(), isImmutable);
}

// A tuple of constants is one, unless it could hold what may be written.
void foldTuples(Graph& graph) {
  for (Node* n : graph.nodesOf([](Symbol kind) { return kind == sym::TupleConstruct; })) {
    std::vector<IValue> items;
    for (const Use& u : n->inputs()) {
      const Node* from = u.value->node();
      if (!from || from->kind() != sym::Constant || from->hasAttribute(sym::name)) break;
      if (!isImmutable(u.value->type())) break;
      const IValue* v = from->attributeValue(sym::value);
      items.push_back(v ? *v : IValue());
    }
    if (items.size() != n->inputCount() || items.empty() || !isImmutable(n->output()->type())) continue;
    Node* constant = graph.create(sym::Constant, {});
    constant->copyPlace(n);
    TypePtr type = n->output()->type();
    constant->setAttribute(sym::value,
                           IValue(Ref<TupleValue>::make(std::move(items), type->isNamedTuple() ? type : nullptr)));
    constant->output()->setType(type);
    constant->insertBefore(n);
    become(constant->output(), n->output());
    n->destroy();
  }
}

// What a variable may hold was needed for the values that follow; the constant itself is just None.
void forgetWhatIsAbsent(Node* constant) {
  if (!constant->hasAttribute(sym::value) && !constant->hasAttribute(sym::name))
    constant->output()->setType(types().none);
}

// Constants go to the start of the graph, the last one first; equal ones become one.
void poolConstants(Graph& graph) {
  std::unordered_map<std::string, Node*> known;
  for (Node* n : graph.nodesOf([](Symbol kind) { return kind == sym::Constant; })) {
    forgetWhatIsAbsent(n);
    if (isShareable(n->output()->type())) {
      auto [at, isNew] = known.emplace(keyOf(n), n);
      if (!isNew) {
        n->output()->replaceAllUsesWith(at->second->output());
        n->destroy();
        continue;
      }
    }
    if (n != graph.block()->first()) n->moveBefore(graph.block()->first());
  }
}

// ---- the order of results ----

using Order = std::unordered_map<const Node*, size_t>;

void number(const Block* block, Order& order) {
  for (const Node* n : block->nodes()) {
    order.emplace(n, order.size());
    for (const Block* b : n->blocks()) number(b, order);
  }
  order.emplace(block->returnNode(), order.size());
}

// By first use; what is not used comes last.
std::vector<size_t> byFirstUse(const Node* n, const Order& order) {
  std::vector<std::pair<size_t, size_t>> first(n->outputCount(), {SIZE_MAX, SIZE_MAX});
  for (size_t i = 0; i < first.size(); ++i)
    for (const Use& u : n->output(i)->uses()) first[i] = std::min(first[i], {order.at(u.user), u.index()});
  std::vector<size_t> index(first.size());
  for (size_t i = 0; i < index.size(); ++i) index[i] = i;
  std::stable_sort(index.begin(), index.end(), [&](size_t a, size_t b) { return first[a] < first[b]; });
  return index;
}

// Gives the last values of a node's inputs the order.
void reorderInputs(Node* n, size_t from, const std::vector<size_t>& index) {
  std::vector<Value*> before;
  for (size_t i = 0; i < index.size(); ++i) before.push_back(n->input(from + i));
  for (size_t i = 0; i < index.size(); ++i) n->replaceInput(from + i, before[index[i]]);
}

void reorderResults(Node* n, const Order& order) {
  std::vector<size_t> index = byFirstUse(n, order);
  if (std::is_sorted(index.begin(), index.end())) return;
  bool isLoop = n->kind() == sym::Loop;
  size_t count = index.size();
  for (size_t i : index) become(n->addOutput(n->output(i)->type()), n->output(i));
  for (size_t i = count; i-- > 0;) n->removeOutput(i);
  for (Block* b : n->blocks()) {
    reorderInputs(b->returnNode(), isLoop ? 1 : 0, index);
    if (!isLoop) continue;
    for (size_t i : index) become(b->addParameter(b->parameter(i + 1)->type()), b->parameter(i + 1));
    for (size_t i = count; i-- > 0;) b->removeParameter(i + 1);
  }
  if (isLoop) reorderInputs(n, 2, index);
}

void reorderAll(Block* block, const Order& order) {
  for (Node* n = block->last(); n; n = n->previous()) {
    if (n->kind() == sym::If || n->kind() == sym::Loop) reorderResults(n, order);
    for (Block* b : n->blocks()) reorderAll(b, order);
  }
}

}  // namespace

void cleanUp(Graph& graph, const OpRegistry& registry) {
  sweep(graph.block(), registry);
  foldTuples(graph);
  sweep(graph.block(), registry);
  poolConstants(graph);
  Order order;
  number(graph.block(), order);
  reorderAll(graph.block(), order);
}

}  // namespace tscompile::source
