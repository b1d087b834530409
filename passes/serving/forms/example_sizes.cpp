#include "passes/serving/forms/example_sizes.h"

#include "ir/analysis/alias.h"
#include "ir/analysis/shape_propagation.h"
#include "ir/graph/clone.h"
#include "ir/values/aten.h"
#include "passes/serving/drop_caches.h"
#include "passes/serving/forms/stacks.h"
#include "passes/serving/forms/state_sizes.h"
#include "passes/serving/input_roles.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace tscompile {
namespace {

constexpr int64_t kMostTexts = 16;

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

// "layers.0.keys"
std::string pathOf(const Node* attribute) {
  std::string path;
  for (const Node* n = attribute; n && n->kind() == sym::GetAttr; n = n->input(0)->node()) {
    const IValue* name = n->attributeValue(sym::name);
    if (!name || !name->isString()) return "";
    path = std::string(name->toString()) + (path.empty() ? "" : "." + path);
  }
  return path;
}

class Examples {
 public:
  Examples(Graph& graph, const OpRegistry& registry, int64_t places, const RunExample& run)
      : graph_(graph), registry_(registry), mostPlaces_(places), run_(run) {}

  bool run() {
    if (!takeInputs()) return false;
    if (hasStates_) return findStates();
    for (int64_t texts = 1; texts <= kMostTexts; ++texts)
      if (std::optional<Sizes> found = sizesFor(texts, {5, 3}); found && !passesBy(*found, texts))
        return texts > 1 ? apply(*found, texts, kUnknownSize) : placeInRow(*found);
    for (int64_t texts = 1; texts <= kMostTexts; ++texts)
      if (std::optional<Sizes> found = sizesFor(texts, {1})) return apply(*found, texts, 1);
    return false;
  }

 private:
  // What an input is made for: texts and tokens, these and those of calls before, or places of a cache.
  enum class Part : uint8_t { Text, One, Token, Place, TokenOrBefore };
  using Form = std::vector<Part>;
  struct Sizes {
    Form positions, mask;
    int64_t places;
    Form ids = {Part::Text, Part::Token};
  };

  bool takeInputs() {
    for (const Value* v : graph_.inputs())
      if (v->type()->isTensor() && roleByName(v) == ServingInput::Ids && !ids_) ids_ = v;
    for (const Value* v : graph_.inputs()) {
      if (v->type()->is(TypeKind::Class)) continue;
      if (v->type()->is(TypeKind::Int) && isFirstPlace(v)) {
        hasStart_ = true;
        continue;
      }
      if (!v->type()->isTensor()) {
        if (partsOfInput(v).empty()) return false;
        hasStates_ = true;
        continue;
      }
      if (v->type()->tensor().hasRank) return false;
      if (isFirstPlace(v)) continue;
      const std::optional<ServingInput> role = roleByName(v);
      if (!ids_ && !role) ids_ = v;
      hasStates_ = hasStates_ || (!role && v != ids_);
      hasPositions_ = hasPositions_ || role == ServingInput::Positions;
      hasMask_ = hasMask_ || role == ServingInput::Mask;
    }
    if (hasMask_)
      for (const Node* n : graph_.block()->nodes())
        if (n->kind() == sym::GetAttr && n->output()->type()->isTensor())
          for (int64_t size : n->output()->type()->tensor().sizes) places_.insert(size);
    keepsAttributes_ = keepsAttributes();
    return ids_ != nullptr && (hasStates_ || !hasStart_);
  }

  // The first forms of the other inputs that fit ids of so many texts and each of these numbers of tokens.
  std::optional<Sizes> sizesFor(int64_t texts, std::initializer_list<int64_t> tokens) const {
    std::vector<Form> positions{{}}, masks{{}};
    if (hasPositions_)
      positions = {{Part::Token}, {Part::Text, Part::Token}, {Part::One, Part::Token}, {Part::Text}, {}};
    std::vector<int64_t> places{0};
    if (hasMask_) {
      masks = {{Part::Text, Part::Place}, {Part::One, Part::Place}, {Part::Place}, {Part::Text, Part::Token}};
      places.insert(places.end(), places_.begin(), places_.end());
    }
    for (const Form& p : positions)
      for (const Form& m : masks)
        for (int64_t count : places) {
          const Sizes sizes{p, m, count};
          const bool hasPlaces = std::ranges::find(m, Part::Place) != m.end();
          if (hasPlaces == (count > 1) && std::ranges::all_of(tokens, [&](int64_t t) { return fits(sizes, texts, t); }))
            return sizes;
        }
    return std::nullopt;
  }

