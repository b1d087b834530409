// Each size that is looked for begins as a prime that no tensor of the model has, so that sizes tell what they follow
// from. The first node whose inputs do not fit says which of these primes is to be another number.
#include "passes/serving/states/state_sizes.h"

#include "ir/analysis/alias.h"
#include "ir/values/aten.h"
#include "passes/rewrite/facts.h"
#include "passes/serving/entrance.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/lookups.h"
#include "passes/serving/states/returned_states.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <unordered_map>

namespace tscompile {
namespace {

constexpr size_t kMostStates = 200;
constexpr size_t kLeastPropagations = 1000, kForEachState = 100;
constexpr size_t kRanks = 7;
constexpr int64_t kFirstPrime = 1009;

class StateSearch {
 public:
  StateSearch(const Graph& graph, const OpRegistry& registry, const ShapeOptions& others, int64_t tokens,
              const std::vector<int64_t>& places, std::vector<GivenState> states,
              const std::function<StateVerdict(std::vector<GivenState>&)>& accepts)
      : graph_(graph),
        registry_(registry),
        others_(others),
        tokens_(tokens),
        places_(places),
        accepts_(accepts),
        states_(std::move(states)),
        returned_(returnedBesideLogits(graph)) {
    forEachNode(graph, [&](const Node* n) {
      orders_.emplace(n, orders_.size());
      const bool scatters = isOrWrites(n->kind(), kScatter) || n->kind() == kSliceScatter;
      if (scatters && n->inputCount() > 2) scatters_.push_back(n);
      if (isOrWrites(n->kind(), aten::copy) && n->inputCount() > 1) copies_.push_back(n);
      if (n->kind() == sym::RaiseException) raises_.push_back(n);
    });
  }

  bool run() {
    if (states_.empty() || states_.size() > kMostStates) return false;
    // The least first: what has more dimensions may fit by being repeated.
    for (size_t rank = 0; rank < kRanks && !isRefused_; ++rank)
      if (tryRanks(std::vector<size_t>(states_.size(), rank))) return true;
    if (states_.size() == 1) return false;
    // States of other layers may have the same numbers of dimensions, and have the same one.
    constexpr size_t kFew = 8;
    const std::vector<std::vector<size_t>> fitting = fittingRanks();
    std::map<std::vector<size_t>, size_t> kinds;
    std::vector<size_t> kind, each;
    for (const std::vector<size_t>& ranks : fitting) {
      if (ranks.empty()) return false;
      each.push_back(each.size());
      kind.push_back(kinds.emplace(ranks, kinds.size()).first->second);
    }
    if (tryFitting(fitting, kind)) return true;
    return kinds.size() < each.size() && each.size() <= kFew && tryFitting(fitting, each);
  }

  std::vector<GivenState>& states() { return states_; }

 private:
  // Where the first conflict is, by the order of nodes; the number of nodes if there is none.
  struct Attempt {
    size_t order;
    const Node* node;
  };
  struct Change {
    int64_t prime, size;
  };

  // All combinations of those that fit, up to an end to trying; states of one kind have the same.
  bool tryFitting(const std::vector<std::vector<size_t>>& fitting, const std::vector<size_t>& kind) {
    constexpr size_t kMostTried = 343;
    std::vector<size_t> at(states_.size(), 0);  // by kinds
    for (size_t tried = 0; tried < kMostTried; ++tried) {
      std::vector<size_t> ranks;
      for (size_t i = 0; i < fitting.size(); ++i) ranks.push_back(fitting[i][at[kind[i]]]);
      const bool isMixed = std::ranges::any_of(ranks, [&](size_t rank) { return rank != ranks[0]; });
      if (isMixed && tryRanks(ranks)) return true;
      if (isMixed && isRefused_) return false;
      size_t k = 0;
      for (; k < at.size(); at[k++] = 0) {
        const auto first = static_cast<size_t>(std::ranges::find(kind, k) - kind.begin());
        if (first < kind.size() && ++at[k] < fitting[first].size()) break;
      }
      if (k == at.size()) return false;
    }
    return false;
  }

