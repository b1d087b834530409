#include "partition/strategies.h"

#include <algorithm>

namespace tscompile {
namespace {

Target targetOf(const BlockGraph& block, uint32_t i) {
  return block.accelerated[i] ? Target::Accelerated : Target::Fallback;
}

// A run under way, with an answer to "does this node depend on it" in the time of looking at the node's edges.
class OpenRun {
 public:
  OpenRun(Target target, size_t nodes) : run_{target, {}, false}, member_(nodes, false) {}

  void add(uint32_t i) {
    run_.items.push_back(i);
    member_[i] = true;
  }
  size_t count(const BlockGraph& block) const { return block.count(run_.items); }
  bool isNeededBy(const BlockGraph& block, uint32_t i) const {
    std::span<const uint32_t> from = block.predecessors(i);
    return std::any_of(from.begin(), from.end(), [&](uint32_t p) { return member_[p]; });
  }
  bool empty() const { return run_.items.empty(); }
  const std::vector<uint32_t>& items() const { return run_.items; }
  void clear() {
    for (uint32_t i : run_.items) member_[i] = false;
    run_.items.clear();
  }
  void closeInto(std::vector<Run>& out) {
    if (!run_.items.empty()) out.push_back(run_);
    clear();
  }

 private:
  Run run_;
  std::vector<bool> member_;
};

// Longest paths in a graph without cycles, in topological order: of each node how often the target changes on the way
// to it, on the path where it changes most often, if the first segment has target `start`.
std::vector<uint32_t> changesBefore(const BlockGraph& block, Target start) {
  std::vector<uint32_t> level(block.size());
  for (uint32_t i = 0; i < block.size(); ++i) {
    uint32_t own = targetOf(block, i) == start ? 0 : 1;
    for (uint32_t p : block.predecessors(i))
      own = std::max(own, level[p] + (block.accelerated[p] != block.accelerated[i]));
    level[i] = own;
  }
  return level;
}

}  // namespace

std::vector<Run> greedyRuns(const BlockGraph& block) {
  std::vector<Run> runs;
  for (uint32_t i = 0; i < block.size(); ++i) {
    Target target = targetOf(block, i);
    bool alone = block.alone[i];
    if (runs.empty() || runs.back().target != target || runs.back().doNotMerge || alone)
      runs.push_back({target, {}, alone});
    runs.back().items.push_back(i);
  }
  return runs;
}

std::vector<Run> dependencyRuns(const BlockGraph& block) {
  std::vector<Run> runs;
  OpenRun engine(Target::Accelerated, block.size()), rest(Target::Fallback, block.size());
  for (uint32_t i = 0; i < block.size(); ++i) {
    if (block.accelerated[i]) {
      engine.add(i);
      if (rest.isNeededBy(block, i)) rest.closeInto(runs);
      continue;
    }
    if (engine.isNeededBy(block, i)) engine.closeInto(runs);
    if (block.alone[i]) {
      rest.closeInto(runs);
      runs.push_back({Target::Fallback, {i}, true});
    } else {
      rest.add(i);
    }
  }
  engine.closeInto(runs);
  rest.closeInto(runs);
  return merged(std::move(runs));
}

// A path on which the target changes k times needs k + 1 segments, so none can do with fewer than the longest such path
// asks for; and one segment for each number of changes is enough, as no edge leads from a higher number to a lower one.
// Only which target comes first is left to choose.
std::vector<Run> minimalRuns(const BlockGraph& block) {
  std::vector<Run> best;
  for (Target start : {Target::Accelerated, Target::Fallback}) {
    std::vector<uint32_t> level = changesBefore(block, start);
    uint32_t levels = 0;
    for (uint32_t l : level) levels = std::max(levels, l + 1);
    std::vector<Run> runs(levels);
    for (uint32_t i = 0; i < block.size(); ++i) {
      runs[level[i]].target = targetOf(block, i);
      runs[level[i]].items.push_back(i);
    }
    std::erase_if(runs, [](const Run& r) { return r.items.empty(); });
    if (best.empty() || runs.size() < best.size()) best = std::move(runs);
  }
  return best;
}

std::vector<Run> runsOf(const BlockGraph& block, Strategy strategy) {
  if (strategy == Strategy::Greedy) return greedyRuns(block);
  return strategy == Strategy::Minimal ? minimalRuns(block) : dependencyRuns(block);
}

std::vector<Run> merged(std::vector<Run> runs) {
  std::vector<Run> out;
  for (Run& r : runs) {
    if (!out.empty() && out.back().target == r.target && !out.back().doNotMerge && !r.doNotMerge)
      out.back().items.insert(out.back().items.end(), r.items.begin(), r.items.end());
    else
      out.push_back(std::move(r));
  }
  for (Run& r : out) std::sort(r.items.begin(), r.items.end());
  return out;
}

std::vector<std::vector<uint32_t>> smallRuns(const BlockGraph& block, size_t least) {
  std::vector<std::vector<uint32_t>> small;
  OpenRun engine(Target::Accelerated, block.size());
  auto end = [&] {
    if (!engine.empty() && engine.count(block) < least) small.push_back(engine.items());
    engine.clear();
  };
  for (uint32_t i = 0; i < block.size(); ++i) {
    if (block.accelerated[i])
      engine.add(i);
    else if (engine.isNeededBy(block, i))
      end();
  }
  end();
  return small;
}

}  // namespace tscompile