  // `before`: tokens of calls before; kUnknownSize: any number.
  Dims sizesOf(const Value* input, const Sizes& sizes, int64_t texts, int64_t tokens, int64_t before) const {
    const std::optional<ServingInput> role = roleByName(input);
    if (isFirstPlace(input)) return {};
    Form form = sizes.ids;
    if (role == ServingInput::Positions) form = sizes.positions;
    if (role == ServingInput::Mask) form = sizes.mask;
    Dims own;
    for (Part part : form)
      own.push_back(part == Part::Text            ? texts
                    : part == Part::Token         ? tokens
                    : part == Part::Place         ? sizes.places
                    : part == Part::TokenOrBefore ? (before == kUnknownSize ? kUnknownSize : tokens + before)
                                                  : 1);
    return own;
  }

  // Each is a run of the model, so there is an end to trying.
  bool fits(const Sizes& sizes, int64_t texts, int64_t tokens) const {
    constexpr size_t kMostRuns = 500;
    if (++tried_ > kMostRuns) return false;
    std::vector<IValue> inputs;
    for (const Value* v : graph_.inputs())
      if (v->type()->isTensor()) inputs.emplace_back(roleInput(v, sizes, texts, tokens));
    return logitsOf(run_(inputs, nullptr)).defined();
  }

  // Whether it keeps something in attributes, and the last token of a call knows nothing of the one before it: it is
  // for one token then, and takes the first or the last one of others.
  bool passesBy(const Sizes& sizes, int64_t texts) const {
    constexpr int64_t kFew = 5;
    if (!keepsAttributes_) return false;
    auto logits = [&](int64_t changed) {
      std::vector<IValue> inputs;
      for (const Value* v : graph_.inputs()) {
        if (!v->type()->isTensor()) continue;
        Tensor t = roleInput(v, sizes, texts, kFew);
        for (int64_t text = 0; v == ids_ && changed < kFew && text < texts; ++text)
          t.data<int64_t>()[text * kFew + changed] = 1;
        inputs.emplace_back(std::move(t));
      }
      return logitsOf(run_(inputs, nullptr));
    };
    const Tensor usual = logits(kFew), other = logits(kFew - 2);
    if (!usual.defined() || !other.defined() || usual.rank() == 0 || usual.numel() != other.numel()) return false;
    for (int64_t i = usual.numel() - usual.size(usual.rank() - 1); i < usual.numel(); ++i)
      if (usual.real(i) != other.real(i)) return false;
    return true;
  }

  // Whether calls leave something in the model for the next ones.
  bool keepsAttributes() const {
    const AliasAnalysis alias(graph_, registry_);
    bool found = false;
    forEachNode(graph_, [&](const Node* n) {
      found |= n->kind() == sym::SetAttr || (n->kind() == sym::GetAttr && n->outputCount() == 1 &&
                                             n->output()->type()->isTensor() && alias.isWritten(n->output()));
    });
    return found;
  }

  // Zeros, ones for a mask, and places from 0 on: what is written at one place for all tokens hides them.
  Tensor roleInput(const Value* input, const Sizes& sizes, int64_t texts, int64_t tokens, int64_t before = 0) const {
    Tensor t = Tensor::zeros(DType::Int64, sizesOf(input, sizes, texts, tokens, before));
    const std::optional<ServingInput> role = roleByName(input);
    const bool isPlaces = role == ServingInput::Positions && t.rank() > 0 && t.sizes().back() == tokens;
    for (int64_t i = 0; i < t.numel(); ++i)
      if (role == ServingInput::Mask)
        t.data<int64_t>()[i] = 1;
      else if (role == ServingInput::Positions || isFirstPlace(input))
        t.data<int64_t>()[i] = before + (isPlaces ? i % tokens : 0);
    return t;
  }

  // Of a graph that runs with one text, where its positions are no more than a row.
  bool placeInRow(Sizes sizes) {
    if (!hasPositions_ || sizes.positions != Form{Part::Token}) return false;
    sizes.positions = {Part::Text, Part::Token};
    if (fits(sizes, 1, 5)) return false;
    for (Value* v : graph_.inputs())
      if (roleByName(v) == ServingInput::Positions) v->setType(symbolicTensor(DType::Int64, Dims{kUnknownSize}).type);
    return true;
  }

