#include "passes/serving/states/state_trials.h"

#include "ir/graph/clone.h"
#include "passes/serving/entrance.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/states/returned_states.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <tuple>

namespace tscompile {
namespace {

constexpr int64_t kFew = 3;  // tokens

class Trials {
 public:
  explicit Trials(const StateTrial& trial)
      : apart_(trial.apart), ids_(trial.ids), run_(trial.run), forms_(trial.forms), handsOn_(trial.handsOn) {}

  StateVerdict accept(std::vector<GivenState>& states, int64_t tokens, std::string& doubt) const {
    if (!lastCounts(tokens, states, doubt)) return StateVerdict::Wrong;
    if (placesOf(states) >= kLeastPlaces && forgetsFirst(withPlaces(states, kLeastPlaces), kLeastPlaces))
      return settleWindows(states) && !mayGrow(states) ? StateVerdict::Right : StateVerdict::WrongAtAnyLength;
    return dependsOnPlaces(tokens, states) || mayGrow(states) ? StateVerdict::Wrong : StateVerdict::Right;
  }

  std::optional<std::vector<double>> logitsOfCalls(const std::vector<GivenState>& states, int64_t calls = 12) const {
    const std::unique_ptr<Graph> flat = withFlatOutputs(states);
    std::vector<double> all;
    std::vector<IValue> out;
    for (int64_t step = 0; flat && step < calls; ++step) {
      out = callWith(states, step, out, *flat, step % 3 == 0);
      if (out.size() <= states.size()) return std::nullopt;
      for (size_t i = 0; i < states.size(); ++i)
        if (!out[i + 1].isTensor() || !fits(out[i + 1].toTensor(), states[i])) return std::nullopt;
      const std::vector<double> row = lastRow(out);
      all.insert(all.end(), row.begin(), row.end());
    }
    return flat ? std::optional(all) : std::nullopt;
  }

 private:
  // As many places come back as were given.
  static bool fits(const Tensor& back, const GivenState& state) {
    const auto dim = static_cast<size_t>(std::max(state.placeDim, 0));
    return back.dtype() == state.dtype && (state.placeDim < 0 || (dim < static_cast<size_t>(back.rank()) &&
                                                                  back.size(state.placeDim) == state.sizes[dim]));
  }

  // Tokens that shift by, of which a convolution reads the last ones: there are the least with which the model runs, if
  // calls say the same with more.
  bool settleWindows(std::vector<GivenState>& states) const {
    constexpr int64_t kWidest = 32, kBehind = 8;
    for (int64_t least = 1; least <= kWidest; ++least) {
      const std::optional<std::vector<double>> logits = logitsOfCalls(withPlaces(states, least), 2 * least + kBehind);
      if (!logits) continue;
      for (int64_t more : {least + 1, least + 2, 2 * least + 1})
        if (const auto other = logitsOfCalls(withPlaces(states, more), 2 * least + kBehind);
            !other || !areNear(*logits, *other))
          return false;
      states = withPlaces(states, least);
      return true;
    }
    return false;
  }

  // Whether the last token of a text counts with these states, and, in a model for many, the one before it: one that is
  // for one token may take the first of a call, and passes by those between, or says something else than calls with
  // each of them. It does not show a token all others of the same call: what it is given beside them may be something
  // else then, such as what an encoder returned.
  bool lastCounts(int64_t tokens, const std::vector<GivenState>& states, std::string& doubt) const {
    for (int64_t count : {tokens, std::min(tokens, kFew)})
      if (!changesLast(states, count, count - 1) || showsLater(states, count)) return false;
    const Calls calls = handsOn_ ? callsOf(states) : Calls::Unknown;
    if (tokens != 1) return changesLast(states, kFew, kFew - 2) && (calls == Calls::Agree || calls == Calls::Unknown);
    if (calls == Calls::Fail) return false;
    for (int64_t changed = 0; changed < kFew; ++changed)
      if (!changesLast(states, kFew, changed)) return true;
    if (calls != Calls::Differ || agreesInOtherOrder(states)) return false;
    if (!isForOne(states) && doubt.empty())
      doubt =
          "calls with one token after the other say another text than one call with all tokens: texts are read one by "
          "one";
    return true;
  }

  // Whether what it does with several tokens tells that it is for one: the first sees later ones, or a state the first
  // ones alone.
  bool isForOne(const std::vector<GivenState>& states) const {
    const std::unique_ptr<Graph> flat = withFlatOutputs(states);
    if (!flat || showsLater(states, kFew)) return true;
    const std::vector<IValue> usual = run_(inputsWith(states, kFew, kFew), flat.get()),
                              other = run_(inputsWith(states, kFew, kFew - 1), flat.get());
    for (size_t i = 1; i < std::min(usual.size(), other.size()); ++i)
      if (usual[i].isTensor() && other[i].isTensor() && realsOf(usual[i].toTensor()) == realsOf(other[i].toTensor()))
        return true;
    return false;
  }

