// Permutations of dimensions: identities go, two become one, and they move in front of elementwise operators.
#include "passes/algebra/node_rewriting.h"

#include <algorithm>

namespace tscompile {
namespace {

const Symbol kPermute = Symbol::of("aten::permute"), kTranspose = Symbol::of("aten::transpose"),
             kT = Symbol::of("aten::t"), kNumpyT = Symbol::of("aten::numpy_T"),
             kSwapaxes = Symbol::of("aten::swapaxes");

bool isPermutation(Symbol kind) {
  return kind == kPermute || kind == kTranspose || kind == kT || kind == kNumpyT || kind == kSwapaxes;
}

// Which dimension of the input becomes dimension d of the result; nothing if that is not known.
std::optional<Dims> orderOf(Site& site, const Node* n) {
  if (!isPermutation(n->kind())) return std::nullopt;
  std::optional<size_t> rank = site.facts.rank(n->input(0));
  std::optional<Dims> given = n->kind() == kPermute ? site.facts.integers(n->input(1)) : std::nullopt;
  if (given && rank && *rank != given->size()) return std::nullopt;  // refused when it runs
  if (given) rank = given->size();
  if (!rank) return std::nullopt;
  Dims order;
  for (size_t i = 0; i < *rank; ++i) order.push_back(static_cast<int64_t>(i));
  if (given) {
    for (size_t i = 0; i < *rank; ++i)
      order[i] = (*given)[i] < 0 ? (*given)[i] + static_cast<int64_t>(*rank) : (*given)[i];
  } else if (n->kind() == kNumpyT) {
    std::reverse(order.begin(), order.end());
  } else if (n->kind() == kT) {
    if (*rank > 2) return std::nullopt;
    if (*rank == 2) std::swap(order[0], order[1]);
  } else if (n->kind() == kTranspose || n->kind() == kSwapaxes) {
    std::optional<size_t> a = site.dimension(n->input(1), rank), b = site.dimension(n->input(2), rank);
    if (!a || !b) return std::nullopt;
    std::swap(order[*a], order[*b]);
  } else {
    return std::nullopt;
  }
  Dims sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < *rank; ++i)
    if (sorted[i] != static_cast<int64_t>(i)) return std::nullopt;
  return order;
}

// x.permute(0, 1) -> x;  x.t() -> x for a vector
Replacement dropIdentity(Site& site) {
  std::optional<Dims> order = orderOf(site, site.node);
  if (!order || !std::is_sorted(order->begin(), order->end())) return {};
  if (!site.facts.rank(site.input(0))) return {};  // it may be another one, which raises
  return site.input(0);
}

// x.transpose(0, 1).permute(1, 2, 0) -> x.permute(0, 2, 1)
Replacement mergePermutations(Site& site) {
  Node* inner = site.producer(site.input(0));
  if (!inner) return {};
  std::optional<Dims> first = orderOf(site, inner), second = orderOf(site, site.node);
  if (!first || !second || first->size() != second->size()) return {};
  Dims order;
  for (int64_t d : *second) order.push_back((*first)[static_cast<size_t>(d)]);
  if (std::is_sorted(order.begin(), order.end()))
    return site.facts.rank(inner->input(0)) ? Replacement(inner->input(0)) : Replacement();
  return site.make(kPermute, {inner->input(0), site.integers(order)});
}

// relu(x).t() -> relu(x.t())
Replacement liftTransposition(Site& site) {
  Node* f = site.soleProducer(site.input(0));
  if (!f || !site.isElementwise(f)) return {};
  std::optional<size_t> rank = site.facts.rank(f->output());
  if (!rank || !orderOf(site, site.node) || site.facts.isSeen(site.output())) return {};
  for (const Use& u : f->inputs()) {
    if (!site.isTensor(u.value)) continue;
    std::optional<size_t> r = site.facts.rank(u.value);
    if (!r || (*r != *rank && *r != 0)) return {};
  }
  std::vector<Value*> inputs = site.inputsOf(f), arguments = site.inputsOf(site.node);
  for (Value*& v : inputs) {
    if (!site.isTensor(v) || site.facts.rank(v) == 0u) continue;
    arguments[0] = v;
    v = site.make(site.node->kind(), arguments);
  }
  return site.remake(f, std::move(inputs));
}

// reshape(relu(x), s) -> relu(reshape(x, s))
Replacement liftReshape(Site& site) {
  Node* f = site.soleProducer(site.input(0));
  if (!f || !site.isElementwise(f)) return {};
  std::vector<Value*> inputs = site.inputsOf(f), arguments = site.inputsOf(site.node);
  std::vector<size_t> tensors = site.tensorInputs(f);
  if (tensors.size() != 1 || site.facts.isSeen(site.output())) return {};
  arguments[0] = inputs[tensors[0]];
  inputs[tensors[0]] = site.make(site.node->kind(), arguments);
  return site.remake(f, std::move(inputs));
}

// (A @ B).t() -> B.t() @ A.t()
Replacement liftThroughDot(Site& site) {
  Node* product = site.soleProducer(site.input(0));
  static const Symbol kMatmul = Symbol::of("aten::matmul"), kMm = Symbol::of("aten::mm");
  if (!product || (product->kind() != kMatmul && product->kind() != kMm)) return {};
  std::optional<Dims> order = orderOf(site, site.node);
  Value *a = product->input(0), *b = product->input(1);
  if (!order || site.facts.rank(a) != 2u || site.facts.rank(b) != 2u || std::is_sorted(order->begin(), order->end()))
    return {};
  if (site.facts.isSeen(site.output())) return {};
  return site.make(product->kind(), {site.make(kT, {b}), site.make(kT, {a})});
}

// Whether an elementwise node would be dropped once nobody asks it for sizes, and with it what it raises: for one of
// the dtypes that `x`, its only tensor, may have.
bool mayBeMissed(Site& site, const Node* f, const Value* x) {
  const DTypeSet taken = site.facts.resolve(f)->def().dtypes;
  const DType dtype = site.facts.dtype(x);
  if (dtype == DType::Undefined ? (kAllTypes - taken).empty() : taken.contains(dtype)) return false;
  for (const Use& u : f->output()->uses()) {
    const Operator* op = site.facts.resolve(u.user);
    if (!op || !op->has(Trait::ReadsSizes)) return false;
  }
  return true;
}

// size(relu(x), i) -> size(x, i)
Replacement trackSize(Site& site) {
  Node* f = site.isTensor(site.input(0)) ? site.producer(site.input(0)) : nullptr;
  if (!f) return {};
  std::vector<Value*> arguments = site.inputsOf(site.node);
  if (site.isElementwise(f)) {
    Value* x = nullptr;
    for (const Use& u : f->inputs()) {
      if (!site.isTensor(u.value)) continue;
      if (x) return {};
      x = u.value;
    }
    arguments[0] = x;
    return x && !mayBeMissed(site, f, x) ? Replacement(site.make(site.node->kind(), arguments)) : Replacement();
  }
  std::optional<Dims> order = orderOf(site, f);
  std::optional<size_t> dim =
      order && arguments.size() == 2 ? site.dimension(arguments[1], order->size()) : std::nullopt;
  if (!dim) return {};
  return site.make(site.node->kind(), {f->input(0), site.constant((*order)[*dim])});
}

// size(x, 1) -> 3 where the graph says so
Replacement knownSize(Site& site) {
  if (site.inputCount() != 2 || !site.isTensor(site.input(0))) return {};
  const TensorFacts& t = site.facts.tensor(site.input(0));
  std::optional<size_t> dim = t.hasRank ? site.dimension(site.input(1), t.sizes.size()) : std::nullopt;
  if (!dim || t.sizes[*dim] < 0) return {};
  return site.constant(t.sizes[*dim]);
}

}  // namespace