  bool apply(const Sizes& sizes, int64_t texts, int64_t tokens) {
    ShapePropagation(graph_, registry_, knownOf(graph_, sizes, texts, tokens)).applyTo(graph_);
    return true;
  }

  // Ids, positions, masks and attributes.
  ShapeOptions knownOf(const Graph& graph, const Sizes& sizes, int64_t texts, int64_t tokens) const {
    ShapeOptions options;
    for (const Value* v : graph.inputs()) {
      std::optional<SymbolicValue>& known = options.inputs.emplace_back();
      if (v->type()->isTensor()) known = symbolicTensor(DType::Int64, sizesOf(v, sizes, texts, tokens, kUnknownSize));
    }
    options.known = [](const Value* v) -> std::optional<SymbolicValue> {
      const bool isAttribute = v->node() && v->node()->kind() == sym::GetAttr && v->type()->isTensor();
      if (!isAttribute || !v->type()->tensor().hasRank) return std::nullopt;
      return symbolicTensor(v->type()->tensor().dtype, v->type()->tensor().sizes);
    };
    return options;
  }

  // ---- states ----

  // Many tokens a call are looked for first, then one.
  bool findStates() {
    constexpr int64_t kMany = 11;
    const bool areCaches = areDropped();
    if (areCaches && !showsLater_) return false;
    apart_ = cloneGraph(graph_);
    takeInputsApart(*apart_, [](const Value*) { return types().tensor; });
    const Form row{Part::Token}, text{Part::Text, Part::Token};
    if (!areCaches && findStates(text, kMany)) return true;
    if (findStates(text, 1)) return true;
    // Of a row of tokens a model for texts takes numbers of one token for tokens, and runs.
    if (!fits_ && findStates(row, 1)) return true;
    handsOn_ = false;
    return !areCaches && findStates(text, kMany);
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
    const Form text{Part::Text, Part::Token}, row{Part::Token};
    auto logitsWith = [&](const Sizes& sizes, int64_t tokens, int64_t lastId) {
      std::vector<IValue> inputs;
      for (const Value* v : graph.inputs()) {
        if (!v->type()->isTensor()) continue;
        Tensor t = roleInput(v, sizes, 1, tokens);
        if (v->name() == ids_->name()) t.data<int64_t>()[tokens - 1] = lastId;
        inputs.emplace_back(std::move(t));
      }
      return logitsOf(run_(inputs, &graph));
    };
    auto fits = [&](const Sizes& sizes) {
      showsLater_ = false;
      for (int64_t tokens : {5, 7}) {
        const Tensor logits = logitsWith(sizes, tokens, 0), other = logitsWith(sizes, tokens, 1);
        if (!logits.defined() || logits.rank() == 0 || logits.numel() == 0) return false;
        const int64_t words = logits.size(logits.rank() - 1), rows = logits.numel() / words;
        if (rows != tokens && rows != 1) return false;
        for (int64_t i = 0; i < words && rows == tokens && other.defined() && other.numel() == logits.numel(); ++i)
          showsLater_ |= logits.real(i) != other.real(i);
      }
      return true;
    };
    for (const Form& positions : {row, text, Form{}})
      for (const Form& mask : {text, row})
        if (fits({positions, mask, 0})) return true;
    return false;
  }

  bool findStates(const Form& ids, int64_t tokens) {
    std::vector<Form> positions{{}}, masks{{}};
    if (hasPositions_) positions = {{Part::Token}, {Part::Text, Part::Token}, {}};
    if (hasMask_) masks = {{Part::Text, Part::Token}, {Part::Token}, {Part::Text, Part::TokenOrBefore}};
    // A mask of one token fits beside any number of them, and a place in a row may be that of the first token.
    if (tokens == 1) std::ranges::reverse(masks);
    if (tokens == 1 && hasPositions_) std::swap(positions[0], positions[1]);
    for (const Form& p : positions)
      for (const Form& m : masks)
        if ((!p.empty() || tokens == 1 || !hasPositions_) && findStates({p, m, 0, ids}, tokens)) return true;
    return false;
  }

