#include "passes/serving/states/find_states.h"

#include "ir/analysis/shape_propagation.h"
#include "ir/graph/clone.h"
#include "ir/values/aten.h"
#include "passes/rewrite/facts.h"
#include "passes/serving/drop_caches.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/states/returned_states.h"
#include "passes/serving/states/state_dtypes.h"
#include "passes/serving/states/state_sizes.h"
#include "passes/serving/states/state_trials.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

namespace tscompile {
namespace {

// In front of each loop a round of it: what it does with sizes that it carries shows there.
void addFirstRounds(Graph& graph) {
  std::vector<Node*> loops;
  for (Node* n : graph.block()->nodes())
    if (n->kind() == sym::Loop && n->inputCount() > 2) loops.push_back(n);
  for (Node* loop : loops) {
    const Block* body = loop->block(0);
    ValueMap values;
    values[body->parameter(0)] = Builder(graph, loop).constant(IValue(0));
    for (size_t i = 2; i < loop->inputCount(); ++i) values[body->parameter(i - 1)] = loop->input(i);
    cloneNodesBefore(*body, loop, values);
    for (size_t i = 2; i < loop->inputCount(); ++i) {
      Value* next = body->result(i - 1);
      const auto copy = values.find(next);
      loop->replaceInput(i, copy == values.end() ? next : copy->second);
    }
  }
}

class States {
 public:
  States(Graph& graph, const OpRegistry& registry, int64_t places, const RunExample& run, std::string& doubt)
      : graph_(graph), registry_(registry), mostPlaces_(places), run_(run), doubt_(doubt) {}

  // Where more comes back than states are given, those that are taken are the ones with which calls are right.
  bool run() {
    takeInputs();
    const std::optional<std::vector<GivenState>> given = ids_ ? givenStates(graph_, ids_) : std::nullopt;
    const size_t back = returnedBesideLogits(graph_).size();
    hasKeys_ = given && std::ranges::any_of(*given, [](const GivenState& s) { return !s.key.empty(); });
    if (!given || back < given->size() || hasKeys_) return search();
    std::vector<size_t> right;
    std::vector<TypePtr> types;  // of the first state
    for (size_t more = back - given->size(), first = more + 1; more != 0 && first-- > 0;) {
      const std::unique_ptr<Graph> some = cloneGraph(graph_);
      if (!returnStates(*some, *given, first) || !States(*some, registry_, mostPlaces_, run_, doubt_).search())
        continue;
      right.push_back(first);
      if (const Value* v = sameInput(*some, *given->front().taken.front())) types.push_back(v->type());
    }
    if (right.size() > 1) {
      const bool areAlike = std::ranges::all_of(types, [&](TypePtr type) { return type == types.front(); });
      doubt_ = fmt::format("{} tensors{} come back beside logits: which one the next call is given is not told", back,
                           areAlike && given->size() == 1
                               ? fmt::format(" of the form of %{}", given->front().taken.front()->name())
                               : fmt::format(" for {} that are given", given->size()));
      return false;
    }
    return returnStates(graph_, *given, right.empty() ? back - given->size() : right[0]) && search();
  }

 private:
  // Many tokens a call are looked for first, then one.
  bool search() {
    if (!ids_) takeInputs();
    constexpr int64_t kMany = 11;
    const bool areCaches = areDropped();
    if (areCaches && !showsLater_ && !isRow_) return false;
    apart_ = cloneGraph(graph_);
    // Inputs that take the place of a dict have no keys.
    if (hasKeys_)
      if (const auto own = givenStates(*apart_, sameInput(*apart_, *ids_))) returnStates(*apart_, *own, 0);
    takeInputsApart(*apart_, [](const Value*) { return types().tensor; });
    const CallForm row{CallPart::Token}, text{CallPart::Text, CallPart::Token};
    if ((!areCaches || isRow_) && tryForm(text, kMany)) return true;
    if (areCaches && !showsLater_) return false;
    if (tryForm(text, 1)) return true;
    // Of a row of tokens a model for texts takes numbers of one token for tokens, and runs.
    if (!fits_ && tryForm(row, 1)) return true;
    handsOn_ = false;
    if (!areCaches && tryForm(text, kMany)) return true;
    doubt_ = refusal_;
    return false;
  }