  bool tryRanks(const std::vector<size_t>& ranks) {
    open_.clear();
    propagations_ = 0;
    isRefused_ = false;
    int64_t prime = kFirstPrime;
    for (size_t i = 0; i < states_.size(); ++i) {
      states_[i].sizes.clear();
      for (size_t d = 0; d < ranks[i]; ++d) {
        states_[i].sizes.push_back(prime);
        open_.insert(prime);
        prime = nextPrime(prime);
      }
    }
    if (!fitDtypes() || !mayFit()) return false;
    while (repair())
      if (const std::optional<bool> changed = takeReturned(); !changed)
        return false;
      else if (!*changed)
        return settleRest();
    isRefused_ = !mayGoOn();
    return false;
  }

  // There is an end to trying.
  bool mayGoOn() const { return propagations_ < std::max(kLeastPropagations, kForEachState * states_.size()); }

  // How many dimensions each state may have, once those of others are known: those that may have one number alone, then
  // the first that may not have any, which is taken to have the least.
  std::vector<std::vector<size_t>> fittingRanks() {
    std::vector<std::vector<size_t>> fitting(states_.size());
    std::vector<GivenState> known = states_;
    for (GivenState& s : known) s.isRanked = false;
    auto settle = [&](size_t i) {
      known[i].isRanked = true;
      known[i].sizes = Dims(fitting[i][0], kUnknownSize);
    };
    std::set<std::vector<size_t>> taken;
    for (bool isSettled = true; isSettled;) {
      isSettled = false;
      size_t first = states_.size();
      for (size_t i = 0; i < states_.size(); ++i) {
        if (known[i].isRanked) continue;
        fitting[i] = ranksOf(known, i);
        if (fitting[i].empty()) return fitting;
        if (fitting[i].size() == 1 || taken.contains(fitting[i])) settle(i), isSettled = true;
        if (fitting[i].size() < kRanks && !known[i].isRanked) first = std::min(first, i);
      }
      if (isSettled || first == states_.size()) continue;
      // So are those of other layers that may have the same.
      taken.insert(fitting[first]);
      settle(first), isSettled = true;
    }
    return fitting;
  }

  // Of counts and marks, if of no floats; the state has the dtype then.
  std::vector<size_t> ranksOf(std::vector<GivenState>& known, size_t i) {
    std::vector<size_t> ranks;
    for (DType dtype : {known[i].dtype, DType::Int64, DType::Bool}) {
      if (!ranks.empty()) break;
      known[i].dtype = dtype;
      for (size_t rank = 0; rank < kRanks; ++rank)
        if (fitsRank(known, i, rank)) ranks.push_back(rank);
    }
    return ranks;
  }
  // Whether the model runs with such a state, and returns one that has as many dimensions.
  bool fitsRank(std::vector<GivenState> known, size_t i, size_t rank) {
    known[i].isRanked = true;
    known[i].sizes = Dims(rank, kUnknownSize);
    const ShapePropagation shapes(graph_, registry_, withStates(graph_, others_, known));
    const ReturnedTensor* r = returnedFor(i);
    const Dims* back = r ? sizesOf(r->value, shapes) : nullptr;
    if (attemptOf(shapes).node || (back && back->size() != rank)) return false;
    if (rank != 1) return true;
    // Anything is joined to a tensor of one dimension without elements, which is no state.
    known[i].sizes = {kFirstPrime};
    const ShapePropagation some(graph_, registry_, withStates(graph_, others_, known));
    const Node* conflict = attemptOf(some).node;
    return !conflict || conflict->kind() != aten::cat;
  }

  // Whether the model runs with states of these ranks, whatever their sizes.
  bool mayFit() { return !attemptUnsized().node; }
  Attempt attemptUnsized() {
    std::vector<GivenState> unsized = states_;
    for (GivenState& s : unsized) std::ranges::fill(s.sizes, kUnknownSize);
    ++propagations_;
    return attemptOf(ShapePropagation(graph_, registry_, withStates(graph_, others_, unsized)));
  }

