// Arithmetic with neutral elements, with equal operands, and with functions that undo each other.
#include "ir/values/aten.h"
#include "passes/algebra/node_rewriting.h"

#include <cmath>

namespace tscompile {
namespace {

// A tensor in place of the site's result, which would have been a tensor of its own.
Replacement reuse(Site& site, Value* x) {
  return site.sameType(x, site.output()) && site.mayReuse(x) ? Replacement(x) : Replacement();
}

// A tensor like x of this dtype, full of 0 or 1.
Value* filledLike(Site& site, Value* x, bool ones, std::optional<DType> dtype = std::nullopt) {
  Value* none = site.none();
  Value* type = dtype ? site.constant(static_cast<int64_t>(*dtype)) : none;
  return site.make(ones ? aten::ones_like : aten::zeros_like, {x, type, none, none, none, none});
}

// `a + alpha * b` and the like, where alpha is 1.
bool hasPlainAlpha(Site& site, const Node* n) { return n->inputCount() == 3 && site.facts.number(n->input(2)) == 1.0; }

// ---- neutral elements ----

// Whether adding (or taking away) c leaves every number as it is: -0 + 0 is 0, but -0 + -0 and -0 - 0 are -0.
bool isNeutralForFloats(double c, bool adding) { return c == 0 && std::signbit(c) == adding; }

// x + 0 -> x
template <bool kExact>
Replacement addZero(Site& site) {
  bool adding = site.node->kind() == aten::add;
  if (!hasPlainAlpha(site, site.node)) return {};
  for (size_t i = 0; i < (adding ? 2u : 1u); ++i) {
    Value* x = site.input(i);
    std::optional<double> c = site.uniform(site.input(1 - i));
    if (!c || *c != 0 || !site.isTensor(x)) continue;
    bool exact = site.isInteger(x) || (site.isFloating(x) && isNeutralForFloats(*c, adding));
    if (exact != kExact || (!exact && !site.isFloating(x))) continue;
    if (Replacement r = reuse(site, x)) return r;
  }
  return {};
}

// x * 1 -> x;  x / 1 -> x;  x ** 1 -> x;  x * -1 -> -x
Replacement mulOne(Site& site) {
  if (site.inputCount() != 2) return {};
  for (size_t i = 0; i < (site.node->kind() == aten::mul ? 2u : 1u); ++i) {
    Value* x = site.input(i);
    std::optional<double> c = site.uniform(site.input(1 - i));
    if (!c || !site.isTensor(x) || !site.sameType(x, site.output())) continue;
    if (!site.isFloating(x) && !site.isInteger(x)) continue;
    if (*c == 1 && site.mayReuse(x)) return x;
    if (*c == -1 && site.node->kind() != aten::pow) return site.make(aten::neg, {x});
  }
  return {};
}

// x * 0 -> zeros_like(x)
template <bool kExact>
Replacement mulZero(Site& site) {
  for (size_t i : {0u, 1u}) {
    Value* x = site.input(i);
    std::optional<double> c = site.uniform(site.input(1 - i));
    if (!c || *c != 0 || !site.isTensor(x) || !site.sameType(x, site.output())) continue;
    if (kExact ? site.isInteger(x) : site.isFloating(x)) return filledLike(site, x, false);
  }
  return {};
}

// x - x -> zeros_like(x)
template <bool kExact>
Replacement subSelf(Site& site) {
  Value* x = site.input(0);
  if (x != site.input(1) || !site.isTensor(x) || !hasPlainAlpha(site, site.node)) return {};
  return (kExact ? site.isInteger(x) : site.isFloating(x)) ? Replacement(filledLike(site, x, false)) : Replacement();
}

// ---- equal operands ----

Replacement compareSelf(Site& site, std::string_view name) {
  Value* x = site.input(0);
  bool isOrder = name == "lt" || name == "gt", result = name == "eq" || name == "le" || name == "ge";
  if (x->type()->is(TypeKind::Int) || x->type()->is(TypeKind::Bool)) return site.constant(result);
  DType dtype = site.facts.dtype(x);
  bool ordered = kIntegerTypes.contains(dtype) || dtype == DType::Bool;  // a NaN is not equal to itself
  if (!site.isTensor(x) || !(ordered || (isOrder && kFloatingTypes.contains(dtype)))) return {};
  return filledLike(site, x, result, DType::Bool);
}

// maximum(x, x) -> x;  x == x -> ones for integers;  x ^ x -> zeros
Replacement ofEqual(Site& site) {
  if (site.inputCount() != 2 || site.input(0) != site.input(1)) return {};
  std::string_view name = site.node->kind().name();
  Value* x = site.input(0);
  for (std::string_view comparison : {"eq", "ne", "lt", "le", "gt", "ge"})
    if (name == comparison) return compareSelf(site, name);
  if (!site.isTensor(x) || !site.sameDType(x, site.output())) return {};
  if (name == "bitwise_xor" || name == "__xor__" || name == "logical_xor") return filledLike(site, x, false);
  return site.mayReuse(x) ? Replacement(x) : Replacement();
}

// x & True -> x;  x | True -> ones_like(x)
Replacement ofTruth(Site& site) {
  if (site.inputCount() != 2) return {};
  std::string_view name = site.node->kind().name();
  bool isAnd = name == "logical_and" || name == "bitwise_and" || name == "__and__";
  bool isXor = name == "logical_xor" || name == "bitwise_xor" || name == "__xor__";
  for (size_t i : {0u, 1u}) {
    Value* x = site.input(i);
    std::optional<double> c = site.uniform(site.input(1 - i));
    if (!c || !site.isTensor(x) || site.facts.dtype(x) != DType::Bool || !site.sameType(x, site.output())) continue;
    if ((*c != 0) == isAnd) {
      if (site.mayReuse(x)) return x;
    } else if (!isXor) {
      return filledLike(site, x, *c != 0);
    }
  }
  return {};
}

// cat([x]) -> x;  positive(x) -> x, which raises for bools
Replacement ofOne(Site& site) {
  Value* x = site.input(0);
  if (site.node->kind() == aten::cat) {
    Node* list = site.producer(x, sym::ListConstruct);
    if (!list || list->inputCount() != 1 || !site.mayReuse(list->input(0))) return {};
    return list->input(0);
  }
  DType dtype = site.facts.dtype(x);
  return dtype != DType::Undefined && dtype != DType::Bool ? Replacement(x) : Replacement();
}

// ---- where ----

// where(True, a, b) -> a;  where(c, a, a) -> a
Replacement choose(Site& site) {
  if (site.inputCount() != 3) return {};
  std::optional<double> c = site.uniform(site.input(0));
  bool same = site.input(1) == site.input(2);
  if (!c && !same) return {};
  Value* taken = same || *c != 0 ? site.input(1) : site.input(2);
  return site.isTensor(taken) ? reuse(site, taken) : Replacement();
}

// 1 / x -> reciprocal(x)
Replacement invert(Site& site) {
  Value* x = site.input(1);
  if (site.inputCount() != 2 || site.uniform(site.input(0)) != 1.0 || !site.isTensor(x)) return {};
  if (!site.isFloating(x) || !site.sameType(x, site.output())) return {};
  return site.make(aten::reciprocal, {x});
}

// ---- functions and their inverses ----

struct Inverse {
  Symbol outer, inner;
  bool exact;
};
const std::vector<Inverse>& inverses() {
  static const std::vector<Inverse> kInverses{
      {aten::bitwise_not, aten::bitwise_not, true},
      {aten::logical_not, aten::logical_not, true},
      {aten::exp, aten::log, false},
      {aten::log, aten::exp, false},
      {aten::deg2rad, aten::rad2deg, false},
      {aten::rad2deg, aten::deg2rad, false},
      {aten::reciprocal, aten::reciprocal, false},
      {aten::sinh, aten::asinh, false},
      {aten::asinh, aten::sinh, false},
      {aten::tanh, aten::atanh, false},
      {aten::atanh, aten::tanh, false},
      {aten::cosh, aten::acosh, false},
      {aten::sin, aten::asin, false},
      {aten::cos, aten::acos, false},
      {aten::tan, aten::atan, false},
      {aten::expm1, aten::log1p, false},
      {aten::log1p, aten::expm1, false},
      {aten::square, aten::sqrt, false},
  };
  return kInverses;
}

// f(g(x)) -> x where g undoes f; exact pairs of whole numbers and flags, or those of floats
template <bool kExact>
Replacement undo(Site& site) {
  Node* inner = site.producer(site.input(0));
  if (!inner || !site.isTensor(site.input(0))) return {};
  for (const Inverse& pair : inverses()) {
    bool fits = pair.exact == kExact && site.node->kind() == pair.outer && inner->kind() == pair.inner;
    if (fits && site.sameDType(inner->input(0), site.output()) && site.mayReuse(inner->input(0)))
      return inner->input(0);
  }
  return {};
}

template <bool kExact>
std::vector<Symbol> outerKinds() {
  std::vector<Symbol> kinds;
  for (const Inverse& pair : inverses())
    if (pair.exact == kExact) kinds.push_back(pair.outer);
  return kinds;
}

}  // namespace

std::vector<NamedRewrite> arithmeticRewrites() {
  Query::Tags always{"default", "fast_compile", "fast_run"}, fast{"fast_math", "fast_run"};
  const Kinds additions{aten::add, aten::sub}, products{aten::mul, aten::div, aten::pow};
  return {
      {"specialize", siteRewrite("add_specialize", additions, addZero<true>),
       "a zero that changes nothing is not added", always},
      {"specialize", siteRewrite("add_specialize_floats", additions, addZero<false>),
       "no zero is added to floats; -0 stays -0", fast},
      {"specialize", siteRewrite("mul_specialize", products, mulOne), "a factor of 1 goes, of -1 is a change of sign",
       always},
      {"canonicalize", siteRewrite("mul_zero", {aten::mul}, mulZero<true>), "integers times 0", always},
      {"canonicalize", siteRewrite("mul_zero_floats", {aten::mul}, mulZero<false>),
       "floats times 0, taken to be finite", fast},
      {"specialize", siteRewrite("elemwise_sub_zeros", {aten::sub}, subSelf<true>), "integers minus themselves",
       always},
      {"specialize", siteRewrite("elemwise_sub_zeros_floats", {aten::sub}, subSelf<false>),
       "floats minus themselves, taken to be finite", fast},
      {"canonicalize",
       siteRewrite("useless_elemwise",
                   {aten::eq, aten::ne, aten::lt, aten::le, aten::gt, aten::ge, aten::maximum, aten::minimum,
                    aten::bitwise_and, aten::bitwise_or, aten::bitwise_xor, aten::and_, aten::or_, aten::xor_,
                    aten::logical_and, aten::logical_or, aten::logical_xor},
                   ofEqual),
       "operators of two equal operands", always},
      {"canonicalize",
       siteRewrite("useless_logic",
                   {aten::bitwise_and, aten::bitwise_or, aten::bitwise_xor, aten::and_, aten::or_, aten::xor_,
                    aten::logical_and, aten::logical_or, aten::logical_xor},
                   ofTruth),
       "flags joined with a constant", always},
      {"canonicalize", siteRewrite("useless_join", {aten::cat, aten::positive}, ofOne),
       "operators of one operand that give it back", always},
      {"canonicalize", siteRewrite("remove_switch_const_cond", {aten::where}, choose), "a choice that is made already",
       always},
      {"specialize", siteRewrite("div_to_inv", {aten::div}, invert), "one divided by a tensor", {"fast_run"}},
      {"canonicalize", siteRewrite("func_inv", outerKinds<true>(), undo<true>), "two negations of bits or flags",
       always},
      {"canonicalize", siteRewrite("func_inv_floats", outerKinds<false>(), undo<false>),
       "a function and its inverse, where it has one", fast},
  };
}

}  // namespace tscompile
