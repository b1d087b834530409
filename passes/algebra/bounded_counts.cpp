// Programs of torch.export assert that as many elements as a mask chooses, or are not 0, are no more than there are:
//   le(size(index(x, [m]), 0), n), le(size(nonzero(m), 0), n) -> True    where m has at most n elements
//   ge(size(x, i), 0) -> True
#include "ir/values/aten.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

// The mask of x[m], or what nonzero(m) looks at; null for anything else.
const Value* chosenBy(const Node* n, RewriteContext& c) {
  static const Symbol kNonzero = Symbol::of("aten::nonzero"), kIndex = Symbol::of("aten::index");
  if (!n || n->inputCount() == 0) return nullptr;
  if (n->kind() == kNonzero) return n->input(0);
  const Node* list = n->kind() == kIndex && n->inputCount() == 2 ? n->input(1)->node() : nullptr;
  if (!list || list->kind() != sym::ListConstruct || list->inputCount() != 1) return nullptr;
  const Value* mask = list->input(0);
  return mask->type()->isTensor() && c.facts.dtype(mask) == DType::Bool ? mask : nullptr;
}

// The most that an integer can be, if it counts what was chosen.
std::optional<int64_t> mostOf(const Value* count, RewriteContext& c) {
  const Node* size = count->node();
  if (!size || size->kind() != aten::size || size->inputCount() != 2 || c.facts.integer(size->input(1)) != 0)
    return std::nullopt;
  const Value* mask = chosenBy(size->input(0)->node(), c);
  std::optional<Dims> sizes = mask ? c.facts.sizes(mask) : std::nullopt;
  if (!sizes) return std::nullopt;
  int64_t most = 1;
  for (int64_t s : *sizes)
    if (__builtin_mul_overflow(most, s, &most)) return std::nullopt;
  return most;
}

}  // namespace

NodeRewrite boundedCounts() {
  NodeRewrite r;
  r.name = "bounded_counts";
  const Symbol atMost = Symbol::of("aten::le"), atLeast = Symbol::of("aten::ge");
  r.kinds = {atMost, atLeast};
  r.apply = [atMost](Node* n, RewriteContext& c) -> Replacement {
    if (n->inputCount() != 2 || !n->output()->type()->is(TypeKind::Bool)) return {};
    std::optional<int64_t> bound = c.facts.integer(n->input(1));
    if (!bound) return {};
    const Node* count = n->input(0)->node();
    std::optional<int64_t> most = n->kind() == atMost ? mostOf(n->input(0), c) : std::nullopt;
    const bool isSize = n->kind() != atMost && count && count->kind() == aten::size && count->inputCount() == 2;
    if (!(most && *most <= *bound) && !(isSize && *bound <= 0)) return {};
    return c.before(n).constant(IValue(true), types().boolean);
  };
  return r;
}

}  // namespace tscompile
