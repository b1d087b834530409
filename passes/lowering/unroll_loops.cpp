// Loops with a known, small number of trips become their bodies, one after the other; loops without trips go.
#include "ir/graph/clone.h"
#include "ir/values/loop_limits.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

// The number of trips that are certain to be made; nothing: it is not known.
std::optional<int64_t> tripsOf(const Node* loop, const GraphFacts& facts) {
  std::optional<int64_t> trips = facts.integer(loop->input(0));
  std::optional<bool> start = facts.boolean(loop->input(1));
  if ((trips && *trips <= 0) || start == false) return 0;
  if (!trips || !start) return std::nullopt;
  std::optional<bool> goOn = facts.boolean(loop->block(0)->result(0));
  if (goOn == false) return 1;
  return goOn ? trips : std::nullopt;
}

// Whether the body, so many times, is small enough. Loops in it may be small ones once their trips are known.
bool isSmall(Node* loop, int64_t trips) {
  int64_t nodes = 0;
  forEachNode(loop->block(0), [&](Node*) { ++nodes; });
  return trips == 1 || ((nodes == 0 || trips <= kMostUnrolledNodes / nodes) && trips <= kMostUnrolledNodes);
}

void unroll(Node* loop, int64_t trips, RewriteContext& context) {
  Block* body = loop->block(0);
  std::vector<Value*> carried;
  for (size_t i = 2; i < loop->inputCount(); ++i) carried.push_back(loop->input(i));
  for (int64_t trip = 0; trip < trips; ++trip) {
    ValueMap values;
    if (body->parameter(0)->hasUses()) values[body->parameter(0)] = context.before(loop).constant(trip);
    for (size_t i = 0; i < carried.size(); ++i) values[body->parameter(i + 1)] = carried[i];
    // The last trip takes the body itself, with its names.
    if (trip + 1 == trips) {
      for (auto& [parameter, value] : values) const_cast<Value*>(parameter)->replaceAllUsesWith(value);
      for (Node* n : body->nodes()) n->moveBefore(loop);
      for (size_t i = 0; i < carried.size(); ++i) carried[i] = body->result(i + 1);
      break;
    }
    cloneNodesBefore(*body, loop, values);
    for (size_t i = 0; i < carried.size(); ++i) {
      auto it = values.find(body->result(i + 1));
      carried[i] = it == values.end() ? body->result(i + 1) : it->second;
    }
  }
  for (size_t i = 0; i < carried.size(); ++i) replaceValue(loop->output(i), carried[i]);
  loop->destroy();
}

bool unrollOnce(Graph& graph, RewriteContext& context) {
  std::vector<Node*> loops;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() == sym::Loop) loops.push_back(n);
  });
  bool changed = false;
  // Inner loops first; those in bodies are copied as they have become.
  for (size_t i = loops.size(); i-- > 0;) {
    std::optional<int64_t> trips = tripsOf(loops[i], context.facts);
    if (!trips || !isSmall(loops[i], *trips)) continue;
    unroll(loops[i], *trips, context);
    changed = true;
  }
  return changed;
}

}  // namespace

bool unrollLoops(Graph& graph, RewriteContext& context) {
  bool changed = false;
  // What one loop gives may be how often another runs.
  while (unrollOnce(graph, context)) changed = true;
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
