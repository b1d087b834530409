#include "runtime/engine/refusal_watch.h"

#include <algorithm>

namespace tscompile {
namespace {

thread_local RefusalWatch* current = nullptr;

}  // namespace

RefusalWatch::RefusalWatch() : previous_(current) { current = this; }
RefusalWatch::~RefusalWatch() { current = previous_; }

void RefusalWatch::note(const Graph& graph, const std::optional<Refusal>& refusal, size_t nodes) {
  if (!current) return;
  std::vector<Row>& rows = current->rows_;
  auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.graph == &graph; });
  if (row == rows.end()) row = rows.insert(rows.end(), Row{&graph, refusal});
  ++row->calls;
  row->nodes = nodes;
}

}  // namespace tscompile