  void takeInputs() {
    for (const Value* v : graph_.inputs())
      if (v->type()->isTensor() && roleByName(v) == ServingInput::Ids && !ids_) ids_ = v;
    for (const Value* v : graph_.inputs()) {
      if (!v->type()->isTensor() || isFirstPlace(v)) continue;
      const std::optional<ServingInput> role = roleByName(v);
      if (!ids_ && !role) ids_ = v;
      hasPositions_ = hasPositions_ || role == ServingInput::Positions;
      hasMask_ = hasMask_ || role == ServingInput::Mask;
      if (role == ServingInput::Mask && !use_) use_ = useOfMask(graph_, registry_, v);
    }
  }

  // Caches that grow need no sizes, if there is nothing else.
  bool areDropped() {
    std::unique_ptr<Graph> graph = cloneGraph(graph_);
    const bool isDropped = dropCaches(*graph, registry_);
    beginAtFirstPlace(*graph, isDropped);
    return isDropped &&
           std::ranges::all_of(graph->inputs(),
                               [&](const Value* v) {
                                 return v->type()->is(TypeKind::Class) ||
                                        (v->type()->isTensor() && (v->name() == ids_->name() || roleByName(v)));
                               }) &&
           givesRows(*graph);
  }

  // Whether it has logits of each token, or of the last one. Windows of convolutions are joined to new tokens as well,
  // and without them there are fewer rows than tokens.
  bool givesRows(const Graph& graph) {
    const CallForm text{CallPart::Text, CallPart::Token}, row{CallPart::Token};
    auto logitsWith = [&](const CallForms& sizes, int64_t tokens, int64_t lastId) {
      std::vector<IValue> inputs;
      for (const Value* v : graph.inputs()) {
        if (!v->type()->isTensor()) continue;
        Tensor t = exampleInput(v, sizes, 1, tokens);
        if (v->name() == ids_->name()) t.data<int64_t>()[tokens - 1] = lastId;
        inputs.emplace_back(std::move(t));
      }
      return logitsOf(run_(inputs, &graph));
    };
    auto fits = [&](const CallForms& sizes) {
      showsLater_ = false;
      for (int64_t tokens : {5, 7}) {
        const Tensor logits = logitsWith(sizes, tokens, 0), other = logitsWith(sizes, tokens, 1);
        if (!logits.defined() || logits.rank() == 0 || logits.numel() == 0) return false;
        const int64_t words = logits.size(logits.rank() - 1), rows = logits.numel() / words;
        if (rows != tokens && rows != 1) return false;
        std::vector<double> first, changed;
        for (int64_t i = 0; i < words && rows == tokens && other.defined() && other.numel() == logits.numel(); ++i)
          first.push_back(logits.real(i)), changed.push_back(other.real(i));
        showsLater_ |= !areNear(first, changed, kRounding);
      }
      return true;
    };
    for (const CallForm& positions : {text, row, CallForm{}})
      for (const CallForm& mask : {text, row})
        if (fits({positions, mask, 0})) {
          isRow_ =
              hasPositions_ && (positions == row ||
                                (positions == text && takesRow(graph, run_, &graph, {text, mask, 0}).value_or(false)));
          return true;
        }
    return false;
  }

  bool tryForm(const CallForm& ids, int64_t tokens) {
    std::vector<CallForm> positions{{}}, masks{{}};
    if (hasPositions_) positions = {{CallPart::Token}, {CallPart::Text, CallPart::Token}, {}};
    if (hasMask_)
      masks = {{CallPart::Text, CallPart::Token}, {CallPart::Token}, {CallPart::Text, CallPart::TokenOrBefore}};
    // A mask of one token fits beside any number of them, and a place in a row may be that of the first token.
    if (tokens == 1) std::ranges::reverse(masks);
    if (tokens == 1 && hasPositions_) std::swap(positions[0], positions[1]);
    for (const CallForm& p : positions)
      for (const CallForm& m : masks)
        if ((!p.empty() || tokens == 1 || !hasPositions_) && tryForms({p, m, 0, ids}, tokens)) return true;
    return (use_ && tryRowsOfMask(positions, ids, tokens)) || (hasMask_ && tryRowOfPlaces(positions, ids, tokens));
  }

