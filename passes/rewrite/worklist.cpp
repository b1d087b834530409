#include "passes/rewrite/worklist.h"

#include "ir/values/random.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace tscompile {

Dispatch::Dispatch(const std::vector<NodeRewrite>& rewrites, const KindTable& table) {
  std::vector<const NodeRewrite*> ordered;
  for (const NodeRewrite& r : rewrites) ordered.push_back(&r);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const NodeRewrite* a, const NodeRewrite* b) { return a->benefit > b->benefit; });
  std::vector<std::pair<const NodeRewrite*, std::vector<Symbol>>> wanted;
  std::vector<Symbol> kinds;
  for (const NodeRewrite* r : ordered) {
    std::optional<std::vector<Symbol>> k = r->seeds ? r->seeds(table) : r->kinds;
    if (!k) continue;
    kinds.insert(kinds.end(), k->begin(), k->end());
    wanted.emplace_back(r, std::move(*k));
  }
  size_t size = 16;
  while (size < kinds.size() * 4) size *= 2;
  slots_.resize(size);
  for (Symbol kind : kinds) slots_[place(kind)].kind = kind;
  auto isName = [](Symbol k) { return k.name() != "*"; };
  for (const auto& [r, k] : wanted) {
    auto add = [r = r](Slot& slot) {
      if (slot.rewrites.empty() || slot.rewrites.back() != r) slot.rewrites.push_back(r);
    };
    if (!k.empty() && std::all_of(k.begin(), k.end(), isName)) {
      for (Symbol kind : k) add(slots_[place(kind)]);
      continue;
    }
    for (Slot& slot : slots_)
      if (!slot.kind.empty() && isOfKind(slot.kind, k)) add(slot);
  }
  for (const auto& [r, k] : wanted)
    if (k.empty()) everywhere_.push_back(r);
  if (!std::all_of(kinds.begin(), kinds.end(), isName)) wildcards_ = std::move(wanted);
}

const std::vector<const NodeRewrite*>& Dispatch::byWildcard(Symbol kind) const {
  auto [found, isNew] = others_.try_emplace(kind);
  if (isNew)
    for (const auto& [r, k] : wildcards_)
      if (isOfKind(kind, k)) found->second.push_back(r);
  return found->second;
}

namespace {

// The nodes that a node takes something from, results of its blocks included.
void forEachProducer(const Node* n, const std::function<void(Node*)>& visit) {
  auto inputs = [&](const Node* user) {
    for (const Use& u : user->inputs())
      if (u.value->node()) visit(u.value->node());
  };
  inputs(n);
  for (const Block* b : n->blocks()) inputs(b->returnNode());
}

std::vector<Node*> depthFirst(Graph& graph) {
  std::vector<Node*> roots, out;
  for (const Use& u : graph.outputs())
    if (u.value->node()) roots.push_back(u.value->node());
  forEachNode(graph, [&](Node* n) { roots.push_back(n); });
  NodeTable<bool> seen(graph);
  std::vector<std::pair<Node*, bool>> todo;  // node, whether those after it are done
  for (Node* root : roots) {
    todo.emplace_back(root, false);
    while (!todo.empty()) {
      auto [n, done] = todo.back();
      todo.pop_back();
      if (done) out.push_back(n);
      if (done || seen[n]) continue;
      seen[n] = true;
      todo.emplace_back(n, true);
      size_t first = todo.size();
      forEachProducer(n, [&](Node* p) { todo.emplace_back(p, false); });
      std::reverse(todo.begin() + static_cast<std::ptrdiff_t>(first), todo.end());
    }
  }
  return out;
}

std::vector<Node*> inOrder(Graph& graph, Order order, uint64_t seed) {
  if (order == Order::DepthFirst) return depthFirst(graph);
  std::vector<Node*> nodes;
  forEachNode(graph, [&](Node* n) { nodes.push_back(n); });
  if (order == Order::Random)
    for (size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[random::bits(seed, i) % i]);
  return nodes;
}

}  // namespace

NodeTable<bool> nodesApartFrom(const Graph& graph, const std::vector<const Value*>& values) {
  NodeTable<bool> apart(graph);
  if (values.empty()) return apart;
  forEachNode(graph, [&](Node* n) { apart[n] = true; });
  std::vector<Node*> todo;
  auto add = [&](Node* n) {
    if (!apart[n]) return;
    apart[n] = false;
    todo.push_back(n);
  };
  for (const Value* v : values)
    if (Node* n = v->node() ? v->node() : v->block()->owner()) add(n);
  while (!todo.empty()) {
    Node* n = todo.back();
    todo.pop_back();
    forEachProducer(n, add);
    if (Node* around = n->block()->owner()) add(around);
  }
  return apart;
}

void Worklist::fill(Graph& graph, Order order, uint64_t seed, const NodeTable<bool>& leftOut) {
  auto wants = [&](Symbol kind) { return dispatch_.wants(kind); };
  if (order == Order::InToOut || order == Order::OutToIn) {
    for (Node* n : graph.nodesOf(wants))
      if (!leftOut.get(n)) push(n);
    return;
  }
  for (Node* n : inOrder(graph, order, seed))
    if (wants(n->kind()) && !leftOut.get(n)) push(n);
}

void Worklist::takenBack(size_t) {
  auto gone = std::remove_if(queue_.end() - static_cast<ptrdiff_t>(pushed_), queue_.end(), [this](Node* n) {
    if (n->isDestroyed()) waiting_[n] = false;
    return n->isDestroyed();
  });
  pushed_ -= static_cast<size_t>(queue_.end() - gone);
  queue_.erase(gone, queue_.end());
}

void Worklist::lookAhead(bool fromBack) const {
  // Each step needs what the one before has brought.
  constexpr size_t kNode = 10, kLists = 8, kValues = 6, kNeighbours = 4, kUser = 2;
  if (queue_.size() <= kNode) return;
  auto at = [&](size_t i) -> const Node* {
    Node* n = fromBack ? queue_[queue_.size() - 1 - i] : queue_[i];
    return n->isDestroyed() ? nullptr : n;
  };
  auto load = [](const void* p) { __builtin_prefetch(p); };
  auto output = [&](size_t i) {
    const Node* n = at(i);
    return n && n->outputCount() ? n->output(0) : nullptr;
  };
  auto input = [&](size_t i) {
    const Node* n = at(i);
    return n && n->inputCount() ? n->input(0) : nullptr;
  };
  load(fromBack ? queue_[queue_.size() - 1 - kNode] : queue_[kNode]);
  if (const Node* n = at(kLists)) {
    load(n->inputs().data());
    load(n->outputs().data());
  }
  load(input(kValues));
  load(output(kValues));
  if (const Value* v = input(kNeighbours)) load(v->node());
  if (const Value* v = output(kNeighbours)) load(v->firstUse());
  if (const Value* v = output(kUser); v && v->firstUse()) load(v->firstUse()->user);
}

}  // namespace tscompile