  // Counts, marks and rounded numbers, where a node takes no others.
  bool fitDtypes() {
    constexpr DType kOthers[] = {DType::Int64, DType::Bool,  DType::Int32,   DType::Int8,
                                 DType::UInt8, DType::Int16, DType::Float16, DType::BFloat16};
    for (Attempt now = attemptUnsized(); now.node;) {
      auto helps = [&](std::span<const size_t> changed) {
        const std::vector<GivenState> before = states_;
        for (DType dtype : kOthers) {
          for (size_t i : changed) states_[i].dtype = dtype;
          if (const Attempt next = attemptUnsized(); next.order > now.order) {
            now = next;
            return true;
          }
        }
        states_ = before;
        return false;
      };
      // Keys and values that one node takes are of one dtype.
      const std::vector<size_t> near = statesNear(now.node);
      if (!std::ranges::any_of(near, [&](const size_t& i) { return helps({&i, 1}); }) && !helps(near)) return false;
    }
    return true;
  }

  // The few states that a node follows from in the fewest steps; sizes tell no dtypes.
  std::vector<size_t> statesNear(const Node* n) const {
    constexpr size_t kMostNodes = 40, kMostNear = 4;
    std::vector<const Node*> nodes{n};
    std::vector<size_t> near;
    for (size_t at = 0; at < nodes.size() && near.size() < kMostNear; ++at)
      for (const Use& u : nodes[at]->inputs()) {
        for (size_t i = 0; i < states_.size(); ++i)
          if (std::ranges::find(states_[i].taken, u.value) != states_[i].taken.end() &&
              std::ranges::find(near, i) == near.end())
            near.push_back(i);
        const Node* from = u.value->node();
        const bool isOfTensors = u.value->type()->isTensor() || u.value->type()->isListOf(TypeKind::Tensor);
        if (from && isOfTensors && nodes.size() < kMostNodes && std::ranges::find(nodes, from) == nodes.end())
          nodes.push_back(from);
      }
    return near;
  }

  static int64_t nextPrime(int64_t after) {
    auto isPrime = [](int64_t n) {
      for (int64_t d = 2; d * d <= n; ++d)
        if (n % d == 0) return false;
      return true;
    };
    do ++after;
    while (!isPrime(after));
    return after;
  }

  ShapePropagation propagate() {
    ++propagations_;
    return {graph_, registry_, withStates(graph_, others_, states_)};
  }

  Attempt attemptOf(const ShapePropagation& shapes) const {
    Attempt first{orders_.size(), nullptr};
    for (const ShapeConflict& c : shapes.conflicts())
      if (const size_t order = orders_.at(c.node); order < first.order) first = {order, c.node};
    for (const Node* n : scatters_)
      if (const size_t order = orders_.at(n); order < first.order && isPartial(n, shapes)) first = {order, n};
    for (const Node* n : copies_)
      if (const size_t order = orders_.at(n); order < first.order && isWider(n, shapes)) first = {order, n};
    if (first.node) return first;
    // What a model says of sizes itself comes after what its nodes say, which tells more.
    const auto raise = std::ranges::find_if(raises_, [&](const Node* n) { return isReached(n, shapes); });
    return raise == raises_.end() ? first : Attempt{orders_.size(), *raise};
  }

  // Whether all conditions around a node are known, and lead there.
  static bool isReached(const Node* n, const ShapePropagation& shapes) {
    for (const Block* block = n->block(); block->owner(); block = block->parent()) {
      const Node* around = block->owner();
      if (around->kind() != sym::If) return false;
      const SymbolicValue* condition = shapes.find(around->input(0));
      if (!condition || !condition->constant || !condition->constant->isBool()) return false;
      if (around->block(condition->constant->toBool() ? 0 : 1) != block) return false;
    }
    return true;
  }