  // A mask of one row, as long as the caches, whose places the graph may count itself.
  bool tryRowOfPlaces(const std::vector<CallForm>& positions, const CallForm& ids, int64_t tokens) {
    CallForms forms{{}, {CallPart::Text, CallPart::Place}, 0, ids};
    if (use_) forms.use = *use_;
    for (const int64_t places : lengthsOfTables())
      for (const CallForm& p : positions) {
        forms.positions = p, forms.places = places;
        if ((!p.empty() || !hasPositions_) && tryForms(forms, tokens)) return true;
      }
    return false;
  }

  // A mask with a number for each token and each place of a cache, or for each token up to the one of a call.
  bool tryRowsOfMask(const std::vector<CallForm>& positions, const CallForm& ids, int64_t tokens) {
    for (CallPart last : {CallPart::Place, CallPart::TokenOrBefore})
      for (const CallForm& p : positions)
        for (size_t ones : {2, 0, 1}) {
          CallForm m(ones, CallPart::One);
          m.insert(m.end(), {CallPart::Token, last});
          if (last == CallPart::TokenOrBefore && tokens != 1) continue;
          if ((!p.empty() || !hasPositions_) && tryForms({p, m, 0, ids, *use_}, tokens)) return true;
        }
    return false;
  }

  // The most places first, then those of tables.
  std::vector<int64_t> lengthsOfTables() const {
    constexpr size_t kMostLengths = 12;
    std::set<int64_t, std::greater<>> lengths;
    for (const Node* n : graph_.block()->nodes())
      if (n->outputCount() == 1 && n->output()->type()->isTensor() &&
          (n->kind() == sym::Constant || n->kind() == sym::GetAttr))
        for (int64_t size : sizesOfTable(n->output()))
          if (size > 1 && size < mostPlaces_) lengths.insert(size);
    std::vector<int64_t> all{mostPlaces_};
    all.insert(all.end(), lengths.begin(), lengths.end());
    all.resize(std::min(all.size(), kMostLengths));
    return all;
  }

  // Caches of which nothing tells how many places they have may be as long as a table or a mask is.
  bool tryForms(CallForms sizes, int64_t tokens) {
    // Caches that are as long as a mask have this size, which is no other's, until it is known how long they may be.
    constexpr int64_t kStandIn = 251;
    std::vector<int64_t> all = lengthsOfTables();
    if (sizes.areOfPlaces() && sizes.places != 0)
      all = {sizes.places};
    else if (sizes.areOfPlaces())
      sizes.places = kStandIn;
    const std::unique_ptr<Graph> searched = cloneGraph(*apart_);
    addFirstRounds(*searched);
    std::optional<std::vector<GivenState>> given = givenStates(*searched, sameInput(*searched, *ids_));
    const ShapeOptions known = fromFirst(*searched, knownOfCall(*searched, sizes, 1, tokens));
    int64_t places = sizes.places;
    auto counts = [&](std::vector<GivenState>& states) {
      std::optional<std::vector<GivenState>> same = statesIn(*apart_, *ids_, states);
      fits_ = fits_ || !same || !givesMoreThanRows(sizes, tokens, *same);
      const StateTrial trial{*apart_, *ids_, run_, sizes, handsOn_};
      std::string doubt;
      const ShapeOptions others = fromFirst(*apart_, knownOfCall(*apart_, sizes, 1, tokens));
      if (!same || !settleDtypes(trial, registry_, others, *same, doubt)) {
        if (!doubt.empty()) refusal_ = doubt;
        return StateVerdict::Wrong;
      }
      StateVerdict verdict = StateVerdict::Wrong;
      for (size_t i = 0; i < (sizes.areOfPlaces() ? all.size() : 1) && verdict == StateVerdict::Wrong; ++i) {
        if (sizes.areOfPlaces()) takePlaces(*same, sizes.places, all[i]);
        verdict = acceptStates(trial, *same, tokens, doubt);
        if (verdict == StateVerdict::Right && sizes.areOfPlaces()) places = all[i];
      }
      for (size_t i = 0; i < states.size(); ++i) states[i].dtype = (*same)[i].dtype, states[i].sizes = (*same)[i].sizes;
      if (verdict == StateVerdict::Right) doubt_ = doubt;
      return verdict;
    };
    std::optional<std::vector<GivenState>> states;
    if (given) states = findStateSizes(*searched, registry_, known, tokens, all, *given, counts);
    const std::optional<std::vector<GivenState>> own = states ? statesIn(graph_, *ids_, *states) : std::nullopt;
    if (!own) return false;
    sizes.places = places;
    const ShapeOptions found = knownOfCall(graph_, sizes, 1, tokens == 1 ? 1 : kUnknownSize);
    ShapePropagation(graph_, registry_, withStates(graph_, found, *own)).applyTo(graph_);
    if (tokens != 1)
      typeReturned(
          graph_, registry_,
          {knownOfCall(graph_, sizes, 1, 1), knownOfCall(graph_, sizes, 1, 2), knownOfCall(graph_, sizes, 1, tokens)},
          *own);
    return true;
  }

