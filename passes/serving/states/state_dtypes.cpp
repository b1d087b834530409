#include "passes/serving/states/state_dtypes.h"

#include "ir/values/aten.h"
#include "passes/rewrite/facts.h"
#include "passes/serving/states/returned_states.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tscompile {
namespace {

constexpr DType kAll[] = {DType::Bool,    DType::UInt8,   DType::Int8,     DType::Int16,
                          DType::Int32,   DType::Int64,   DType::Float16,  DType::BFloat16,
                          DType::Float32, DType::Float64, DType::Complex64};
// In which dtypes are tried that all fit: numbers, what marks, and counts; others are rounded or wrap.
constexpr DType kUsual[] = {DType::Float32, DType::Bool, DType::Int64};

bool isBelow(DType a, DType b) { return a != b && promoteTypes(a, b) == b; }

class Dtypes {
 public:
  Dtypes(const StateTrial& trial, const OpRegistry& registry, const ShapeOptions& known,
         std::vector<GivenState>& states)
      : trial_(trial), registry_(registry), known_(known), states_(states) {}

  bool run(std::string& doubt) {
    look();
    for (size_t i = 0; i < states_.size(); ++i)
      if (const std::vector<DType> options = optionsOf(i); options.size() == 1)
        states_[i].dtype = options[0];
      else if (!options.empty())
        groups_[{{states_[i].sizes.begin(), states_[i].sizes.end()}, options}].push_back(i);
    return groups_.empty() || (tryGroups(doubt) && !areConverted(doubt));
  }

 private:
  using Group = std::pair<std::vector<int64_t>, std::vector<DType>>;  // sizes, and what is left

  // What comes back for each state where all are given in one dtype.
  void look() {
    const std::vector<ReturnedTensor> returned = returnedBesideLogits(trial_.apart);
    back_.resize(states_.size());
    for (DType dtype : kAll) {
      std::vector<GivenState> given = states_;
      for (GivenState& s : given) s.dtype = dtype;
      const ShapePropagation shapes(trial_.apart, registry_, withStates(trial_.apart, known_, given));
      // No model computes in these two.
      if (dtype == DType::Int16 || dtype == DType::Float64) noteFollowing(shapes, dtype);
      for (size_t i = 0; i < states_.size(); ++i) {
        const ReturnedTensor* r = returnedOf(returned, given, i);
        const SymbolicValue* back = r ? shapes.find(r->value) : nullptr;
        back_[i].push_back(back && back->type->isTensor() ? back->type->tensor().dtype : DType::Undefined);
      }
    }
  }

  // Values that have the dtype of states, whichever it is.
  void noteFollowing(const ShapePropagation& shapes, DType dtype) {
    std::set<const Value*> follows;
    forEachNode(trial_.apart, [&](const Node* n) {
      for (const Value* v : n->outputs()) {
        const SymbolicValue* known = shapes.find(v);
        if (known && known->type->isTensor() && known->type->tensor().dtype == dtype) follows.insert(v);
      }
    });
    if (dtype == DType::Int16)
      follows_ = std::move(follows);
    else
      std::erase_if(follows_, [&](const Value* v) { return !follows.contains(v); });
  }

  // Whether a state that takes numbers of any dtype is made the one that it is given when it is read: it may be another
  // one, to which numbers are rounded when they are put there.
  bool areConverted(std::string& doubt) const {
    for (const auto& [group, members] : groups_)
      for (size_t i : members) {
        if (group.second.size() == 1 || !isConverted(states_[i])) continue;
        doubt = fmt::format("nothing tells the dtype of %{}, to which numbers are made that are put there",
                            states_[i].taken.front()->name());
        return true;
      }
    return false;
  }
  bool isConverted(const GivenState& state) const {
    std::vector<const Value*> same(state.taken.begin(), state.taken.end());
    for (size_t at = 0; at < same.size(); ++at)
      for (const Use& u : same[at]->uses()) {
        const Node* n = u.user;
        if (n->kind() == aten::to && u.index() == 0 && !follows_.contains(n->output())) {
          const IValue* dtype = n->inputCount() > 1 ? GraphFacts::constant(n->input(1)) : nullptr;
          if (dtype && dtype->isInt() && dtype->toInt() == static_cast<int64_t>(state.dtype)) return true;
        }
        for (const Value* v : n->outputs())
          if ((follows_.contains(v) || v->type()->is(TypeKind::List)) && std::ranges::find(same, v) == same.end())
            same.push_back(v);
      }
    return false;
  }

