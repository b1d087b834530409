#include "passes/serving/forms/example_sizes.h"

#include "ir/analysis/alias.h"
#include "ir/analysis/shape_propagation.h"
#include "ir/values/aten.h"
#include "passes/serving/forms/stacks.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/states/find_states.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

namespace tscompile {
namespace {

constexpr int64_t kMostTexts = 16;

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
  Examples(Graph& graph, const OpRegistry& registry, int64_t places, const RunExample& run, std::string& doubt)
      : graph_(graph), registry_(registry), mostPlaces_(places), run_(run), doubt_(doubt) {}

  bool run() {
    if (!takeInputs()) return false;
    if (hasStates_) return findStates(graph_, registry_, mostPlaces_, run_, doubt_);
    for (int64_t texts = 1; texts <= kMostTexts; ++texts)
      if (std::optional<CallForms> found = sizesFor(texts, {5, 3}); found && !passesBy(*found, texts))
        return texts > 1 || (use_ && found->areOfPlaces()) ? apply(*found, texts, kUnknownSize) : placeInRow(*found);
    for (int64_t texts = 1; texts <= kMostTexts; ++texts)
      if (std::optional<CallForms> found = sizesFor(texts, {1})) return apply(*found, texts, 1);
    const std::optional<CallForms> lone = sizesFor(1, {1}, {CallPart::Token});
    return lone && apply(*lone, 1, 1);
  }