  // scatter(state, dim, at, ..) fits states that are wider than what is put there, and slice_scatter(state, put, dim,
  // ..) any, where nothing tells the places. Those that are looked for are as wide, but for the places along `dim`.
  bool isPartial(const Node* scatter, const ShapePropagation& shapes) const {
    const size_t put = scatter->kind() == kSliceScatter ? 1 : 2;
    const Dims *state = sizesOf(scatter->input(0), shapes), *at = sizesOf(scatter->input(put), shapes);
    const IValue* number = GraphFacts::constant(scatter->input(3 - put));
    if (!state || !at || !number || !number->isInt() || state->size() != at->size()) return false;
    const int64_t rank = static_cast<int64_t>(state->size()), dim = number->toInt();
    for (int64_t d = 0; d < rank; ++d)
      if (d != (dim < 0 ? dim + rank : dim) && open_.contains((*state)[static_cast<size_t>(d)]) &&
          isTold((*at)[static_cast<size_t>(d)]))
        return true;
    return false;
  }

  // The same of what a part of a state is made by copy_(part, fresh), which has no fewer dimensions, and of a state
  // that is put somewhere.
  bool isWider(const Node* copy, const ShapePropagation& shapes) const {
    const Dims *part = sizesOf(copy->input(0), shapes), *fresh = sizesOf(copy->input(1), shapes);
    return part && fresh && (fresh->size() > part->size() || !ofCopy(copy, shapes).empty());
  }
  // What makes both as wide.
  std::vector<Change> ofCopy(const Node* copy, const ShapePropagation& shapes) const {
    std::vector<Change> changes;
    if (!isOrWrites(copy->kind(), aten::copy)) return changes;
    const Dims *part = sizesOf(copy->input(0), shapes), *fresh = sizesOf(copy->input(1), shapes);
    for (size_t i = 1; part && fresh && i <= std::min(part->size(), fresh->size()); ++i) {
      const int64_t own = (*part)[part->size() - i], size = (*fresh)[fresh->size() - i];
      if (open_.contains(own) && isTold(size)) changes.push_back({own, size});
      if (open_.contains(size) && isTold(own)) changes.push_back({size, own});
    }
    return changes;
  }

  static const Dims* sizesOf(const Value* v, const ShapePropagation& shapes) {
    const SymbolicValue* known = shapes.find(v);
    return known && known->type->isTensor() && known->type->tensor().hasRank ? &known->type->tensor().sizes : nullptr;
  }

  // Changes sizes until nothing conflicts.
  bool repair() {
    while (mayGoOn()) {
      const ShapePropagation shapes = propagate();
      const Attempt now = attemptOf(shapes);
      if (!now.node) return true;
      if (!improve(now, shapes)) return false;
    }
    return false;
  }

  bool improve(const Attempt& now, const ShapePropagation& shapes) {
    std::vector<Dims> given = sizesAt(now.node, shapes);
    openJoined(now.node, given);
    auto helps = [&](const std::vector<Change>& changes) {
      const std::vector<GivenState> before = states_;
      const std::set<int64_t> open = open_;
      for (const Change& c : changes) replace(c);
      if (!changes.empty() && attemptOf(propagate()).order > now.order) return true;
      states_ = before;
      open_ = open;
      return false;
    };
    if (helps(recurrent(now.node, shapes)) || helps(ofCopy(now.node, shapes)) || helps(ofEinsum(now.node, given)))
      return true;
    const std::vector<Change> merged = merges(given);
    for (const Change& c : merged)
      if (helps({c})) return true;
    // Texts and places of two caches.
    for (size_t i = 0; i < merged.size(); ++i)
      for (size_t j = i + 1; j < merged.size() && mayGoOn(); ++j)
        if (merged[i].prime != merged[j].prime && merged[i].size != merged[j].size && helps({merged[i], merged[j]}))
          return true;
    const std::vector<Change> single = singles(given);
    for (const Change& c : single)
      if (c.size != 1 && helps({c})) return true;
    for (const std::vector<Change>& changes : aligned(given))
      if (helps(changes)) return true;
    for (const Change& c : single)
      if (c.size == 1 && helps({c})) return true;
    // Texts are in front of both, and are not told.
    for (const Change& merge : merged)
      for (std::vector<Change> changes : aligned(given)) {
        std::erase_if(changes, [&](const Change& c) { return c.prime == merge.prime || c.prime == merge.size; });
        changes.insert(changes.begin(), merge);
        if (mayGoOn() && changes.size() > 1 && helps(changes)) return true;
      }
    for (size_t i = 0; i < single.size(); ++i)
      for (size_t j = i + 1; j < single.size() && mayGoOn(); ++j)
        if (single[i].prime != single[j].prime && helps({single[i], single[j]})) return true;
    // Pairs of numbers, as parts of complex ones.
    for (const Dims& sizes : given)
      if (!sizes.empty() && open_.contains(sizes.back()) && helps({{sizes.back(), 2}})) return true;
    return false;
  }

