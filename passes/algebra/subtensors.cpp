// Parts of tensors: select and slice of what can be made small before it is computed, parts of parts, parts of stacks.
#include "passes/algebra/node_rewriting.h"

#include <algorithm>
#include <limits>

namespace tscompile {
namespace {

const Symbol kSelect = Symbol::of("aten::select"), kSlice = Symbol::of("aten::slice"),
             kStack = Symbol::of("aten::stack"), kMatmul = Symbol::of("aten::matmul"), kMm = Symbol::of("aten::mm");

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

bool isPart(Site& site, const Node* n) {
  if (!site.isTensor(n->input(0))) return false;
  return (n->kind() == kSelect && n->inputCount() == 3) || (n->kind() == kSlice && n->inputCount() == 5);
}

// A slice whose bounds are constants; `size` is that of its input there, if it is known.
struct Slice {
  size_t dim = 0;  // as the node says it; counted from the front
  int64_t begin = 0, end = kEnd, step = 1;
  std::optional<int64_t> size;

  // How many elements it takes, if that is known.
  std::optional<int64_t> length() const {
    if (!size) return std::nullopt;
    int64_t b = clamp(begin), e = std::max(clamp(end), b);
    return (e - b + step - 1) / step;
  }
  int64_t clamp(int64_t at) const {
    if (at < 0) at += *size;
    return std::clamp<int64_t>(at, 0, *size);
  }
  // The same with bounds from 0 on, cut to the size if that is known.
  bool normalize() {
    if (size) {
      begin = clamp(begin);
      end = std::max(clamp(end), begin);
      return true;
    }
    return begin >= 0 && end >= 0;
  }
};

std::optional<int64_t> sizeAt(Site& site, const Value* v, size_t dim) {
  const TensorFacts& t = site.facts.tensor(v);
  if (!t.hasRank || dim >= t.sizes.size() || t.sizes[dim] < 0) return std::nullopt;
  return t.sizes[dim];
}

// The dimension of a select or slice, from the front.
std::optional<size_t> dimOf(Site& site, const Node* n) {
  std::optional<int64_t> d = site.facts.integer(n->input(1));
  if (d && *d >= 0) return static_cast<size_t>(*d);
  return site.dimension(n->input(1), site.facts.rank(n->input(0)));
}

std::optional<Slice> sliceOf(Site& site, const Node* n) {
  if (n->kind() != kSlice || !isPart(site, n)) return std::nullopt;
  std::optional<size_t> dim = dimOf(site, n);
  auto bound = [&](const Value* v, int64_t none) {
    return GraphFacts::isNone(v) ? std::optional(none) : site.facts.integer(v);
  };
  std::optional<int64_t> begin = bound(n->input(2), 0), end = bound(n->input(3), kEnd),
                         step = site.facts.integer(n->input(4));
  if (!dim || !begin || !end || !step || *step < 1) return std::nullopt;
  return Slice{*dim, *begin, *end, *step, sizeAt(site, n->input(0), *dim)};
}

Value* makeSlice(Site& site, Value* x, const Slice& s) {
  return site.make(kSlice, {x, site.constant(static_cast<int64_t>(s.dim)), site.constant(s.begin), site.constant(s.end),
                            site.constant(s.step)});
}

// Whether a node in this block, which runs as well, raises if the tensor lacks the dimension.
bool asksFor(Site& site, const Node* n, const Value* tensor, size_t dim) {
  if (n->block() != site.node->block() || n->inputCount() < 2 || n->input(0) != tensor) return false;
  if (n->kind() != kSlice && n->kind() != kSelect && n->kind() != aten::unsqueeze) return false;
  std::optional<int64_t> d = site.facts.integer(n->input(1));
  auto last = static_cast<int64_t>(dim);
  return d && (n->kind() == aten::unsqueeze ? *d > last : *d >= last);
}

// Whether the dimension of a slice is there, by what is known or by what is asked for in any case.
bool hasDimension(Site& site, size_t dim) {
  if (std::optional<size_t> rank = site.facts.rank(site.input(0))) return dim < *rank;
  for (const Use& use : site.output()->uses())
    if (asksFor(site, use.user, site.output(), dim)) return true;
  return false;
}

// x[:] -> x
Replacement dropWhole(Site& site) {
  std::optional<Slice> s = sliceOf(site, site.node);
  if (!s || s->step != 1 || !hasDimension(site, s->dim)) return {};
  bool whole = s->begin == 0 && s->end == kEnd;
  if (s->size) whole = s->length() == s->size;
  return whole ? Replacement(site.input(0)) : Replacement();
}

// x[a:b][c:d] and x[a:b][i] -> one slice or select of x
Replacement mergeTwo(Site& site) {
  Node* inner = isPart(site, site.node) ? site.producer(site.input(0), kSlice) : nullptr;
  std::optional<Slice> first = inner ? sliceOf(site, inner) : std::nullopt;
  if (!first || dimOf(site, site.node) != first->dim || !first->normalize()) return {};
  std::optional<int64_t> length = first->length();
  int64_t at = 0;
  if (site.node->kind() == kSelect) {
    std::optional<int64_t> index = site.facts.integer(site.input(2));
    if (!index || (*index < 0 && !length)) return {};
    if (*index < 0) *index += *length;
    bool isInside = *index >= 0 && !__builtin_mul_overflow(*index, first->step, &at) &&
                    !__builtin_add_overflow(at, first->begin, &at) && at < first->end;
    if (!isInside) return {};
    return site.make(kSelect, {inner->input(0), site.constant(static_cast<int64_t>(first->dim)), site.constant(at)});
  }
  std::optional<Slice> second = sliceOf(site, site.node);
  if (!second) return {};
  second->size = length;
  if (!second->normalize()) return {};
  Slice both = *first;
  // An end that is beyond everything stays so.
  auto scaled = [&](int64_t index) {
    int64_t x = 0;
    bool over = __builtin_mul_overflow(index, first->step, &x) || __builtin_add_overflow(x, first->begin, &x);
    return over ? kEnd : x;
  };
  both.begin = scaled(second->begin);
  both.end = second->end == kEnd ? first->end : std::min(first->end, scaled(second->end));
  both.end = std::max(both.begin, both.end);
  if (both.begin == kEnd || __builtin_mul_overflow(first->step, second->step, &both.step)) return {};
  return makeSlice(site, inner->input(0), both);
}

// relu(x)[i] -> relu(x[i])
Replacement liftPart(Site& site) {
  Node* f = isPart(site, site.node) ? site.soleProducer(site.input(0)) : nullptr;
  if (!f || !site.isElementwise(f) || site.mayDivideByZero(f) || site.facts.isSeen(site.output())) return {};
  std::vector<Value*> inputs = site.inputsOf(f);
  std::vector<size_t> tensors = site.tensorInputs(f);
  std::optional<size_t> dim = dimOf(site, site.node);
  if (tensors.size() > 1) {
    // Without broadcasting along the dimension, and so that no tensor gets another say in the dtype of the result.
    std::optional<size_t> rank = site.facts.rank(f->output());
    std::optional<int64_t> size = dim ? sizeAt(site, f->output(), *dim) : std::nullopt;
    if (!rank || !size) return {};
    for (size_t i : tensors) {
      const Value* v = inputs[i];
      if (site.facts.rank(v) != rank || sizeAt(site, v, *dim) != size || !site.sameDType(v, inputs[tensors[0]]))
        return {};
    }
  }
  std::vector<Value*> arguments = site.inputsOf(site.node);
  for (size_t i : tensors) {
    arguments[0] = inputs[i];
    inputs[i] = site.make(site.node->kind(), arguments);
  }
  return site.remake(f, std::move(inputs));
}

// full([4, 5], v)[1:3] -> full([2, 5], v)
Replacement partOfFull(Site& site) {
  Node* full = isPart(site, site.node) ? site.filling(site.input(0)) : nullptr;
  if (!full) return {};
  std::optional<Dims> sizes = site.facts.sizes(site.output());
  if (!sizes || site.facts.isSeen(site.output())) return {};
  std::vector<Value*> inputs = site.inputsOf(full);
  inputs[0] = site.integers(*sizes);
  return site.remake(full, std::move(inputs));
}

// (A @ B)[i] -> A[i] @ B;  (A @ B)[:, j] -> A @ B[:, j]
Replacement partOfProduct(Site& site) {
  Node* product = isPart(site, site.node) ? site.soleProducer(site.input(0)) : nullptr;
  if (!product || (product->kind() != kMm && product->kind() != kMatmul)) return {};
  Value *a = product->input(0), *b = product->input(1);
  std::optional<size_t> dim = dimOf(site, site.node);
  if (!dim || site.facts.rank(a) != 2u || site.facts.rank(b) != 2u || site.facts.isSeen(site.output())) return {};
  std::vector<Value*> arguments = site.inputsOf(site.node);
  arguments[0] = *dim == 0 ? a : b;
  arguments[1] = site.constant(static_cast<int64_t>(*dim));
  Value* part = site.make(site.node->kind(), arguments);
  return *dim == 0 ? site.make(kMatmul, {part, b}) : site.make(kMatmul, {a, part});
}

// stack([a, b])[1] -> b
Replacement ofStack(Site& site) {
  Node* stack = isPart(site, site.node) ? site.producer(site.input(0), kStack) : nullptr;
  Node* list = stack ? site.producer(stack->input(0), sym::ListConstruct) : nullptr;
  if (!list) return {};  // also `aten::select.t` of a list, which has two inputs
  std::optional<int64_t> index = site.facts.integer(site.input(2));
  if (!index) return {};
  std::optional<size_t> rank = site.facts.rank(site.input(0));
  std::optional<size_t> dim = site.dimension(site.input(1), rank);
  if (!dim || dim != site.dimension(stack->input(1), rank)) return {};
  if (*index < 0) *index += static_cast<int64_t>(list->inputCount());
  if (*index < 0 || *index >= static_cast<int64_t>(list->inputCount())) return {};
  Value* element = list->input(static_cast<size_t>(*index));
  return site.sameDType(element, site.output()) && site.mayReuse(element) ? Replacement(element) : Replacement();
}

}  // namespace

std::vector<NamedRewrite> subtensorRewrites() {
  Query::Tags always{"default", "fast_compile", "fast_run"};
  std::vector<Symbol> parts{kSelect, kSlice};
  return {
      {"canonicalize", siteRewrite("useless_subtensor", {"aten::slice"}, dropWhole), "a slice of everything goes",
       always},
      {"canonicalize", siteRewrite("subtensor_merge", parts, mergeTwo), "a part of a slice is a part of the whole",
       always},
      {"canonicalize", siteRewrite("subtensor_lift", parts, liftPart),
       "elementwise operators compute only the part that is used", always},
      {"canonicalize", siteRewrite("subtensor_of_alloc", parts, partOfFull),
       "a part of a filled tensor is a smaller one", always},
      {"canonicalize",
       siteRewrite("subtensor_of_dot", parts, partOfProduct),
       "matrix products compute only the part that is used",
       {"fast_run", "reassoc"}},
      {"canonicalize", siteRewrite("subtensor_make_vector", {kSelect}, ofStack),
       "an element of a stack that was just made is what it was made from", always},
  };
}

}  // namespace tscompile
