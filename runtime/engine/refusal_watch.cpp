#include "runtime/engine/refusal_watch.h"

#include <algorithm>

namespace tscompile {
namespace {

thread_local RefusalWatch* current = nullptr;

}  // namespace

RefusalWatch::RefusalWatch(bool handsOn) : previous_(current), handsOn_(handsOn) { current = this; }
RefusalWatch::~RefusalWatch() {
  current = previous_;
  if (handsOn_ && previous_)
    for (const Row& row : rows_) previous_->add(row);
}

void RefusalWatch::note(const Graph& graph, const std::optional<Refusal>& refusal, size_t nodes) {
  if (current) current->add({.graph = &graph, .refusal = refusal, .calls = 1, .nodes = nodes});
}

void RefusalWatch::add(const Row& row) {
  auto known = std::ranges::find(rows_, row.graph, &Row::graph);
  if (known == rows_.end()) return rows_.push_back(row);
  known->calls += row.calls;
  known->nodes = row.nodes;
  known->isTold |= row.isTold;
}

}  // namespace tscompile
