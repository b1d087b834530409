// Matrix products: the operator for the ranks at hand, and sums of scaled products as one operator.
#include "ir/values/aten.h"
#include "passes/algebra/node_rewriting.h"

namespace tscompile {
namespace {

// matmul -> mm, bmm, mv or dot, by rank
Replacement typed(Site& site) {
  std::optional<size_t> a = site.facts.rank(site.input(0)), b = site.facts.rank(site.input(1));
  if (!a || !b) return {};
  if (*a == 2 && *b == 2) return site.make(aten::mm, {site.input(0), site.input(1)});
  if (*a == 2 && *b == 1) return site.make(aten::mv, {site.input(0), site.input(1)});
  if (*a == 1 && *b == 1) return site.make(aten::dot, {site.input(0), site.input(1)});
  if (*a != 3 || *b != 3) return {};
  int64_t x = site.facts.tensor(site.input(0)).sizes[0], y = site.facts.tensor(site.input(1)).sizes[0];
  if (x < 0 || x != y) return {};
  return site.make(aten::bmm, {site.input(0), site.input(1)});
}

// c * m, where c is a number and m the value of a product or any tensor
struct Term {
  Value* value;
  IValue scale;
  Node* product = nullptr;
};

IValue timesSign(const IValue& v, bool negative) {
  if (!negative) return v;
  return v.isInt() ? IValue(static_cast<int64_t>(-static_cast<uint64_t>(v.toInt()))) : IValue(-v.toFloat());
}

std::optional<Term> termOf(Site& site, Value* v, const IValue* alpha, bool negative) {
  if (!alpha || !(alpha->isInt() || alpha->isFloat())) return std::nullopt;
  Term t{v, timesSign(*alpha, negative)};
  Node* mul = site.soleProducer(v, aten::mul);
  const IValue* c = mul ? GraphFacts::constant(mul->input(1)) : nullptr;
  if (c && (c->isInt() || c->isFloat()) && site.sameDType(mul->input(0), v) && alpha->isInt() && alpha->toInt() == 1) {
    t.value = mul->input(0);
    t.scale = timesSign(*c, negative);
  }
  Node* product = site.soleProducer(t.value);
  if (product && (product->kind() == aten::mm || product->kind() == aten::bmm)) t.product = product;
  return t;
}

// a * (A @ B) + b * Z -> addmm(Z, A, B, b, a)
Replacement fuse(Site& site) {
  if (site.inputCount() != 3 || !site.isFloating(site.output())) return {};
  if (!site.isTensor(site.input(0)) || !site.isTensor(site.input(1))) return {};
  static const IValue kOne(int64_t{1});
  std::optional<Term> first = termOf(site, site.input(0), &kOne, false);
  std::optional<Term> second =
      termOf(site, site.input(1), GraphFacts::constant(site.input(2)), site.node->kind() == aten::sub);
  if (!first || !second) return {};
  const Term& product = first->product ? *first : *second;
  const Term& other = first->product ? *second : *first;
  if (!product.product || !site.sameSizes(product.value, site.output())) return {};
  if (!site.sameDType(product.value, site.output()) || !site.sameDType(other.value, site.output())) return {};
  Node* n = product.product;
  return site.make(n->kind() == aten::mm ? aten::addmm : aten::baddbmm,
                   {other.value, n->input(0), n->input(1), site.constant(other.scale), site.constant(product.scale)});
}

// mm(A, x.unsqueeze(1)) -> mv(A, x).unsqueeze(1);  mm(x.unsqueeze(1), y.unsqueeze(0)) -> outer(x, y)
Replacement toVector(Site& site) {
  Node *a = site.producer(site.input(0), aten::unsqueeze), *b = site.producer(site.input(1), aten::unsqueeze);
  std::optional<size_t> column = b ? site.dimension(b->input(1), 2) : std::nullopt;
  if (!b || site.facts.rank(b->output()) != 2u || !column) return {};
  if (*column == 1)
    return site.make(aten::unsqueeze, {site.make(aten::mv, {site.input(0), b->input(0)}), site.constant(int64_t{1})});
  bool isOuter = a && site.facts.rank(a->output()) == 2u && site.dimension(a->input(1), 2) == 1u;
  return isOuter ? Replacement(site.make(aten::outer, {a->input(0), b->input(0)})) : Replacement();
}

// mm(A, W) * c -> mm(A, W * c) where W and c are constants
Replacement scaleConstant(Site& site) {
  Node* product = site.soleProducer(site.input(0), aten::mm);
  const IValue* c = GraphFacts::constant(site.input(1));
  if (!product || site.inputCount() != 2 || !c || !(c->isInt() || c->isFloat())) return {};
  const IValue* w = GraphFacts::constant(product->input(1));
  if (!w || !w->isTensor() || !site.sameDType(product->output(), site.output())) return {};
  return site.make(aten::mm, {product->input(0), site.make(aten::mul, {product->input(1), site.input(1)})});
}

// mm(zeros, x) -> zeros
template <bool kFloats>
Replacement ofZeros(Site& site) {
  if (site.isFloating(site.output()) != kFloats) return {};
  std::optional<Dims> sizes = site.facts.sizes(site.output());
  DType dtype = site.facts.dtype(site.output());
  auto isZero = [&](const Value* v) { return site.uniform(v) == 0.0; };
  if (!sizes || !kRealTypes.contains(dtype) || !(isZero(site.input(0)) || isZero(site.input(1)))) return {};
  Value* none = site.none();
  return site.make(aten::zeros, {site.integers(*sizes), site.constant(static_cast<int64_t>(dtype)), none, none, none});
}

}  // namespace

std::vector<NamedRewrite> gemmRewrites() {
  Query::Tags loose{"fast_run", "reassoc"};
  const Kinds products{aten::matmul, aten::mm, aten::bmm, aten::mv};
  return {
      {"linalg",
       siteRewrite("0_dot_x", products, ofZeros<false>),
       "products of zeros and integers",
       {"default", "fast_compile", "fast_run"}},
      {"linalg",
       siteRewrite("0_dot_x_floats", products, ofZeros<true>),
       "products of zeros and floats, taken to be finite",
       {"fast_math", "fast_run"}},
      {"linalg",
       siteRewrite("dot_to_dot22", {aten::matmul}, typed),
       "the matrix product for the ranks at hand",
       {"fast_run"}},
      {"linalg", siteRewrite("gemm_optimizer", {aten::add, aten::sub}, fuse),
       "sums of scaled matrix products are one operator", loose},
      {"linalg", siteRewrite("gemm_to_gemv", {aten::mm}, toVector), "products with a vector that was made a matrix",
       loose},
      {"linalg", siteRewrite("dot22_to_dot22scalar", {aten::mul}, scaleConstant),
       "a factor is taken into constant weights", loose},
  };
}

}  // namespace tscompile
