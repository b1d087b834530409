#include "passes/serving/example_sizes.h"

#include "ir/analysis/shape_propagation.h"
#include "ir/values/aten.h"
#include "passes/serving/input_roles.h"

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
  Examples(Graph& graph, const OpRegistry& registry, const std::function<bool(const std::vector<IValue>&)>& runs)
      : graph_(graph), registry_(registry), runs_(runs) {}

  bool run() {
    if (!takeInputs()) return false;
    for (int64_t texts = 1; texts <= kMostTexts; ++texts)
      if (std::optional<Sizes> found = sizesFor(texts, {5, 3}))
        return texts > 1 ? apply(*found, texts, kUnknownSize) : placeInRow(*found);
    for (int64_t texts = 1; texts <= kMostTexts; ++texts)
      if (std::optional<Sizes> found = sizesFor(texts, {1})) return apply(*found, texts, 1);
    return false;
  }

 private:
  // What an input is made for: texts and tokens, or places of a cache.
  enum class Part : uint8_t { Text, One, Token, Place };
  using Form = std::vector<Part>;
  struct Sizes {
    Form positions, mask;
    int64_t places;
  };

  bool takeInputs() {
    for (const Value* v : graph_.inputs()) {
      if (v->type()->is(TypeKind::Class)) continue;
      if (!v->type()->isTensor() || v->type()->tensor().hasRank) return false;
      const std::optional<ServingInput> role = roleByName(v);
      if (!role && hasIds_) return false;
      hasIds_ = hasIds_ || !role || role == ServingInput::Ids;
      hasPositions_ = hasPositions_ || role == ServingInput::Positions;
      hasMask_ = hasMask_ || role == ServingInput::Mask;
    }
    if (hasMask_)
      for (const Node* n : graph_.block()->nodes())
        if (n->kind() == sym::GetAttr && n->output()->type()->isTensor())
          for (int64_t size : n->output()->type()->tensor().sizes) places_.insert(size);
    return hasIds_;
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

  Dims sizesOf(const Value* input, const Sizes& sizes, int64_t texts, int64_t tokens) const {
    const std::optional<ServingInput> role = roleByName(input);
    Form form{Part::Text, Part::Token};
    if (role == ServingInput::Positions) form = sizes.positions;
    if (role == ServingInput::Mask) form = sizes.mask;
    Dims own;
    for (Part part : form)
      own.push_back(part == Part::Text ? texts : part == Part::Token ? tokens : part == Part::Place ? sizes.places : 1);
    return own;
  }

  // Each is a run of the model, so there is an end to trying.
  bool fits(const Sizes& sizes, int64_t texts, int64_t tokens) const {
    constexpr size_t kMostRuns = 500;
    if (++tried_ > kMostRuns) return false;
    std::vector<IValue> inputs;
    for (const Value* v : graph_.inputs()) {
      if (!v->type()->isTensor()) continue;
      Tensor t = Tensor::zeros(DType::Int64, sizesOf(v, sizes, texts, tokens));
      const bool isMask = roleByName(v) == ServingInput::Mask;
      for (int64_t i = 0; isMask && i < t.numel(); ++i) t.data<int64_t>()[i] = 1;
      inputs.emplace_back(std::move(t));
    }
    return runs_(inputs);
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
    ShapeOptions options;
    for (const Value* v : graph_.inputs()) {
      std::optional<SymbolicValue>& known = options.inputs.emplace_back();
      if (v->type()->isTensor()) known = symbolicTensor(DType::Int64, sizesOf(v, sizes, texts, tokens));
    }
    options.known = [](const Value* v) -> std::optional<SymbolicValue> {
      const bool isAttribute = v->node() && v->node()->kind() == sym::GetAttr && v->type()->isTensor();
      if (!isAttribute || !v->type()->tensor().hasRank) return std::nullopt;
      return symbolicTensor(v->type()->tensor().dtype, v->type()->tensor().sizes);
    };
    ShapePropagation(graph_, registry_, options).applyTo(graph_);
    return true;
  }

  Graph& graph_;
  const OpRegistry& registry_;
  const std::function<bool(const std::vector<IValue>&)>& runs_;
  bool hasIds_ = false, hasPositions_ = false, hasMask_ = false;
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
                      const std::function<bool(const std::vector<IValue>& inputs)>& runs) {
  tellAttributeSizes(graph, attributes);
  return Examples(graph, registry, runs).run();
}

}  // namespace tscompile
