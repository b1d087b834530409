// What a mask takes from tensors, and whatever is computed of it element by element, is chosen where it is put back:
//   index_put(x, [m], index(y, [m]) * 2 + 1) -> where(m, y * 2 + 1, x)
// A mask of the first dimensions takes rows, and what meets each of them alike meets all.
// Sizes of results then follow from those of x, whatever the mask's elements are.
#include "ir/values/aten.h"
#include "passes/algebra/node_rewriting.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace tscompile {
namespace {

const Symbol kIndexPut = Symbol::of("aten::index_put");
constexpr int kMostSteps = 8;

// The mask that is the only index of a list; null if there is none.
Value* maskOf(const Value* indices, GraphFacts& facts) {
  const Node* list = indices->node();
  if (!list || list->kind() != sym::ListConstruct || list->inputCount() != 1) return nullptr;
  Value* mask = list->input(0);
  return mask->type()->isTensor() && facts.dtype(mask) == DType::Bool ? mask : nullptr;
}

bool takes(const Node* n, const Value* mask, GraphFacts& facts) {
  return n->kind() == aten::index && n->inputCount() == 2 && maskOf(n->input(1), facts) == mask;
}

// A value of the same sizes from which one is made element by element.
const Value* sizesFrom(const Value* v, GraphFacts& facts, int steps) {
  Node* n = v->node();
  if (!n || steps == kMostSteps || n->inputCount() == 0) return v;
  if (facts.keepsElements(n) || n->kind() == aten::zeros_like) return sizesFrom(n->input(0), facts, steps + 1);
  if (n->outputCount() != 1 || !isElementwise(n, facts)) return v;
  const Value* common = nullptr;
  for (const Use& u : n->inputs()) {
    if (!u.value->type()->isTensor()) continue;
    const Value* from = sizesFrom(u.value, facts, steps + 1);
    if (common && from != common) return v;
    common = from;
  }
  return common ? common : v;
}

bool haveSameSizes(Site& site, const Value* a, const Value* b) {
  return site.sameSizes(a, b) || sizesFrom(a, site.facts, 0) == sizesFrom(b, site.facts, 0);
}

size_t rankOf(const Value* v, GraphFacts& facts) {
  const TensorFacts& t = facts.tensor(v);
  return t.hasRank ? t.sizes.size() : SIZE_MAX;
}

// Traces have numbers as tensors without dimensions; beside others with some they give these neither sizes nor dtype.
bool isNumber(const Value* v, const Value* mask, GraphFacts& facts) {
  const size_t least = rankOf(mask, facts);
  return rankOf(v, facts) == 0 && least > 0 && least != SIZE_MAX;
}

// What a mask takes: elements, or rows.
struct Taken {
  const Value* mask;
  const Value* like;  // a value of the sizes that all have from which it takes some
  Dims row;           // the sizes of a row; none of elements
};

std::optional<Taken> takenFrom(Site& site, const Value* x, const Value* mask) {
  if (haveSameSizes(site, x, mask)) return Taken{mask, mask, {}};
  const std::optional<Dims> all = site.facts.sizes(x), first = site.facts.sizes(mask);
  if (!all || !first || first->empty() || first->size() >= all->size()) return std::nullopt;
  const auto row = all->begin() + static_cast<std::ptrdiff_t>(first->size());
  return std::equal(all->begin(), row, first->begin()) ? std::optional(Taken{mask, x, Dims(row, all->end())})
                                                       : std::nullopt;
}

// Whether the value stays as it is beside all elements: a number, or a tensor that meets each row alike.
bool isBeside(const Value* v, const Taken& taken, GraphFacts& facts) {
  if (isNumber(v, taken.mask, facts)) return true;
  std::optional<Dims> sizes = facts.sizes(v);
  if (!sizes || sizes->empty() || sizes->size() > taken.row.size() + 1) return false;
  const size_t missing = taken.row.size() + 1 - sizes->size();
  for (size_t d = 0; d < sizes->size(); ++d)
    if ((*sizes)[d] != 1 && (d + missing == 0 || (*sizes)[d] != taken.row[d + missing - 1])) return false;
  return true;
}

// Whether a value is computed of what the mask takes and of what stays beside it alone, and without a step that may
// fail.
bool isOfMask(Site& site, Value* v, const Taken& taken, int steps) {
  Node* n = steps < kMostSteps ? site.producer(v) : nullptr;
  if (!n || n->outputCount() != 1) return false;
  if (takes(n, taken.mask, site.facts)) return haveSameSizes(site, n->input(0), taken.like);
  if (v->useCount() != 1 || !site.isFloating(v)) return false;  // integers are not divided by 0
  std::vector<size_t> tensors = site.tensorInputs(n);
  std::erase_if(tensors, [&](size_t i) { return isBeside(n->input(i), taken, site.facts); });
  return isElementwise(n, site.facts) && !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), [&](size_t i) {
           return isOfMask(site, n->input(i), taken, steps + 1);
         });
}

// The same of all elements.
Value* ofAll(Site& site, Value* v, const Taken& taken) {
  Node* n = v->node();
  if (takes(n, taken.mask, site.facts)) return n->input(0);
  std::vector<Value*> inputs = site.inputsOf(n);
  for (size_t i : site.tensorInputs(n))
    if (!isBeside(inputs[i], taken, site.facts)) inputs[i] = ofAll(site, inputs[i], taken);
  return site.remake(n, std::move(inputs));
}

}  // namespace

NodeRewrite maskedPuts() {
  NodeRewrite r;
  r.name = "masked_puts";
  r.kinds = {kIndexPut};
  r.apply = [](Node* n, RewriteContext& c) -> Replacement {
    Site site(n, c);
    if (n->inputCount() < 4 || !c.facts.isUndisturbed(n)) return {};
    const IValue* adds = GraphFacts::constant(n->input(3));
    Value *x = n->input(0), *mask = maskOf(n->input(1), c.facts), *values = n->input(2);
    if (!mask || !adds || !adds->isBool() || adds->toBool()) return {};
    const std::optional<Taken> taken = takenFrom(site, x, mask);
    if (!taken || !site.sameDType(x, values) || !isOfMask(site, values, *taken, 0)) return {};
    Value* all = ofAll(site, values, *taken);
    for (size_t d = 0; d < taken->row.size(); ++d)
      mask = site.make(aten::unsqueeze, {mask, site.constant(int64_t{-1})});
    return site.make(aten::where, {mask, all, x});
  };
  return r;
}

}  // namespace tscompile
