#include "passes/serving/states/returned_states.h"

#include "ir/analysis/alias.h"
#include "passes/serving/entrance.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace tscompile {

const ReturnedTensor* returnedOf(const std::vector<ReturnedTensor>& returned, const std::vector<GivenState>& states,
                                 size_t i) {
  if (!states[i].key.empty())
    for (const ReturnedTensor& r : returned)
      if (r.key == states[i].key) return &r;
  return returned.size() < states.size() ? nullptr : &returned[returned.size() - states.size() + i];
}

std::vector<ReturnedTensor> returnedBesideLogits(const Graph& graph) {
  std::vector<ReturnedTensor> returned = returnedTensors(graph);
  std::erase_if(returned, [&](const ReturnedTensor& r) { return r.value == logitsOf(graph); });
  return returned;
}

bool returnStates(Graph& graph, const std::vector<GivenState>& states, size_t first) {
  const std::vector<ReturnedTensor> returned = returnedBesideLogits(graph);
  std::vector<Value*> outputs{logitsOf(graph)};
  for (size_t i = 0; i < states.size(); ++i) {
    const auto named = std::ranges::find_if(
        returned, [&](const ReturnedTensor& r) { return !states[i].key.empty() && r.key == states[i].key; });
    if (named == returned.end() && first + i >= returned.size()) return false;
    outputs.push_back(named == returned.end() ? returned[first + i].value : named->value);
  }
  if (!outputs[0]) return false;
  graph.returnNode()->removeAllInputs();
  for (Value* v : outputs) graph.addOutput(v);
  return true;
}

bool checkReturned(const Graph& graph, const OpRegistry& registry, Diagnostics& diagnostics) {
  const AliasAnalysis alias(graph, registry);
  std::set<const Value*> returned;
  for (const ReturnedTensor& r : returnedBesideLogits(graph))
    if (r.key.empty()) returned.insert(r.value);
  for (const Value* state : graph.inputs()) {
    if (!state->type()->isTensor() || roleByName(state) || alias.isWritten(state)) continue;
    const auto given =
        std::ranges::count_if(graph.inputs(), [&](const Value* v) { return !roleByName(v) && haveOneForm(v, state); });
    const auto back = std::ranges::count_if(returned, [&](const Value* v) { return haveOneForm(v, state); });
    if (back <= given) continue;
    diagnostics
        .error(graph.range,
               fmt::format("{} tensors of the form of %{} come back beside logits: which one the next call is given is "
                           "not told",
                           back, state->name()),
               ErrorKind::Unsupported)
        .note("a module around the model can return logits and what the next call is given alone");
    return false;
  }
  return true;
}

bool checkGrowth(const Graph& graph, Diagnostics& diagnostics) {
  const std::vector<ReturnedTensor> returned = returnedBesideLogits(graph);
  const std::vector<GivenState> given = givenStates(graph, idsOf(graph)).value_or(std::vector<GivenState>());
  for (size_t i = 0; i < given.size(); ++i) {
    const ReturnedTensor* r = returnedOf(returned, given, i);
    const Value* v = given[i].taken.front();
    if (!r || !r->value->type()->isTensor()) continue;
    const Dims &own = v->type()->tensor().sizes, &back = r->value->type()->tensor().sizes;
    size_t d = 0;
    while (d < own.size() && own.size() == back.size() && (own[d] < 0 || back[d] <= own[d])) ++d;
    if (own.size() != back.size() || d == own.size()) continue;
    diagnostics
        .error(graph.range,
               fmt::format("the program was exported for {} in dimension {} of %{} alone, and gives {} back, which the "
                           "next call cannot be given",
                           own[d], d, v->name(), back[d]),
               ErrorKind::Unsupported)
        .note(
            "torch.export takes dynamic_shapes= for dimensions that are to vary; a model with windows asks how long "
            "its caches are: its example is to have longer ones than these");
    return false;
  }
  return true;
}

void typeReturned(const Graph& graph, const OpRegistry& registry, const std::vector<ShapeOptions>& calls,
                  const std::vector<GivenState>& states) {
  std::vector<ShapePropagation> shapes;
  for (const ShapeOptions& call : calls) shapes.emplace_back(graph, registry, withStates(graph, call, states));
  const std::vector<ReturnedTensor> returned = returnedBesideLogits(graph);
  for (size_t i = 0; i < states.size(); ++i) {
    const ReturnedTensor* r = returnedOf(returned, states, i);
    const GivenState& s = states[i];
    if (!r || std::ranges::find(s.sizes, kUnknownSize) != s.sizes.end()) continue;
    const bool isSame = std::ranges::all_of(shapes, [&](const ShapePropagation& p) {
      const SymbolicValue* known = p.find(r->value);
      return known && known->type->isTensor() && known->type->tensor().hasRank &&
             known->type->tensor().dtype == s.dtype && known->type->tensor().sizes == s.sizes;
    });
    if (isSame) r->value->setType(symbolicTensor(s.dtype, s.sizes).type);
  }
}

}  // namespace tscompile