  // Caches of which nothing tells how many places they have may be as long as a table or a mask is.
  bool findStates(const Sizes& sizes, int64_t tokens) {
    constexpr size_t kMostLengths = 12;
    std::set<int64_t, std::greater<>> lengths;
    for (const Node* n : graph_.block()->nodes())
      if (n->outputCount() == 1 && n->output()->type()->isTensor() &&
          (n->kind() == sym::Constant || n->kind() == sym::GetAttr))
        for (int64_t size : sizesOf(n->output()))
          if (size > 1 && size < mostPlaces_) lengths.insert(size);
    std::vector<int64_t> all{mostPlaces_};
    all.insert(all.end(), lengths.begin(), lengths.end());
    all.resize(std::min(all.size(), kMostLengths));
    const std::unique_ptr<Graph> searched = cloneGraph(*apart_);
    addFirstRounds(*searched);
    std::optional<std::vector<GivenState>> given = givenStates(*searched, sameInput(*searched, ids_));
    auto counts = [&](const std::vector<GivenState>& states) {
      fits_ = true;
      const std::optional<std::vector<GivenState>> same = statesOf(*apart_, states);
      return same && lastCounts(sizes, tokens, *same) && !dependsOnPlaces(sizes, tokens, *same) &&
             !mayGrow(sizes, *same);
    };
    std::optional<std::vector<GivenState>> states;
    if (given)
      states = findStateSizes(*searched, registry_, fromFirst(*searched, knownOf(*searched, sizes, 1, tokens)), tokens,
                              all, *given, counts);
    const std::optional<std::vector<GivenState>> own = states ? statesOf(graph_, *states) : std::nullopt;
    if (!own) return false;
    const ShapeOptions known = knownOf(graph_, sizes, 1, tokens == 1 ? 1 : kUnknownSize);
    ShapePropagation(graph_, registry_, withStates(graph_, known, *own)).applyTo(graph_);
    if (tokens != 1)
      typeReturned(graph_, registry_,
                   {knownOf(graph_, sizes, 1, 1), knownOf(graph_, sizes, 1, 2), knownOf(graph_, sizes, 1, tokens)},
                   *own);
    return true;
  }

  // Of a text that begins with the call.
  static ShapeOptions fromFirst(const Graph& graph, ShapeOptions known) {
    for (size_t i = 0; i < graph.inputs().size(); ++i)
      if (graph.input(i)->type()->is(TypeKind::Int)) known.inputs[i] = symbolicOf(IValue(0));
    return known;
  }

  // Of an attribute, or a constant, whose type may say nothing.
  static DimSpan sizesOf(const Value* v) {
    const IValue* known = GraphFacts::constant(v);
    return known && known->isTensor() ? known->toTensor().sizes() : DimSpan(v->type()->tensor().sizes);
  }

  // Those of another form of the graph, with the same sizes.
  std::optional<std::vector<GivenState>> statesOf(const Graph& graph, const std::vector<GivenState>& sized) const {
    std::optional<std::vector<GivenState>> own = givenStates(graph, sameInput(graph, ids_));
    if (!own || own->size() != sized.size()) return std::nullopt;
    for (size_t i = 0; i < own->size(); ++i) {
      (*own)[i].dtype = sized[i].dtype;
      (*own)[i].sizes = sized[i].sizes;
      (*own)[i].placeDim = sized[i].placeDim;
    }
    return own;
  }

  // Whether the last token of a text counts with these states, and, in a model for many, the one before it: one that is
  // for one token may take the first of a call, and passes by those between, or says something else than calls with
  // each of them. It does not show a token all others of the same call: what it is given beside them may be something
  // else then, such as what an encoder returned.
  bool lastCounts(const Sizes& sizes, int64_t tokens, const std::vector<GivenState>& states) const {
    constexpr int64_t kFew = 3;
    for (int64_t count : {tokens, std::min(tokens, kFew)})
      if (!changesLast(sizes, states, count, count - 1) || showsLater(sizes, states, count)) return false;
    const Calls calls = handsOn_ ? callsOf(sizes, states) : Calls::Unknown;
    if (tokens != 1)
      return changesLast(sizes, states, kFew, kFew - 2) && (calls == Calls::Agree || calls == Calls::Unknown);
    if (calls == Calls::Fail) return false;
    for (int64_t changed = 0; changed < kFew; ++changed)
      if (!changesLast(sizes, states, kFew, changed)) return true;
    return calls == Calls::Differ && !agreesInOtherOrder(sizes, states);
  }

