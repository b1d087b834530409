// Reductions: of reductions, of what is filled, stacked or scaled, and over dimensions that have one element.
#include "ir/values/aten.h"
#include "passes/algebra/node_rewriting.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

struct Reduction {
  Node* node = nullptr;
  Value* x = nullptr;
  size_t rank = 0;           // of x
  std::vector<size_t> dims;  // sorted
  bool keep = false;
  bool isWhole = false;  // in the form without dimensions

  bool reduces(size_t d) const { return std::binary_search(dims.begin(), dims.end(), d); }
  bool isExtremum() const { return node->kind() == aten::amax || node->kind() == aten::amin; }
};

// sum and mean (x, dtype) or (x, dims, keep, dtype); amax and amin (x, dims, keep).
std::optional<Reduction> reductionOf(Site& site, Node* n) {
  Reduction r;
  if (!n || !site.isTensor(n->input(0))) return std::nullopt;
  const bool sums = n->kind() == aten::sum || n->kind() == aten::mean;
  const bool extremum = n->kind() == aten::amax || n->kind() == aten::amin;
  if (!sums && !extremum) return std::nullopt;
  r.node = n;
  r.x = n->input(0);
  std::optional<size_t> rank = site.facts.rank(r.x);
  if (!rank) return std::nullopt;
  r.rank = *rank;
  r.isWhole = sums && n->inputCount() == 2;
  std::optional<Dims> dims = Dims();
  if (!r.isWhole) {
    if (n->inputCount() != (sums ? 4u : 3u)) return std::nullopt;
    if (!GraphFacts::isNone(n->input(1))) dims = site.facts.integers(n->input(1));
    std::optional<bool> keep = site.facts.boolean(n->input(2));
    if (!dims || !keep) return std::nullopt;
    r.keep = *keep;
  }
  for (int64_t d : *dims) {
    int64_t at = d < 0 ? d + static_cast<int64_t>(r.rank) : d;
    if (at < 0 || at >= static_cast<int64_t>(r.rank)) return std::nullopt;
    r.dims.push_back(static_cast<size_t>(at));
  }
  if (dims->empty())
    for (size_t i = 0; i < r.rank; ++i) r.dims.push_back(i);
  std::sort(r.dims.begin(), r.dims.end());
  return r;
}

// Whether the reduction of floats is the same in any order, and that of one element the element itself: a sum starts
// with 0, and 0 + -0 is 0.
bool isExact(Site& site, const Reduction& r) {
  return r.isExtremum() || (r.node->kind() == aten::sum && site.isInteger(r.node->output()));
}
// Exact rewrites are on by default; those that round otherwise have a name and a tag of their own.
template <auto kRewrite, bool kExact>
Replacement only(Site& site) {
  std::optional<Reduction> r = reductionOf(site, site.node);
  return r && isExact(site, *r) == kExact ? kRewrite(site, *r) : Replacement();
}

// The same reduction of another tensor.
Value* reduce(Site& site, const Reduction& like, Value* x, const std::vector<size_t>& dims, bool keep) {
  Dims list(dims.begin(), dims.end());
  Value *d = site.integers(list), *k = site.constant(keep);
  if (like.isExtremum()) return site.make(like.node->kind(), {x, d, k});
  return site.make(like.node->kind(), {x, d, k, like.node->input(like.node->inputCount() - 1)});
}

// sum(x, [0, 1]) of a matrix -> sum(x)
Replacement allToNone(Site& site) {
  std::optional<Reduction> r = reductionOf(site, site.node);
  if (!r || r->isWhole || r->keep || r->dims.size() != r->rank) return {};
  return site.make(site.node->kind(), {r->x, site.input(3)});
}

// sum(sum(x, [1]), [0]) -> sum(x, [0, 1])
Replacement ofReduction(Site& site, const Reduction& outer) {
  std::optional<Reduction> inner = reductionOf(site, site.soleProducer(outer.x, site.node->kind()));
  if (!inner) return {};
  if (!site.sameDType(site.output(), outer.x) || (!inner->keep && outer.keep)) return {};
  std::vector<size_t> dims = inner->dims;
  size_t left = 0;  // dimension of the inner result
  for (size_t d = 0; d < inner->rank; ++d) {
    bool gone = inner->reduces(d);
    if (!gone || inner->keep) {
      if (outer.reduces(left) && !gone) dims.push_back(d);
      if (gone && !outer.keep && !outer.reduces(left)) return {};  // it would stay as a dimension of size 1
      ++left;
    }
  }
  std::sort(dims.begin(), dims.end());
  return reduce(site, *inner, inner->x, dims, outer.keep);
}

