// Loops with a known, small number of trips become their bodies, one after the other; loops without trips go. What a
// loop only hands on is taken from before it.
#include "ir/graph/clone.h"
#include "ir/values/loop_limits.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>
#include <unordered_map>

namespace tscompile {
namespace {

// Counts the trips of a loop that goes on as long as numbers say so which are known when it begins, as those of
// `while i < n` and of enumerate() are.
class Counter {
 public:
  Counter(const Node* loop, Evaluator& evaluator) : body_(*loop->block(0)), evaluator_(evaluator) {
    for (size_t i = 2; i < loop->inputCount(); ++i)
      if (const IValue* v = GraphFacts::constant(loop->input(i))) known_[body_.parameter(i - 1)] = *v;
  }

  std::optional<int64_t> count(int64_t most) {
    for (int64_t trip = 1; trip <= most; ++trip) {
      known_[body_.parameter(0)] = IValue(trip - 1);
      const std::optional<IValue> goesOn = valueOf(body_.result(0));
      if (!goesOn || !goesOn->isBool()) return std::nullopt;
      if (!goesOn->toBool()) return trip;
      std::unordered_map<const Value*, IValue> next;
      for (size_t i = 1; i < body_.results().size(); ++i)
        if (std::optional<IValue> v = valueOf(body_.result(i))) next[body_.parameter(i)] = *v;
      known_ = std::move(next);
    }
    return std::nullopt;
  }

 private:
  static bool isNumber(const Value* v) {
    return v->type()->is(TypeKind::Int) || v->type()->is(TypeKind::Bool) || v->type()->is(TypeKind::Float);
  }
  std::optional<IValue> valueOf(const Value* v, int depth = 0) {
    constexpr int kDeepest = 16;
    if (const IValue* constant = GraphFacts::constant(v)) return *constant;
    if (auto found = known_.find(v); found != known_.end()) return found->second;
    const Node* n = v->node();
    if (!n || n->block() != &body_ || n->hasBlocks() || n->outputCount() != 1 || !isNumber(v) || depth == kDeepest)
      return std::nullopt;
    std::vector<IValue> inputs;
    for (const Use& u : n->inputs()) {
      std::optional<IValue> input = isNumber(u.value) ? valueOf(u.value, depth + 1) : std::nullopt;
      if (!input) return std::nullopt;
      inputs.push_back(*input);
    }
    const auto results = inputs.empty() ? std::nullopt : evaluator_.evaluate(*n, inputs, /*maxBytes=*/64);
    if (!results) return std::nullopt;
    return known_[v] = results->front();
  }

  const Block& body_;
  Evaluator& evaluator_;
  std::unordered_map<const Value*, IValue> known_;
};

// The number of trips that are certain to be made; nothing: it is not known.
std::optional<int64_t> tripsOf(const Node* loop, const RewriteContext& context) {
  const GraphFacts& facts = context.facts;
  std::optional<int64_t> trips = facts.integer(loop->input(0));
  std::optional<bool> start = facts.boolean(loop->input(1));
  if ((trips && *trips <= 0) || start == false) return 0;
  if (!trips || !start) return std::nullopt;
  std::optional<bool> goOn = facts.boolean(loop->block(0)->result(0));
  if (goOn == false) return 1;
  if (goOn) return trips;
  const int64_t most = std::min(*trips, kMostUnrolledNodes);
  return context.evaluator ? Counter(loop, *context.evaluator).count(most) : std::nullopt;
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

// A carried value that each trip hands on as it is, is the one from before the loop.
bool usesWhatWasBefore(Node* loop) {
  Block* body = loop->block(0);
  bool changed = false;
  for (size_t i = 0; i < loop->outputCount(); ++i) {
    Value *before = loop->input(i + 2), *carried = body->parameter(i + 1), *next = body->result(i + 1);
    if ((next != carried && next != before) || !(carried->hasUses() || loop->output(i)->hasUses())) continue;
    replaceValue(carried, before);
    replaceValue(loop->output(i), before);
    changed = true;
  }
  return changed;
}

bool unrollOnce(Graph& graph, RewriteContext& context) {
  std::vector<Node*> loops;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() == sym::Loop) loops.push_back(n);
  });
  bool changed = false;
  // Inner loops first; those in bodies are copied as they have become.
  for (size_t i = loops.size(); i-- > 0;) {
    changed |= usesWhatWasBefore(loops[i]);
    std::optional<int64_t> trips = tripsOf(loops[i], context);
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
