#include "ir/graph/liveness.h"

#include <algorithm>

namespace tscompile {

Liveness::Liveness(const Graph& graph) : places_(graph), runs_(graph) {
  struct Open {
    const Node* node;
    size_t block;
  };
  std::vector<Open> stack;
  auto add = [this](const Node* n) {
    auto place = static_cast<uint32_t>(nodes_.size());
    places_[n] = place;
    nodes_.push_back({n, place + 1});
    ++runs_[n->block()].count;
  };
  nodes_.reserve(graph.nodeCount() + 1);
  const Block* block = graph.block();
  blockOrder_.push_back(block);
  const Node* n = block->first();
  while (true) {
    if (n) {
      add(n);
      if (n->hasBlocks()) {
        stack.push_back({n, 0});
        block = n->block(0);
        blockOrder_.push_back(block);
        n = block->first();
      } else {
        n = n->next();
      }
      continue;
    }
    add(block->returnNode());
    if (stack.empty()) break;
    Open& open = stack.back();
    nodes_[places_[open.node]].end = size();
    if (++open.block < open.node->blocks().size()) {
      block = open.node->block(open.block);
      blockOrder_.push_back(block);
      n = block->first();
    } else {
      block = open.node->block();
      n = open.node->next();
      stack.pop_back();
    }
  }
  uint32_t begin = 0;
  for (const Block* b : blockOrder_) {
    Run& run = runs_[b];
    run.begin = begin;
    begin += run.count;
    run.count = 0;
  }
  blockPlaces_.resize(begin);
  for (uint32_t place = 0; place < size(); ++place) {
    Run& run = runs_[nodes_[place].node->block()];
    blockPlaces_[run.begin + run.count++] = place;
  }
}

const Node* Liveness::ancestorIn(const Block* block, uint32_t place) const {
  std::span<const uint32_t> places = placesOf(block);
  auto it = std::upper_bound(places.begin(), places.end(), place);
  return it == places.begin() ? nullptr : nodes_[*(it - 1)].node;
}

std::pair<uint32_t, uint32_t> Liveness::span(const Block* block) const {
  std::span<const uint32_t> places = placesOf(block);
  return {places.front(), places.back()};
}

uint32_t Liveness::lastUseIn(const Value* value, uint32_t from, uint32_t to) const {
  uint32_t last = UINT32_MAX;
  for (Use& u : value->uses()) {
    uint32_t p = place(u.user);
    if (p >= from && p <= to && (last == UINT32_MAX || p > last)) last = p;
  }
  return last;
}

}  // namespace tscompile