  // Whether calls are right if states of the same sizes change places: the order of what is returned is another one.
  bool agreesInOtherOrder(const std::vector<GivenState>& states) const {
    constexpr int kMostOrders = 5040, kMostRuns = 24;
    std::vector<size_t> order(states.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (int i = 0, runs = 0; i < kMostOrders && runs < kMostRuns && std::ranges::next_permutation(order).found; ++i) {
      const bool fits = std::ranges::equal(states, order, [&](const GivenState& s, size_t from) {
        return s.sizes == states[from].sizes && s.dtype == states[from].dtype;
      });
      if (fits && callsOf(states, order) == Calls::Agree) return true;
      runs += fits;
    }
    return false;
  }

  // Whether states of known sizes may as well begin empty and grow up to these, and say something else then: caches of
  // the last tokens, `torch.cat((cache, new), 2)[:, :, -6:]`. Nothing tells how they are to begin.
  bool mayGrow(const std::vector<GivenState>& states) const {
    const std::unique_ptr<Graph> flat = withFlatOutputs(states);
    std::set<std::tuple<size_t, size_t, int64_t>> tried;  // rank, dimension, size
    for (const GivenState& s : states)
      for (size_t d = 0; flat && d < s.sizes.size(); ++d)
        if (s.sizes[d] > 1 && static_cast<int>(d) != s.placeDim &&
            tried.emplace(s.sizes.size(), d, s.sizes[d]).second &&
            mayGrow(states, s.sizes.size(), d, s.sizes[d], *flat))
          return true;
    return false;
  }
  bool mayGrow(const std::vector<GivenState>& states, size_t rank, size_t dim, int64_t size, const Graph& flat) const {
    constexpr int64_t kFew = 2;
    std::vector<GivenState> empty = states;
    for (GivenState& s : empty)
      if (s.sizes.size() == rank && s.sizes[dim] == size) s.sizes[dim] = 0;
    std::vector<IValue> grown, usual;
    for (int64_t step = 0; step < kFew; ++step) {
      grown = callWith(empty, step, grown, flat);
      usual = callWith(states, step, usual, flat);
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
  bool dependsOnPlaces(int64_t tokens, const std::vector<GivenState>& states) const {
    const int64_t places = placesOf(states);
    if (places < kLeastPlaces) return false;
    const Tensor usual = runWith(states, tokens, tokens);
    // Of many the last one says nearly nothing.
    for (int64_t fewer : {std::max(tokens, kLeastPlaces), places - 1})
      if (const Tensor other = runWith(withPlaces(states, fewer), tokens, tokens);
          usual.defined() && other.defined() && !areNear(realsOf(usual), realsOf(other)))
        return true;
    return false;
  }

  static int64_t placesOf(const std::vector<GivenState>& states) {
    int64_t places = 0;
    for (const GivenState& s : states)
      if (s.placeDim >= 0) places = std::max(places, s.sizes[static_cast<size_t>(s.placeDim)]);
    return places;
  }
  static std::vector<GivenState> withPlaces(std::vector<GivenState> states, int64_t places) {
    for (GivenState& s : states)
      if (s.placeDim >= 0) s.sizes[static_cast<size_t>(s.placeDim)] = places;
    return states;
  }

  // Whether one token more than there are places finds one, that of another token, as in rings and in windows that
  // shift. A cache that is written where the token is has none for it.
  bool forgetsFirst(const std::vector<GivenState>& states, int64_t places) const {
    const std::unique_ptr<Graph> flat = withFlatOutputs(states);
    if (!flat) return false;
    std::vector<IValue> full, out;
    for (int64_t step = 0; step <= places; ++step) {
      full = std::move(out);
      out = callWith(states, step, full, *flat);
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
  bool showsLater(const std::vector<GivenState>& states, int64_t tokens) const {
    const Tensor usual = runWith(states, tokens, tokens), other = runWith(states, tokens, tokens - 1);
    std::vector<double> first = realsOf(usual), changed = realsOf(other);
    const auto words = static_cast<size_t>(usual.size(usual.rank() - 1));
    if (first.size() == words) return false;
    first.resize(words), changed.resize(words);
    return !areNear(first, changed, kRounding);
  }

  // Whether the last logits of a text are others if this token is.
  bool changesLast(const std::vector<GivenState>& states, int64_t tokens, int64_t changed) const {
    const Tensor usual = runWith(states, tokens, tokens), other = runWith(states, tokens, changed);
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
  Calls callsOf(const std::vector<GivenState>& states, std::span<const size_t> order = {}) const {
    const std::unique_ptr<Graph> flat = withFlatOutputs(states);
    if (!flat) return Calls::Unknown;
    const std::vector<IValue> whole = run_(inputsWith(states, kFew, 0), flat.get());
    std::vector<IValue> out;
    for (int64_t step = 0; step < kFew; ++step) {
      out = callWith(states, step, out, *flat);
      if (out.size() <= states.size()) return Calls::Fail;
      const std::vector<IValue> returned = out;
      for (size_t i = 0; i < order.size(); ++i) out[i + 1] = returned[order[i] + 1];
    }
    return whole.empty() || areNear(lastRow(whole), lastRow(out)) ? Calls::Agree : Calls::Differ;
  }

  // A call with the next token of a text, whose first one is 1 and the others 0, behind that which returned `before`.
  std::vector<IValue> callWith(const std::vector<GivenState>& states, int64_t step, const std::vector<IValue>& before,
                               const Graph& flat) const {
    return callWith(states, step, before, flat, step == 0);
  }
  std::vector<IValue> callWith(const std::vector<GivenState>& states, int64_t step, const std::vector<IValue>& before,
                               const Graph& flat, bool isOne) const {
    std::vector<IValue> inputs = inputsWith(states, 1, isOne ? 0 : 1, step);
    for (size_t i = 0, at = 0; i < apart_.inputs().size(); ++i) {
      const Value* v = apart_.input(i);
      if (v->type()->is(TypeKind::Class)) continue;
      IValue& input = inputs[at++];
      const auto state = std::ranges::find(states, v, [](const GivenState& s) { return s.taken.front(); });
      if (state != states.end() && step > 0) input = before[1 + static_cast<size_t>(state - states.begin())];
    }
    return run_(inputs, &flat);
  }

  // Logits, and what is returned for each state; null if something is not.
  std::unique_ptr<Graph> withFlatOutputs(const std::vector<GivenState>& states) const {
    std::unique_ptr<Graph> flat = cloneGraph(apart_);
    const std::optional<std::vector<GivenState>> own = statesIn(*flat, ids_, states);
    const std::vector<ReturnedTensor> returned = returnedBesideLogits(*flat);
    std::vector<Value*> outputs{logitsOf(*flat)};
    for (size_t i = 0; own && i < own->size(); ++i)
      if (const ReturnedTensor* r = returnedOf(returned, *own, i)) outputs.push_back(r->value);
    if (outputs.size() != states.size() + 1 || !outputs[0]) return nullptr;
    flat->returnNode()->removeAllInputs();
    for (Value* v : outputs) flat->addOutput(v);
    return flat;
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

  // A text of zeros but for one token; its states are zeros, or nothing where they grow.
  Tensor runWith(const std::vector<GivenState>& states, int64_t tokens, int64_t changed) const {
    return logitsOf(run_(inputsWith(states, tokens, changed), &apart_));
  }
  std::vector<IValue> inputsWith(const std::vector<GivenState>& states, int64_t tokens, int64_t changed,
                                 int64_t before = 0) const {
    std::vector<IValue> inputs;
    CallForms forms = forms_;
    if (const int64_t places = placesOf(states); forms.areOfPlaces() && places > 0) forms.places = places;
    for (const Value* v : apart_.inputs()) {
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
      Tensor t = exampleInput(v, forms, 1, tokens, before);
      if (v->name() == ids_.name() && changed < tokens) t.data<int64_t>()[changed] = 1;
      inputs.emplace_back(std::move(t));
    }
    return inputs;
  }

  const Graph& apart_;
  const Value& ids_;
  const RunExample& run_;
  const CallForms& forms_;
  const bool handsOn_;
};

}  // namespace

bool areNear(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  double most = 0;
  for (double x : a)
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  return std::ranges::equal(a, b, [&](double x, double y) { return x == y || std::abs(x - y) <= tolerance * most; });
}

std::optional<std::vector<double>> logitsOfCalls(const StateTrial& trial, const std::vector<GivenState>& states) {
  return Trials(trial).logitsOfCalls(states);
}

StateVerdict acceptStates(const StateTrial& trial, std::vector<GivenState>& states, int64_t tokens,
                          std::string& doubt) {
  return Trials(trial).accept(states, tokens, doubt);
}

}  // namespace tscompile