  void replace(const Change& change) {
    open_.erase(change.prime);
    for (GivenState& s : states_) std::ranges::replace(s.sizes, change.prime, change.size);
  }

  // Of the tensors that a node takes, in lists as well.
  static std::vector<Dims> sizesAt(const Node* n, const ShapePropagation& shapes) {
    std::vector<Dims> all;
    auto add = [&](const Value* v) {
      const SymbolicValue* known = shapes.find(v);
      if (known && known->type->isTensor() && known->type->tensor().hasRank) all.push_back(known->type->tensor().sizes);
    };
    for (const Use& u : n->inputs()) {
      add(u.value);
      const Node* list = u.value->node();
      if (list && list->kind() == sym::ListConstruct)
        for (const Use& e : list->inputs()) add(e.value);
    }
    return all;
  }

  // Sizes along which tensors are joined need not be those of the others.
  static void openJoined(const Node* n, std::vector<Dims>& given) {
    const IValue* along = n->kind() == aten::cat ? GraphFacts::constant(n->input(1)) : nullptr;
    if (!along || !along->isInt()) return;
    for (Dims& sizes : given) {
      const int64_t rank = static_cast<int64_t>(sizes.size()), dim = along->toInt() + (along->toInt() < 0 ? rank : 0);
      if (dim >= 0 && dim < rank) sizes[static_cast<size_t>(dim)] = kUnknownSize;
    }
  }

  // lstm_cell(x, [h, c], of_x, of_h, ...): states are [texts, hidden], weights of them [gates, hidden].
  std::vector<Change> ofCell(const Node* n, const ShapePropagation& shapes) const {
    constexpr size_t kOfHidden = 3;
    std::vector<Change> changes;
    const std::vector<Dims> given = sizesAt(n, shapes);
    const SymbolicValue* weights = n->inputCount() > kOfHidden ? shapes.find(n->input(kOfHidden)) : nullptr;
    const bool isTable = weights && weights->type->isTensor() && weights->type->tensor().sizes.size() == 2;
    if (!isTable || given.empty() || given[0].size() != 2 || !isTold(given[0][0])) return changes;
    const Dims told{given[0][0], weights->type->tensor().sizes[1]};
    for (const Dims& state : given)
      for (size_t d = 0; d < told.size() && state.size() == told.size(); ++d)
        if (open_.contains(state[d]) && isTold(told[d])) changes.push_back({state[d], told[d]});
    return changes;
  }

  // einsum("bhk,bhkv->bhv", [..]): what has the same letter has the same size.
  std::vector<Change> ofEinsum(const Node* n, const std::vector<Dims>& given) const {
    std::vector<Change> changes;
    const IValue* equation = n->kind() == kEinsum ? GraphFacts::constant(n->input(0)) : nullptr;
    if (!equation || !equation->isString()) return changes;
    std::map<char, std::set<int64_t>> sizes;
    size_t operand = 0, dim = 0;
    for (const char c : equation->toString()) {
      if (c == '-' || c == '.') break;  // of what dots stand for nothing is known
      if (c == ' ') continue;
      if (c == ',') {
        ++operand, dim = 0;
      } else if (operand < given.size() && dim < given[operand].size()) {
        sizes[c].insert(given[operand][dim++]);
      }
    }
    for (const auto& [letter, all] : sizes) {
      // The least is what is told, or the first of primes.
      const auto told = std::ranges::find_if(all, [&](int64_t s) { return open_.contains(s) || isTold(s); });
      for (int64_t s : all)
        if (told != all.end() && s != *told && open_.contains(s)) changes.push_back({s, *told});
    }
    return changes;
  }