// amax(x) -> x where x has no dimensions
Replacement ofScalar(Site& site, const Reduction& r) {
  if (r.rank != 0 || !site.sameDType(r.x, site.output()) || !site.mayReuse(r.x)) return {};
  return r.x;
}

// amax(x, [1]) -> x.squeeze(1) where that dimension has one element
Replacement ofOneElement(Site& site, const Reduction& r) {
  if (r.rank == 0 || !site.sameDType(r.x, site.output()) || !site.mayReuse(r.x)) return {};
  for (size_t d : r.dims)
    if (site.facts.tensor(r.x).sizes[d] != 1) return {};
  Value* x = r.x;
  for (size_t i = r.dims.size(); !r.keep && i-- > 0;)
    x = site.make(aten::squeeze, {x, site.constant(static_cast<int64_t>(r.dims[i]))});
  return x;
}

// amax(stack([a, b], 0), [0]) -> maximum(a, b)
Replacement ofStack(Site& site, const Reduction& r) {
  constexpr size_t kMost = 8;
  Node* stack = site.soleProducer(r.x, aten::stack);
  Node* list = stack ? site.producer(stack->input(0), sym::ListConstruct) : nullptr;
  if (!list || r.keep || r.node->kind() == aten::mean || list->inputCount() > kMost || list->inputCount() < 2)
    return {};
  std::optional<size_t> dim = site.dimension(stack->input(1), r.rank);
  if (!dim || r.dims != std::vector<size_t>{*dim}) return {};
  for (const Use& u : list->inputs())
    if (!site.sameDType(u.value, site.output())) return {};
  Value* result = list->input(0);
  for (size_t i = 1; i < list->inputCount(); ++i) {
    Value* next = list->input(i);
    if (r.node->kind() == aten::sum)
      result = site.make(aten::add, {result, next, site.constant(int64_t{1})});
    else
      result = site.make(r.node->kind() == aten::amax ? aten::maximum : aten::minimum, {result, next});
  }
  return result;
}

// The number that a full, zeros or ones is filled with, as its dtype holds it.
std::optional<IValue> filling(Site& site, const Node* n) {
  DType dtype = site.facts.dtype(n->output());
  bool integers = kIntegerTypes.contains(dtype);
  if (!integers && dtype != DType::Float64 && dtype != DType::Float32) return std::nullopt;
  if (n->kind() == aten::zeros || n->kind() == aten::ones) {
    int64_t v = n->kind() == aten::ones;
    return integers ? IValue(v) : IValue(static_cast<double>(v));
  }
  const IValue* v = n->kind() == aten::full ? GraphFacts::constant(n->input(1)) : nullptr;
  if (!v || !(integers ? v->isInt() : v->isFloat() || v->isInt())) return std::nullopt;
  return integers ? *v : IValue(v->toDouble());
}

// The number as its dtype holds it: sums wrap around, and become infinite, while full() refuses what does not fit.
IValue held(DType dtype, int64_t v) {
  switch (dtype) {
    case DType::UInt8:
      return IValue(int64_t{static_cast<uint8_t>(v)});
    case DType::Int8:
      return IValue(int64_t{static_cast<int8_t>(v)});
    case DType::Int16:
      return IValue(int64_t{static_cast<int16_t>(v)});
    case DType::Int32:
      return IValue(int64_t{static_cast<int32_t>(v)});
    default:
      return IValue(v);
  }
}
IValue held(DType dtype, double v) {
  const bool overflows = dtype == DType::Float32 && std::isinf(static_cast<float>(v));
  return IValue(overflows ? std::copysign(HUGE_VAL, v) : v);
}

// sum(full([3, 4], v), [0]) -> full([4], 3 * v)
Replacement reductionOfFull(Site& site, const Reduction& r) {
  Node* full = site.producer(r.x);
  std::optional<IValue> v = full ? filling(site, full) : std::nullopt;
  std::optional<Dims> before = site.facts.sizes(r.x), after = site.facts.sizes(site.output());
  if (!v || !before || !after || !site.sameDType(r.x, site.output())) return {};
  int64_t count = 1;
  for (size_t d : r.dims)
    if (__builtin_mul_overflow(count, (*before)[d], &count)) return {};
  if (count == 0) return {};
  const DType dtype = site.facts.dtype(site.output());
  if (r.node->kind() == aten::sum && v->isInt())
    v = held(dtype, static_cast<int64_t>(static_cast<uint64_t>(v->toInt()) * static_cast<uint64_t>(count)));
  else if (r.node->kind() == aten::sum)
    v = held(dtype, v->toFloat() * static_cast<double>(count));
  Value* none = site.none();
  return site.make(aten::full, {site.integers(*after), site.constant(*v), site.constant(static_cast<int64_t>(dtype)),
                                none, none, none});
}