std::vector<NamedRewrite> dimensionRewrites() {
  std::vector<Symbol> kinds{kPermute, kTranspose, kT, kNumpyT, kSwapaxes};
  return {
      {"canonicalize",
       siteRewrite("useless_dimshuffle", kinds, dropIdentity),
       "a permutation that changes nothing goes",
       {"default", "fast_compile", "fast_run"}},
      {"canonicalize",
       siteRewrite("dimshuffle_merge", kinds, mergePermutations),
       "two permutations are one",
       {"default", "fast_compile", "fast_run"}},
      {"canonicalize",
       siteRewrite("dimshuffle_lift", kinds, liftTransposition),
       "permutations move in front of elementwise operators",
       {"fast_run"}},
      {"canonicalize",
       siteRewrite("reshape_lift", {"aten::reshape"}, liftReshape),
       "reshapes move in front of elementwise operators",
       {"fast_run"}},
      {"canonicalize",
       siteRewrite("flatten_lift", {"aten::flatten"}, liftReshape),
       "the same for flatten",
       {"fast_run"}},
      {"canonicalize",
       siteRewrite("lift_transpose_through_dot", kinds, liftThroughDot),
       "the transposed product is that of the transposed matrices",
       {"fast_run", "reassoc"}},
      {"canonicalize",
       siteRewrite("track_shape_i", {"aten::size"}, trackSize),
       "sizes are asked of what came before, so that what was computed may go",
       {"default", "fast_compile", "fast_run"}},
      {"canonicalize",
       siteRewrite("shape_i_constant", {"aten::size"}, knownSize),
       "sizes that the graph tells",
       {"fast_run"}},
  };
}

}  // namespace tscompile
