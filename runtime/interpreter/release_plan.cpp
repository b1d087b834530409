#include "runtime/interpreter/release_plan.h"

#include <algorithm>

namespace tscompile {

ReleasePlan::ReleasePlan(const Graph& graph) : liveness_(graph) {
  for (const Block* block : liveness_.blocks())
    for (const Value* p : block->parameters()) plan(p, block);
  for (uint32_t i = 0; i < liveness_.size(); ++i) {
    const Node* n = liveness_.nodeAt(i);
    for (const Value* o : n->outputs()) plan(o, n->block());
  }
  for (auto* entries : {&ending_, &early_, &unused_})
    std::stable_sort(entries->begin(), entries->end(),
                     [](const Entry& a, const Entry& b) { return a.first < b.first; });
}

std::span<const ReleasePlan::Entry> ReleasePlan::at(const std::vector<Entry>& entries, uint32_t place) {
  auto first =
      std::lower_bound(entries.begin(), entries.end(), place, [](const Entry& e, uint32_t p) { return e.first < p; });
  auto last = first;
  while (last != entries.end() && last->first == place) ++last;
  return {first, last};
}

void ReleasePlan::plan(const Value* value, const Block* block) {
  uint32_t last = liveness_.lastUseIn(value, 0, UINT32_MAX - 1);
  if (last == UINT32_MAX) return;
  const Node* n = liveness_.ancestorIn(block, last);
  ending_.emplace_back(liveness_.place(n), value);
  if (n->kind() == sym::If && last != liveness_.place(n)) planBranches(value, n, 0);
}

// The value's last use is inside this If. Its slot stays taken until the If ends, but each branch can give it up.
void ReleasePlan::planBranches(const Value* value, const Node* node, int depth) {
  constexpr int kMaxDepth = 16;  // deeper, it lives until the If ends: work and memory stay linear
  if (depth == kMaxDepth) return;
  for (const Block* branch : node->blocks()) {
    auto [from, to] = liveness_.span(branch);
    uint32_t last = liveness_.lastUseIn(value, from, to);
    if (last == UINT32_MAX) {
      unused_.emplace_back(from, value);
      continue;
    }
    const Node* n = liveness_.ancestorIn(branch, last);
    if (n->kind() == sym::If && last != liveness_.place(n))
      planBranches(value, n, depth + 1);
    else if (!n->isReturn())
      early_.emplace_back(liveness_.place(n), value);
  }
}

bool ReleasePlan::isLastUse(const Value* value, const Node* node) const {
  auto holds = [value](std::span<const Entry> entries) {
    return std::any_of(entries.begin(), entries.end(), [value](const Entry& e) { return e.second == value; });
  };
  if (!holds(endingAt(node)) && !holds(endingEarlyAt(node))) return false;
  return liveness_.lastUseIn(value, liveness_.place(node) + 1, liveness_.end(node) - 1) == UINT32_MAX;
}

}  // namespace tscompile