// sum(x * c) -> sum(x) * c
Replacement ofScaled(Site& site) {
  std::optional<Reduction> r = reductionOf(site, site.node);
  Node* mul = r && r->node->kind() == aten::sum ? site.soleProducer(r->x, aten::mul) : nullptr;
  if (!mul || !site.isFloating(r->x) || !site.sameDType(r->x, site.output())) return {};
  for (size_t i : {0u, 1u}) {
    Value *x = mul->input(i), *c = mul->input(1 - i);
    bool isScalar = !site.isTensor(c) || site.facts.rank(c) == 0u;
    if (!isScalar || !site.isTensor(x) || !site.sameDType(x, r->x)) continue;
    std::vector<Value*> inputs = site.inputsOf(site.node);
    inputs[0] = x;
    return site.make(aten::mul, {site.make(aten::sum, inputs), c});
  }
  return {};
}

// sum(x / y.unsqueeze(1), [1]) -> sum(x, [1]) / y
Replacement ofQuotient(Site& site) {
  std::optional<Reduction> r = reductionOf(site, site.node);
  Node* div = r && r->node->kind() == aten::sum ? site.soleProducer(r->x, aten::div) : nullptr;
  if (!div || div->inputCount() != 2 || !site.sameType(div->input(0), r->x) || !site.isFloating(r->x) ||
      !site.sameDType(r->x, site.output()))
    return {};
  Value* y = div->input(1);
  if (site.isTensor(y) && site.facts.rank(y) != 0u) {
    Node* unsqueeze = site.producer(y, aten::unsqueeze);
    if (!unsqueeze || r->dims.size() != 1 || r->keep || site.facts.rank(y) != r->rank) return {};
    if (site.dimension(unsqueeze->input(1), r->rank) != r->dims[0]) return {};
    y = unsqueeze->input(0);
  }
  std::vector<Value*> inputs = site.inputsOf(site.node);
  inputs[0] = div->input(0);
  return site.make(aten::div, {site.make(aten::sum, inputs), y});
}

}  // namespace

std::vector<NamedRewrite> reductionRewrites() {
  Query::Tags always{"default", "fast_compile", "fast_run"}, loose{"fast_run", "reassoc"};
  const Kinds all{aten::sum, aten::mean, aten::amax, aten::amin};
  const char* phase = "canonicalize";
  return {
      {phase,
       siteRewrite("sum_all_to_none", {aten::sum, aten::mean}, allToNone),
       "sums over all dimensions name none",
       {"fast_run"}},
      {phase, siteRewrite("sum_sum", all, only<ofReduction, true>),
       "a reduction of a reduction is one, where that is exact", always},
      {phase, siteRewrite("sum_sum_floats", all, only<ofReduction, false>), "a sum of sums is one", loose},
      {phase, siteRewrite("cut_useless_reduce", all, only<ofScalar, true>), "one element is its own maximum", always},
      {phase, siteRewrite("cut_useless_reduce_floats", all, only<ofScalar, false>), "one element is its own sum",
       loose},
      {phase, siteRewrite("reduce_broadcastable", all, only<ofOneElement, true>),
       "a reduction over dimensions with one element squeezes them, where that is exact", always},
      {phase, siteRewrite("reduce_broadcastable_floats", all, only<ofOneElement, false>),
       "a sum over dimensions with one element squeezes them", loose},
      {phase, siteRewrite("reduce_join", all, only<ofStack, true>),
       "a reduction of a stack is elementwise, where that is exact", always},
      {phase, siteRewrite("reduce_join_floats", all, only<ofStack, false>), "a sum of a stack is elementwise", loose},
      {phase, siteRewrite("sum_alloc", all, only<reductionOfFull, true>),
       "a reduction of a filled tensor, where that is exact", always},
      {phase, siteRewrite("sum_alloc_floats", all, only<reductionOfFull, false>),
       "a sum of a filled tensor is a product", loose},
      {phase, siteRewrite("sum_mul_by_scalar", {aten::sum}, ofScaled), "a factor is taken out of a sum", loose},
      {phase, siteRewrite("sum_div_dimshuffle", {aten::sum}, ofQuotient), "a divisor is taken out of a sum", loose},
  };
}

}  // namespace tscompile
