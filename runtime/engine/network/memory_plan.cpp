#include "runtime/engine/network/memory_plan.h"

#include <algorithm>
#include <map>

namespace tscompile {
namespace {

constexpr size_t kAlignment = 64;
size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Free stretches of an arena that grows at its end, given out by best fit; neighbours merge when they are given back.
class FreeList {
 public:
  // The smallest stretch that fits, the first of several.
  size_t take(size_t bytes) {
    auto best = gaps_.end();
    for (auto it = gaps_.begin(); it != gaps_.end(); ++it)
      if (it->second >= bytes && (best == gaps_.end() || it->second < best->second)) best = it;
    if (best != gaps_.end()) {
      auto [at, size] = *best;
      gaps_.erase(best);
      if (size > bytes) gaps_[at + bytes] = size - bytes;
      return at;
    }
    // A gap at the end can be a part of what is taken.
    size_t at = end_;
    if (!gaps_.empty() && gaps_.rbegin()->first + gaps_.rbegin()->second == end_) {
      at = gaps_.rbegin()->first;
      gaps_.erase(at);
    }
    end_ = at + bytes;
    return at;
  }

  void give(size_t at, size_t bytes) {
    auto next = gaps_.lower_bound(at);
    if (next != gaps_.end() && at + bytes == next->first) {
      bytes += next->second;
      next = gaps_.erase(next);
    }
    if (next != gaps_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    gaps_[at] = bytes;
  }

  size_t end() const { return end_; }

 private:
  std::map<size_t, size_t> gaps_;  // by offset
  size_t end_ = 0;
};

}  // namespace

MemoryPlan planMemory(const Network& network) {
  constexpr size_t kNever = SIZE_MAX;
  size_t count = network.buffers.size();
  std::vector<size_t> first(count, kNever), last(count, 0);
  MemoryPlan plan;
  plan.offsets.assign(count, MemoryPlan::kNowhere);
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = *network.layers[i];
    plan.workspaceBytes = std::max(plan.workspaceBytes, aligned(layer.workspace()));
    auto visit = [&](TensorId id) {
      BufferId b = network[id].buffer;
      if (first[b] == kNever) first[b] = i;
      last[b] = i;
    };
    for (TensorId id : layer.inputs) visit(id);
    for (TensorId id : layer.outputs) visit(id);
  }
  std::vector<std::vector<BufferId>> starting(network.layers.size()), ending(network.layers.size());
  for (BufferId b = 0; b < count; ++b) {
    const NetBuffer& buffer = network.buffers[b];
    if (buffer.kind != NetBuffer::Kind::Inner || buffer.escapes || first[b] == kNever) continue;
    starting[first[b]].push_back(b);
    ending[last[b]].push_back(b);
  }
  auto bytesOf = [&](BufferId b) {
    return aligned(std::max<size_t>(network.buffers[b].bytes, 1) + network.buffers[b].behind);
  };
  FreeList free;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    for (BufferId b : starting[i]) plan.offsets[b] = free.take(bytesOf(b));
    for (BufferId b : ending[i]) free.give(plan.offsets[b], bytesOf(b));
  }
  plan.arenaBytes = free.end();
  return plan;
}

}  // namespace tscompile