  // Whether calls are right if states of the same sizes change places: the order of what is returned is another one.
  bool agreesInOtherOrder(const Sizes& sizes, const std::vector<GivenState>& states) const {
    constexpr int kMostOrders = 5040, kMostRuns = 24;
    std::vector<size_t> order(states.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (int i = 0, runs = 0; i < kMostOrders && runs < kMostRuns && std::ranges::next_permutation(order).found; ++i) {
      const bool fits = std::ranges::equal(states, order, [&](const GivenState& s, size_t from) {
        return s.sizes == states[from].sizes && s.dtype == states[from].dtype;
      });
      if (fits && callsOf(sizes, states, order) == Calls::Agree) return true;
      runs += fits;
    }
    return false;
  }

  // Whether states of known sizes may as well begin empty and grow up to these, and say something else then: caches of
  // the last tokens, `torch.cat((cache, new), 2)[:, :, -6:]`. Nothing tells how they are to begin.
  bool mayGrow(const Sizes& sizes, const std::vector<GivenState>& states) const {
    const std::unique_ptr<Graph> flat = withFlatOutputs(states);
    std::set<std::tuple<size_t, size_t, int64_t>> tried;  // rank, dimension, size
    for (const GivenState& s : states)
      for (size_t d = 0; flat && d < s.sizes.size(); ++d)
        if (s.sizes[d] > 1 && static_cast<int>(d) != s.placeDim &&
            tried.emplace(s.sizes.size(), d, s.sizes[d]).second &&
            mayGrow(sizes, states, s.sizes.size(), d, s.sizes[d], *flat))
          return true;
    return false;
  }
  bool mayGrow(const Sizes& sizes, const std::vector<GivenState>& states, size_t rank, size_t dim, int64_t size,
               const Graph& flat) const {
    constexpr int64_t kFew = 2;
    std::vector<GivenState> empty = states;
    for (GivenState& s : empty)
      if (s.sizes.size() == rank && s.sizes[dim] == size) s.sizes[dim] = 0;
    std::vector<IValue> grown, usual;
    for (int64_t step = 0; step < kFew; ++step) {
      grown = callWith(sizes, empty, step, grown, flat);
      usual = callWith(sizes, states, step, usual, flat);
      if (grown.size() <= states.size() || usual.size() <= states.size()) return false;
      for (size_t i = 0; i < states.size(); ++i)
        if (empty[i].sizes != states[i].sizes &&
            !(grown[i + 1].isTensor() && grown[i + 1].toTensor().rank() == static_cast<int>(rank) &&
              grown[i + 1].toTensor().size(static_cast<int64_t>(dim)) == step + 1))
          return false;
    }
    return !areNear(lastRow(usual), lastRow(grown));
  }

  // Whether places without tokens say something, or are those of a window: nothing tells how many there are to be then.
  bool dependsOnPlaces(const Sizes& sizes, int64_t tokens, const std::vector<GivenState>& states) const {
    constexpr int64_t kLeast = 3;  // whatever fits 1 is repeated
    auto most = [](const std::vector<GivenState>& of) {
      int64_t places = 0;
      for (const GivenState& s : of)
        if (s.placeDim >= 0) places = std::max(places, s.sizes[static_cast<size_t>(s.placeDim)]);
      return places;
    };
    const int64_t places = most(states);
    if (places < kLeast) return false;
    if (forgetsFirst(sizes, withPlaces(states, kLeast), kLeast)) return true;
    const Tensor usual = runWith(sizes, states, tokens, tokens);
    // Of many the last one says nearly nothing.
    for (int64_t fewer : {std::max(tokens, kLeast), places - 1})
      if (const Tensor other = runWith(sizes, withPlaces(states, fewer), tokens, tokens);
          usual.defined() && other.defined() && !areNear(realsOf(usual), realsOf(other)))
        return true;
    return false;
  }

  static std::vector<GivenState> withPlaces(std::vector<GivenState> states, int64_t places) {
    for (GivenState& s : states)
      if (s.placeDim >= 0) s.sizes[static_cast<size_t>(s.placeDim)] = places;
    return states;
  }

  // Whether one token more than there are places finds one, that of another token, as in rings and in windows that
  // shift. A cache that is written where the token is has none for it.
  bool forgetsFirst(const Sizes& sizes, const std::vector<GivenState>& states, int64_t places) const {
    const std::unique_ptr<Graph> flat = withFlatOutputs(states);
    if (!flat) return false;
    std::vector<IValue> full, out;
    for (int64_t step = 0; step <= places; ++step) {
      full = std::move(out);
      out = callWith(sizes, states, step, full, *flat);
      if (out.size() <= states.size()) return false;
    }
    for (size_t i = 0; i < states.size(); ++i)
      if (states[i].placeDim >= 0 && full[i + 1].isTensor() && out[i + 1].isTensor() &&
          realsOf(full[i + 1].toTensor()) != realsOf(out[i + 1].toTensor()))
        return true;
    return false;
  }
  static std::vector<double> realsOf(const Tensor& t) {
    std::vector<double> all;
    for (int64_t i = 0; t.defined() && i < t.numel(); ++i) all.push_back(t.real(i));
    return all;
  }

  // Whether the first of several tokens sees the last one, as in sums over all tokens of a call.
  bool showsLater(const Sizes& sizes, const std::vector<GivenState>& states, int64_t tokens) const {
    const Tensor usual = runWith(sizes, states, tokens, tokens), other = runWith(sizes, states, tokens, tokens - 1);
    const int64_t words = usual.size(usual.rank() - 1);
    for (int64_t i = 0; i < words && usual.numel() > words; ++i)
      if (usual.real(i) != other.real(i)) return true;
    return false;
  }

  // Whether the last logits of a text are others if this token is.
  bool changesLast(const Sizes& sizes, const std::vector<GivenState>& states, int64_t tokens, int64_t changed) const {
    const Tensor usual = runWith(sizes, states, tokens, tokens), other = runWith(sizes, states, tokens, changed);
    constexpr int kMostRank = 3;  // of logits
    if (!usual.defined() || !other.defined() || usual.numel() != other.numel() || usual.rank() == 0) return false;
    const int64_t words = usual.size(usual.rank() - 1);
    if (usual.rank() > kMostRank || words < 2 || (usual.numel() != words && usual.numel() != words * tokens))
      return false;
    for (int64_t i = usual.numel() - words; i < usual.numel(); ++i)
      if (usual.real(i) != other.real(i)) return true;
    return false;
  }

  // Whether calls with a token each, which are given what the one before returned, say the last logits of one call with
  // all of them: a model for one token may take the first one of several for its states, and all of them elsewhere.
  enum class Calls : uint8_t { Unknown, Fail, Differ, Agree };
  // `order`: which of what is returned is for each state.
  Calls callsOf(const Sizes& sizes, const std::vector<GivenState>& states, std::span<const size_t> order = {}) const {
    constexpr int64_t kFew = 3;
    const std::unique_ptr<Graph> flat = withFlatOutputs(states);
    if (!flat) return Calls::Unknown;
    const std::vector<IValue> whole = run_(inputsWith(sizes, states, kFew, 0), flat.get());
    std::vector<IValue> out;
    for (int64_t step = 0; step < kFew; ++step) {
      out = callWith(sizes, states, step, out, *flat);
      if (out.size() <= states.size()) return Calls::Fail;
      const std::vector<IValue> returned = out;
      for (size_t i = 0; i < order.size(); ++i) out[i + 1] = returned[order[i] + 1];
    }
    return whole.empty() || areNear(lastRow(whole), lastRow(out)) ? Calls::Agree : Calls::Differ;
  }

  // A call with the next token of a text, whose first one is 1 and the others 0, behind that which returned `before`.
  std::vector<IValue> callWith(const Sizes& sizes, const std::vector<GivenState>& states, int64_t step,
                               const std::vector<IValue>& before, const Graph& flat) const {
    std::vector<IValue> inputs = inputsWith(sizes, states, 1, step == 0 ? 0 : 1, step);
    for (size_t i = 0, at = 0; i < apart_->inputs().size(); ++i) {
      const Value* v = apart_->input(i);
      if (v->type()->is(TypeKind::Class)) continue;
      IValue& input = inputs[at++];
      const auto state = std::ranges::find(states, v, [](const GivenState& s) { return s.taken.front(); });
      if (state != states.end() && step > 0) input = before[1 + static_cast<size_t>(state - states.begin())];
    }
    return run_(inputs, &flat);
  }

  // Logits, and what is returned for each state; null if something is not.
  std::unique_ptr<Graph> withFlatOutputs(const std::vector<GivenState>& states) const {
    std::unique_ptr<Graph> flat = cloneGraph(*apart_);
    const std::optional<std::vector<GivenState>> own = statesOf(*flat, states);
    const std::vector<ReturnedTensor> returned = returnedBesideLogits(*flat);
    std::vector<Value*> outputs{logitsOf(*flat)};
    for (size_t i = 0; own && i < own->size(); ++i)
      if (const ReturnedTensor* r = returnedOf(returned, *own, i)) outputs.push_back(r->value);
    if (outputs.size() != states.size() + 1 || !outputs[0]) return nullptr;
    flat->returnNode()->removeAllInputs();
    for (Value* v : outputs) flat->addOutput(v);
    return flat;
  }

  static bool areNear(const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0, off = 0;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      most = std::max(most, std::abs(a[i]));
      off = std::max(off, std::abs(a[i] - b[i]));
    }
    return a.size() == b.size() && off <= 1e-3 * most;
  }
  // Logits of the last token.
  static std::vector<double> lastRow(const std::vector<IValue>& outputs) {
    const Tensor logits = outputs[0].isTensor() ? outputs[0].toTensor() : Tensor();
    std::vector<double> row;
    const int64_t words = logits.defined() && logits.rank() > 0 ? logits.size(logits.rank() - 1) : 0;
    for (int64_t i = words > 0 ? logits.numel() - words : 0; words > 0 && i < logits.numel(); ++i)
      row.push_back(logits.real(i));
    return row;
  }