  // The hidden states of lstm(x, [h, c], parameters, ...) and its like are told by the parameters.
  std::vector<Change> recurrent(const Node* n, const ShapePropagation& shapes) const {
    constexpr size_t kLayers = 4, kBidirectional = 7, kBatchFirst = 8;
    std::vector<Change> changes;
    if (n->kind().name().ends_with("_cell")) return ofCell(n, shapes);
    const IValue* weights = n->inputCount() > kBatchFirst ? GraphFacts::constant(n->input(2)) : nullptr;
    if (!weights || !weights->isList() || weights->toList().items.size() < 2) return changes;
    auto number = [&](size_t i) -> int64_t {
      const IValue* v = GraphFacts::constant(n->input(i));
      return !v ? 0 : v->isInt() ? v->toInt() : v->isBool() ? int64_t{v->toBool()} : 0;
    };
    const auto& items = weights->toList().items;
    const SymbolicValue* x = shapes.find(n->input(0));
    const int64_t rows = number(kLayers) * (number(kBidirectional) + 1);
    if (rows <= 0 || !x || x->type->tensor().sizes.size() != 3) return changes;
    const int64_t texts = x->type->tensor().sizes[number(kBatchFirst) ? 0 : 1];
    const size_t each = items.size() / static_cast<size_t>(rows);
    auto columns = [&](size_t i) {
      return i < items.size() && items[i].isTensor() && items[i].toTensor().rank() == 2 ? items[i].toTensor().size(1)
                                                                                        : 0;
    };
    const int64_t hidden = columns(1);                            // [gates, hidden]
    const int64_t cells = each % 2 ? columns(each - 1) : hidden;  // [hidden, cells] of a projection
    if (!isTold(texts) || hidden == 0 || cells == 0) return changes;
    const Node* pair = n->input(1)->node();
    const bool isPair = pair && pair->kind() == sym::ListConstruct;
    const std::vector<Dims> given = sizesAt(n, shapes);
    for (size_t i = 0; i < given.size(); ++i) {
      // Tensors are x, what the list holds, or the state alone.
      const Dims told{rows, texts, isPair && i + 1 == given.size() ? cells : hidden};
      for (size_t d = 0; d < told.size() && given[i].size() == told.size(); ++d)
        if (open_.contains(given[i][d])) changes.push_back({given[i][d], told[d]});
    }
    return changes;
  }

  // Sizes of two states that are to be the same, whatever they are, or those to which as many tokens were joined.
  std::vector<Change> merges(const std::vector<Dims>& given) const {
    std::map<int64_t, std::set<int64_t>> primes;  // by what was joined
    for (const Dims& d : given)
      for (int64_t s : d)
        for (int64_t joined : {int64_t{0}, tokens_})
          if (open_.contains(s - joined)) primes[joined].insert(s - joined);
    std::vector<Change> all;
    for (const auto& [joined, same] : primes)
      for (int64_t a : same)
        for (int64_t b : same)
          if (a < b) all.push_back({b, a});
    return all;
  }

  // What another tensor has in the same dimensions, counted from the last one: in those that are not 1, in one of the
  // others as well, where texts come before tokens, in all, in all but one.
  std::vector<std::vector<Change>> aligned(const std::vector<Dims>& given) const {
    std::vector<std::vector<Change>> all;
    for (const Dims& state : given)
      for (const Dims& other : given) {
        std::vector<Change> ones, changes;
        for (size_t i = std::min(state.size(), other.size()); i > 0; --i) {
          const int64_t prime = state[state.size() - i], size = other[other.size() - i];
          if (open_.contains(prime) && isTold(size)) (size == 1 ? ones : changes).push_back({prime, size});
        }
        if (!changes.empty()) all.push_back(changes);
        for (const Change& one : ones) {
          all.push_back(changes);
          all.back().push_back(one);
        }
        changes.insert(changes.end(), ones.begin(), ones.end());
        if (ones.size() > 1) all.push_back(changes);
        for (size_t i = 0; i < changes.size() && changes.size() > 1; ++i) {
          all.push_back(changes);
          all.back().erase(all.back().begin() + static_cast<ptrdiff_t>(i));
        }
      }
    return all;
  }