  // Those that stay what they are, or the least of them if that is told.
  std::vector<DType> optionsOf(size_t i) const {
    std::vector<DType> same, others;
    for (size_t d = 0; d < std::size(kAll); ++d)
      if (back_[i][d] == kAll[d]) same.push_back(kAll[d]);
    // Another state may fit none of those that this one stays.
    for (size_t d = 0; d < std::size(kAll) && same.empty(); ++d)
      if (std::ranges::find(back_[i], kAll[d]) != back_[i].end()) others.push_back(kAll[d]);
    if (same.empty()) return others;
    for (DType least : same) {
      const bool isLeast = std::ranges::all_of(same, [&](DType d) { return d == least || isBelow(least, d); });
      bool isTold = false;
      for (size_t d = 0; d < std::size(kAll); ++d)
        isTold = isTold || (back_[i][d] != kAll[d] && back_[i][d] != DType::Undefined && !isBelow(least, kAll[d]));
      if (isLeast && isTold) return {least};
    }
    return same;
  }

  // States of one form are taken to have one dtype.
  bool tryGroups(std::string& doubt) {
    for (bool isUsual : {true, false}) {
      std::vector<std::vector<DType>> options;
      for (const auto& [group, members] : groups_) {
        std::vector<DType>& own = options.emplace_back();
        for (DType d : kUsual)
          if (std::ranges::find(group.second, d) != group.second.end()) own.push_back(d);
        for (DType d : group.second)
          if (!isUsual && std::ranges::find(own, d) == own.end()) own.push_back(d);
        if (own.empty()) own = group.second;
      }
      if (tryAll(options, doubt)) return true;
    }
    return false;
  }

  // The first combination that runs. Others that run and say something else are a doubt.
  bool tryAll(const std::vector<std::vector<DType>>& options, std::string& doubt) {
    constexpr size_t kMostTried = 128;
    std::vector<size_t> at(options.size(), 0);
    std::optional<std::vector<double>> first;
    std::vector<GivenState> chosen;
    for (size_t tried = 0; tried < kMostTried; ++tried) {
      put(options, at);
      const std::optional<std::vector<double>> logits = logitsOfCalls(trial_, states_);
      if (logits && !first) first = logits, chosen = states_;
      if (logits && first && doubt.empty() && !areNear(*first, *logits)) doubt = doubtOf(chosen);
      size_t i = 0;
      while (i < at.size() && ++at[i] == options[i].size()) at[i++] = 0;
      if (i == at.size()) break;
    }
    if (first) states_ = chosen;
    return first.has_value();
  }
  void put(const std::vector<std::vector<DType>>& options, const std::vector<size_t>& at) {
    size_t number = 0;
    for (const auto& [group, members] : groups_) {
      for (size_t i : members) states_[i].dtype = options[number][at[number]];
      ++number;
    }
  }
  std::string doubtOf(const std::vector<GivenState>& chosen) const {
    for (size_t i = 0; i < states_.size(); ++i)
      if (states_[i].dtype != chosen[i].dtype)
        return fmt::format("nothing tells whether %{} is {} or {}, with which calls say different things: {} is taken",
                           states_[i].taken.front()->name(), pythonName(chosen[i].dtype), pythonName(states_[i].dtype),
                           pythonName(chosen[i].dtype));
    return "";
  }

  const StateTrial& trial_;
  const OpRegistry& registry_;
  const ShapeOptions& known_;
  std::vector<GivenState>& states_;
  std::set<const Value*> follows_;
  std::vector<std::vector<DType>> back_;         // by states and kAll
  std::map<Group, std::vector<size_t>> groups_;  // states of which the graph does not tell
};

}  // namespace

bool settleDtypes(const StateTrial& trial, const OpRegistry& registry, const ShapeOptions& known,
                  std::vector<GivenState>& states, std::string& doubt) {
  return Dtypes(trial, registry, known, states).run(doubt);
}

}  // namespace tscompile