  // Inputs that are tensors come before those that containers became, in the same order.
  const Value* sameInput(const Graph& other, const Value* input) const {
    for (const Value* v : other.inputs())
      if (v->name() == input->name()) return v;
    return nullptr;
  }

  // A text of zeros but for one token; its states are zeros, or nothing where they grow.
  Tensor runWith(const Sizes& sizes, const std::vector<GivenState>& states, int64_t tokens, int64_t changed) const {
    return logitsOf(run_(inputsWith(sizes, states, tokens, changed), apart_.get()));
  }
  std::vector<IValue> inputsWith(const Sizes& sizes, const std::vector<GivenState>& states, int64_t tokens,
                                 int64_t changed, int64_t before = 0) const {
    std::vector<IValue> inputs;
    for (const Value* v : apart_->inputs()) {
      if (v->type()->is(TypeKind::Class)) continue;
      if (v->type()->is(TypeKind::Int)) {
        inputs.emplace_back(before);
        continue;
      }
      const auto state = std::ranges::find(states, v, [](const GivenState& s) { return s.taken.front(); });
      if (state != states.end()) {
        Dims own = state->sizes;
        std::ranges::replace_if(
            own, [](int64_t s) { return s < 0; }, 0);
        inputs.emplace_back(Tensor::zeros(state->dtype, own));
        continue;
      }
      Tensor t = roleInput(v, sizes, 1, tokens, before);
      if (v->name() == ids_->name() && changed < tokens) t.data<int64_t>()[changed] = 1;
      inputs.emplace_back(std::move(t));
    }
    return inputs;
  }

