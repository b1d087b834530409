#include "passes/rewrite/kind_index.h"

namespace tscompile {

KindIndex::KindIndex(EditLog& log) : log_(log), place_(log.graph()) {
  forEachNode(log.graph(), [this](Node* n) { imported(n); });
  log_.attach(this);
}

void KindIndex::add(Node* node, Symbol kind) {
  if (place_[node]) return;
  List& list = lists_[kind];
  list.nodes.push_back(node);
  place_[node] = static_cast<uint32_t>(list.nodes.size());
}

void KindIndex::remove(Node* node, Symbol kind) {
  if (!place_[node]) return;
  List& list = lists_[kind];
  list.nodes[place_[node] - 1] = nullptr;
  ++list.gone;
  place_[node] = 0;
}

void KindIndex::kindChanged(Node* node, Symbol before, Symbol after) {
  if (!place_[node]) return;
  remove(node, before);
  add(node, after);
}

const std::vector<Node*>& KindIndex::nodes(Symbol kind) {
  List& list = lists_[kind];
  if (list.gone == 0) return list.nodes;
  std::erase(list.nodes, nullptr);
  list.gone = 0;
  for (size_t i = 0; i < list.nodes.size(); ++i) place_[list.nodes[i]] = static_cast<uint32_t>(i + 1);
  return list.nodes;
}

size_t KindIndex::count(Symbol kind) const {
  auto it = lists_.find(kind);
  return it == lists_.end() ? 0 : it->second.nodes.size() - it->second.gone;
}

}  // namespace tscompile