  // A prime, a multiple of it, or a sum with it, is to be a size that is there. 1 fits by chance, so it comes last.
  std::vector<Change> singles(const std::vector<Dims>& given) const {
    std::set<int64_t> sizes;
    for (const Dims& d : given)
      for (int64_t s : d) sizes.insert(s);
    std::vector<Change> all, last;
    std::set<std::pair<int64_t, int64_t>> known;
    auto add = [&](int64_t prime, int64_t size) {
      if (size > 0 && isTold(size) && known.emplace(prime, size).second)
        (size == 1 ? last : all).push_back({prime, size});
    };
    for (int64_t prime : open_)
      for (int64_t s : sizes) {
        if (s < prime) continue;
        const bool isMultiple = s % prime == 0, isSum = !isMultiple && s < 2 * prime;
        for (int64_t t : sizes) {
          if (isMultiple && t % (s / prime) == 0) add(prime, t / (s / prime));
          if (isSum) add(prime, t - (s - prime));
        }
        if (isMultiple || isSum) add(prime, 1);
      }
    all.insert(all.end(), last.begin(), last.end());
    return all;
  }

  // A size of the model, which has nothing of a prime in it; tokens are no size of a state.
  bool isTold(int64_t size) const { return size > 0 && size < kFirstPrime && (size != tokens_ || tokens_ == 1); }

  const ReturnedTensor* returnedFor(size_t i) const { return returnedOf(returned_, states_, i); }

  // Whether what is returned told sizes; nothing if it has others.
  std::optional<bool> takeReturned() {
    const ShapePropagation shapes = propagate();
    const AliasAnalysis alias(graph_, registry_);
    bool changed = false;
    for (size_t i = 0; i < states_.size(); ++i) {
      const ReturnedTensor* r = returnedFor(i);
      // What is read and never becomes another is no state, but such as an encoder returned.
      const bool isHandedOn = r && r->value == states_[i].taken.front() && !alias.isWritten(r->value);
      if (isHandedOn && r->value->useCount() > 1) return std::nullopt;
    }
    std::map<int64_t, int64_t> told;  // what primes that are returned have become here
    for (size_t i = 0; i < states_.size(); ++i) {
      const ReturnedTensor* r = returnedFor(i);
      const SymbolicValue* known = r ? shapes.find(r->value) : nullptr;
      if (!known || !known->type->isTensor() || !known->type->tensor().hasRank) continue;
      const TensorFacts& facts = known->type->tensor();
      if (facts.sizes.size() != states_[i].sizes.size()) return std::nullopt;
      if (facts.dtype != DType::Undefined) states_[i].dtype = facts.dtype;
      for (size_t d = 0; d < facts.sizes.size(); ++d) {
        const int64_t own = states_[i].sizes[d];
        int64_t back = facts.sizes[d];
        for (auto at = told.find(back); at != told.end(); at = told.find(back)) back = at->second;
        if (own == back || back < 0 || (open_.contains(own) && back == own + tokens_)) continue;
        // A 1 may have fitted by being repeated.
        if ((!open_.contains(own) && own != 1 && back != 1) || (back < kFirstPrime && !isTold(back)))
          return std::nullopt;
        if (open_.contains(own)) {
          replace({own, back});
          told[own] = back;
        } else {
          states_[i].sizes[d] = back;
        }
        changed = true;
      }
    }
    return changed;
  }

  // Where caches of layers, or keys and values, are one tensor, it has as many parts as are taken of it, by their
  // numbers alone.
  std::map<int64_t, int64_t> stacked(const ShapePropagation& shapes) const {
    std::map<int64_t, int64_t> parts;
    forEachNode(graph_, [&](const Node* n) {
      const IValue* along = n->kind() == aten::select ? GraphFacts::constant(n->input(1)) : nullptr;
      const IValue* at = along ? GraphFacts::constant(n->input(2)) : nullptr;
      const SymbolicValue* whole = at ? shapes.find(n->input(0)) : nullptr;
      if (!whole || !along->isInt() || !at->isInt() || at->toInt() < 0 || !whole->type->tensor().hasRank) return;
      const Dims& sizes = whole->type->tensor().sizes;
      const int64_t dim = along->toInt() + (along->toInt() < 0 ? static_cast<int64_t>(sizes.size()) : 0);
      if (dim < 0 || dim >= static_cast<int64_t>(sizes.size()) || !open_.contains(sizes[static_cast<size_t>(dim)]))
        return;
      int64_t& most = parts[sizes[static_cast<size_t>(dim)]];
      most = std::max(most, at->toInt() + 1);
    });
    return parts;
  }