  // The dimension that is as long as the mask has places for tokens.
  static void takePlaces(std::vector<GivenState>& states, int64_t standIn, int64_t places) {
    for (GivenState& s : states)
      if (const auto at = std::ranges::find(s.sizes, standIn); s.placeDim < 0 && at != s.sizes.end())
        s.placeDim = static_cast<int>(at - s.sizes.begin());
    for (GivenState& s : states)
      if (s.placeDim >= 0) s.sizes[static_cast<size_t>(s.placeDim)] = places;
  }

  // A model for rows of tokens that is given texts of them has logits of so many dimensions.
  bool givesMoreThanRows(const CallForms& sizes, int64_t tokens, const std::vector<GivenState>& states) const {
    constexpr size_t kMostRank = 3;
    const Value* logits = logitsOf(*apart_);
    const ShapeOptions known = fromFirst(*apart_, knownOfCall(*apart_, sizes, 1, tokens));
    const TensorFacts facts =
        logits ? ShapePropagation(*apart_, registry_, withStates(*apart_, known, states)).tensor(logits)
               : TensorFacts();
    return facts.hasRank && facts.sizes.size() > kMostRank;
  }

  // Of a text that begins with the call.
  static ShapeOptions fromFirst(const Graph& graph, ShapeOptions known) {
    for (size_t i = 0; i < graph.inputs().size(); ++i)
      if (graph.input(i)->type()->is(TypeKind::Int)) known.inputs[i] = symbolicOf(IValue(0));
    return known;
  }

  // Of an attribute, or a constant, whose type may say nothing.
  static DimSpan sizesOfTable(const Value* v) {
    const IValue* known = GraphFacts::constant(v);
    return known && known->isTensor() ? known->toTensor().sizes() : DimSpan(v->type()->tensor().sizes);
  }

  Graph& graph_;
  const OpRegistry& registry_;
  const int64_t mostPlaces_;
  const RunExample& run_;
  std::string& doubt_;
  std::string refusal_;  // what nothing tells of states that would fit
  const Value* ids_ = nullptr;
  std::unique_ptr<Graph> apart_;  // its containers of states are inputs
  bool hasPositions_ = false, hasMask_ = false, hasKeys_ = false;
  std::optional<MaskUse> use_;  // of the mask
  bool showsLater_ = false;     // without its caches the first token of a text sees later ones
  bool isRow_ = false;          // and it takes positions as a row alone, which sizes have to tell
  bool fits_ = false;           // sizes of states were found
  bool handsOn_ = true;         // calls are to say what one call with all tokens says
};

}  // namespace

bool findStates(Graph& graph, const OpRegistry& registry, int64_t places, const RunExample& run, std::string& doubt) {
  return States(graph, registry, places, run, doubt).run();
}

}  // namespace tscompile