 private:
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
      if (role != ServingInput::Mask || use_) continue;
      use_ = useOfMask(graph_, registry_, v);
      given_ = static_cast<size_t>(dimsGivenToMask(v));
    }
    if (hasMask_)
      for (const Node* n : graph_.block()->nodes())
        if (n->kind() == sym::GetAttr && n->output()->type()->isTensor())
          for (int64_t size : n->output()->type()->tensor().sizes) places_.insert(size);
    keepsAttributes_ = keepsAttributes();
    return ids_ != nullptr && (hasStates_ || !hasStart_);
  }

  // The first forms of the other inputs that fit ids of so many texts and each of these numbers of tokens.
  std::optional<CallForms> sizesFor(int64_t texts, std::initializer_list<int64_t> tokens,
                                    const CallForm& ids = {CallPart::Text, CallPart::Token}) const {
    std::vector<CallForm> positions{{}}, masks{{}};
    if (hasPositions_)
      positions = {
          {CallPart::Token}, {CallPart::Text, CallPart::Token}, {CallPart::One, CallPart::Token}, {CallPart::Text}, {}};
    std::vector<int64_t> places{0};
    if (hasMask_) {
      masks = {{CallPart::Text, CallPart::Place},
               {CallPart::One, CallPart::Place},
               {CallPart::Place},
               {CallPart::Text, CallPart::Token}};
      places.insert(places.end(), places_.begin(), places_.end());
    }
    size_t ofRows = 0;
    if (use_ && keepsAttributes_) {
      const CallForm four{CallPart::One, CallPart::One, CallPart::Token, CallPart::Place},
          two{CallPart::Token, CallPart::Place}, three{CallPart::One, CallPart::Token, CallPart::Place};
      std::vector<CallForm> rows{four, two, three};
      // Scores have no more dimensions than texts, heads, tokens and places.
      std::erase_if(rows, [&](const CallForm& m) { return m.size() + given_ > four.size(); });
      masks.insert(masks.begin(), rows.begin(), rows.end());
      ofRows = rows.size();
    }
    for (const CallForm& p : positions)
      for (size_t i = 0; i < masks.size(); ++i)
        for (int64_t count : places) {
          CallForms sizes{p, masks[i], count, ids};
          if (use_ && (i < ofRows || sizes.areOfPlaces())) sizes.use = *use_;
          if (sizes.areOfPlaces() == (count > 1) &&
              std::ranges::all_of(tokens, [&](int64_t t) { return fits(sizes, texts, t); }))
            return sizes;
        }
    return std::nullopt;
  }

  // Whether a mask has a number for each token and each place of a cache.
  static bool hasRows(const CallForms& sizes) {
    return sizes.areOfPlaces() && std::ranges::find(sizes.mask, CallPart::Token) != sizes.mask.end();
  }

  // Each is a run of the model, so there is an end to trying.
  bool fits(const CallForms& sizes, int64_t texts, int64_t tokens) const {
    constexpr size_t kMostRuns = 500;
    if (++tried_ > kMostRuns) return false;
    std::vector<IValue> inputs;
    for (const Value* v : graph_.inputs())
      if (v->type()->isTensor()) inputs.emplace_back(exampleInput(v, sizes, texts, tokens));
    const Tensor logits = logitsOf(run_(inputs, nullptr));
    if (!logits.defined() || !hasRows(sizes)) return logits.defined();
    constexpr int kMostRank = 3;
    const int64_t words = logits.rank() > 0 && logits.rank() <= kMostRank ? logits.size(logits.rank() - 1) : 0;
    return words > 0 && (logits.numel() == texts * tokens * words || logits.numel() == texts * words);
  }

  // Whether it keeps something in attributes, and the last token of a call knows nothing of the one before it: it is
  // for one token then, and takes the first or the last one of others.
  bool passesBy(const CallForms& sizes, int64_t texts) const {
    constexpr int64_t kFew = 5;
    if (!keepsAttributes_) return false;
    auto logits = [&](int64_t changed) {
      std::vector<IValue> inputs;
      for (const Value* v : graph_.inputs()) {
        if (!v->type()->isTensor()) continue;
        Tensor t = exampleInput(v, sizes, texts, kFew);
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

  // Of a graph that runs with one text, where its positions are no more than a row.
  bool placeInRow(CallForms sizes) {
    if (!hasPositions_ || sizes.positions != CallForm{CallPart::Token}) return false;
    sizes.positions = {CallPart::Text, CallPart::Token};
    if (fits(sizes, 1, 5)) {
      const std::optional<bool> isRow = takesRow(graph_, run_, nullptr, sizes);
      if (!isRow)
        doubt_ = "positions of [tokens] and of [texts, tokens] say different texts: which of them it takes is not told";
      if (!isRow.value_or(false)) return false;
    }
    for (Value* v : graph_.inputs())
      if (roleByName(v) == ServingInput::Positions) v->setType(symbolicTensor(DType::Int64, Dims{kUnknownSize}).type);
    return true;
  }

  bool apply(const CallForms& sizes, int64_t texts, int64_t tokens) {
    ShapePropagation(graph_, registry_, knownOfCall(graph_, sizes, texts, tokens)).applyTo(graph_);
    return true;
  }

  Graph& graph_;
  const OpRegistry& registry_;
  const int64_t mostPlaces_;
  const RunExample& run_;
  std::string& doubt_;
  const Value* ids_ = nullptr;
  bool hasStates_ = false, hasPositions_ = false, hasMask_ = false, keepsAttributes_ = false;
  bool hasStart_ = false;       // the place of the first token, a number
  std::optional<MaskUse> use_;  // of the mask
  size_t given_ = 0;            // dimensions that the mask is given
  std::set<int64_t> places_;    // sizes of attributes
  mutable size_t tried_ = 0;
};

}  // namespace

void tellAttributeSizes(Graph& graph, const std::map<std::string, Tensor>& attributes) {
  for (const Node* n : graph.block()->nodes())
    if (n->kind() == sym::GetAttr && n->output()->type()->isTensor())
      if (auto found = attributes.find(pathOf(n)); found != attributes.end())
        n->output()->setType(symbolicTensor(found->second.dtype(), found->second.sizes()).type);
}

const Node* keptCount(const Graph& graph, const OpRegistry& registry, const std::map<std::string, Tensor>& attributes) {
  const AliasAnalysis alias(graph, registry);
  for (const Node* n : graph.block()->nodes()) {
    if (n->kind() != sym::GetAttr || !n->output()->type()->isTensor() || !alias.isWritten(n->output())) continue;
    const auto found = attributes.find(pathOf(n));
    const bool isCount = found != attributes.end() && found->second.numel() == 1 &&
                         isIntegral(found->second.dtype(), /*includeBool=*/false);
    if (isCount && found->second.integer(0) != 0) return n;
  }
  return nullptr;
}

std::optional<SymbolicValue> sizesOfAttribute(const Value* v) {
  const bool isAttribute = v->node() && v->node()->kind() == sym::GetAttr && v->type()->isTensor();
  if (!isAttribute || !v->type()->tensor().hasRank) return std::nullopt;
  return symbolicTensor(v->type()->tensor().dtype, v->type()->tensor().sizes);
}

bool findExampleSizes(Graph& graph, const OpRegistry& registry, const std::map<std::string, Tensor>& attributes,
                      int64_t places, const RunExample& run, std::string& doubt) {
  tellAttributeSizes(graph, attributes);
  selectUnbound(graph);
  return Examples(graph, registry, places, run, doubt).run();
}

}  // namespace tscompile