  // What grows by the tokens of a call is open, what logits have is a text, and the rest are places.
  bool settleRest() {
    const ShapePropagation shapes = propagate();
    const Value* logits = logitsOf(graph_);
    const SymbolicValue* known = logits ? shapes.find(logits) : nullptr;
    std::set<int64_t> growing, texts;
    for (size_t i = 0; i < states_.size(); ++i) {
      const ReturnedTensor* r = returnedFor(i);
      const SymbolicValue* back = r ? shapes.find(r->value) : nullptr;
      for (size_t d = 0; back && back->type->isTensor() && d < back->type->tensor().sizes.size(); ++d)
        if (const int64_t own = states_[i].sizes[d]; back->type->tensor().sizes[d] == own + tokens_)
          growing.insert(own);
    }
    if (known && known->type->isTensor() && known->type->tensor().hasRank)
      for (int64_t s : known->type->tensor().sizes)
        for (int64_t prime : open_)
          if (s > 0 && s % prime == 0) texts.insert(prime);
    for (const auto& [prime, parts] : stacked(shapes))
      if (!growing.contains(prime) && !texts.contains(prime)) replace({prime, parts});
    const std::vector<GivenState> open = states_;
    const std::set<int64_t> primes = open_;
    for (int64_t places : places_) {
      states_ = open;
      auto isPlace = [&](int64_t size) {
        return primes.contains(size) && !growing.contains(size) && !texts.contains(size);
      };
      // Nothing has places in two dimensions.
      if (std::ranges::any_of(states_,
                              [&](const GivenState& s) { return std::ranges::count_if(s.sizes, isPlace) > 1; }))
        return false;
      for (GivenState& s : states_) {
        const auto at = std::ranges::find_if(s.sizes, isPlace);
        s.placeDim = at == s.sizes.end() ? -1 : static_cast<int>(at - s.sizes.begin());
      }
      const bool hasPlaces = std::ranges::any_of(primes, isPlace);
      for (int64_t prime : primes)
        replace({prime, isPlace(prime) ? places : growing.contains(prime) ? kUnknownSize : 1});
      const bool fits = !attemptOf(propagate()).node;
      const StateVerdict verdict = fits ? accepts_(states_) : StateVerdict::Wrong;
      if (verdict == StateVerdict::Right) return true;
      if (verdict == StateVerdict::WrongAtAnyLength) return false;
      // Sizes that the model tells are right: it is for another number of tokens.
      isRefused_ = fits && !hasPlaces;
      if (!hasPlaces) return false;
    }
    return false;
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  const ShapeOptions& others_;
  const int64_t tokens_;
  const std::vector<int64_t>& places_;
  const std::function<StateVerdict(std::vector<GivenState>&)>& accepts_;
  std::vector<GivenState> states_;
  std::vector<ReturnedTensor> returned_;
  std::unordered_map<const Node*, size_t> orders_;
  std::vector<const Node*> scatters_, copies_, raises_;
  std::set<int64_t> open_;  // primes that are still to be sizes
  size_t propagations_ = 0;
  bool isRefused_ = false;  // no other ranks are tried
};

}  // namespace

std::optional<std::vector<GivenState>> findStateSizes(
    const Graph& graph, const OpRegistry& registry, const ShapeOptions& others, int64_t tokens,
    const std::vector<int64_t>& places, std::vector<GivenState> states,
    const std::function<StateVerdict(std::vector<GivenState>& states)>& accepts) {
  StateSearch search(graph, registry, others, tokens, places, std::move(states), accepts);
  if (!search.run()) return std::nullopt;
  return std::move(search.states());
}

}  // namespace tscompile
