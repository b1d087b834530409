#include "passes/serving/states/given_states.h"

#include "ir/values/aten.h"

#include <algorithm>
#include <unordered_map>

namespace tscompile {
namespace {

// Of an optional that branches give: none of them gives None.
bool isGiven(const Value* v) {
  if (!v->type()->is(TypeKind::Optional)) return !v->type()->is(TypeKind::None);
  const Node* n = v->node();
  if (!n) return false;
  if (n->kind() != sym::If) return n->kind() == sym::Uninitialized;
  const auto at = static_cast<size_t>(std::ranges::find(n->outputs(), v) - n->outputs().begin());
  return std::ranges::all_of(n->blocks(), [&](const Block* b) { return isGiven(b->result(at)); });
}

// What `hidden is None` says of a state.
std::optional<SymbolicValue> isNone(const Value* v) {
  static const Symbol kIs = Symbol::of("aten::__is__"), kIsNot = Symbol::of("aten::__isnot__");
  const Node* n = v->node();
  if (!n || (n->kind() != kIs && n->kind() != kIsNot) || !n->input(1)->type()->is(TypeKind::None) ||
      !isGiven(n->input(0)))
    return std::nullopt;
  SymbolicValue known = symbolicOf(types().boolean);
  known.constant = IValue(n->kind() == kIsNot);
  return known;
}

}  // namespace

std::optional<std::vector<GivenState>> givenStates(const Graph& graph, const Value* ids) {
  std::vector<GivenState> states;
  for (const Value* v : graph.inputs()) {
    if (v == ids || v->type()->is(TypeKind::Class) || v->type()->is(TypeKind::Int)) continue;
    if (v->type()->isTensor()) {
      if (!roleByName(v)) states.push_back({{v}});
      continue;
    }
    const std::vector<InputPart> parts = partsOfInput(v);
    if (parts.empty()) return std::nullopt;
    for (const InputPart& p : parts) states.push_back({{p.taken.begin(), p.taken.end()}, p.key});
  }
  return states;
}

const Value* sameInput(const Graph& other, const Value& input) {
  for (const Value* v : other.inputs())
    if (v->name() == input.name()) return v;
  return nullptr;
}

std::optional<std::vector<GivenState>> statesIn(const Graph& graph, const Value& ids,
                                                const std::vector<GivenState>& sized) {
  std::optional<std::vector<GivenState>> own = givenStates(graph, sameInput(graph, ids));
  if (!own || own->size() != sized.size()) return std::nullopt;
  for (size_t i = 0; i < own->size(); ++i) {
    (*own)[i].dtype = sized[i].dtype;
    (*own)[i].sizes = sized[i].sizes;
    (*own)[i].placeDim = sized[i].placeDim;
  }
  return own;
}

ShapeOptions withStates(const Graph& graph, const ShapeOptions& others, const std::vector<GivenState>& states) {
  ShapeOptions all = others;
  std::unordered_map<const Value*, SymbolicValue> elements;
  all.inputs.resize(graph.inputs().size());
  for (const GivenState& s : states)
    for (const Value* v : s.taken) {
      const SymbolicValue known = s.isRanked ? symbolicTensor(s.dtype, s.sizes) : symbolicOf(types().tensor);
      const auto input = std::ranges::find(graph.inputs(), v);
      if (input != graph.inputs().end())
        all.inputs[static_cast<size_t>(input - graph.inputs().begin())] = known;
      else
        elements.emplace(v, known);
    }
  all.known = [elements = std::move(elements), rest = others.known](const Value* v) -> std::optional<SymbolicValue> {
    if (auto found = elements.find(v); found != elements.end()) return found->second;
    if (std::optional<SymbolicValue> none = isNone(v)) return none;
    return rest ? rest(v) : std::nullopt;
  };
  return all;
}

}  // namespace tscompile