  Graph& graph_;
  const OpRegistry& registry_;
  const int64_t mostPlaces_;
  const RunExample& run_;
  const Value* ids_ = nullptr;
  std::unique_ptr<Graph> apart_;  // its containers of states are inputs
  bool hasStates_ = false, hasPositions_ = false, hasMask_ = false, keepsAttributes_ = false;
  bool showsLater_ = false;   // without its caches the first token of a text sees later ones
  bool fits_ = false;         // sizes of states were found
  bool handsOn_ = true;       // calls are to say what one call with all tokens says
  bool hasStart_ = false;     // the place of the first token, a number
  std::set<int64_t> places_;  // sizes of attributes
  mutable size_t tried_ = 0;
};

}  // namespace

void tellAttributeSizes(Graph& graph, const std::map<std::string, Tensor>& attributes) {
  for (const Node* n : graph.block()->nodes())
    if (n->kind() == sym::GetAttr && n->output()->type()->isTensor())
      if (auto found = attributes.find(pathOf(n)); found != attributes.end())
        n->output()->setType(symbolicTensor(found->second.dtype(), found->second.sizes()).type);
}

bool findExampleSizes(Graph& graph, const OpRegistry& registry, const std::map<std::string, Tensor>& attributes,
                      int64_t places, const RunExample& run) {
  tellAttributeSizes(graph, attributes);
  selectUnbound(graph);
  return Examples(graph, registry, places, run).run();
}

}  // namespace tscompile
